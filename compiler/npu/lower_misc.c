/* SPDX-License-Identifier: MIT */
/* Layers without weights: pools, element-wise operators, tables, copies. */
#include "npu/epilogue.h"
#include "npu/slopes.h"

#include <math.h>
#include <string.h>

static struct rvl_layer *new_layer(struct rvl_graph *g, const struct rvl_node *n,
				   const struct rvl_stage *stage, const char **why)
{
	struct rvl_layer *l = rvl_arena_alloc(g->arena, sizeof(*l));

	*why = l ? NULL : "not enough memory";
	if (!l)
		return NULL;
	l->node = n;
	if (stage)
		rvl_epilogue_add(l, stage);
	if (rvl_operand_of(n->in[0], &l->in) && rvl_operand_of(n->out[0], &l->out))
		return l;
	*why = "its input or output is not 8 bits with one scale, or has more than four dimensions";
	return NULL;
}

/* The clamp of the node, in the device's int8. */
static void out_clamp(struct rvl_layer *l, const struct rvl_node *n)
{
	int32_t lo, hi, shift = n->out[0]->type == RVL_TYPE_U8 ? 128 : 0;

	rvl_node_q_range(n, &lo, &hi);
	l->e.out_lo = lo - shift;
	l->e.out_hi = hi - shift;
}

/* docs/numerics.md 4: xs / (ys * count), the sum being exact. */
static void average(struct rvl_layer *l, const struct rvl_node *n)
{
	float count = (float)(l->in.v.h * l->in.v.w);
	float den = n->out[0]->quant.scale[0] * count;

	l->e.pool = RIVULET_POOL_AVG_FIXED;
	l->e.pool_mult = n->in[0]->quant.scale[0] / den;
	l->e.pool_zp = l->in.zp;
	l->e.out_zp = l->out.zp;
	out_clamp(l, n);
}

/* Sum times xs / ys / positions; within 1 of onnxruntime, which sums in float (docs/numerics.md 4).
 */
static void border_average(struct rvl_layer *l, const struct rvl_node *n)
{
	const struct rvl_attr *a = &n->attr;

	l->e.pool = RIVULET_POOL_AVG_BORDER;
	l->e.pool_mult = n->in[0]->quant.scale[0] / n->out[0]->quant.scale[0];
	l->e.pool_zp = l->in.zp;
	l->e.out_zp = l->out.zp;
	for (int i = 0; i < 2; i++) {
		int64_t size = i ? l->in.v.w : l->in.v.h, last = n->out[0]->shape.dim[2 + i] - 1;
		int64_t end = last * a->stride[i] - a->pad[i] +
			      (int64_t)a->dilation[i] * (a->kernel[i] - 1) + 1;

		/* All positions of all windows, behind the padding too, or those of the input. */
		l->e.rect[2 * i] = a->count_include_pad ? -a->pad[i] : 0;
		l->e.rect[2 * i + 1] = a->count_include_pad ? rvl_max(size, end) : size;
	}
	out_clamp(l, n);
}

static bool rect_fits(const struct rvl_layer *l)
{
	return l->e.pool != RIVULET_POOL_AVG_BORDER ||
	       (l->in.v.h < 16384 && l->in.v.w < 16384 && l->e.rect[0] > -8192 &&
		l->e.rect[2] > -8192 && l->e.rect[1] < 24576 && l->e.rect[3] < 24576);
}

static void global_window(struct rvl_layer *l)
{
	l->e.pwin = (struct rvl_window){ l->in.v.h, l->in.v.w, 1, 1, 1, 1, 0, 0 };
}

struct rvl_layer *rvl_build_pool(struct rvl_graph *g, const struct rvl_node *n, bool values,
				 const char **why)
{
	struct rvl_layer *l = new_layer(g, n, &rvl_stage_pool, why);
	const struct rvl_attr *a = &n->attr;

	(void)values;
	if (!l)
		return NULL;
	if (n->in[0]->shape.rank != 4) {
		*why = "only two-dimensional pooling";
		return NULL;
	}
	if (n->op == RVL_OP_Q_GLOBAL_AVERAGE_POOL) {
		global_window(l);
		average(l, n);
	} else if (n->op == RVL_OP_GLOBAL_MAX_POOL) {
		global_window(l);
		l->e.pool = RIVULET_POOL_MAX;
	} else {
		l->e.pwin = (struct rvl_window){ a->kernel[0], a->kernel[1],   a->stride[0],
					       a->stride[1], a->dilation[0], a->dilation[1],
					       a->pad[0],    a->pad[1] };
		l->e.pool = RIVULET_POOL_MAX;
		if (n->op == RVL_OP_Q_AVERAGE_POOL)
			border_average(l, n);
	}
	if (!rect_fits(l)) {
		*why = "the image of an average pool is larger than 16384";
		return NULL;
	}
	if (l->e.pwin.kh > 255 || l->e.pwin.kw > 255 || l->e.pwin.sy > 255 || l->e.pwin.sx > 255 ||
	    l->e.pwin.dy > 31 || l->e.pwin.dx > 31) {
		*why = "the pooling window is larger than 255, or its dilation than 31";
		return NULL;
	}
	return l;
}

static int32_t raw_offset(const struct rvl_tensor *t)
{
	return t->type == RVL_TYPE_U8 ? -128 : 0;
}

/* docs/numerics.md 2, on the graph's own bytes: uint8 - 128 + 128. */
static void add_factors(struct rvl_layer *l, const struct rvl_tensor *a, const struct rvl_tensor *b,
			const struct rvl_tensor *y)
{
	float ys = y->quant.scale[0], inner;

	l->e.bin = RIVULET_BIN_ADD;
	l->e.ra = a->quant.scale[0] / ys;
	l->e.rb = b->quant.scale[0] / ys;
	inner = l->e.rb * (float)b->quant.zp[0];
	l->e.rc = (float)y->quant.zp[0] - fmaf(l->e.ra, (float)a->quant.zp[0], inner);
	l->e.az = raw_offset(a);
	l->e.bz = raw_offset(b);
}

/* docs/numerics.md 3. */
static void mul_factors(struct rvl_layer *l, const struct rvl_tensor *a, const struct rvl_tensor *b,
			const struct rvl_tensor *y)
{
	float p = a->quant.scale[0] * b->quant.scale[0];

	l->e.bin = RIVULET_BIN_MUL;
	l->e.ra = p / y->quant.scale[0];
	l->e.rc = (float)y->quant.zp[0];
	l->e.az = l->in.zp;
	l->e.bz = l->b.zp;
}

/* One value for all, or one for each channel, of an image with more than one pixel. */
static bool spreads(const struct rvl_tensor *b, const struct rvl_tensor *y, struct rvl_view *v)
{
	int64_t n = rvl_shape_count(&b->shape), c;

	if (y->shape.rank != 4 || b->shape.rank > 4 || rvl_shape_count(&y->shape) == n)
		return false;
	c = y->shape.dim[1];
	*v = (struct rvl_view){ 1, n, 1, 1, true, false };
	if (n == 1)
		return true;
	return n == c && b->shape.rank >= 3 && b->shape.dim[b->shape.rank - 3] == c &&
	       y->shape.dim[2] * y->shape.dim[3] > 1;
}

/* Sets l->b; a broadcast operand is always the second (docs/numerics.md 2). */
static const char *second_operand(struct rvl_layer *l, const struct rvl_node *n)
{
	const struct rvl_tensor *a = n->in[0], *b = n->in[1], *y = n->out[0];
	struct rvl_view v = { 0 };

	if (!rvl_is_quant8_tensor(b))
		return "its second operand is not 8 bits with one scale";
	if (rvl_shape_equal(&a->shape, &b->shape) && rvl_shape_equal(&a->shape, &y->shape))
		return rvl_operand_of(b, &l->b) ? NULL : "its second operand has no image form";
	l->swapped = !rvl_shape_equal(&a->shape, &y->shape);
	if (!rvl_shape_equal(&(l->swapped ? b : a)->shape, &y->shape) ||
	    !spreads(l->swapped ? a : b, y, &v))
		return "its operands differ in shape, and neither is one value for each channel";
	rvl_operand_of(l->swapped ? b : a, &l->in);
	rvl_operand_of(l->swapped ? a : b, &l->b);
	l->b.v = v;
	l->spread = true;
	return NULL;
}

struct rvl_layer *rvl_build_bin(struct rvl_graph *g, const struct rvl_node *n, bool values,
				const char **why)
{
	struct rvl_layer *l = new_layer(g, n, &rvl_stage_second, why);
	const struct rvl_tensor *a, *b;

	(void)values;
	if (!l)
		return NULL;
	*why = second_operand(l, n);
	if (*why)
		return NULL;
	a = n->in[l->swapped];
	b = n->in[!l->swapped];
	l->has_b = true;
	l->e.out_zp = raw_offset(n->out[0]);
	out_clamp(l, n);
	if (n->op == RVL_OP_Q_ADD)
		add_factors(l, a, b, n->out[0]);
	else
		mul_factors(l, a, b, n->out[0]);
	return l;
}

struct rvl_layer *rvl_build_function(struct rvl_graph *g, const struct rvl_function *f, const char **why)
{
	struct rvl_layer *l = rvl_arena_alloc(g->arena, sizeof(*l));

	*why = "its input or output is not 8 bits with one scale, or has more than four dimensions";
	if (!l || !rvl_operand_of(f->x, &l->in) || !rvl_operand_of(f->y, &l->out))
		return NULL;
	l->node = f->node[0];
	return rvl_layer_take_table(l, f, why) ? l : NULL;
}

/* The table is of the bytes that the layer would store: @l->out before it becomes the function's. */
bool rvl_layer_take_table(struct rvl_layer *l, const struct rvl_function *f, const char **why)
{
	struct rvl_operand x, y;
	uint8_t table[256];

	*why = "its table could not be made";
	if (!rvl_operand_of(f->x, &x) || !rvl_operand_of(f->y, &y) || rvl_function_table(f, table))
		return false;
	for (int i = 0; i < 256; i++) /* entry i belongs to int8 value i - 128 */
		l->e.lut[i] = table[(uint8_t)(i - 128) ^ x.flip] ^ y.flip;
	rvl_epilogue_add(l, &rvl_stage_table);
	l->out.zp = y.zp;
	l->out.flip = y.flip;
	return true;
}

struct rvl_layer *rvl_build_lut(struct rvl_graph *g, const struct rvl_node *n, bool values,
				const char **why)
{
	struct rvl_function f;

	if (rvl_is_slopes(n))
		return rvl_build_slopes(g, n, values, why);
	if (rvl_is_narrow(n))
		return rvl_build_narrow(g, n, values, why);
	rvl_function_of(n, &f);
	return rvl_build_function(g, &f, why);
}

/* Both sides are read as the input's image, of the same bytes. */
struct rvl_layer *rvl_build_copy(struct rvl_graph *g, const struct rvl_node *n, bool values,
				 const char **why)
{
	struct rvl_layer *l = new_layer(g, n, NULL, why);

	(void)values;
	if (!l)
		return NULL;
	l->out.v = l->in.v;
	l->out.flip = l->in.flip;
	return l;
}

/*
 * Channels last and channels first are the same image, whose plain bytes have the channels inside
 * or outside: LOAD and STORE do the rest.
 */
struct rvl_layer *rvl_build_transpose(struct rvl_graph *g, const struct rvl_node *n, bool values,
				      const char **why)
{
	static const int32_t to_last[4] = { 0, 2, 3, 1 }, to_first[4] = { 0, 3, 1, 2 };
	struct rvl_layer *l = new_layer(g, n, NULL, why);
	const struct rvl_view *v;

	(void)values;
	if (!l)
		return NULL;
	v = &l->in.v;
	if (n->attr.perm_rank == 4 && !memcmp(n->attr.perm, to_last, sizeof(to_last))) {
		l->out.v = (struct rvl_view){ v->n, v->c, v->h, v->w, true, false };
	} else if (n->attr.perm_rank == 4 && !memcmp(n->attr.perm, to_first, sizeof(to_first))) {
		l->out.v = (struct rvl_view){ v->n, v->w, v->c, v->h, false, false };
		l->in.v = l->out.v;
		l->in.v.inter = true;
	} else {
		*why = "only channels first to channels last and back";
		return NULL;
	}
	l->out.flip = l->in.flip;
	return l;
}

/* The result is the operand's image in another size: LOAD does the rest. */
struct rvl_layer *rvl_build_repeat(struct rvl_graph *g, const struct rvl_node *n, bool values,
				   const char **why)
{
	struct rvl_layer *l = new_layer(g, n, NULL, why);

	(void)values;
	if (!l || !rvl_repeats_pixels(n, &l->rep))
		return NULL;
	l->out.flip = l->in.flip;
	return l;
}
