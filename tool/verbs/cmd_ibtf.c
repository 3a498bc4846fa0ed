// SPDX-License-Identifier: MIT
/* rivulet ibtf: the products of a model by additions alone. */
#include <inttypes.h>
#include <stdio.h>

#include "model/model.h"
#include "output.h"
#include "rivulet_factor.h"

struct ibtf_args {
	struct rvl_model_args model;
	uint64_t bits;
	bool csv;
};

static double rate(const struct rivulet_ibtf_choice *c)
{
	return c->adds ? (double)c->eq_mac / (double)c->adds : 0;
}

/* "even 6", "fitted 4-8" or "tables 4" */
static const char *form_text(const struct rivulet_factor_row *r, char *buf, size_t size)
{
	const char *name = rivulet_ibtf_form_name(r->of.form);

	if (r->of.form == RIVULET_IBTF_FITTED && r->narrowest < r->widest)
		snprintf(buf, size, "%s %u-%u", name, r->narrowest, r->widest);
	else
		snprintf(buf, size, "%s %u", name,
			 r->of.form == RIVULET_IBTF_EVEN   ? r->of.even_a :
			 r->of.form == RIVULET_IBTF_TABLES ? r->of.group :
							     r->widest);
	return buf;
}

static void text_rows(const struct rivulet_factor *f)
{
	static const char *const heads[] = { "product", ">N",	   ">M",       ">bits",
					     ">zero",	">Eq_MAC", ">formula", ">a",
					     ">count",	">rate",   "form",     ">storage" };
	struct rvl_table t;
	char u[32];

	rvl_table_init(&t, 12, heads);
	for (uint32_t i = 0; i < f->n_rows; i++) {
		const struct rivulet_factor_row *r = &f->rows[i];
		double all = (double)r->n * r->m * r->groups;

		rvl_table_cell(&t, "%s", r->node);
		rvl_table_cell(&t, "%u", r->n);
		if (r->groups > 1)
			rvl_table_cell(&t, "%ux%u", r->groups, r->m);
		else
			rvl_table_cell(&t, "%u", r->m);
		rvl_table_cell(&t, "%u", r->p);
		rvl_table_cell(&t, "%.0f %%", 100 * (1 - (double)r->of.nonzero / all));
		rvl_table_cell(&t, "%" PRIu64, r->of.eq_mac);
		rvl_table_cell(&t, "%.0f", r->of.formula);
		rvl_table_cell(&t, "%u", r->of.formula_a);
		rvl_table_cell(&t, "%" PRIu64, r->of.adds);
		rvl_table_cell(&t, "%.2f", rate(&r->of));
		rvl_table_cell(&t, "%s", form_text(r, u, sizeof(u)));
		rvl_table_cell(&t, "%s", rvl_bytes(u, (r->of.storage + 7) / 8));
	}
	rvl_table_print(&t, 0);
}

static void text_report(const struct rivulet_factor *f)
{
	struct rivulet_factor_row sum = rivulet_factor_sums(f);
	char u[3][32];

	text_rows(f);
	printf("\nan inference: %s by weights that are not 0 (Eq_MAC), %s by formula (3), %s "
	       "counted: %.2f times fewer\n",
	       rvl_unit(u[0], (double)sum.of.eq_mac, "adds"),
	       rvl_unit(u[1], sum.of.formula, "adds"), rvl_unit(u[2], (double)sum.of.adds, "adds"),
	       rate(&sum.of));
	printf("codes: %s\n", rvl_bytes(u[0], (sum.of.storage + 7) / 8));
	if (f->left_out)
		printf("%u products are left out: without one constant matrix of weights, or of "
		       "binary and other operators\n",
		       f->left_out);
}

static void json_counts(const struct rivulet_ibtf_choice *c)
{
	rvl_json_u64("eq_mac", c->eq_mac);
	rvl_json_num("formula", c->formula);
	rvl_json_u64("even", c->even);
	rvl_json_u64("fitted", c->fitted);
	rvl_json_u64("tables", c->tables);
	rvl_json_u64("adds", c->adds);
	rvl_json_num("rate", rate(c));
	rvl_json_u64("storage", (c->storage + 7) / 8);
}

static void json_row(const struct rivulet_factor_row *r)
{
	rvl_json_open(NULL, '{');
	rvl_json_str("node", r->node);
	rvl_json_u64("groups", r->groups);
	rvl_json_u64("inputs", r->n);
	rvl_json_u64("kernels", r->m);
	rvl_json_u64("bits", r->p);
	rvl_json_u64("windows", r->windows);
	rvl_json_u64("nonzero", r->of.nonzero);
	json_counts(&r->of);
	rvl_json_u64("formula_a", r->of.formula_a);
	rvl_json_u64("even_a", r->of.even_a);
	rvl_json_u64("narrowest", r->narrowest);
	rvl_json_u64("widest", r->widest);
	rvl_json_u64("group", r->of.group);
	rvl_json_str("form", rivulet_ibtf_form_name(r->of.form));
	rvl_json_close();
}

static void json_report(const char *model, const struct rivulet_factor *f)
{
	struct rivulet_factor_row sum = rivulet_factor_sums(f);

	rvl_json_begin("ibtf");
	rvl_json_str("model", model);
	rvl_json_open("products", '[');
	for (uint32_t i = 0; i < f->n_rows; i++)
		json_row(&f->rows[i]);
	rvl_json_close();
	rvl_json_open("inference", '{');
	json_counts(&sum.of);
	rvl_json_close();
	rvl_json_u64("left_out", f->left_out);
	rvl_json_end();
}

static int csv_report(const struct rivulet_factor *f)
{
	struct rivulet_blob text = { 0 };

	if (rivulet_factor_csv(f, &text))
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	fwrite(text.data, 1, text.size, stdout);
	rivulet_blob_free(&text);
	return 0;
}

static int report(const struct ibtf_args *a, const char *model, const struct rivulet_factor *f)
{
	if (a->csv)
		return csv_report(f);
	if (rvl_tool_json)
		json_report(model, f);
	else
		text_report(f);
	return 0;
}

static int run_ibtf(void *args, int n, char **operand)
{
	struct ibtf_args *a = args;
	struct rivulet_compile_options o;
	struct rvl_err err = { "" };
	struct rivulet_board board;
	struct rivulet_factor f;
	struct rvl_blob b;
	int r;

	(void)n;
	if (rvl_tool_json && a->csv)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--csv excludes JSON");
	r = rvl_model_prepare(&a->model, operand[0], &board, &b, &o);
	if (r)
		return r;
	if (rivulet_factor_model(b.data, b.size, &o, (uint32_t)a->bits, &f, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", operand[0], err.msg);
	else
		r = report(a, operand[0], &f);
	rivulet_factor_free(&f);
	rvl_blob_clear(&b);
	return r;
}

static void clear(void *args)
{
	rvl_model_clear(args);
}

static const struct rvl_option options[] = {
	{ "bits", 0, "N", "2 to 8: round wider weights to so many bits",
	  RVL_MEMBER(struct ibtf_args, bits), .least = 2, .most = 8 },
	{ "csv", 0, NULL, "the products as comma-separated values",
	  RVL_MEMBER(struct ibtf_args, csv) },
	{ "freeze", 0, "NAME=FILE", "make an input a constant (.npy or ONNX tensor); repeatable",
	  RVL_CALL(struct ibtf_args, model.frozen, rvl_model_freeze) },
	{ "batch", 0, "N", RVL_BATCH_HELP, RVL_MEMBER(struct ibtf_args, model.batch),
	  .most = INT32_MAX },
	RVL_DIMS_OPTIONS(struct ibtf_args, model.dims),
	{ 0 }
};

const struct rvl_verb rvl_verb_ibtf = {
	.name = "ibtf",
	.summary = "how many additions replace the products of a model",
	.order = 68,
	.operands = "MODEL",
	.least = 1,
	.most = 1,
	.takes = "one model",
	.options = options,
	.args_size = sizeof(struct ibtf_args),
	.run = run_ibtf,
	.clear = clear,
};
