/* SPDX-License-Identifier: MIT */
/*
 * The descriptors that each CPU operator accepts. One valid descriptor of every operator is changed
 * in one point at a time (a type, a rank, a dimension, a quantisation parameter, an attribute, an
 * absent operand). It must be refused where tests/data/descriptors.txt says so, and accepted
 * elsewhere. The record is the interface between the compiler, program files and the operators.
 * After an intended change, run the test with RIVULET_DESCRIPTORS=write and review the difference.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "files.h"
#include "kernel_seeds.h"
#include "suite.h"

#define RECORD "tests/data/descriptors.txt"

/* Writes the name of a change if the descriptor is refused. A refusal must have a reason. */
static void try_one(FILE *f, const char *name, const struct rvl_kernel_desc *d)
{
	struct rvl_kernel *k = NULL;
	char why[RVL_WHY_MAX] = "";
	int rc = rvl_kernel_new(d, true, &k, why);

	ck_assert_msg(!rc || ((rc == -EINVAL || rc == -EOPNOTSUPP) && why[0] && !k), "%s %s: %d, '%s'",
		      rvl_op_name(d->op), name, rc, why);
	rvl_kernel_free(k);
	if (rc)
		fprintf(f, " %s", name);
}

/*
 * The types of the fixed operators. The operators of kernels/op/ list their types in their own
 * tables.
 */
static const enum rvl_type types[] = { RVL_TYPE_NONE, RVL_TYPE_F32, RVL_TYPE_U8, RVL_TYPE_S8, RVL_TYPE_S32,
				       RVL_TYPE_S64, RVL_TYPE_BOOL };

static void change_type(FILE *f, struct rvl_kernel_desc *d, struct rvl_kernel_arg *a)
{
	enum rvl_type old = a->type;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		a->type = types[i];
		try_one(f, rvl_type_name(a->type), d);
	}
	a->type = old;
}

static void change_shape(FILE *f, struct rvl_kernel_desc *d, struct rvl_kernel_arg *a)
{
	struct rvl_shape old = a->shape;
	char name[32];

	a->shape.dim[a->shape.rank++] = 1;
	try_one(f, "rank+1", d);
	a->shape = old;
	if (old.rank) {
		a->shape.rank--;
		try_one(f, "rank-1", d);
	}
	for (int i = 0; i < old.rank; i++) {
		static const int64_t dims[] = { -1, 0, 1 };

		for (int k = 0; k < 5; k++) {
			a->shape = old;
			a->shape.dim[i] = k < 3 ? dims[k] : old.dim[i] + (k == 3 ? 1 : -1);
			snprintf(name, sizeof(name), "dim%d=%lld", i, (long long)a->shape.dim[i]);
			try_one(f, name, d);
		}
	}
	a->shape = old;
}

static void change_quant(FILE *f, struct rvl_kernel_desc *d, struct rvl_kernel_arg *a)
{
	static const float bad[] = { 0, -1, INFINITY, NAN };
	static const int32_t points[] = { -129, -128, 127, 128, 255, 256, 1 };
	const struct rvl_kernel_quant old = a->quant;
	float scale[8];
	int32_t zp[8];
	char name[32];

	for (uint32_t n = 0; n < 4; n++) {
		a->quant = (struct rvl_kernel_quant){ .n = n, .scale = scales, .zp = zps };
		snprintf(name, sizeof(name), "scales=%u", n);
		try_one(f, name, d);
	}
	a->quant = old;
	if (!old.n)
		return;
	a->quant.scale = scale;
	a->quant.zp = zp;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memcpy(scale, scales, sizeof(scale));
		memcpy(zp, zps, sizeof(zp));
		scale[old.n - 1] = bad[i];
		snprintf(name, sizeof(name), "scale=%.0f", (double)bad[i]);
		try_one(f, name, d);
	}
	memcpy(scale, scales, sizeof(scale));
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		zp[old.n - 1] = points[i];
		snprintf(name, sizeof(name), "zp=%d", points[i]);
		try_one(f, name, d);
	}
	for (a->quant.axis = -1; a->quant.axis < 4; a->quant.axis++) {
		memcpy(zp, zps, sizeof(zp));
		snprintf(name, sizeof(name), "axis=%d", a->quant.axis);
		try_one(f, name, d);
	}
	a->quant = old;
}

static void change_layout(FILE *f, struct rvl_kernel_desc *d, struct rvl_kernel_arg *a)
{
	static const char *const name[] = { "plain", "blocked", "nhwc" };
	const enum rivulet_layout old = a->layout;

	for (uint32_t i = 0; i < RIVULET_LAYOUT_END; i++) {
		a->layout = (enum rivulet_layout)i;
		if (a->layout != old)
			try_one(f, name[i], d);
	}
	a->layout = old;
}

static void change_operand(FILE *f, struct rvl_kernel_desc *d, bool out, uint32_t i)
{
	struct rvl_kernel_arg *a = out ? &d->out[i] : &d->in[i];

	fprintf(f, "%s %s%u:", rvl_op_name(d->op), out ? "out" : "in", i);
	change_type(f, d, a);
	change_shape(f, d, a);
	change_quant(f, d, a);
	change_layout(f, d, a);
	fprintf(f, "\n");
}

/* One more and one less operand than the sound descriptor has. */
static void change_arity(FILE *f, struct rvl_kernel_desc *d)
{
	const struct rvl_kernel_desc old = *d;

	fprintf(f, "%s arity:", rvl_op_name(d->op));
	if (d->n_in < RVL_MAX_IN) {
		d->in[d->n_in++] = old.in[0];
		try_one(f, "in+1", d);
		*d = old;
	}
	d->n_in--;
	try_one(f, "in-1", d);
	*d = old;
	d->out[d->n_out < RVL_MAX_OUT ? d->n_out++ : 1] = old.out[0];
	try_one(f, "out+1", d);
	*d = old;
	d->n_out--;
	try_one(f, "out-1", d);
	*d = old;
	fprintf(f, "\n");
}

#define INTEGERS(X)                                                                                \
	X(kernel[0]) X(kernel[1]) X(stride[0]) X(stride[1]) X(dilation[0]) X(dilation[1])          \
	X(pad[0]) X(pad[1]) X(pad[2]) X(pad[3]) X(group) X(axis) X(block) X(perm_rank) X(perm[0])  \
	X(perm[1]) X(perm[2]) X(trans_a) X(trans_b) X(sc_length) X(sc_circuit) X(sc_scale)         \
	X(sc_blocks) X(channels_last) X(ceil_mode)

static void change_attr(FILE *f, struct rvl_kernel_desc *d, const char *name, int32_t *field)
{
	const int32_t old = *field, values[] = { -1, 0, 1, 2, 3, 7, 8, 256, 257, 65536, INT32_MAX };
	char text[40];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		*field = values[i];
		snprintf(text, sizeof(text), "%s=%d", name, values[i]);
		try_one(f, text, d);
	}
	*field = old;
}

static void change_attrs(FILE *f, struct rvl_kernel_desc *d)
{
	fprintf(f, "%s attributes:", rvl_op_name(d->op));
#define CHANGE(field) change_attr(f, d, #field, &d->attr.field);
	INTEGERS(CHANGE)
#undef CHANGE
	fprintf(f, "\n");
}

static void put_all(FILE *f, int seed)
{
	struct rvl_kernel_desc d;

	seed_desc(&seeds[seed], &d);
	fprintf(f, "%s: %s -> %s", rvl_op_name(d.op), seeds[seed].in, seeds[seed].out);
	try_one(f, "REFUSED", &d);
	fprintf(f, "\n");
	for (uint32_t i = 0; i < d.n_in; i++)
		change_operand(f, &d, false, i);
	for (uint32_t i = 0; i < d.n_out; i++)
		change_operand(f, &d, true, i);
	change_arity(f, &d);
	change_attrs(f, &d);
	fprintf(f, "\n");
}

static bool recording(void)
{
	const char *record = getenv("RIVULET_DESCRIPTORS");

	return record && !strcmp(record, "write");
}

/* Fails at the first word that differs, which names the change. */
static void compare(char *have, const char *all)
{
	char heading[200], *want, *at, *save_h, *save_w, *h, *w;

	snprintf(heading, sizeof(heading), "%.*s\n", (int)strcspn(have, "\n"), have);
	at = strstr(all, heading);
	ck_assert_msg(at && strstr(at, "\n\n"), "%s lacks %s", RECORD, heading);
	want = strndup(at, (size_t)(strstr(at, "\n\n") - at) + 2);
	h = strtok_r(have, " \n", &save_h);
	w = strtok_r(want, " \n", &save_w);
	while (h && w) {
		ck_assert_msg(!strcmp(h, w), "%srefused: %s, recorded: %s", heading, h, w);
		h = strtok_r(NULL, " \n", &save_h);
		w = strtok_r(NULL, " \n", &save_w);
	}
	ck_assert(!h && !w);
	free(want);
}

START_TEST(accepted_as_recorded)
{
	char *text = NULL, *all;
	size_t length = 0, size;
	FILE *f = open_memstream(&text, &length);

	put_all(f, _i);
	fclose(f);
	if (recording()) {
		f = fopen(RECORD, "ae");
		ck_assert(f && fputs(text, f) >= 0 && !fclose(f));
	} else {
		all = read_file(RECORD, &size);
		compare(text, all);
		free(all);
	}
	free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("descriptors");
	TCase *t = tcase_create("all");

	if (recording())
		unlink(RECORD);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, accepted_as_recorded, 0, SEEDS);
	suite_add_tcase(s, t);
	return run_suite(s);
}
