/* SPDX-License-Identifier: MIT */
/* Operators of com.microsoft that are compositions of others: the values that they compute. */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "graph/interp.h"
#include "onnx/onnx.h"
#include "suite.h"
#include "unit/onnx_text.h"

static struct rvl_err err;

struct model {
	struct pb bytes;
	struct rvl_graph *g;
	struct rvl_interp *it;
	int rc;
};

static struct model load(const char *text)
{
	struct model m = { .bytes = ot_model(text, 13) };

	m.rc = rvl_onnx_load(m.bytes.p, m.bytes.n, NULL, &m.g, &err);
	if (!m.rc)
		m.rc = rvl_shape_infer(m.g, &err);
	if (!m.rc)
		m.rc = rvl_graph_check_supported(m.g, &err);
	return m;
}

static void unload(struct model *m)
{
	rvl_interp_free(m->it);
	rvl_graph_free(m->g);
	free(m->bytes.p);
}

/* Operators on images whose channels are behind the pixels, here of bytes with 2 channels. */
static const struct {
	const char *text;
	uint32_t n;
	uint8_t y[4];
} channels_last[] = {
	{ "NhwcMaxPool@com.microsoft x -> y kernel_shape=[2,2]", 2, { 40, 8 } },
	{ "QLinearGlobalAveragePool@com.microsoft x one z one z -> y channels_last=1", 2, { 25, 5 } },
	{ "QLinearAveragePool@com.microsoft x one z one z -> y channels_last=1 kernel_shape=[1,2]", 4, { 15, 3, 35, 7 } },
	{ "QLinearConv@com.microsoft x one z w one z one z -> y channels_last=1", 4, { 14, 28, 42, 56 } },
	/* The channels are the rows of the image. */
	{ "Transpose x -> t perm=[0,2,1,3]; QLinearConv@com.microsoft t one z w one z one z -> y channels_last=0",
	  4, { 50, 10, 110, 22 } },
};

START_TEST(channels_may_be_last)
{
	static const uint8_t x[] = { 10, 2, 20, 4, 30, 6, 40, 8 };
	char text[400];
	struct model m;

	snprintf(text, sizeof(text), "in x u8 1,2,2,2; out y; const one f32 - 1; const z u8 - 0; "
		 "const w u8 1,2,1,1 1 2; %s", channels_last[_i].text);
	m = load(text);
	ck_assert_msg(!m.rc && !rvl_interp_new(m.g, true, &m.it, &err), "%s", err.msg);
	ck_assert_msg(!rvl_interp_set(m.it, 0, x, sizeof(x), &err) && !rvl_interp_run(m.it, &err), "%s", err.msg);
	ck_assert_int_eq(rvl_shape_count(&m.g->outputs[0]->shape), channels_last[_i].n);
	ck_assert_mem_eq(rvl_interp_data(m.it, m.g->outputs[0]), channels_last[_i].y, channels_last[_i].n);
	unload(&m);
}
END_TEST

START_TEST(the_layout_of_a_processor_is_refused)
{
	struct model m = load("in x f32 3; out y; ReorderInput@com.microsoft.nchwc x -> y");

	ck_assert_int_eq(m.rc, -EOPNOTSUPP);
	ck_assert_msg(strstr(err.msg, "(ReorderInput): its layout is of one processor: optimise the model to ORT_ENABLE_EXTENDED"),
		      "%s", err.msg);
	unload(&m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("compositions");
	TCase *t = tcase_create("compositions");

	tcase_add_loop_test(t, channels_may_be_last, 0, sizeof(channels_last) / sizeof(channels_last[0]));
	tcase_add_test(t, the_layout_of_a_processor_is_refused);
	suite_add_tcase(s, t);
	return run_suite(s);
}
