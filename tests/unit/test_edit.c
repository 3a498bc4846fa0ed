/* SPDX-License-Identifier: MIT */
/*
 * Tests the operations on a graph by hand: names, users and producers after every change, the order
 * of nodes, what rvl_graph_verify() reports, and copies.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pass/pass.h"
#include "suite.h"

static struct rvl_graph *g;
static struct rvl_err err;

static void setup(void)
{
	g = rvl_graph_new();
	ck_assert_ptr_nonnull(g);
	err.msg[0] = '\0';
}

static void teardown(void)
{
	rvl_graph_free(g);
}

static struct rvl_tensor *tensor(const char *name)
{
	struct rvl_tensor *t;

	ck_assert_msg(!rvl_tensor_new(g, name, &t, &err), "%s", err.msg);
	return t;
}

static struct rvl_node *node(const char *name, struct rvl_tensor *in, struct rvl_tensor *out)
{
	struct rvl_node *n;

	ck_assert_msg(!rvl_node_new(g, RVL_OP_RELU, name, &n, &err), "%s", err.msg);
	if (in)
		ck_assert_int_eq(rvl_node_set_in(g, n, 0, in, &err), 0);
	if (out)
		rvl_node_set_out(n, 0, out);
	return n;
}

static void says(int rc, int want, const char *text)
{
	ck_assert_msg(rc == want && !strcmp(err.msg, text), "%d, \"%s\", not %d, \"%s\"", rc,
		      err.msg, want, text);
	err.msg[0] = '\0';
}

/* ---- tensors ---- */

START_TEST(names_without_a_wish_are_fresh)
{
	struct rvl_tensor *a = tensor("rvl/1"), *b = tensor(NULL), *c = tensor(NULL);

	ck_assert_str_eq(b->name, "rvl/0");
	ck_assert_str_eq(c->name, "rvl/2");
	ck_assert_uint_eq(a->id, 0);
	ck_assert_uint_eq(c->id, 2);
	ck_assert_ptr_eq(rvl_tensor_find(g, "rvl/2"), c);
	ck_assert_ptr_null(rvl_tensor_find(g, "rvl/3"));
	says(rvl_tensor_new(g, "rvl/1", &b, &err), -EEXIST, "tensor 'rvl/1' is defined twice");
	ck_assert_uint_eq(g->n_tensors, 3);
}
END_TEST

START_TEST(an_empty_graph_has_no_tensor)
{
	ck_assert_ptr_null(rvl_tensor_find(g, "x"));
	ck_assert_str_eq(g->name, "");
	ck_assert_str_eq(g->producer, "");
	ck_assert_int_eq(rvl_graph_sort(g, &err), 0);
	ck_assert_int_eq(rvl_graph_verify(g, &err), 0);
}
END_TEST

START_TEST(names_have_a_limit)
{
	char name[RVL_MAX_NAME + 2];
	struct rvl_tensor *t;

	memset(name, 'n', sizeof(name));
	name[RVL_MAX_NAME] = '\0';
	ck_assert_int_eq(rvl_tensor_new(g, name, &t, &err), 0);
	ck_assert_uint_eq(strlen(t->name), RVL_MAX_NAME);
	name[RVL_MAX_NAME] = 'n';
	name[RVL_MAX_NAME + 1] = '\0';
	says(rvl_tensor_new(g, name, &t, &err), -E2BIG,
	     "tensor name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...' is "
	     "longer than 1024 bytes");
}
END_TEST

START_TEST(tensors_have_a_limit)
{
	struct rvl_tensor *t;

	while (g->n_tensors < RVL_MAX_TENSORS)
		tensor(NULL);
	says(rvl_tensor_new(g, NULL, &t, &err), -E2BIG, "more than 65536 tensors");
}
END_TEST

START_TEST(nodes_have_a_limit)
{
	struct rvl_node *n;

	while (g->n_nodes < RVL_MAX_GRAPH_NODES)
		node(NULL, NULL, NULL);
	says(rvl_node_new(g, RVL_OP_RELU, NULL, &n, &err), -E2BIG, "more than 65536 nodes");
}
END_TEST

START_TEST(bytes_of_a_tensor)
{
	struct rvl_tensor *t = tensor("t");

	t->type = RVL_TYPE_F32;
	t->shape = (struct rvl_shape){ 2, { 3, 5 } };
	ck_assert_int_eq(rvl_tensor_bytes(t), -1);
	t->shaped = true;
	ck_assert_int_eq(rvl_tensor_bytes(t), 60);
	t->type = RVL_TYPE_NONE;
	ck_assert_int_eq(rvl_tensor_bytes(t), -1);
	t->type = RVL_TYPE_S64;
	t->shape = (struct rvl_shape){ 2, { 1 << 24, 8 } };
	ck_assert_int_eq(rvl_tensor_bytes(t), RVL_MAX_TENSOR_BYTES);
	t->shape.dim[1] = 9;
	ck_assert_int_eq(rvl_tensor_bytes(t), -1);
	t->shape.dim[1] = 0;
	ck_assert_int_eq(rvl_tensor_bytes(t), 0);
	t->shape.dim[1] = -1;
	ck_assert_int_eq(rvl_tensor_bytes(t), -1);
}
END_TEST

START_TEST(constants_are_copies)
{
	const struct rvl_shape two = { 1, { 2 } }, none = { 1, { 0 } },
			       huge = { 2, { 1 << 24, 1 << 10 } };
	float v[2] = { 1, 2 };
	struct rvl_tensor *t;

	ck_assert_int_eq(rvl_tensor_const(g, "c", RVL_TYPE_F32, &two, v, &t, &err), 0);
	v[1] = 3;
	ck_assert_float_eq(((const float *)t->data)[0], 1);
	ck_assert_float_eq(((const float *)t->data)[1], 2);
	ck_assert_int_eq(rvl_tensor_const(g, "n", RVL_TYPE_F32, &none, NULL, &t, &err), 0);
	ck_assert_ptr_nonnull(t->data);
	says(rvl_tensor_const(g, "h", RVL_TYPE_U8, &huge, v, &t, &err), -E2BIG,
	     "constant 'h' is too large");
	says(rvl_tensor_const(g, "c", RVL_TYPE_F32, &two, v, &t, &err), -EEXIST,
	     "tensor 'c' is defined twice");
}
END_TEST

START_TEST(scales_are_checked)
{
	const float s[2] = { 0.5f, NAN };
	const int32_t z[2] = { 1, -2 };
	struct rvl_tensor *t = tensor("t"), *u;

	says(rvl_tensor_set_quant(g, t, 2, 1, s, z, &err), -EINVAL,
	     "tensor 't': scale nan of channel 1 is not valid");
	ck_assert_uint_eq(t->quant.n, 0);
	ck_assert_int_eq(rvl_tensor_set_quant(g, t, 1, 3, s, z, &err), 0);
	ck_assert_uint_eq(t->quant.n, 1);
	ck_assert_int_eq(t->quant.axis, 3);
	ck_assert_int_eq(t->quant.zp[0], 1);
	ck_assert_ptr_ne(t->quant.scale, s);
	t->type = RVL_TYPE_U8;
	t->shape = (struct rvl_shape){ 1, { 4 } };
	t->shaped = true;
	t->bad = "why";
	ck_assert_int_eq(rvl_tensor_like(g, t, &u, &err), 0);
	ck_assert_int_eq(u->type, RVL_TYPE_U8);
	ck_assert(u->shaped && rvl_shape_equal(&u->shape, &t->shape));
	ck_assert_float_eq(u->quant.scale[0], 0.5f);
	ck_assert_str_eq(u->bad, "why");
	ck_assert(rvl_is_quant8(u) && rvl_is_quant8_tensor(u) && !rvl_is_quant8(NULL));
	u->quant.n = 2;
	ck_assert(rvl_is_quant8(u) && !rvl_is_quant8_tensor(u));
	u->type = RVL_TYPE_S32;
	ck_assert(!rvl_is_quant8(u));
}
END_TEST

START_TEST(bytes_as_int8)
{
	struct rvl_tensor t = { .type = RVL_TYPE_U8 };
	const int32_t zp = 100;
	struct rvl_as_s8 a = rvl_tensor_as_s8(&t);

	ck_assert_uint_eq(a.flip, 0x80);
	ck_assert_int_eq(a.zp, -128);
	t.quant = (struct rvl_quant){ .n = 1, .zp = &zp };
	a = rvl_tensor_as_s8(&t);
	ck_assert_int_eq(a.zp, -28);
	t.type = RVL_TYPE_S8;
	a = rvl_tensor_as_s8(&t);
	ck_assert_uint_eq(a.flip, 0);
	ck_assert_int_eq(a.zp, 100);
}
END_TEST

START_TEST(clamps_stay_in_the_type)
{
	static const struct {
		enum rvl_type type;
		int32_t lo, hi, least, most;
	} cases[] = {
		{ RVL_TYPE_U8, INT32_MIN, INT32_MAX, 0, 255 },
		{ RVL_TYPE_S8, INT32_MIN, INT32_MAX, -128, 127 },
		{ RVL_TYPE_U8, 3, 200, 3, 200 },
		{ RVL_TYPE_S8, -3, 100, -3, 100 },
		{ RVL_TYPE_U8, 300, 400, 255, 255 },
		{ RVL_TYPE_S8, 128, 130, 127, 127 },
		{ RVL_TYPE_U8, -5, -1, 0, 0 },
		{ RVL_TYPE_S8, -200, -129, -128, -128 },
		{ RVL_TYPE_U8, 255, 0, 255, 0 },
		{ RVL_TYPE_S8, 127, -128, 127, -128 },
	};
	struct rvl_node *n = node("n", NULL, tensor("y"));

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int32_t lo, hi;

		n->out[0]->type = cases[i].type;
		n->attr.q_lo = cases[i].lo;
		n->attr.q_hi = cases[i].hi;
		rvl_node_q_range(n, &lo, &hi);
		ck_assert_msg(lo == cases[i].least && hi == cases[i].most, "case %zu: %d to %d", i,
			      lo, hi);
	}
}
END_TEST

/* ---- users and producers ---- */

START_TEST(inputs_know_their_users)
{
	struct rvl_tensor *x = tensor("x"), *y = tensor("y");
	struct rvl_node *a = node("a", x, tensor("p")), *b = node("b", x, tensor("q"));

	ck_assert_uint_eq(x->n_users, 2);
	ck_assert_ptr_eq(x->users[0], a);
	ck_assert_ptr_eq(x->users[1], b);
	/* The same input twice counts as two uses. */
	ck_assert_int_eq(rvl_node_set_in(g, a, 2, x, &err), 0);
	ck_assert_uint_eq(a->n_in, 3);
	ck_assert_ptr_null(a->in[1]);
	ck_assert_uint_eq(x->n_users, 3);
	ck_assert_int_eq(rvl_node_set_in(g, a, 0, y, &err), 0);
	ck_assert_uint_eq(x->n_users, 2);
	ck_assert_uint_eq(y->n_users, 1);
	/* Absent inputs at the end are not counted. */
	ck_assert_int_eq(rvl_node_set_in(g, a, 2, NULL, &err), 0);
	ck_assert_uint_eq(a->n_in, 1);
	ck_assert_uint_eq(x->n_users, 1);
	ck_assert_ptr_eq(x->users[0], b);
	ck_assert_int_eq(rvl_node_set_in(g, a, 0, NULL, &err), 0);
	ck_assert_uint_eq(a->n_in, 0);
	ck_assert_int_eq(rvl_node_set_in(g, a, RVL_MAX_IN - 1, x, &err), 0);
	ck_assert_uint_eq(a->n_in, RVL_MAX_IN);
	says(rvl_node_set_in(g, a, RVL_MAX_IN, x, &err), -E2BIG,
	     "node 'a' (Relu) has more than 32 inputs");
}
END_TEST

START_TEST(many_users_are_kept_in_order)
{
	struct rvl_tensor *x = tensor("x");
	struct rvl_node *n[20];

	for (int i = 0; i < 20; i++)
		n[i] = node(NULL, x, tensor(NULL));
	for (int i = 0; i < 20; i++)
		ck_assert_ptr_eq(x->users[i], n[i]);
	rvl_node_remove(g, n[7]);
	ck_assert_uint_eq(x->n_users, 19);
	for (int i = 0; i < 19; i++)
		ck_assert_ptr_eq(x->users[i], n[i < 7 ? i : i + 1]);
	ck_assert_uint_eq(g->n_nodes, 19);
	for (int i = 0; i < 19; i++)
		ck_assert_ptr_eq(g->nodes[i], n[i < 7 ? i : i + 1]);
}
END_TEST

START_TEST(an_output_has_one_producer)
{
	struct rvl_tensor *x = tensor("x"), *y = tensor("y"), *z = tensor("z");
	struct rvl_node *n = node("n", x, y), *m = node("m", x, z);

	ck_assert_ptr_eq(y->producer, n);
	rvl_node_set_out(n, 1, tensor("w"));
	ck_assert_uint_eq(n->n_out, 2);
	rvl_node_set_out(n, 0, z);
	ck_assert_ptr_null(y->producer);
	ck_assert_ptr_eq(z->producer, n);
	ck_assert_uint_eq(n->n_out, 2);
	/* @m makes another tensor than z, so z keeps its producer. */
	rvl_node_set_out(m, 0, y);
	ck_assert_ptr_eq(z->producer, n);
	ck_assert_ptr_eq(y->producer, m);
	rvl_node_remove(g, n);
	ck_assert_ptr_null(z->producer);
	ck_assert_ptr_null(n->out[1]->producer);
	ck_assert_uint_eq(n->n_in, 0);
	ck_assert_uint_eq(n->n_out, 0);
	ck_assert_uint_eq(x->n_users, 1);
	ck_assert_uint_eq(g->n_nodes, 1);
}
END_TEST

START_TEST(all_readers_change_to_another_tensor)
{
	struct rvl_tensor *x = tensor("x"), *y = tensor("y");
	struct rvl_node *a = node("a", x, tensor("p")), *b = node("b", x, tensor("q"));

	ck_assert_int_eq(rvl_node_set_in(g, a, 1, x, &err), 0);
	ck_assert_int_eq(rvl_graph_add_output(g, x, &err), 0);
	ck_assert_int_eq(rvl_graph_add_output(g, b->out[0], &err), 0);
	ck_assert_int_eq(rvl_graph_add_output(g, x, &err), 0);
	ck_assert_int_eq(rvl_tensor_replace(g, x, x, &err), 0);
	ck_assert_uint_eq(x->n_users, 3);
	ck_assert_int_eq(rvl_tensor_replace(g, x, y, &err), 0);
	ck_assert_uint_eq(x->n_users, 0);
	ck_assert_uint_eq(y->n_users, 3);
	ck_assert(a->in[0] == y && a->in[1] == y && b->in[0] == y);
	ck_assert(g->outputs[0] == y && g->outputs[1] == b->out[0] && g->outputs[2] == y);
	ck_assert(y->is_output && !x->is_output && b->out[0]->is_output);
	ck_assert_uint_eq(g->n_outputs, 3);
}
END_TEST

START_TEST(inputs_become_constants)
{
	struct rvl_tensor *t[3];
	const uint8_t v[4] = { 1, 2, 3, 4 };

	for (int i = 0; i < 3; i++) {
		char name[2] = { (char)('a' + i), 0 };

		t[i] = tensor(name);
		t[i]->type = RVL_TYPE_U8;
		t[i]->shape = (struct rvl_shape){ 1, { i } };
		t[i]->shaped = true;
		ck_assert_int_eq(rvl_graph_add_input(g, t[i], &err), 0);
	}
	says(rvl_graph_freeze(g, "z", v, 1, &err), -ENOENT, "the model has no input 'z' to freeze");
	says(rvl_graph_freeze(g, "b", v, 2, &err), -EINVAL, "input 'b' takes 1 bytes, not 2");
	ck_assert_int_eq(rvl_graph_freeze(g, "b", v + 1, 1, &err), 0);
	ck_assert(!t[1]->is_input && t[1]->data && *(const uint8_t *)t[1]->data == 2);
	ck_assert_uint_eq(g->n_inputs, 2);
	ck_assert(g->inputs[0] == t[0] && g->inputs[1] == t[2]);
	ck_assert_int_eq(rvl_graph_freeze(g, "a", NULL, 0, &err), 0);
	ck_assert_ptr_nonnull(t[0]->data);
	ck_assert_int_eq(rvl_graph_freeze(g, "c", v, 2, &err), 0);
	ck_assert_uint_eq(g->n_inputs, 0);
}
END_TEST

/* ---- order ---- */

START_TEST(sorting_is_stable)
{
	struct rvl_tensor *x = tensor("x"), *t[6];
	struct rvl_node *n[6];
	/* Each node's operand, by number; 9: x. Order of creation: 0 to 5. */
	static const int from[6] = { 5, 9, 0, 9, 3, 9 };
	static const int order[6] = { 1, 3, 4, 5, 0, 2 };

	x->is_input = true;
	for (int i = 0; i < 6; i++)
		t[i] = tensor(NULL);
	for (int i = 0; i < 6; i++)
		n[i] = node(NULL, from[i] == 9 ? x : t[from[i]], t[i]);
	says(rvl_graph_verify(g, &err), -EINVAL,
	     "node 'Relu_0' (Relu) reads 'rvl/5' before it is produced");
	ck_assert_int_eq(rvl_graph_sort(g, &err), 0);
	for (int i = 0; i < 6; i++)
		ck_assert_msg(g->nodes[i] == n[order[i]], "position %d has %s", i,
			      g->nodes[i]->name);
	ck_assert_int_eq(rvl_graph_verify(g, &err), 0);
}
END_TEST

/* Compares the order of random graphs with a search for the first node whose inputs are ready. */
START_TEST(the_first_node_that_can_go_goes)
{
	uint32_t s = 1;

	for (int turn = 0; turn < 200; turn++) {
		struct rvl_tensor *x, *t[24];
		struct rvl_node *n[24], *want[24];
		bool done[24] = { false };

		teardown();
		setup();
		x = tensor("x");
		for (int i = 0; i < 24; i++) {
			t[i] = tensor(NULL);
			n[i] = node(NULL, x, t[i]);
		}
		/* Edges from a higher to a lower number of a random permutation: no cycle. */
		for (int i = 0; i < 24; i++) {
			for (int k = 1; k < 4; k++) {
				int a = (s = s * 1664525u + 1013904223u) >> 27,
				    b = (s = s * 1664525u + 1013904223u) >> 27;

				if (a < 24 && b < 24 && a * 7 % 24 < b * 7 % 24)
					ck_assert_int_eq(rvl_node_set_in(g, n[a], k, t[b], &err),
							 0);
			}
		}
		for (int at = 0; at < 24; at++) {
			for (int i = 0; i < 24; i++) {
				bool ready = !done[i];

				for (uint32_t k = 1; k < n[i]->n_in; k++)
					for (int j = 0; n[i]->in[k] && j < 24; j++)
						ready &= n[i]->in[k] != t[j] || done[j];
				if (ready) {
					want[at] = n[i];
					done[i] = true;
					break;
				}
			}
		}
		ck_assert_msg(!rvl_graph_sort(g, &err), "%s", err.msg);
		for (int i = 0; i < 24; i++)
			ck_assert_msg(g->nodes[i] == want[i], "turn %d: position %d", turn, i);
	}
}
END_TEST

START_TEST(cycles_are_named_and_nothing_changes)
{
	struct rvl_tensor *a = tensor("a"), *b = tensor("b"), *c = tensor("c");
	struct rvl_node *first = node("first", b, c), *second = node("second", c, b),
			*third = node("third", NULL, a);

	says(rvl_graph_sort(g, &err), -ELOOP, "node 'first' (Relu) needs its own result");
	ck_assert(g->nodes[0] == first && g->nodes[1] == second && g->nodes[2] == third);
}
END_TEST

/* ---- what verification finds ---- */

static void valid_graph(struct rvl_tensor *t[3], struct rvl_node *n[2])
{
	t[0] = tensor("x");
	t[1] = tensor("y");
	t[2] = tensor("z");
	n[0] = node("a", t[0], t[1]);
	n[1] = node("b", t[1], t[2]);
	ck_assert_int_eq(rvl_graph_add_input(g, t[0], &err), 0);
	ck_assert_int_eq(rvl_graph_add_output(g, t[2], &err), 0);
	ck_assert_msg(!rvl_graph_verify(g, &err), "%s", err.msg);
}

START_TEST(broken_invariants_are_named)
{
	struct rvl_tensor *t[3];
	struct rvl_node *n[2], *gone;

	valid_graph(t, n);
	t[0]->data = "d";
	says(rvl_graph_verify(g, &err), -EINVAL, "input 'x' is a constant too");
	t[0]->data = NULL;
	t[0]->is_input = false;
	says(rvl_graph_verify(g, &err), -EINVAL, "node 'a' (Relu) reads 'x' before it is produced");
	t[0]->is_input = true;
	t[1]->producer = n[1];
	says(rvl_graph_verify(g, &err), -EINVAL, "tensor 'y' has two sources, one is 'a'");
	t[1]->producer = n[0];
	t[1]->data = "d";
	says(rvl_graph_verify(g, &err), -EINVAL, "tensor 'y' has two sources, one is 'a'");
	t[1]->data = NULL;
	t[0]->n_users = 0;
	says(rvl_graph_verify(g, &err), -EINVAL, "tensor 'x' does not list its user 'a'");
	t[0]->n_users = 1;
	n[0]->in[1] = t[0];
	n[0]->n_in = 2;
	says(rvl_graph_verify(g, &err), -EINVAL, "tensor 'x' does not list its user 'a'");
	n[0]->n_in = 1;
	n[1]->n_out = 0;
	says(rvl_graph_verify(g, &err), -EINVAL, "node 'b' (Relu) has no output");
	n[1]->n_out = 1;
	n[1]->out[0] = NULL;
	says(rvl_graph_verify(g, &err), -EINVAL, "node 'b' (Relu) has no output");
	n[1]->out[0] = t[2];
	gone = node("gone", t[2], tensor("w"));
	g->n_nodes--;
	gone->n_in = 0;
	says(rvl_graph_verify(g, &err), -EINVAL, "node 'gone' is among the users of 'z' but does not read it");
	t[2]->n_users = 0;
	ck_assert_int_eq(rvl_graph_verify(g, &err), 0);
	ck_assert_int_eq(rvl_graph_add_output(g, tensor("v"), &err), 0);
	says(rvl_graph_verify(g, &err), -EINVAL, "no node produces the output 'v'");
}
END_TEST

/* ---- copies ---- */

START_TEST(a_clone_has_everything)
{
	struct rvl_tensor *t[3];
	struct rvl_node *n[2];
	const float scale = 0.5f;
	const int32_t zp = 7;
	struct rvl_graph *c;
	struct rvl_segment seg = { RVL_PLACE_NPU, 0, 2 };

	valid_graph(t, n);
	t[1]->type = RVL_TYPE_U8;
	t[1]->shape = (struct rvl_shape){ 1, { 3 } };
	t[1]->shaped = t[1]->declared = true;
	t[1]->bad = "bad";
	ck_assert_int_eq(rvl_tensor_set_quant(g, t[1], 1, 0, &scale, &zp, &err), 0);
	n[0]->attr.axis = 5;
	n[0]->place = RVL_PLACE_NPU;
	n[0]->segment = 4;
	n[0]->reason = "reason";
	n[0]->fused = "fused";
	n[0]->op_type = "OpType";
	ck_assert_int_eq(rvl_node_set_in(g, n[1], 2, t[0], &err), 0);
	rvl_node_set_out(n[1], 1, tensor("v"));
	g->name = "name";
	g->producer = "producer";
	g->ir_version = 8;
	g->opset = 13;
	g->segs = &seg;
	g->n_segs = 1;
	tensor(NULL);
	ck_assert_int_eq(rvl_graph_clone(g, &c, &err), 0);
	ck_assert_str_eq(c->name, "name");
	ck_assert_str_eq(c->producer, "producer");
	ck_assert(c->ir_version == 8 && c->opset == 13 && c->n_nodes == 2 && c->n_tensors == 5);
	ck_assert(c->n_segs == 1 && c->segs != &seg && c->segs[0].count == 2);
	ck_assert(c->n_inputs == 1 && c->inputs[0] == c->tensors[0] && c->n_outputs == 1 &&
		  c->outputs[0]->is_output);
	ck_assert(c->tensors[1]->shaped && c->tensors[1]->declared &&
		  c->tensors[1]->type == RVL_TYPE_U8);
	ck_assert(c->tensors[1]->shape.dim[0] == 3 && c->tensors[1]->quant.zp[0] == 7);
	ck_assert_str_eq(c->tensors[1]->bad, "bad");
	ck_assert(c->nodes[0]->attr.axis == 5 && c->nodes[0]->place == RVL_PLACE_NPU &&
		  c->nodes[0]->segment == 4);
	ck_assert_str_eq(c->nodes[0]->reason, "reason");
	ck_assert_str_eq(c->nodes[0]->fused, "fused");
	ck_assert_str_eq(c->nodes[0]->op_type, "OpType");
	ck_assert(c->nodes[1]->n_in == 3 && !c->nodes[1]->in[1] &&
		  c->nodes[1]->in[2] == c->tensors[0]);
	ck_assert(c->nodes[1]->n_out == 2 && c->nodes[1]->out[1] == c->tensors[3]);
	ck_assert_msg(!rvl_graph_verify(c, &err), "%s", err.msg);
	/* Fresh names go on behind those of the original. */
	ck_assert_int_eq(rvl_tensor_new(c, NULL, &t[0], &err), 0);
	ck_assert_str_eq(t[0]->name, "rvl/1");
	rvl_graph_free(c);
	g->n_segs = 0;
}
END_TEST

/* ---- removing a node and keeping its readers ---- */

START_TEST(a_node_inside_is_bypassed)
{
	struct rvl_tensor *t[3];
	struct rvl_node *n[2], *m;

	valid_graph(t, n);
	m = node("m", t[1], tensor("w"));
	ck_assert_int_eq(rvl_graph_add_output(g, m->out[0], &err), 0);
	ck_assert_int_eq(rvl_node_bypass(g, n[0], &err), 1);
	ck_assert(n[1]->in[0] == t[0] && m->in[0] == t[0]);
	ck_assert_uint_eq(g->n_nodes, 2);
	/*
	 * The output must keep its name, and its source is an input, so the node cannot be removed.
	 */
	ck_assert_int_eq(rvl_node_bypass(g, n[1], &err), 0);
	ck_assert_uint_eq(g->n_nodes, 2);
}
END_TEST

START_TEST(an_output_keeps_its_name)
{
	struct rvl_tensor *t[3];
	struct rvl_node *n[2];
	const float scale = 2;
	const int32_t zp = 1;

	valid_graph(t, n);
	ck_assert_int_eq(rvl_tensor_set_quant(g, t[1], 1, 0, &scale, &zp, &err), 0);
	rvl_node_set_out(n[0], 1, tensor("second"));
	ck_assert_int_eq(rvl_node_bypass(g, n[1], &err), 1);
	ck_assert_uint_eq(g->n_nodes, 1);
	ck_assert(n[0]->out[0] == t[2] && t[2]->producer == n[0] && t[2]->is_output &&
		  n[0]->out[1]->producer == n[0]);
	ck_assert_float_eq(t[2]->quant.scale[0], 2);
	ck_assert_msg(!rvl_graph_verify(g, &err), "%s", err.msg);
}
END_TEST

START_TEST(two_outputs_stay_two)
{
	struct rvl_tensor *t[3];
	struct rvl_node *n[2];

	valid_graph(t, n);
	ck_assert_int_eq(rvl_graph_add_output(g, t[1], &err), 0);
	ck_assert_int_eq(rvl_node_bypass(g, n[1], &err), 0);
	ck_assert_ptr_eq(rvl_only_user(t[0]), n[0]);
	ck_assert_ptr_null(rvl_only_user(t[1]));
	ck_assert_ptr_null(rvl_only_user(t[2]));
	node("again", t[0], tensor("w"));
	ck_assert_ptr_null(rvl_only_user(t[0]));
}
END_TEST

START_TEST(fused_names_are_joined)
{
	struct rvl_node *a = node("a", NULL, tensor("p")), *b = node("b", NULL, tensor("q")),
			*c = node("c", NULL, tensor("r"));

	rvl_note_fused(g, b, c);
	ck_assert_str_eq(b->fused, "c");
	rvl_note_fused(g, a, b);
	ck_assert_str_eq(a->fused, "b+c");
	rvl_note_fused(g, a, node("d", NULL, tensor("s")));
	ck_assert_str_eq(a->fused, "b+c+d");
}
END_TEST

START_TEST(constants_are_read)
{
	const struct rvl_shape one = { 1, { 1 } }, two = { 1, { 2 } };
	const float v[2] = { 3, INFINITY };
	struct rvl_tensor *t, *u, *i;
	float f = 0;

	ck_assert_int_eq(rvl_tensor_const(g, NULL, RVL_TYPE_F32, &one, v, &t, &err), 0);
	ck_assert_int_eq(rvl_tensor_const(g, NULL, RVL_TYPE_F32, &two, v, &u, &err), 0);
	ck_assert_int_eq(rvl_tensor_const(g, NULL, RVL_TYPE_S32, &one, v, &i, &err), 0);
	ck_assert(rvl_const_f32(t, &f) && f == 3);
	ck_assert(!rvl_const_f32(u, &f) && !rvl_const_f32(i, &f) && !rvl_const_f32(NULL, &f) &&
		  !rvl_const_f32(tensor("x"), &f));
	ck_assert_ptr_eq(rvl_const_vector(t, 1), t->data);
	ck_assert(!rvl_const_vector(u, 2) && !rvl_const_vector(u, 1) && !rvl_const_vector(i, 1));
	ck_assert(!rvl_const_vector(NULL, 1) && !rvl_const_vector(rvl_tensor_find(g, "x"), 1));
}
END_TEST

START_TEST(unsupported_nodes_are_counted)
{
	struct rvl_node *n[3];

	for (int i = 0; i < 3; i++) {
		n[i] = node(i ? "n" : "first", NULL, tensor(NULL));
		n[i]->op = RVL_OP_UNSUPPORTED;
		n[i]->op_type = "Frob";
		n[i]->reason = i ? "another" : "nobody knows it";
	}
	says(rvl_graph_check_supported(g, &err), -EOPNOTSUPP,
	     "node 'first' (Frob): nobody knows it; and 2 more");
	n[2]->op = RVL_OP_RELU;
	says(rvl_graph_check_supported(g, &err), -EOPNOTSUPP,
	     "node 'first' (Frob): nobody knows it; and 1 more");
	n[1]->op = RVL_OP_RELU;
	says(rvl_graph_check_supported(g, &err), -EOPNOTSUPP,
	     "node 'first' (Frob): nobody knows it");
	n[0]->op = RVL_OP_RELU;
	ck_assert_int_eq(rvl_graph_check_supported(g, &err), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("edit");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, names_without_a_wish_are_fresh);
	tcase_add_test(t, an_empty_graph_has_no_tensor);
	tcase_add_test(t, names_have_a_limit);
	tcase_add_test(t, tensors_have_a_limit);
	tcase_add_test(t, nodes_have_a_limit);
	tcase_add_test(t, bytes_of_a_tensor);
	tcase_add_test(t, constants_are_copies);
	tcase_add_test(t, scales_are_checked);
	tcase_add_test(t, bytes_as_int8);
	tcase_add_test(t, clamps_stay_in_the_type);
	tcase_add_test(t, inputs_know_their_users);
	tcase_add_test(t, many_users_are_kept_in_order);
	tcase_add_test(t, an_output_has_one_producer);
	tcase_add_test(t, all_readers_change_to_another_tensor);
	tcase_add_test(t, inputs_become_constants);
	tcase_add_test(t, sorting_is_stable);
	tcase_add_test(t, the_first_node_that_can_go_goes);
	tcase_add_test(t, cycles_are_named_and_nothing_changes);
	tcase_add_test(t, broken_invariants_are_named);
	tcase_add_test(t, a_clone_has_everything);
	tcase_add_test(t, a_node_inside_is_bypassed);
	tcase_add_test(t, an_output_keeps_its_name);
	tcase_add_test(t, two_outputs_stay_two);
	tcase_add_test(t, fused_names_are_joined);
	tcase_add_test(t, constants_are_read);
	tcase_add_test(t, unsupported_nodes_are_counted);
	suite_add_tcase(s, t);
	return run_suite(s);
}
