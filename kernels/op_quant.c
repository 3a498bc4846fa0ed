/* SPDX-License-Identifier: MIT */
/* QuantizeLinear, DequantizeLinear (scale and zero point as operands) and QRescale. */
#include <string.h>

#include "internal.h"
#include "isa.h"
#include "qmath.h"
#include "rows.h"

/* Maps an element to its scale: one per tensor, or one per channel along attr.axis. */
struct channels {
	int64_t n, inner;	/* n = 1: per tensor */
};

static int channels_of(const struct rvl_kernel *k, struct channels *c, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_shape *x = &d->in[0].shape;
	int64_t scales = rvl_shape_count(&d->in[1].shape);
	int32_t axis = d->attr.axis;

	*c = (struct channels) { .n = 1, .inner = 1 };
	if (d->in[1].type != RVL_TYPE_F32 || d->in[1].shape.rank > 1)
		return rvl_why(why, "scale is not one float per tensor or per channel");
	if (d->n_in > 2 && d->in[2].type != RVL_TYPE_NONE &&
	    rvl_shape_count(&d->in[2].shape) != scales)
		return rvl_why(why, "as many zero points as scales are needed");
	if (scales == 1)
		return 0;
	if (axis < 0 || axis >= x->rank || x->dim[axis] != scales)
		return rvl_why(why, "%lld scales do not fit axis %d", (long long)scales, axis);
	c->n = scales;
	c->inner = rvl_axis_pitch(&d->in[0], axis);
	return 0;
}

/* ---- spans of adjacent elements, shared by threads ---- */

#define SPAN 8192	/* least elements that a thread takes */

struct spans {
	const struct rvl_kernel *k;
	const void *const *in;
	void *out;
	struct rvl_runs runs;
	struct channels c;
	const struct rvl_i8_convert *convert;
	/* Elements @first to @first + @n, which begin at @x of the input and at @y of the output. */
	void (*span)(const struct spans *s, int64_t first, int64_t n, int64_t x, int64_t y);
};

/* Elements of the only run, or runs. */
static void span_range(void *arg, int64_t first, int64_t past)
{
	const struct spans *s = arg;
	const struct rvl_runs *r = &s->runs;

	if (r->n == 1) {
		s->span(s, first, past - first, first, first);
		return;
	}
	for (int64_t i = first; i < past; i++)
		s->span(s, i * r->length, r->length, i * r->x, i * r->y);
}

static void run_spans(struct spans *s, const struct rvl_pool *pool)
{
	const struct rvl_runs *r = &s->runs;

	s->runs = rvl_runs_of(&s->k->d.in[0], &s->k->d.out[0]);
	rvl_parallel_range(pool, r->n == 1 ? r->length : r->n,
			   r->n == 1 ? SPAN : SPAN / (r->length ? r->length : 1) + 1, span_range, s);
}

/* How many elements from @e on have one channel, at most @n. */
static int64_t same_channel(const struct channels *c, int64_t e, int64_t n)
{
	int64_t left = c->n == 1 ? n : c->inner - e % c->inner;

	return left < n ? left : n;
}

static void ref_quantize(const struct rvl_i8_quantize *q, const float *x, int64_t n, uint8_t *y)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = (uint8_t)rvl_quantize(x[i], q->scale, q->zp, q->lo, q->hi);
}

static void ref_dequantize_u8(const uint8_t *x, int64_t n, float scale, int32_t zp, float *y)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = rvl_dequantize(x[i], scale, zp);
}

static void ref_dequantize_s8(const uint8_t *x, int64_t n, float scale, int32_t zp, float *y)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = rvl_dequantize((int8_t)x[i], scale, zp);
}

static const struct rvl_i8_convert reference = {
	.quantize = ref_quantize, .dequantize_u8 = ref_dequantize_u8,
	.dequantize_s8 = ref_dequantize_s8,
};

static const struct rvl_i8_convert *convert_of(const struct rvl_kernel *k)
{
	return k->reference ? &reference : rvl_i8_kernels()->convert;
}

/* ---- QuantizeLinear ---- */

static void quantize_ints(const struct rvl_i8_quantize *q, const int32_t *x, int64_t n, uint8_t *y)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = (uint8_t)rvl_quantize((float)x[i], q->scale, q->zp, q->lo, q->hi);
}

static void quantize_span(const struct spans *s, int64_t first, int64_t n, int64_t x, int64_t y)
{
	bool u8 = s->k->d.out[0].type == RVL_TYPE_U8, ints = s->k->d.in[0].type == RVL_TYPE_S32;
	const struct rvl_i8_convert *convert = s->convert;
	uint8_t *to = (uint8_t *)s->out + y;

	for (int64_t i = 0, m; i < n; i += m) {
		int64_t ch = (first + i) / s->c.inner % s->c.n;
		struct rvl_i8_quantize q = { .scale = ((const float *)s->in[1])[ch],
					     .zp = rvl_ld8(s->in[2], ch, u8),
					     .lo = rvl_qmin(u8), .hi = rvl_qmax(u8) };

		m = same_channel(&s->c, first + i, n - i);
		if (ints)
			quantize_ints(&q, (const int32_t *)s->in[0] + x + i, m, to + i);
		else
			convert->quantize(&q, (const float *)s->in[0] + x + i, m, to + i);
	}
}

static int run_quantize(const struct rvl_kernel *k, const void *const *in, void *const *out,
			void *scratch, const struct rvl_pool *pool)
{
	struct spans s = { .k = k, .in = in, .out = out[0], .span = quantize_span,
			   .convert = convert_of(k) };

	(void)scratch;
	channels_of(k, &s.c, NULL);
	run_spans(&s, pool);
	return 0;
}

int rvl_setup_quantize(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	enum rvl_type t = d->out[0].type;
	struct channels c;

	k->reference = reference;
	if ((d->in[0].type != RVL_TYPE_F32 && d->in[0].type != RVL_TYPE_S32) ||
	    (t != RVL_TYPE_U8 && t != RVL_TYPE_S8) || d->n_in < 3 || d->in[2].type != t ||
	    !rvl_shape_equal(&d->in[0].shape, &d->out[0].shape))
		return rvl_why(why, "not a quantisation of floats to 8 bits");
	k->run = run_quantize;
	return channels_of(k, &c, why);
}

static int32_t int_at(const void *p, int64_t i, enum rvl_type t)
{
	if (!p)
		return 0;
	if (t == RVL_TYPE_S16)
		return ((const int16_t *)p)[i];
	return t == RVL_TYPE_S32 ? ((const int32_t *)p)[i] : rvl_ld8(p, i, t == RVL_TYPE_U8);
}

static void dequantize_ints(const int32_t *x, int64_t n, float scale, int32_t zp, float *y)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = rvl_dequantize(x[i], scale, zp);
}

static void dequantize_shorts(const int16_t *x, int64_t n, float scale, int32_t zp, float *y)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = rvl_dequantize(x[i], scale, zp);
}

static void dequantize_span(const struct spans *s, int64_t first, int64_t n, int64_t x, int64_t y)
{
	enum rvl_type t = s->k->d.in[0].type;
	const void *zps = s->k->d.n_in > 2 ? s->in[2] : NULL;
	const uint8_t *bytes = (const uint8_t *)s->in[0] + x;
	float *to = (float *)s->out + y;

	for (int64_t i = 0, m; i < n; i += m) {
		int64_t ch = (first + i) / s->c.inner % s->c.n;
		float scale = ((const float *)s->in[1])[ch];
		int32_t zp = int_at(zps, ch, t);

		m = same_channel(&s->c, first + i, n - i);
		if (t == RVL_TYPE_S32)
			dequantize_ints((const int32_t *)s->in[0] + x + i, m, scale, zp, to + i);
		else if (t == RVL_TYPE_S16)
			dequantize_shorts((const int16_t *)s->in[0] + x + i, m, scale, zp, to + i);
		else if (t == RVL_TYPE_U8)
			s->convert->dequantize_u8(bytes + i, m, scale, zp, to + i);
		else
			s->convert->dequantize_s8(bytes + i, m, scale, zp, to + i);
	}
}

static int run_dequantize(const struct rvl_kernel *k, const void *const *in, void *const *out,
			  void *scratch, const struct rvl_pool *pool)
{
	struct spans s = { .k = k, .in = in, .out = out[0], .span = dequantize_span,
			   .convert = convert_of(k) };

	(void)scratch;
	channels_of(k, &s.c, NULL);
	run_spans(&s, pool);
	return 0;
}

int rvl_setup_dequantize(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	enum rvl_type t = d->in[0].type;
	struct channels c;

	k->reference = reference;
	if (d->out[0].type != RVL_TYPE_F32 ||
	    (t != RVL_TYPE_U8 && t != RVL_TYPE_S8 && t != RVL_TYPE_S16 && t != RVL_TYPE_S32) ||
	    (d->n_in > 2 && d->in[2].type != RVL_TYPE_NONE && d->in[2].type != t) ||
	    !rvl_shape_equal(&d->in[0].shape, &d->out[0].shape))
		return rvl_why(why, "not a dequantisation to float");
	k->run = run_dequantize;
	return channels_of(k, &c, why);
}

static void rescale_span(const struct spans *s, int64_t first, int64_t n, int64_t x, int64_t y)
{
	(void)first;
	rvl_i8_kernels()->convert->look_up(s->k->lut, (const uint8_t *)s->in[0] + x, n, (uint8_t *)s->out + y);
}

static int run_rescale(const struct rvl_kernel *k, const void *const *in, void *const *out,
		       void *scratch, const struct rvl_pool *pool)
{
	struct spans s = { .k = k, .in = in, .out = out[0], .span = rescale_span };

	(void)scratch;
	run_spans(&s, pool);
	return 0;
}

static void rescale_rows(const struct rvl_kernel *k, const struct rvl_rows *r)
{
	const int64_t *dim = k->d.out[0].shape.dim;
	int64_t row = dim[1] * dim[3], at = r->first * row;

	rvl_i8_kernels()->convert->look_up(k->lut, r->in[0] + at, r->past * row - at, r->out + at);
}

const struct rvl_row_kernel rvl_rows_table = { .images = 1, .run = rescale_rows };

/* Dense images in NHWC. */
static bool has_rows(const struct rvl_kernel *k)
{
	return rvl_in_nhwc(&k->d) && !k->d.in[0].pitched && !k->d.out[0].pitched;
}

/* An int16 has too many values for a table. */
static void rescale_shorts(const struct spans *s, int64_t first, int64_t n, int64_t x, int64_t y)
{
	const struct rvl_kernel_arg *a = &s->k->d.in[0], *b = &s->k->d.out[0];
	const int16_t *from = (const int16_t *)s->in[0] + x;
	uint8_t *to = (uint8_t *)s->out + y;
	bool u8 = b->type == RVL_TYPE_U8;
	float xs = a->quant.scale[0], ys = b->quant.scale[0];
	int32_t xz = a->quant.zp[0], yz = b->quant.zp[0];
	int32_t lo = rvl_clamp(s->k->d.attr.q_lo, rvl_qmin(u8), rvl_qmax(u8));
	int32_t hi = rvl_clamp(s->k->d.attr.q_hi, rvl_qmin(u8), rvl_qmax(u8));

	(void)first;
	for (int64_t i = 0; i < n; i++)
		to[i] = (uint8_t)rvl_quantize(rvl_dequantize(from[i], xs, xz), ys, yz, lo, hi);
}

static int run_rescale_shorts(const struct rvl_kernel *k, const void *const *in, void *const *out,
			      void *scratch, const struct rvl_pool *pool)
{
	struct spans s = { .k = k, .in = in, .out = out[0], .span = rescale_shorts };

	(void)scratch;
	run_spans(&s, pool);
	return 0;
}

/* One byte in, one byte out: Q(DQ(x)) clamped, as a table. */
int rvl_setup_rescale(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_arg *x = &k->d.in[0], *y = &k->d.out[0];
	bool u8 = y->type == RVL_TYPE_U8;
	int32_t lo = rvl_clamp(k->d.attr.q_lo, rvl_qmin(u8), rvl_qmax(u8));
	int32_t hi = rvl_clamp(k->d.attr.q_hi, rvl_qmin(u8), rvl_qmax(u8));
	bool wide = x->type == RVL_TYPE_S16 && x->quant.n == 1;

	(void)reference;
	if (!(rvl_is_bytes(x) || wide) || !rvl_is_bytes(y) || rvl_shape_count(&x->shape) !=
	    rvl_shape_count(&y->shape))
		return rvl_why(why, "operands are not quantised to 8 bits per tensor");
	if (rvl_in_nhwc(&k->d) && !rvl_shape_equal(&x->shape, &y->shape))
		return rvl_why(why, "input and output are not the same image");
	if (wide) {
		k->run = run_rescale_shorts;
		return 0;
	}
	k->lut = rvl_kernel_mem(k, 256, 1);
	if (!k->lut)
		return -ENOMEM;
	for (int i = 0; i < 256; i++) {
		int32_t q = x->type == RVL_TYPE_U8 ? i : (int8_t)i;
		float v = rvl_dequantize(q, x->quant.scale[0], x->quant.zp[0]);

		rvl_st8(k->lut, i, rvl_quantize(v, y->quant.scale[0], y->quant.zp[0], lo, hi));
	}
	k->run = run_rescale;
	k->rows = has_rows(k) ? &rvl_rows_table : NULL;
	return 0;
}

/* ---- tables ---- */

#define BYTES 256

/* Tables of a node: element e uses number e / inner % n. */
struct tables {
	int64_t n, inner;
	int32_t axis; /* -1: one table for all */
};

int32_t rvl_constant_axis(const struct rvl_call *c, uint32_t x, uint32_t i)
{
	const struct rvl_shape *to = &c->in[x].shape;
	struct rvl_shape t = c->in[i].shape;
	int64_t count = rvl_shape_count(&t);

	if (count == 1)
		return RVL_AXIS_NONE;
	if (c->def && c->def->align)
		c->def->align(c, i, &t);
	for (int32_t d = 0; d < t.rank; d++) {
		int32_t axis = d + to->rank - t.rank;

		if (t.dim[d] == count && axis >= 0 && to->dim[axis] == count)
			return axis;
	}
	return RVL_AXIS_SEVERAL;
}

bool rvl_tables_fit(const struct rvl_shape *x, int32_t axis)
{
	int64_t tables = x->dim[axis];

	return x->rank > 1 && tables > 0 && tables <= RVL_MAX_TABLES &&
	       tables * BYTES / RVL_MAX_TABLE_BYTES <= rvl_shape_count(x);
}

static int tables_of(const struct rvl_kernel_desc *d, struct tables *t, char *why)
{
	const struct rvl_shape *x = &d->in[0].shape;
	struct rvl_call c;

	rvl_desc_call(d, &c);
	*t = (struct tables) { .n = 1, .inner = 1, .axis = RVL_AXIS_NONE };
	for (uint32_t i = 1; i < d->n_in; i++) {
		int32_t axis = RVL_AXIS_NONE;

		if (d->in[i].type)
			axis = d->in[i].data ? rvl_constant_axis(&c, 0, i) : RVL_AXIS_SEVERAL;
		if (axis == RVL_AXIS_SEVERAL || (axis >= 0 && t->axis >= 0 && axis != t->axis))
			return rvl_why(why, "its input %u is not one constant value, or one for each index of an axis", i);
		t->axis = axis >= 0 ? axis : t->axis;
	}
	if (t->axis < 0)
		return 0;
	t->n = x->dim[t->axis];
	if (!rvl_tables_fit(x, t->axis))
		return rvl_why(why, "it would need %lld tables for %lld values", (long long)t->n,
			       (long long)rvl_shape_count(x));
	t->inner = rvl_axis_pitch(&d->in[0], t->axis);
	return 0;
}

#define MAX_CONSTANTS 2

/* The function of 256 values that the tables hold, computed by the operator's own kernel. */
struct function {
	struct rvl_kernel *kernel;
	struct rvl_value in[RVL_MAX_IN], out;
	float x[BYTES], y[BYTES];
	uint64_t whole[MAX_CONSTANTS][BYTES]; /* constants that must have the shape of @x */
};

/*
 * The values have the rank of the operand, so that constants broadcast to them as they do to it. A
 * constant has one element, unless it has the shape of the operand: some operators broadcast nothing.
 */
static struct rvl_shape constant_shape(const struct rvl_kernel *k, uint32_t n, const struct rvl_shape *x)
{
	struct rvl_shape s = k->d.in[n].shape;

	if (rvl_shape_equal(&s, &k->d.in[0].shape))
		return *x;
	for (int32_t d = 0; d < s.rank; d++)
		s.dim[d] = 1;
	return s;
}

/* The kernel takes its constants at each run. The caller frees it. */
static int new_function(const struct rvl_kernel *k, struct function *f, char *why)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_GENERAL, .def = k->d.def, .n_in = k->d.n_in, .n_out = 1 };
	struct rvl_shape shape = { .rank = k->d.in[0].shape.rank ? k->d.in[0].shape.rank : 1 };
	int rc;

	if (d.n_in > 1 + MAX_CONSTANTS)
		return rvl_why(why, "its function has more than %d constants", MAX_CONSTANTS);
	for (int32_t n = 0; n < shape.rank; n++)
		shape.dim[n] = n ? 1 : BYTES;
	memcpy(d.value, k->d.value, sizeof(d.value));
	d.in[0] = d.out[0] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = shape };
	f->in[0] = (struct rvl_value) { .type = RVL_TYPE_F32, .shape = shape, .data = f->x };
	f->out = (struct rvl_value) { .type = RVL_TYPE_F32, .shape = shape, .data = f->y };
	for (uint32_t n = 1; n < d.n_in; n++) {
		d.in[n].type = f->in[n].type = k->d.in[n].type;
		d.in[n].shape = f->in[n].shape = constant_shape(k, n, &shape);
	}
	rc = rvl_kernel_new(&d, true, &f->kernel, why);
	return !rc && rvl_kernel_scratch(f->kernel) ? rvl_why(why, "its function needs workspace") : rc;
}

/* The constants of table @i: their elements of that index, or their only ones. */
static void set_constants(const struct rvl_kernel *k, struct function *f, int64_t i)
{
	for (uint32_t n = 1; n < k->d.n_in; n++) {
		const struct rvl_kernel_arg *a = &k->d.in[n];
		size_t size = rvl_type_size(a->type);
		const char *from = a->data;

		if (!a->type)
			continue;
		if (rvl_shape_count(&a->shape) > 1)
			from += (size_t)i * size;
		f->in[n].data = (void *)(uintptr_t)from;
		if (rvl_shape_count(&f->in[n].shape) == 1)
			continue;
		for (int b = 0; b < BYTES; b++)
			memcpy((char *)f->whole[n - 1] + (size_t)b * size, from, size);
		f->in[n].data = f->whole[n - 1];
	}
}

static int make_tables(struct rvl_kernel *k, int64_t tables, char *why)
{
	const struct rvl_kernel_arg *x = &k->d.in[0], *y = &k->d.out[0];
	bool u8 = y->type == RVL_TYPE_U8;
	int32_t lo = rvl_clamp(k->d.attr.q_lo, rvl_qmin(u8), rvl_qmax(u8));
	int32_t hi = rvl_clamp(k->d.attr.q_hi, rvl_qmin(u8), rvl_qmax(u8));
	struct function f = { .kernel = NULL };
	int rc = new_function(k, &f, why);

	for (int b = 0; b < BYTES; b++)
		f.x[b] = rvl_dequantize(x->type == RVL_TYPE_U8 ? b : (int8_t)b, x->quant.scale[0],
					x->quant.zp[0]);
	for (int64_t i = 0; i < tables && !rc; i++) {
		set_constants(k, &f, i);
		rc = rvl_kernel_run_values(f.kernel, f.in, &f.out, NULL, NULL, why);
		for (int b = 0; b < BYTES && !rc; b++)
			rvl_st8(k->lut, i * BYTES + b,
				rvl_quantize(f.y[b], y->quant.scale[0], y->quant.zp[0], lo, hi));
	}
	rvl_kernel_free(f.kernel);
	return rc;
}

/* In the middle of a row, an image begins anew. */
static void tables_span(const struct spans *s, int64_t first, int64_t n, int64_t x, int64_t y)
{
	for (int64_t i = 0, m; i < n; i += m) {
		int64_t table = (first + i) / s->c.inner % s->c.n;

		m = same_channel(&s->c, first + i, n - i);
		rvl_i8_kernels()->convert->look_up(s->k->lut + table * BYTES, (const uint8_t *)s->in[0] + x + i, m,
			       (uint8_t *)s->out + y + i);
	}
}

static int run_tables(const struct rvl_kernel *k, const void *const *in, void *const *out,
		      void *scratch, const struct rvl_pool *pool)
{
	struct spans s = { .k = k, .in = in, .out = out[0], .span = tables_span };
	struct tables t;

	(void)scratch;
	tables_of(&k->d, &t, NULL);
	s.c = (struct channels) { .n = t.n, .inner = t.inner };
	run_spans(&s, pool);
	return 0;
}

static int check_q_table(const struct rvl_kernel *k, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;

	if (!d->def || !(d->def->flags & RVL_OP_ELEMENTWISE))
		return rvl_why(why, "its function is not element-wise");
	if (!rvl_is_bytes(&d->in[0]) || !rvl_is_bytes(&d->out[0]) ||
	    !rvl_shape_equal(&d->in[0].shape, &d->out[0].shape))
		return rvl_why(why, "operands are not quantised to 8 bits per tensor");
	return 0;
}

/* One byte in, one byte out: Q(f(DQ(x))) clamped, as one table or one for each index of an axis. */
int rvl_setup_q_table(struct rvl_kernel *k, bool reference, char *why)
{
	int rc = check_q_table(k, why);
	struct tables t;

	(void)reference;
	if (!rc)
		rc = tables_of(&k->d, &t, why);
	if (rc)
		return rc;
	k->lut = rvl_kernel_mem(k, t.n * BYTES, 1);
	if (!k->lut)
		return -ENOMEM;
	k->run = t.n > 1 ? run_tables : run_rescale;
	k->rows = t.n == 1 && has_rows(k) ? &rvl_rows_table : NULL;
	return make_tables(k, t.n, why);
}
