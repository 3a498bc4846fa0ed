/* SPDX-License-Identifier: MIT */
/* Layouts of images: which an operator takes, pitches, and the copy from one to another. */
#include <string.h>

#include "binary/binary.h"
#include "int8/product.h"
#include "internal.h"

static int64_t plane_of(const struct rvl_shape *s)
{
	return s->dim[2] * s->dim[3];
}

const char *rvl_layout_text(enum rivulet_layout layout)
{
#define LAYOUT_TEXT(name, value, text, doc) [RIVULET_LAYOUT_##name] = (text),
	static const char *const text[] = { RIVULET_LAYOUTS(LAYOUT_TEXT) };
#undef LAYOUT_TEXT

	return text[layout];
}

bool rvl_layout_matters(const struct rvl_shape *s)
{
	return s->rank == 4 && s->dim[0] > 0 && s->dim[1] > 1 && plane_of(s) > 1;
}

static bool has_pitches(const struct rvl_op_def *def, uint32_t operands)
{
	return def && def->pitched & operands;
}

bool rvl_kernel_image(enum rvl_op op, const struct rvl_op_def *def, uint32_t i)
{
	if (op == RVL_OP_GENERAL)
		return has_pitches(def, RVL_PITCHED_IN(i));
	if (op == RVL_OP_B_CONV)
		return i == RVL_B_SHORTCUT;
	return i < (rvl_op_traits(op) & RVL_TRAIT_PAIR ? 2 : 1);
}

static const struct rvl_kernel_arg *operand(const struct rvl_kernel_desc *d, uint32_t i)
{
	return i < d->n_in ? &d->in[i] : &d->out[i - d->n_in];
}

/* Whether operand @i, an input or output, is an image of the operator. */
static bool is_image(const struct rvl_kernel_desc *d, uint32_t i)
{
	if (i >= d->n_in)
		return i == d->n_in || d->op == RVL_OP_GENERAL;
	return rvl_kernel_image(d->op, d->def, i) && !(d->op == RVL_OP_GENERAL && d->in[i].data);
}

/* The shape of an operand of at most four dimensions as that of an image. */
static struct rvl_shape as_image(const struct rvl_shape *s)
{
	struct rvl_shape m = { .rank = 4, .dim = { 1, 1, 1, 1 } };

	for (int i = 0; i < s->rank; i++)
		m.dim[4 - s->rank + i] = s->dim[i];
	return m;
}

struct rvl_shape rvl_memory_shape(const struct rvl_shape *s, bool nhwc)
{
	struct rvl_shape m;

	if (!nhwc || s->rank > 4)
		return *s;
	m = as_image(s);
	return (struct rvl_shape) { .rank = 4, .dim = { m.dim[0], m.dim[2], m.dim[3], m.dim[1] } };
}

/* Whether the operand has the same bytes as an image in either layout. */
static bool is_neutral(const struct rvl_kernel_arg *a)
{
	struct rvl_shape s;

	if (a->shape.rank > 4)
		return false;
	s = as_image(&a->shape);
	return !rvl_layout_matters(&s);
}

static bool may_be_nhwc(const struct rvl_kernel_arg *a)
{
	return is_neutral(a) || (a->shape.rank == 4 && !a->data);
}

/* A row whose loops address the pitches of its images takes NHWC, which is a case of pitches. */
static bool row_takes_nhwc(const struct rvl_kernel_desc *d)
{
	if (d->op != RVL_OP_GENERAL || !has_pitches(d->def, RVL_PITCHED_OUT) || !d->n_in)
		return false;
	for (uint32_t i = 0; i < d->n_out; i++)
		if (d->out[i].type && d->out[i].shape.rank != 4)
			return false;
	return true;
}

/* Tensors of bits have three dimensions and one layout; the other images may have either. */
static enum rvl_layouts layouts_of_bits(const struct rvl_kernel_desc *d)
{
	bool images = true;

	for (uint32_t i = 0; i < d->n_in; i++)
		images &= !is_image(d, i) || !d->in[i].type || may_be_nhwc(&d->in[i]);
	return images && rvl_op_traits(d->op) & RVL_TRAIT_NHWC_EACH ? RVL_LAYOUTS_EACH :
								       RVL_LAYOUTS_PLAIN;
}

/* A float convolution of bytes runs on the micro-kernels of quantised ones. */
static bool is_conv_of_bytes(const struct rvl_kernel_desc *d)
{
	return d->op == RVL_OP_CONV && rvl_is_bytes(&d->in[0]);
}

enum rvl_layouts rvl_kernel_layouts(const struct rvl_kernel_desc *d)
{
	uint32_t traits = rvl_op_traits(d->op) | (is_conv_of_bytes(d) ? RVL_TRAIT_NHWC_EACH : 0);
	bool row = row_takes_nhwc(d);

	if (traits & RVL_TRAIT_BITS)
		return layouts_of_bits(d);
	if (!(traits & (RVL_TRAIT_NHWC | RVL_TRAIT_NHWC_EACH) || row) || d->attr.sc_length ||
	    (d->n_out != 1 && !row) || d->in[0].shape.rank != 4 || d->out[0].shape.rank != 4)
		return RVL_LAYOUTS_PLAIN;
	for (uint32_t i = 0; i < d->n_in; i++)
		if (!row && is_image(d, i) && !may_be_nhwc(&d->in[i]))
			return RVL_LAYOUTS_PLAIN;
	return traits & RVL_TRAIT_NHWC_EACH ? RVL_LAYOUTS_EACH : RVL_LAYOUTS_SAME;
}

int rvl_kernel_check_layouts(const struct rvl_kernel_desc *d, char *why)
{
	enum rvl_layouts can = rvl_kernel_layouts(d);
	bool row = row_takes_nhwc(d);
	uint32_t seen = 0;

	if (d->op == RVL_OP_CHAIN)
		return 0;	/* its operators check their operands */
	for (uint32_t i = 0; i < d->n_in + d->n_out; i++) {
		const struct rvl_kernel_arg *a = operand(d, i);
		bool image = is_image(d, i);

		if (a->layout == RIVULET_LAYOUT_PLAIN) {
			/* A row addresses a part of another tensor by the pitches of that part. */
			seen |= image && !(row && a->pitched) &&
					rvl_layout_matters(&a->shape) ? 1u << a->layout : 0;
			continue;
		}
		seen |= 1u << a->layout;
		if (a->layout != RIVULET_LAYOUT_NHWC || !image || can == RVL_LAYOUTS_PLAIN ||
		    !rvl_layout_matters(&a->shape))
			return rvl_why(why, "operand %u is not an image whose layout the kernel takes", i);
	}
	if (can == RVL_LAYOUTS_SAME && seen & 1u << RIVULET_LAYOUT_PLAIN &&
	    seen & 1u << RIVULET_LAYOUT_NHWC)
		return rvl_why(why, "its images have different layouts");
	return 0;
}

bool rvl_in_nhwc(const struct rvl_kernel_desc *d)
{
	return d->in[0].layout == RIVULET_LAYOUT_NHWC || d->out[0].layout == RIVULET_LAYOUT_NHWC ||
	       (rvl_kernel_image(d->op, d->def, 1) && d->n_in > 1 &&
		d->in[1].layout == RIVULET_LAYOUT_NHWC);
}

/* ---- pitches ---- */

enum rvl_pitches rvl_kernel_pitches(const struct rvl_kernel_desc *d, uint32_t i)
{
	uint32_t traits = rvl_op_traits(d->op);
	bool input = i < d->n_in;

	if (d->op == RVL_OP_GENERAL)
		return has_pitches(d->def, input ? RVL_PITCHED_IN(i) : RVL_PITCHED_OUT) ?
		       RVL_PITCHES_ANY : RVL_PITCHES_NONE;
	if (traits & RVL_TRAIT_PITCHES_BYTES)
		return rvl_is_bytes(operand(d, i)) ? RVL_PITCHES_ANY : RVL_PITCHES_NONE;
	if (!is_image(d, i) || d->attr.sc_length)
		return RVL_PITCHES_NONE;
	if (traits & RVL_TRAIT_PITCHES)
		return RVL_PITCHES_ANY;
	return traits & RVL_TRAIT_PIXELS || (traits & RVL_TRAIT_PIXELS_IN && input) ?
	       RVL_PITCHES_PIXELS : RVL_PITCHES_NONE;
}

/* Elements between the pixels of an image in NHWC. */
static int64_t pixel_pitch(const struct rvl_kernel_arg *a)
{
	/* The innermost of them that has more than one index: x, y or n. */
	for (int d = 3; a->pitched && d >= 0; d--)
		if (d != 1 && a->shape.dim[d] > 1)
			return a->pitch[d] / (int64_t)rvl_type_size(a->type);
	return a->shape.dim[1];
}

struct rvl_pitch rvl_pitch_of(const struct rvl_kernel_arg *a)
{
	const int64_t *dim = a->shape.dim;
	int64_t plane = dim[2] * dim[3], x = pixel_pitch(a);

	if (a->layout == RIVULET_LAYOUT_NHWC)
		return (struct rvl_pitch) { plane * x, 1, dim[3] * x, x };
	return (struct rvl_pitch) { dim[1] * plane, plane, dim[3], 1 };
}

void rvl_arg_strides(const struct rvl_kernel_arg *a, int64_t *stride)
{
	struct rvl_pitch p;

	if (a->pitched) {
		for (int d = 0; d < a->shape.rank; d++)
			stride[d] = a->pitch[d] / (int64_t)rvl_type_size(a->type);
	} else if (a->layout == RIVULET_LAYOUT_NHWC) {
		p = rvl_pitch_of(a);
		memcpy(stride, (const int64_t[4]) { p.n, p.c, p.y, p.x }, 4 * sizeof(*stride));
	} else {
		rvl_strides(&a->shape, stride);
	}
}

struct rvl_runs rvl_runs_of(const struct rvl_kernel_arg *x, const struct rvl_kernel_arg *y)
{
	int64_t count = rvl_shape_count(&x->shape);

	if (!x->pitched && !y->pitched)
		return (struct rvl_runs) { .n = 1, .length = count };
	return (struct rvl_runs) { .n = count / x->shape.dim[1], .length = x->shape.dim[1],
				   .x = pixel_pitch(x), .y = pixel_pitch(y) };
}

/* Whether the channels are dense, and the pixels of all images evenly spaced and apart. */
static bool has_pixels(const struct rvl_kernel_arg *a)
{
	struct rvl_pitch p;
	int64_t want[4], have[4];

	if (a->layout != RIVULET_LAYOUT_NHWC || a->shape.rank != 4)
		return false;
	p = rvl_pitch_of(a);
	memcpy(want, (const int64_t[4]) { p.n, p.c, p.y, p.x }, sizeof(want));
	rvl_arg_strides(a, have);
	for (int d = 0; d < 4; d++)
		if (a->shape.dim[d] > 1 && want[d] != have[d])
			return false;
	return p.x >= a->shape.dim[1];
}

int rvl_kernel_check_pitches(const struct rvl_kernel_desc *d, char *why)
{
	bool renames = rvl_op_traits(d->op) & RVL_TRAIT_RENAMES;

	if (d->op == RVL_OP_CHAIN)
		return 0;	/* its operators check their operands */
	for (uint32_t i = 0; i < d->n_in + d->n_out; i++) {
		const struct rvl_kernel_arg *a = operand(d, i);
		enum rvl_pitches can = rvl_kernel_pitches(d, i);

		if (!a->pitched)
			continue;
		if (can == RVL_PITCHES_NONE || (can == RVL_PITCHES_PIXELS && !has_pixels(a)))
			return rvl_why(why, "operand %u has pitches that the kernel does not address", i);
		for (int k = 0; k < a->shape.rank; k++)
			if (a->pitch[k] % (int64_t)rvl_type_size(a->type))
				return rvl_why(why, "operand %u: pitch %d is no multiple of its elements",
					       i, k);
	}
	if (renames && d->in[0].pitched && d->out[0].pitched &&
	    !rvl_shape_equal(&d->in[0].shape, &d->out[0].shape))
		return rvl_why(why, "both sides of a change of shape have pitches");
	return 0;
}

int64_t rvl_axis_pitch(const struct rvl_kernel_arg *a, int32_t axis)
{
	static const int32_t nhwc_place[4] = { 0, 3, 1, 2 };
	bool nhwc = a->layout == RIVULET_LAYOUT_NHWC;
	struct rvl_shape s = rvl_memory_shape(&a->shape, nhwc);
	int64_t stride[RVL_MAX_RANK];

	rvl_strides(&s, stride);
	return stride[nhwc ? nhwc_place[axis] : axis];
}

/* ---- copies ---- */

#define TILE 32

#define TRANSPOSE_TILE(name, type) \
static void name(const void *from, int64_t rows, int64_t cols, int64_t r0, int64_t c0, void *to) \
{ \
	int64_t r1 = r0 + TILE < rows ? r0 + TILE : rows, c1 = c0 + TILE < cols ? c0 + TILE : cols; \
	const type *x = from; \
	type *y = to; \
	for (int64_t c = c0; c < c1; c++) \
		for (int64_t r = r0; r < r1; r++) \
			y[c * rows + r] = x[r * cols + c]; \
}

static void tile_8(const void *from, int64_t rows, int64_t cols, int64_t r0, int64_t c0, void *to)
{
	int64_t high = rows - r0 < TILE ? rows - r0 : TILE, wide = cols - c0 < TILE ? cols - c0 : TILE;

	rvl_i8_transpose((const uint8_t *)from + r0 * cols + c0, cols, high, wide,
			 (uint8_t *)to + c0 * rows + r0, rows);
}

TRANSPOSE_TILE(tile_16, uint16_t)
TRANSPOSE_TILE(tile_32, uint32_t)
TRANSPOSE_TILE(tile_64, uint64_t)

typedef void (*tile_fn)(const void *from, int64_t rows, int64_t cols, int64_t r0, int64_t c0, void *to);

static tile_fn tile_of(size_t size)
{
	return size == 1 ? tile_8 : size == 2 ? tile_16 : size == 4 ? tile_32 : tile_64;
}

void rvl_transpose_matrix(const void *x, int64_t rows, int64_t cols, size_t size, void *y)
{
	tile_fn tile = tile_of(size);

	for (int64_t r = 0; r < rows; r += TILE)
		for (int64_t c = 0; c < cols; c += TILE)
			tile(x, rows, cols, r, c, y);
}

#define GRAIN 64	/* tiles that a thread transposes at least */

struct reorder_run {
	const char *x;
	char *y;
	size_t size;
	int64_t rows, cols;	/* of an image in the input's memory */
};

static int64_t tiles(int64_t n)
{
	return (n + TILE - 1) / TILE;
}

/* Tiles of all images: those of an image row by row. */
static void reorder_tiles(void *arg, int64_t first, int64_t past)
{
	const struct reorder_run *r = arg;
	tile_fn tile = tile_of(r->size);
	int64_t across = tiles(r->cols), image = tiles(r->rows) * across;

	for (int64_t i = first; i < past; i++) {
		size_t at = (size_t)(i / image * r->rows * r->cols) * r->size;

		tile(r->x + at, r->rows, r->cols, i % image / across * TILE, i % across * TILE, r->y + at);
	}
}

static void copy_image(void *arg, int64_t first, int64_t past)
{
	const struct reorder_run *r = arg;

	memcpy(r->y + first, r->x + first, (size_t)(past - first));
}

void rvl_copy_args(const struct rvl_kernel *k, const int32_t *perm, const void *x, void *y,
		   const struct rvl_pool *pool)
{
	const struct rvl_kernel_arg *a = &k->d.in[0], *b = &k->d.out[0];
	struct rvl_copy c = { .x = x, .y = y, .size = rvl_type_size(a->type) };
	int64_t from[RVL_MAX_RANK], to[RVL_MAX_RANK];

	rvl_arg_strides(a, from);
	rvl_arg_strides(b, to);
	for (int d = 0; d < b->shape.rank; d++)
		rvl_copy_dim(&c, b->shape.dim[d], from[perm ? perm[d] : d], to[d]);
	rvl_copy_run(&c, pool);
}

static int run_reorder(const struct rvl_kernel *k, const void *const *in, void *const *out,
		       void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_kernel_arg *x = &k->d.in[0], *y = &k->d.out[0];
	int64_t images = x->shape.dim[0], c = x->shape.dim[1], plane = plane_of(&x->shape);
	bool to_nhwc = y->layout == RIVULET_LAYOUT_NHWC;
	struct reorder_run r = {
		.x = in[0], .y = out[0], .size = rvl_type_size(x->type),
		.rows = to_nhwc ? c : plane, .cols = to_nhwc ? plane : c,
	};

	(void)scratch;
	if (x->pitched || y->pitched) {
		rvl_copy_args(k, NULL, in[0], out[0], pool);
		return 0;
	}
	if (x->layout == y->layout)
		rvl_parallel_range(pool, images * c * plane * (int64_t)r.size, GRAIN * TILE * TILE,
				   copy_image, &r);
	else
		rvl_parallel_range(pool, images * tiles(c) * tiles(plane), GRAIN, reorder_tiles, &r);
	return 0;
}

int rvl_setup_reorder(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_arg *x = &k->d.in[0], *y = &k->d.out[0];

	(void)reference;
	if (x->type != y->type || x->shape.rank != 4 || !rvl_shape_equal(&x->shape, &y->shape))
		return rvl_why(why, "input and output are not the same image");
	k->run = run_reorder;
	return 0;
}
