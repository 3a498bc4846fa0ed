/* SPDX-License-Identifier: MIT */
/* Einsum: sums of products of elements, named by the labels of an equation. */
#include <errno.h>
#include <string.h>

#include "rivulet_op.h"

/* Labels 0 to 51 are letters, upper case first; then those of the dimensions of an ellipsis. */
#define LETTERS 52
#define LABELS (LETTERS + RVL_MAX_RANK)
#define MAX_PRODUCTS ((int64_t)1 << 40)

/* The labels of an operand or of the result. */
struct term {
	int rank;
	uint8_t label[RVL_MAX_RANK];
};

struct einsum {
	const struct rvl_call *c;
	struct term in[RVL_MAX_IN], out, sum;	/* sum: the labels that the result lacks */
	int64_t dim[LABELS];
	uint16_t seen[LABELS];			/* times that a label occurs in operands */
	int dots;				/* dimensions of the longest ellipsis */
	int64_t stride[RVL_MAX_IN][LABELS];	/* in the operands */
	int64_t products;			/* summed for one result */
};

static int letter(char ch)
{
	if (ch >= 'A' && ch <= 'Z')
		return ch - 'A';
	return ch >= 'a' && ch <= 'z' ? ch - 'a' + 26 : -1;
}

static int add_label(struct rvl_call *c, struct term *t, int label)
{
	if (t->rank == RVL_MAX_RANK)
		return rvl_op_fail(c, "a term of its equation has more than %d dimensions",
				   RVL_MAX_RANK);
	t->label[t->rank++] = (uint8_t)label;
	return 0;
}

/*
 * Reads a term up to a comma, an arrow or the end. @dots: dimensions that an ellipsis stands for;
 * they have the last of the labels, so that they are aligned to the right.
 */
static int read_term(struct rvl_call *c, const char **at, int dots, struct term *t)
{
	bool ellipsis = false;

	t->rank = 0;
	for (; **at && **at != ',' && **at != '-'; (*at)++) {
		int label = letter(**at);

		if (**at == ' ')
			continue;
		if (label < 0 && (strncmp(*at, "...", 3) || ellipsis))
			return rvl_op_fail(c, "its equation has '%.20s', which is no term", *at);
		if (label >= 0) {
			if (add_label(c, t, label))
				return -EINVAL;
			continue;
		}
		for (int i = 0; i < dots; i++)
			if (add_label(c, t, LABELS - dots + i))
				return -EINVAL;
		ellipsis = true;
		*at += 2;
	}
	return 0;
}

/* Letters of a term, and whether it has an ellipsis. */
static int count_letters(const char *at, bool *ellipsis)
{
	int n = 0;

	*ellipsis = false;
	for (; *at && *at != ',' && *at != '-'; at++) {
		n += letter(*at) >= 0;
		*ellipsis |= *at == '.';
	}
	return n;
}

/* A dimension of 1 is broadcast. */
static int set_dim(struct rvl_call *c, struct einsum *e, int label, int64_t dim)
{
	int64_t *d = &e->dim[label];

	if (!e->seen[label] || *d == 1)
		*d = dim;
	else if (dim != 1 && dim != *d)
		return rvl_op_fail(c, "a label of its equation stands for %lld and %lld",
				   (long long)*d, (long long)dim);
	e->seen[label]++;
	return 0;
}

static int read_operand(struct rvl_call *c, struct einsum *e, uint32_t i, const char **at)
{
	const struct rvl_shape *s = &c->in[i].shape;
	bool ellipsis;
	int letters = count_letters(*at, &ellipsis), dots = ellipsis ? s->rank - letters : 0;
	int rc;

	if (dots < 0 || letters + dots != s->rank)
		return rvl_op_fail(c, "its input %u has rank %d, its equation names %d", i, s->rank,
				   letters);
	e->dots = dots > e->dots ? dots : e->dots;
	rc = read_term(c, at, dots, &e->in[i]);
	for (int d = 0; d < s->rank && !rc; d++)
		rc = set_dim(c, e, e->in[i].label[d], s->dim[d]);
	return rc;
}

/* Without an arrow the result has the ellipsis, then the letters that occur once. */
static int implicit_result(struct rvl_call *c, struct einsum *e)
{
	int rc = 0;

	e->out.rank = 0;
	for (int i = 0; i < e->dots && !rc; i++)
		rc = add_label(c, &e->out, LABELS - e->dots + i);
	for (int i = 0; i < LETTERS && !rc; i++)
		if (e->seen[i] == 1)
			rc = add_label(c, &e->out, i);
	return rc;
}

static int explicit_result(struct rvl_call *c, struct einsum *e, const char *at)
{
	if (strncmp(at, "->", 2))
		return rvl_op_fail(c, "its equation has '%.20s', which is no term", at);
	at += 2;
	if (read_term(c, &at, e->dots, &e->out))
		return -EINVAL;
	return *at ? rvl_op_fail(c, "its equation has '%.20s' after the result", at) : 0;
}

static bool has_label(const struct term *t, int label)
{
	return memchr(t->label, label, (size_t)t->rank) != NULL;
}

static int check_result(struct rvl_call *c, struct einsum *e)
{
	for (int d = 0; d < e->out.rank; d++) {
		struct term before = e->out;

		before.rank = d;
		if (!e->seen[e->out.label[d]] || has_label(&before, e->out.label[d]))
			return rvl_op_fail(c, "a label of the result is in no operand or there twice");
	}
	e->products = 1;
	e->sum.rank = 0;
	for (int i = 0; i < LABELS; i++) {
		if (!e->seen[i] || has_label(&e->out, i))
			continue;
		if (i >= LETTERS)
			return rvl_op_fail(c, "the result of its equation lacks the ellipsis");
		if (e->dim[i] && e->products > MAX_PRODUCTS / e->dim[i])
			return rvl_op_fail(c, "it sums more than 2^40 products");
		e->products *= e->dim[i];
		if (add_label(c, &e->sum, i))
			return -EINVAL;
	}
	return 0;
}

static int parse(struct rvl_call *c, struct einsum *e)
{
	const char *at = rvl_attr_string(c, "equation");
	int rc = 0;

	memset(e, 0, sizeof(*e));
	e->c = c;
	for (uint32_t i = 0; i < c->n_in && !rc; i++) {
		rc = read_operand(c, e, i, &at);
		if (!rc && (*at == ',') != (i + 1 < c->n_in))
			return rvl_op_fail(c, "its equation does not have %u operands", c->n_in);
		at += *at == ',';
	}
	if (rc)
		return rc;
	rc = *at ? explicit_result(c, e, at) : implicit_result(c, e);
	return rc ? rc : check_result(c, e);
}

static int64_t work_einsum(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct einsum e;

	if (parse(&copy, &e))
		return INT64_MAX;
	return rvl_work(rvl_count(&c->out[0]), rvl_work(e.products, c->n_in));
}

static int infer_einsum(struct rvl_call *c)
{
	struct einsum e;
	struct rvl_shape s;

	if (parse(c, &e))
		return -EINVAL;
	s.rank = e.out.rank;
	for (int d = 0; d < s.rank; d++)
		s.dim[d] = e.dim[e.out.label[d]];
	rvl_set_out(c, 0, c->in[0].type, &s);
	return 0;
}

/* ---- computation ---- */

/*
 * A label that occurs twice in an operand has the sum of both strides, so that it runs along the
 * diagonal.
 */
static void find_strides(struct einsum *e)
{
	for (uint32_t i = 0; i < e->c->n_in; i++) {
		const struct rvl_shape *s = &e->c->in[i].shape;
		int64_t own[RVL_MAX_RANK];

		rvl_strides(s, own);
		for (int d = 0; d < s->rank; d++)
			if (s->dim[d] != 1)
				e->stride[i][e->in[i].label[d]] += own[d];
	}
}

/* Adds to the operands' positions those of element @at of the first @rank labels of @t. */
static void locate(const struct einsum *e, const struct term *t, int rank, int64_t at, int64_t *pos)
{
	for (int d = rank - 1; d >= 0; d--) {
		int label = t->label[d];
		int64_t x = at % e->dim[label];

		at /= e->dim[label];
		for (uint32_t i = 0; i < e->c->n_in; i++)
			pos[i] += x * e->stride[i][label];
	}
}

union total {
	double d;
	uint64_t u;
};

/* The products along the last summed label, whose operands are at @pos. */
static void sum_line(const struct einsum *e, const int64_t *pos, union total *t)
{
	int label = e->sum.rank ? e->sum.label[e->sum.rank - 1] : -1;
	int64_t n = label < 0 ? 1 : e->dim[label];
	const struct rvl_value *in = e->c->in;
	bool floats = in[0].type == RVL_TYPE_F32;

	for (int64_t k = 0; k < n; k++) {
		union total p = { .u = 1 };

		if (floats)
			p.d = 1.0;
		for (uint32_t i = 0; i < e->c->n_in; i++) {
			int64_t at = pos[i] + (label < 0 ? 0 : k * e->stride[i][label]);

			if (floats)
				p.d *= (double)((const float *)in[i].data)[at];
			else
				p.u *= (uint64_t)rvl_element_int(in[i].type, in[i].data, at);
		}
		if (floats)
			t->d += p.d;
		else
			t->u += p.u;
	}
}

static void result_range(void *arg, int64_t first, int64_t past)
{
	const struct einsum *e = arg;
	const struct rvl_value *y = &e->c->out[0];
	int outer = e->sum.rank ? e->sum.rank - 1 : 0;
	int64_t inner = e->sum.rank ? e->dim[e->sum.label[outer]] : 1;
	size_t size = rvl_type_size(y->type);

	for (int64_t r = first; r < past; r++) {
		int64_t base[RVL_MAX_IN] = { 0 };
		union total t = { .u = 0 };

		if (y->type == RVL_TYPE_F32)
			t.d = 0.0;
		locate(e, &e->out, e->out.rank, r, base);
		for (int64_t k = 0; e->products && k < e->products / inner; k++) {
			int64_t pos[RVL_MAX_IN];

			memcpy(pos, base, sizeof(pos));
			locate(e, &e->sum, outer, k, pos);
			sum_line(e, pos, &t);
		}
		rvl_convert(y->type, (char *)y->data + (size_t)r * size,
			    y->type == RVL_TYPE_F32 ? RVL_TYPE_F64 : RVL_TYPE_U64, &t, 1);
	}
}

static int run_einsum(struct rvl_call *c)
{
	struct einsum e;

	if (parse(c, &e))
		return -EINVAL;
	find_strides(&e);
	rvl_for_range(c, rvl_count(&c->out[0]), 1 + 4096 / (1 + e.products), result_range, &e);
	return 0;
}

const struct rvl_op_def rvl_ops_einsum[] = {
	{ .name = "Einsum", .since = 12, .work = work_einsum,
	  .least_in = 1, .most_in = RVL_MAX_IN - 1,
	  .types = { RVL_T_NUMBER }, .same = RVL_SAME_ALL,
	  .attrs = RVL_ATTRS(RVL_STRING_REQUIRED("equation", NULL)), .infer = infer_einsum,
	  .run = run_einsum, .doc = "sums of products, by an equation of labels" },
	RVL_OPS_END
};
