/* SPDX-License-Identifier: MIT */
/*
 * What follows the sums of a tile, for the vectors of one instruction set. The file that includes it
 * defines POST, the name of the function; TARGET, an attribute; LANES, floats of a vector; FMA(a, b,
 * c); RINT(v), or ROUND(v), which makes integers of it at once; MAX(v, l) and MIN(v, h), which give
 * the second operand for a NaN; BELOW_0(u, a), which is a where u < 0 and u elsewhere; and REACH_F(u,
 * t) and REACH_I(q, t), bit i of which says whether lane i of the first operand is at least that of
 * the second. It may define LOAD_S8(p), LOAD_U8(p) and LOAD_S16(p), which widen LANES integers, and
 * STORE_8(p, q) and STORE_16(p, q), which narrow those that fit. reach.h stands on the same names.
 *
 * Steps and roundings are those of docs/numerics.md 13 and of ref.c.
 */
#include <string.h>

#ifndef ROUND
#define ROUND(v) __builtin_convertvector(RINT(v), post_i)
#endif

#define INLINE static inline __attribute__((always_inline)) TARGET

typedef float post_f __attribute__((vector_size(LANES * 4)));
typedef int32_t post_i __attribute__((vector_size(LANES * 4)));
typedef int16_t post_h __attribute__((vector_size(LANES * 2)));
typedef int8_t post_b __attribute__((vector_size(LANES)));
typedef uint8_t post_u __attribute__((vector_size(LANES)));

/* The parameters of LANES channels. */
struct post_lanes {
	post_f lo, hi, scale, bias, shortcut_scale, slope, after, least, most, t_float;
	post_i zero, t_int;
};

INLINE post_f post_load(const float *p)
{
	post_f v;

	memcpy(&v, p, sizeof(v));
	return v;
}

INLINE post_i post_load_int(const int32_t *p)
{
	post_i v;

	memcpy(&v, p, sizeof(v));
	return v;
}

INLINE post_f post_all(float v)
{
	return v - (post_f) { 0 };
}

INLINE struct post_lanes post_parameters(const struct rvl_b_post *p, int64_t m)
{
	struct post_lanes l = {
		.lo = post_all(p->lo), .hi = post_all(p->hi), .zero = p->y_zero - (post_i) { 0 },
		.least = post_all((float)(p->q_lo - p->y_zero)),
		.most = post_all((float)(p->q_hi - p->y_zero)),
	};

	if (p->scale) {
		l.scale = post_load(p->scale + m);
		l.bias = post_load(p->bias + m);
	}
	if (p->shortcut_scale)
		l.shortcut_scale = post_load(p->shortcut_scale + m);
	if (p->slope) {
		l.slope = post_load(p->slope + m);
		l.after = post_load(p->after + m);
	}
	if (p->t_float)
		l.t_float = post_load(p->t_float + m);
	if (p->t_int)
		l.t_int = post_load_int(p->t_int + m);
	return l;
}

INLINE post_f post_sum(const struct rvl_b_tile *t, int row, int at)
{
	post_i pop = post_load_int(t->pop + row * t->n + at);

	return __builtin_convertvector(post_load_int(t->base[row] + t->m + at) - pop - pop, post_f);
}

/* LANES integers of @type. */
INLINE post_i post_integers(enum rvl_type type, const void *from)
{
#ifdef LOAD_S8
	if (type == RVL_TYPE_S8)
		return LOAD_S8(from);
	if (type == RVL_TYPE_U8)
		return LOAD_U8(from);
	if (type == RVL_TYPE_S16)
		return LOAD_S16(from);
#else
	post_b b;
	post_u u;
	post_h h;

	memcpy(&b, from, sizeof(b));
	if (type == RVL_TYPE_S8)
		return __builtin_convertvector(b, post_i);
	memcpy(&u, from, sizeof(u));
	if (type == RVL_TYPE_U8)
		return __builtin_convertvector(u, post_i);
	if (type == RVL_TYPE_S16) {
		memcpy(&h, from, sizeof(h));
		return __builtin_convertvector(h, post_i);
	}
#endif
	return post_load_int(from);
}

INLINE post_f post_shortcut(const struct rvl_b_post *p, const char *from, int at)
{
	post_i v;

	if (p->shortcut == RVL_TYPE_F32)
		return post_load((const float *)from + at);
	v = post_integers(p->shortcut, from + at * (p->shortcut == RVL_TYPE_S16 ? 2 : 1));
	return __builtin_convertvector(v - p->shortcut_zero, post_f);
}

#ifndef STORE_8
INLINE void post_store_8(char *y, post_i q)
{
	post_b b = __builtin_convertvector(q, post_b);

	memcpy(y, &b, sizeof(b));
}

INLINE void post_store_16(int16_t *y, post_i q)
{
	post_h h = __builtin_convertvector(q, post_h);

	memcpy(y, &h, sizeof(h));
}

#define STORE_8 post_store_8
#define STORE_16 post_store_16
#endif

INLINE post_i post_store(const struct rvl_b_post *p, const struct post_lanes *l, char *y, int at, post_f u)
{
	post_f v = MIN(MAX(u, l->least), l->most);
	post_i q = ROUND(v) + l->zero;

	if (p->y == RVL_TYPE_S16)
		STORE_16((int16_t *)y + at, q);
	else
		STORE_8(y + at, q);
	return q;
}

/* LANES channels of one pixel; returns their bits. */
INLINE uint32_t post_row(const struct rvl_b_post *p, const struct post_lanes *l,
			 const struct rvl_b_tile *t, int row, int at)
{
	post_f u = post_sum(t, row, at);
	post_i q;

	if (p->clamped)
		u = MIN(MAX(u, l->lo), l->hi);
	if (!p->scale)
		return REACH_I(__builtin_convertvector(u, post_i), l->t_int);
	u = FMA(u, l->scale, l->bias);
	if (p->shortcut_scale)
		u = FMA(post_shortcut(p, t->shortcut[row] + t->shortcut_at, at), l->shortcut_scale, u);
	if (p->slope)
		u = BELOW_0(u, u * l->slope) + l->after;
	if (p->y == RVL_TYPE_F32) {
		memcpy((float *)(t->y[row] + t->y_at) + at, &u, sizeof(u));
		return p->t_float ? REACH_F(u, l->t_float) : 0;
	}
	q = post_store(p, l, t->y[row] + t->y_at, at, u);
	return p->t_int ? REACH_I(q, l->t_int) : 0;
}

INLINE void post_two(const struct rvl_b_post *p, const struct rvl_b_tile *t, uint64_t *bits)
{
	const struct post_lanes a = post_parameters(p, t->m), b = post_parameters(p, t->m + LANES);

	for (int i = 0; i < t->rows; i++) {
		uint32_t low = post_row(p, &a, t, i, 0);

		bits[i] = low | (uint64_t)post_row(p, &b, t, i, LANES) << LANES;
	}
}

/* No result may be part of @own, so that its members stay in registers. */
INLINE void post_tile(const struct rvl_b_post *p, struct rvl_b_tile *t)
{
	const struct rvl_b_tile own = {
		.m = t->m, .n = t->n, .rows = t->rows, .pop = t->pop, .base = t->base, .y = t->y,
		.shortcut = t->shortcut, .shortcut_at = t->shortcut_at, .y_at = t->y_at,
	};

	if (LANES >= 16 && own.n == 2 * LANES) { /* parameters of two vectors fit AVX-512's registers */
		post_two(p, &own, t->bits);
		return;
	}
	for (int at = 0; at < own.n; at += LANES) {
		const struct post_lanes l = post_parameters(p, own.m + at);

		for (int i = 0; i < own.rows; i++)
			t->bits[i] = (at ? t->bits[i] : 0) | (uint64_t)post_row(p, &l, &own, i, at) << at;
	}
}

/*
 * The same where the compiler knows the type of the results, RVL_TYPE_U64 for none but bits, and that
 * neither clamp nor PRelu follow, so that the loop has no branches.
 */
INLINE void post_known(struct rvl_b_post p, struct rvl_b_tile *t, enum rvl_type y, bool shortcut)
{
	if ((y != RVL_TYPE_U64) != !!p.scale || shortcut != !!p.shortcut_scale)
		__builtin_unreachable();
	p.clamped = false;
	p.slope = NULL;
	p.shortcut = p.y = y;
	post_tile(&p, t);
}

INLINE void post_typed(const struct rvl_b_post *p, struct rvl_b_tile *t, enum rvl_type y)
{
	if (p->shortcut_scale)
		post_known(*p, t, y, true);
	else
		post_known(*p, t, y, false);
}

TARGET static void POST(const struct rvl_b_post *p, struct rvl_b_tile *t)
{
	if (p->clamped || p->slope || (p->shortcut_scale && p->shortcut != p->y))
		post_tile(p, t);
	else if (!p->scale)
		post_known(*p, t, RVL_TYPE_U64, false);
	else if (p->y == RVL_TYPE_F32)
		post_typed(p, t, RVL_TYPE_F32);
	else if (p->y == RVL_TYPE_S16)
		post_typed(p, t, RVL_TYPE_S16);
	else if (p->y == RVL_TYPE_S8)
		post_typed(p, t, RVL_TYPE_S8);
	else
		post_typed(p, t, RVL_TYPE_U8);
}
