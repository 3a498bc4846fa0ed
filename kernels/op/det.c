/* SPDX-License-Identifier: MIT */
/* Determinants. */
#include <math.h>

#include "rivulet_op.h"

static int infer_det(struct rvl_call *c)
{
	struct rvl_shape s = c->in[0].shape;

	if (s.rank < 2 || s.dim[s.rank - 1] != s.dim[s.rank - 2])
		return rvl_op_fail(c, "its input has no square matrices");
	s.rank -= 2;
	rvl_set_out(c, 0, c->in[0].type, &s);
	return 0;
}

static int64_t scratch_det(const struct rvl_call *c)
{
	return rvl_count(&c->in[0]) * (int64_t)sizeof(double);
}

/* Brings the row with the largest element of column @k to row @k. Returns whether it moved. */
static bool pivot(double *a, int64_t n, int64_t k)
{
	int64_t best = k;

	for (int64_t i = k + 1; i < n; i++)
		if (fabs(a[i * n + k]) > fabs(a[best * n + k]))
			best = i;
	for (int64_t j = 0; j < n && best != k; j++) {
		double v = a[k * n + j];

		a[k * n + j] = a[best * n + j];
		a[best * n + j] = v;
	}
	return best != k;
}

/* Gaussian elimination in place. */
static double determinant(double *a, int64_t n)
{
	double det = 1.0;

	for (int64_t k = 0; k < n; k++) {
		if (pivot(a, n, k))
			det = -det;
		det *= a[k * n + k];
		if (a[k * n + k] == 0.0)
			return 0.0;
		for (int64_t i = k + 1; i < n; i++) {
			double f = a[i * n + k] / a[k * n + k];

			for (int64_t j = k + 1; j < n; j++)
				a[i * n + j] -= f * a[k * n + j];
		}
	}
	return det;
}

static int64_t work_det(const struct rvl_call *c)
{
	int64_t n = c->in[0].shape.dim[c->in[0].shape.rank - 1];

	return rvl_work(rvl_count(&c->in[0]), n);
}

static void det_range(void *arg, int64_t first, int64_t past)
{
	const struct rvl_call *c = arg;
	int64_t n = c->in[0].shape.dim[c->in[0].shape.rank - 1];

	for (int64_t i = first; i < past; i++) {
		double *a = (double *)c->scratch + i * n * n;

		rvl_convert(RVL_TYPE_F64, a, RVL_TYPE_F32,
			    (const float *)c->in[0].data + i * n * n, n * n);
		((float *)c->out[0].data)[i] = (float)determinant(a, n);
	}
}

static int run_det(struct rvl_call *c)
{
	rvl_for_range(c, rvl_count(&c->out[0]), 1, det_range, c);
	return 0;
}

const struct rvl_op_def rvl_ops_det[] = {
	{ .name = "Det", .since = 11, .work = work_det,
	  .least_in = 1, .most_in = 1, .types = { RVL_T_FLOAT },
	  .infer = infer_det, .run = run_det, .scratch = scratch_det,
	  .doc = "determinant of each matrix" },
	RVL_OPS_END
};
