/* SPDX-License-Identifier: MIT */
/*
 * Compiles every random convolution of a case file for a board, runs it on the model and compares
 * the result with onnxruntime's: check_conv FILE [BOARD...]. With several boards, successive cases
 * use successive boards.
 */
#include "program/program.h"
#include "conv_cases.h"
#include "prog_exec.h"

#include <inttypes.h>

#define MAX_BOARDS 8
#define MAX_SHOWN  10

struct runner {
	struct rivulet_board board[MAX_BOARDS];
	struct rvl_core *core[MAX_BOARDS];
	uint32_t boards;
	uint64_t cases, mismatches, on_cpu;
};

/* ---- the graph of a case ---- */

struct maker {
	struct rvl_graph *g;
	struct rvl_node *n;
	uint32_t inputs;
	int rc;
};

static void put_const(struct maker *m, enum rvl_type type, int rank, const int64_t *dim,
		      const void *data)
{
	struct rvl_shape s = { .rank = rank };
	struct rvl_tensor *t = NULL;

	for (int i = 0; i < rank; i++)
		s.dim[i] = dim[i];
	if (!m->rc)
		m->rc = rvl_tensor_const(m->g, NULL, type, &s, data, &t, NULL);
	if (!m->rc)
		m->rc = rvl_node_set_in(m->g, m->n, m->inputs++, t, NULL);
}

static void put_scalar(struct maker *m, enum rvl_type type, const void *data)
{
	put_const(m, type, 0, NULL, data);
}

static struct rvl_tensor *activation(struct maker *m, const char *name, enum rvl_type type,
				     const int64_t *dim)
{
	struct rvl_tensor *t = NULL;

	if (!m->rc)
		m->rc = rvl_tensor_new(m->g, name, &t, NULL);
	if (m->rc)
		return NULL;
	t->type = type;
	t->shaped = true;
	t->shape.rank = 4;
	memcpy(t->shape.dim, dim, 4 * sizeof(*dim));
	return t;
}

static void put_attributes(struct rvl_node *n, const struct rvl_conv_case *c)
{
	n->op_type = "QLinearConv";
	n->attr.kernel[0] = c->kh;
	n->attr.kernel[1] = c->kw;
	n->attr.stride[0] = c->stride_h;
	n->attr.stride[1] = c->stride_w;
	n->attr.dilation[0] = c->dilation_h;
	n->attr.dilation[1] = c->dilation_w;
	n->attr.pad[0] = c->pad_top;
	n->attr.pad[1] = c->pad_left;
	n->attr.pad[2] = c->pad_bottom;
	n->attr.pad[3] = c->pad_right;
	n->attr.group = c->group;
}

/* The row of the operator, which computes it where nothing fuses it, and its attributes there. */
static int put_row(struct rvl_graph *g, struct rvl_node *n)
{
	static const char *const names[] = { "kernel_shape", "strides", "dilations", "pads" };
	const int32_t *lists[] = { n->attr.kernel, n->attr.stride, n->attr.dilation, n->attr.pad };
	struct rvl_attr_value *v;

	n->def = rvl_op_of_kernel(n->op);
	v = rvl_arena_array(g->arena, rvl_op_attrs(n->def), sizeof(*v));
	n->value = v;
	for (uint32_t i = 0; v && i < rvl_op_attrs(n->def); i++) {
		if (!strcmp(n->def->attrs[i].name, "group"))
			v[i] = (struct rvl_attr_value) { .given = true, .i = n->attr.group };
		for (int k = 0; k < 4; k++) {
			int64_t *list = rvl_arena_array(g->arena, 4, sizeof(*list));

			if (strcmp(n->def->attrs[i].name, names[k]) || !list)
				continue;
			v[i] = (struct rvl_attr_value) { .given = true, .n = k < 3 ? 2 : 4, .data = list };
			for (uint32_t e = 0; e < v[i].n; e++)
				list[e] = lists[k][e];
		}
	}
	return v ? 0 : -ENOMEM;
}

static void put_operands(struct maker *m, const struct rvl_conv *d, struct rvl_tensor *x)
{
	const struct rvl_conv_case *c = &d->p;
	enum rvl_type xt = c->x_type == RVL_CONV_U8 ? RVL_TYPE_U8 : RVL_TYPE_S8;
	enum rvl_type wt = c->w_type == RVL_CONV_U8 ? RVL_TYPE_U8 : RVL_TYPE_S8;
	int64_t wdim[4] = { c->m, c->c / c->group, c->kh, c->kw }, mdim[1] = { c->m };
	uint8_t xz = c->x_zp, yz = c->y_zp, *wz = malloc(c->m);
	bool each = c->flags & RVL_CONV_PER_CHANNEL;

	if (!wz)
		m->rc = -ENOMEM;
	if (m->rc) {
		free(wz);
		return;
	}
	memset(wz, (uint8_t)c->w_zp, c->m);
	m->rc = rvl_node_set_in(m->g, m->n, m->inputs++, x, NULL);
	put_scalar(m, RVL_TYPE_F32, &c->x_scale);
	put_scalar(m, xt, &xz);
	put_const(m, wt, 4, wdim, d->w);
	put_const(m, RVL_TYPE_F32, each ? 1 : 0, mdim, d->ws);
	put_const(m, wt, each ? 1 : 0, mdim, wz);
	put_scalar(m, RVL_TYPE_F32, &c->y_scale);
	put_scalar(m, xt, &yz);
	if (d->bias)
		put_const(m, RVL_TYPE_S32, 1, mdim, d->bias);
	free(wz);
}

static struct rvl_graph *make_graph(const struct rvl_conv *d)
{
	const struct rvl_conv_case *c = &d->p;
	enum rvl_type type = c->x_type == RVL_CONV_U8 ? RVL_TYPE_U8 : RVL_TYPE_S8;
	struct maker m = { .g = rvl_graph_new() };
	struct rvl_tensor *x, *y;

	if (!m.g)
		return NULL;
	m.rc = rvl_node_new(m.g, RVL_OP_QLINEAR_CONV, "conv", &m.n, NULL);
	x = activation(&m, "x", type, (int64_t[]){ c->n, c->c, c->h, c->w });
	y = activation(&m, "y", type, (int64_t[]){ c->n, c->m, c->oh, c->ow });
	if (!m.rc) {
		put_attributes(m.n, c);
		m.rc = put_row(m.g, m.n);
	}
	put_operands(&m, d, x);
	if (!m.rc) {
		m.n->n_in = m.inputs;
		rvl_node_set_out(m.n, 0, y);
		m.n->n_out = 1;
		m.rc = rvl_graph_add_input(m.g, x, NULL);
	}
	if (!m.rc)
		m.rc = rvl_graph_add_output(m.g, y, NULL);
	if (!m.rc)
		return m.g;
	rvl_graph_free(m.g);
	return NULL;
}

/* ---- one case ---- */

static void describe(const struct rvl_conv_case *c, const char *board, const char *what)
{
	printf("case %u on %s: %ux%ux%ux%u, %u of %ux%u, group %u, stride %ux%u, dilation %ux%u, "
	       "pad %u %u %u %u, "
	       "zero points %d %d %d, types %u %u: %s\n",
	       c->index, board, c->n, c->c, c->h, c->w, c->m, c->kh, c->kw, c->group, c->stride_h,
	       c->stride_w, c->dilation_h, c->dilation_w, c->pad_top, c->pad_left, c->pad_bottom,
	       c->pad_right, c->x_zp, c->w_zp, c->y_zp, c->x_type, c->w_type, what);
}

static int execute(struct runner *r, uint32_t b, const struct rvl_conv *d, const void *program,
		   uint8_t *y, char *why, size_t size)
{
	struct prog_exec x;
	int rc = prog_open(&x, &r->board[b], r->core[b], program);

	if (!rc) {
		x.io[0] = (void *)(uintptr_t)d->x;
		x.io[1] = y;
		r->on_cpu += rivulet_program_steps(program)[0].kind != RIVULET_STEP_NPU;
		rc = prog_run(&x);
		if (rc)
			snprintf(why, size, "%s", x.err);
	}
	prog_close(&x, false);
	return rc;
}

static bool check_case(struct runner *r, uint32_t b, const struct rvl_conv *d, char *why,
		       size_t size)
{
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	struct rvl_graph *g = make_graph(d);
	uint8_t *y = calloc(1, d->y_bytes + 1);
	int rc = g && y ? rvl_compile_graph(g, &r->board[b], NULL, &program, NULL, &err) : -ENOMEM;

	if (rc)
		snprintf(why, size, "compiler: %s", err.msg);
	if (!rc)
		rc = rivulet_program_check(program.data, program.size, why, size);
	if (!rc)
		rc = execute(r, b, d, program.data, y, why, size);
	if (!rc && rvl_conv_match(d, y) != 1) {
		size_t i = 0;

		while (d->y && i < d->y_bytes && y[i] == ((const uint8_t *)d->y)[i])
			i++;
		if (d->y)
			snprintf(why, size, "element %zu of %zu is %u, expected %u", i, d->y_bytes,
				 y[i], ((const uint8_t *)d->y)[i]);
		else
			snprintf(why, size, "its checksum differs");
		rc = -EIO;
	}
	rivulet_blob_free(&program);
	free(y);
	return !rc;
}

static int run_file(struct runner *r, struct rvl_conv_reader *f)
{
	struct rvl_conv c;
	int rc;

	while ((rc = rvl_conv_next(f, &c)) == 1) {
		uint32_t b = r->cases++ % r->boards;
		char why[512] = "";

		if (check_case(r, b, &c, why, sizeof(why)))
			continue;
		if (r->mismatches++ < MAX_SHOWN)
			describe(&c.p, r->board[b].name, why);
	}
	if (rc)
		fprintf(stderr, "check_conv: case %" PRIu64 ": %s\n", r->cases, strerror(-rc));
	return rc;
}

static int add_board(struct runner *r, const char *name)
{
	char err[256];

	if (r->boards == MAX_BOARDS ||
	    rivulet_board_load(&r->board[r->boards], name, err, sizeof(err)))
		return fprintf(stderr, "check_conv: %s\n",
			       r->boards == MAX_BOARDS ? "too many boards" : err),
		       1;
	r->core[r->boards] = rvl_core_new(&r->board[r->boards]);
	return !r->core[r->boards++];
}

static int with_file(struct runner *r, const char *path)
{
	struct rvl_conv_reader *f;
	int rc = rvl_conv_open(path, &f);

	if (rc < 0) {
		fprintf(stderr, "check_conv: %s: %s\n", path, strerror(-rc));
		return rc;
	}
	rc = run_file(r, f);
	rvl_conv_close(f);
	return rc;
}

int main(int argc, char **argv)
{
	struct runner *r = calloc(1, sizeof(*r));
	int rc = 0;

	if (!r || argc < 2)
		return fprintf(stderr, "usage: check_conv FILE [BOARD...]\n"), 2;
	for (int i = 2; i < argc && !rc; i++)
		rc = add_board(r, argv[i]);
	if (!rc && !r->boards)
		rc = add_board(r, "zu3eg-64");
	if (!rc)
		rc = with_file(r, argv[1]);
	for (uint32_t i = 0; i < r->boards; i++)
		rvl_core_free(r->core[i]);
	printf("figure conv.cases %" PRIu64 " cases\nfigure conv.mismatches %" PRIu64 " cases\n"
	       "figure conv.on_cpu %" PRIu64 " cases\n",
	       r->cases, r->mismatches, r->on_cpu);
	rc = rc || r->mismatches || !r->cases;
	free(r);
	return rc;
}
