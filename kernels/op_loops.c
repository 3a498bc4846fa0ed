/* SPDX-License-Identifier: MIT */
/* Loops and conversions that the operators of kernels/op/ share. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "rivulet_op.h"

/* ---- element types ---- */

float rvl_f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 1023;
	uint32_t bits;
	float f;

	if (!exp) {
		f = ldexpf((float)man, -24);
		return sign ? -f : f;
	}
	bits = exp == 31 ? 0x7f800000u | man << 13 : (exp + 112) << 23 | man << 13;
	bits |= sign;
	memcpy(&f, &bits, 4);
	return f;
}

/* Rounds to nearest even; beyond the largest number to infinity. */
uint16_t rvl_f32_to_f16(float f)
{
	uint32_t bits, sign, man;
	int exp;

	memcpy(&bits, &f, 4);
	sign = bits >> 16 & 0x8000;
	if (isnan(f))
		return (uint16_t)(sign | 0x7e00);
	f = fabsf(f);
	if (f >= 65520.0f)
		return (uint16_t)(sign | 0x7c00);
	if (f < 0x1p-14f)
		return (uint16_t)(sign | (uint32_t)rintf(f * 0x1p24f));
	man = (uint32_t)rintf(frexpf(f, &exp) * 2048.0f);	/* 1024 .. 2048 */
	return (uint16_t)(sign | (((uint32_t)(exp + 14) << 10) + (man - 1024)));
}

float rvl_bf16_to_f32(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float f;

	memcpy(&f, &bits, 4);
	return f;
}

uint16_t rvl_f32_to_bf16(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, 4);
	if (isnan(f))
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

int64_t rvl_element_int(enum rvl_type type, const void *data, int64_t i)
{
	switch (type) {
	case RVL_TYPE_U8:
		return ((const uint8_t *)data)[i];
	case RVL_TYPE_BOOL:
		return ((const uint8_t *)data)[i] != 0;
	case RVL_TYPE_S8:
		return ((const int8_t *)data)[i];
	case RVL_TYPE_U16:
		return ((const uint16_t *)data)[i];
	case RVL_TYPE_S16:
		return ((const int16_t *)data)[i];
	case RVL_TYPE_U32:
		return ((const uint32_t *)data)[i];
	case RVL_TYPE_S32:
		return ((const int32_t *)data)[i];
	default:
		return ((const int64_t *)data)[i];
	}
}

double rvl_element(enum rvl_type type, const void *data, int64_t i)
{
	switch (type) {
	case RVL_TYPE_F32:
		return (double)((const float *)data)[i];
	case RVL_TYPE_F64:
		return ((const double *)data)[i];
	case RVL_TYPE_F16:
		return (double)rvl_f16_to_f32(((const uint16_t *)data)[i]);
	case RVL_TYPE_BF16:
		return (double)rvl_bf16_to_f32(((const uint16_t *)data)[i]);
	case RVL_TYPE_U64:
		return (double)((const uint64_t *)data)[i];
	default:
		return (double)rvl_element_int(type, data, i);
	}
}

static bool is_float(enum rvl_type t)
{
	return t == RVL_TYPE_F32 || t == RVL_TYPE_F64 || t == RVL_TYPE_F16 || t == RVL_TYPE_BF16;
}

static void put_float(enum rvl_type type, void *dst, int64_t i, double v)
{
	if (type == RVL_TYPE_F32)
		((float *)dst)[i] = (float)v;
	else if (type == RVL_TYPE_F64)
		((double *)dst)[i] = v;
	else if (type == RVL_TYPE_F16)
		((uint16_t *)dst)[i] = rvl_f32_to_f16((float)v);
	else
		((uint16_t *)dst)[i] = rvl_f32_to_bf16((float)v);
}

/* The low bits of @v, as C converts between integers. */
static void put_int(enum rvl_type type, void *dst, int64_t i, uint64_t v)
{
	switch (rvl_type_size(type)) {
	case 1:
		((uint8_t *)dst)[i] = type == RVL_TYPE_BOOL ? v != 0 : (uint8_t)v;
		break;
	case 2:
		((uint16_t *)dst)[i] = (uint16_t)v;
		break;
	case 4:
		((uint32_t *)dst)[i] = (uint32_t)v;
		break;
	default:
		((uint64_t *)dst)[i] = v;
	}
}

/* A float as an integer: towards zero, within 64 bits, NaN as 0; then the low bits. */
static uint64_t float_to_int(enum rvl_type type, double v)
{
	if (type == RVL_TYPE_BOOL)
		return v != 0.0;
	if (isnan(v))
		return 0;
	if (type == RVL_TYPE_U64)
		return v <= 0.0 ? (uint64_t)(int64_t)fmax(v, -0x1p63) :
		       v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
	if (v >= 0x1p63)
		return INT64_MAX;
	return (uint64_t)(int64_t)fmax(v, -0x1p63);
}

/* Pairs of types that models convert whole tensors between have loops of their own. */
#define LOOP(name, to, from, value) \
	static void name(void *dst, const void *src, int64_t n) \
	{ \
		to *y = dst; \
		const from *x = src; \
		for (int64_t i = 0; i < n; i++) \
			y[i] = (to)(value); \
	}

LOOP(f32_of_bool, float, uint8_t, x[i] != 0)
LOOP(f32_of_u8, float, uint8_t, x[i])
LOOP(f32_of_s8, float, int8_t, x[i])
LOOP(f32_of_s32, float, int32_t, x[i])
LOOP(s64_of_s32, int64_t, int32_t, x[i])
LOOP(u64_of_u8, uint64_t, uint8_t, x[i])
LOOP(u64_of_bool, uint64_t, uint8_t, x[i] != 0)
LOOP(s32_of_s64, uint32_t, uint64_t, x[i])
LOOP(u8_of_u64, uint8_t, uint64_t, x[i])
LOOP(bool_of_u64, uint8_t, uint64_t, x[i] != 0)

static const struct conversion {
	enum rvl_type to, from;
	void (*run)(void *dst, const void *src, int64_t n);
} conversions[] = {
	{ RVL_TYPE_F32, RVL_TYPE_BOOL, f32_of_bool },	{ RVL_TYPE_F32, RVL_TYPE_U8, f32_of_u8 },
	{ RVL_TYPE_F32, RVL_TYPE_S8, f32_of_s8 },	{ RVL_TYPE_F32, RVL_TYPE_S32, f32_of_s32 },
	{ RVL_TYPE_S64, RVL_TYPE_S32, s64_of_s32 },	{ RVL_TYPE_U64, RVL_TYPE_U8, u64_of_u8 },
	{ RVL_TYPE_U64, RVL_TYPE_BOOL, u64_of_bool },	{ RVL_TYPE_S32, RVL_TYPE_S64, s32_of_s64 },
	{ RVL_TYPE_U8, RVL_TYPE_U64, u8_of_u64 },	{ RVL_TYPE_BOOL, RVL_TYPE_U64, bool_of_u64 },
};

void rvl_convert(enum rvl_type to, void *dst, enum rvl_type from, const void *src, int64_t n)
{
	bool to_float = is_float(to), from_float = is_float(from);

	if (to == from) {
		memcpy(dst, src, (size_t)n * rvl_type_size(to));
		return;
	}
	for (size_t i = 0; i < sizeof(conversions) / sizeof(conversions[0]); i++) {
		if (conversions[i].to != to || conversions[i].from != from)
			continue;
		conversions[i].run(dst, src, n);
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		if (to_float)
			put_float(to, dst, i, rvl_element(from, src, i));
		else if (from_float)
			put_int(to, dst, i, float_to_int(to, rvl_element(from, src, i)));
		else
			put_int(to, dst, i, (uint64_t)rvl_element_int(from, src, i));
	}
}

/* ---- loops ---- */

void rvl_for(const struct rvl_call *c, uint32_t n, void (*fn)(void *arg, uint32_t i), void *arg)
{
	rvl_parallel(c->pool, n, fn, arg);
}

struct range {
	void (*fn)(void *arg, int64_t first, int64_t past);
	void *arg;
	int64_t n, step;
};

static void range_part(void *arg, uint32_t i)
{
	const struct range *r = arg;
	int64_t first = i * r->step, past = first + r->step;

	r->fn(r->arg, first, past < r->n ? past : r->n);
}

void rvl_parallel_range(const struct rvl_pool *pool, int64_t n, int64_t grain,
			void (*fn)(void *arg, int64_t first, int64_t past), void *arg)
{
	int64_t parts = pool && pool->threads > 1 ? 4 * (int64_t)pool->threads : 1;
	struct range r = { .fn = fn, .arg = arg, .n = n };

	if (n <= 0)
		return;
	r.step = (n + parts - 1) / parts;
	if (r.step < grain)
		r.step = grain;
	rvl_parallel(pool, (uint32_t)((n + r.step - 1) / r.step), range_part, &r);
}

void rvl_for_range(const struct rvl_call *c, int64_t n, int64_t grain,
		   void (*fn)(void *arg, int64_t first, int64_t past), void *arg)
{
	rvl_parallel_range(c->pool, n, grain, fn, arg);
}

void rvl_strides(const struct rvl_shape *s, int64_t *stride)
{
	int64_t n = 1;

	for (int i = s->rank - 1; i >= 0; i--) {
		stride[i] = n;
		n *= s->dim[i];
	}
}

void rvl_value_strides(const struct rvl_value *v, int64_t *stride)
{
	if (!v->pitch)
		rvl_strides(&v->shape, stride);
	for (int i = 0; v->pitch && i < v->shape.rank; i++)
		stride[i] = v->pitch[i] / (int64_t)rvl_type_size(v->type);
}

/* The strides @own of @s along the dimensions of @to. */
static void broadcast(const struct rvl_shape *s, const int64_t *own, const struct rvl_shape *to,
		      int64_t *stride)
{
	int skip = to->rank - s->rank;

	for (int i = 0; i < to->rank; i++)
		stride[i] = i < skip || s->dim[i - skip] == 1 ? 0 : own[i - skip];
}

void rvl_broadcast_strides(const struct rvl_shape *s, const struct rvl_shape *to, int64_t *stride)
{
	int64_t own[RVL_MAX_RANK];

	rvl_strides(s, own);
	broadcast(s, own, to, stride);
}

/* ---- rows ---- */

#define ROW 512		/* elements computed at a time */

enum rvl_class rvl_class_of(enum rvl_type type)
{
	if (is_float(type))
		return type == RVL_TYPE_F64 ? RVL_CLASS_F64 : RVL_CLASS_F32;
	return 1u << type & RVL_T_UNSIGNED || type == RVL_TYPE_BOOL ? RVL_CLASS_U64 : RVL_CLASS_S64;
}

static enum rvl_type class_type(enum rvl_class k)
{
	static const enum rvl_type type[] = {
		[RVL_CLASS_F32] = RVL_TYPE_F32, [RVL_CLASS_S64] = RVL_TYPE_S64,
		[RVL_CLASS_U64] = RVL_TYPE_U64, [RVL_CLASS_F64] = RVL_TYPE_F64,
	};

	return type[k];
}

/*
 * The result's shape with its dimensions in the order of the result's memory, and merged where every
 * operand and the result walk through them at one pace. The last list of strides is the result's.
 */
#define LISTS (RVL_ROWS_MAX + 1)

struct rows {
	struct rvl_call *c;
	enum rvl_type in, out;
	rvl_row_fn fn;
	uint32_t n;				/* operands */
	int rank;				/* at least 1 */
	int64_t dim[RVL_MAX_RANK];
	int64_t stride[LISTS][RVL_MAX_RANK];
};

static int64_t *result_strides(struct rows *r)
{
	return r->stride[RVL_ROWS_MAX];
}

static void move_dim(struct rows *r, int to, int from)
{
	r->dim[to] = r->dim[from];
	for (uint32_t i = 0; i < LISTS; i++)
		r->stride[i][to] = r->stride[i][from];
}

static void swap_dims(struct rows *r, int a, int b)
{
	struct rows old = *r;

	move_dim(r, a, b);
	r->dim[b] = old.dim[a];
	for (uint32_t i = 0; i < LISTS; i++)
		r->stride[i][b] = old.stride[i][a];
}

/* Whether dimension @d continues dimension @d - 1 in every operand and the result. */
static bool continues(const struct rows *r, int d)
{
	for (uint32_t i = 0; i < LISTS; i++)
		if (r->stride[i][d - 1] != r->stride[i][d] * r->dim[d])
			return false;
	return true;
}

static void drop_dim(struct rows *r, int d)
{
	for (r->rank--; d < r->rank; d++)
		move_dim(r, d, d + 1);
}

static void merge(struct rows *r)
{
	const int64_t *to = result_strides(r);

	for (int d = r->rank - 1; d >= 0 && r->rank > 1; d--)
		if (r->dim[d] == 1)
			drop_dim(r, d);
	for (int d = 1; d < r->rank; d++)
		for (int k = d; k && llabs(to[k - 1]) < llabs(to[k]); k--)
			swap_dims(r, k - 1, k);
	for (int d = r->rank - 1; d > 0; d--) {
		if (!continues(r, d))
			continue;
		r->dim[d] *= r->dim[d - 1];
		drop_dim(r, d - 1);
	}
}

/* The place of element @at of the result in each operand, and in the result. */
static void locate(const struct rows *r, int64_t at, int64_t *pos)
{
	memset(pos, 0, LISTS * sizeof(*pos));
	for (int d = r->rank - 1; d >= 0; d--) {
		int64_t x = at % r->dim[d];

		at /= r->dim[d];
		for (uint32_t i = 0; i < LISTS; i++)
			pos[i] += x * r->stride[i][d];
	}
}

/* @n elements of @size bytes equal to the first one. */
static void repeat(uint64_t *buf, size_t size, int64_t n)
{
	uint32_t __attribute__((may_alias)) *four = (void *)buf;

	for (int64_t i = 1; size == 4 && i < n; i++)
		four[i] = four[0];
	for (int64_t i = 1; size == 8 && i < n; i++)
		buf[i] = buf[0];
	for (int64_t i = 1; size < 4 && i < n; i++)
		memcpy((char *)buf + (size_t)i * size, buf, size);
}

/*
 * Operand @i from element @pos on, @n elements @step apart, in the class's type. Elements of
 * pitches other than 1 and 0 pass through @raw.
 */
static void *row_of(const struct rows *r, uint32_t i, int64_t pos, int64_t n, int64_t step,
		    uint64_t *buf, uint64_t *raw)
{
	const struct rvl_value *v = &r->c->in[i];
	size_t size = rvl_type_size(v->type), wide = rvl_type_size(r->in);
	const char *src = (const char *)v->data + pos * (int64_t)size;

	if (step == 1 && v->type == r->in)
		return (void *)(uintptr_t)src;
	if (step && step != 1) {
		rvl_copy_row(src, step, raw, 1, n, size);
		src = (const char *)raw;
	}
	rvl_convert(r->in, buf, v->type, src, step ? n : 1);
	if (!step)
		repeat(buf, wide, n);
	return buf;
}

/* Writes @n results that are not computed where they belong. */
static void put_row(const struct rows *r, void *dst, int64_t step, const uint64_t *result, int64_t n)
{
	const struct rvl_value *out = &r->c->out[0];
	uint64_t raw[ROW];

	if (step == 1) {
		rvl_convert(out->type, dst, r->out, result, n);
		return;
	}
	rvl_convert(out->type, raw, r->out, result, n);
	rvl_copy_row(raw, 1, dst, step, n, rvl_type_size(out->type));
}

static void run_rows(void *arg, int64_t first, int64_t past)
{
	const struct rows *r = arg;
	const struct rvl_value *out = &r->c->out[0];
	int last = r->rank - 1;
	int64_t inner = r->dim[last], step = r->stride[RVL_ROWS_MAX][last], pos[LISTS];
	bool direct = out->type == r->out && step == 1;
	uint64_t buf[RVL_ROWS_MAX][ROW], raw[ROW], result[ROW];
	union rvl_row x[RVL_ROWS_MAX] = { { NULL } };

	for (int64_t at = first, n; at < past; at += n) {
		char *dst;

		n = inner - at % inner;
		n = n > past - at ? past - at : n;
		n = n > ROW ? ROW : n;
		locate(r, at, pos);
		dst = (char *)out->data + pos[RVL_ROWS_MAX] * (int64_t)rvl_type_size(out->type);
		for (uint32_t i = 0; i < r->n; i++)
			if (rvl_has(r->c, i))
				x[i].u = row_of(r, i, pos[i], n, r->stride[i][last], buf[i], raw);
		r->fn(r->c, n, (union rvl_row) { .u = direct ? (void *)dst : result }, x);
		if (!direct)
			put_row(r, dst, step, result, n);
	}
}

int rvl_rows(struct rvl_call *c, enum rvl_class in, enum rvl_class out, rvl_row_fn fn)
{
	return rvl_rows_typed(c, c->n_in, class_type(in), class_type(out), fn);
}

int rvl_rows_typed(struct rvl_call *c, uint32_t n, enum rvl_type in, enum rvl_type out, rvl_row_fn fn)
{
	const struct rvl_shape *s = &c->out[0].shape;
	struct rows r = {
		.c = c, .in = in, .out = out, .fn = fn, .n = n,
		.rank = s->rank ? s->rank : 1, .dim = { 1 },
	};
	int64_t own[RVL_MAX_RANK];

	if (n > RVL_ROWS_MAX)
		return rvl_op_fail(c, "it has %u operands", n);
	if (s->rank)
		memcpy(r.dim, s->dim, sizeof(r.dim));
	for (uint32_t i = 0; i < n; i++) {
		if (!rvl_has(c, i))
			continue;
		rvl_value_strides(&c->in[i], own);
		broadcast(&c->in[i].shape, own, s, r.stride[i]);
	}
	result_strides(&r)[0] = 1;
	rvl_value_strides(&c->out[0], result_strides(&r));
	merge(&r);
	rvl_for_range(c, rvl_count(&c->out[0]), 4096, run_rows, &r);
	return 0;
}
