/* SPDX-License-Identifier: MIT */
/*
 * What follows the sums of a tile, for the vectors of one instruction set. The file that includes it
 * defines POST, the name of the function; TARGET, an attribute; LANES, floats of a vector; FMA(a, b,
 * c); RINT(v); MAX(v, l) and MIN(v, h), which give the second operand for a NaN; BELOW_0(u, a), which
 * is a where u < 0 and u elsewhere; and REACH_F(u, t) and REACH_I(q, t), bit i of which says whether
 * lane i of the first operand is at least that of the second.
 *
 * Steps and roundings are those of docs/numerics.md 13 and of ref.c.
 */
#include <string.h>

#define INLINE static inline __attribute__((always_inline)) TARGET

typedef float post_f __attribute__((vector_size(LANES * 4)));
typedef int32_t post_i __attribute__((vector_size(LANES * 4)));
typedef int16_t post_h __attribute__((vector_size(LANES * 2)));
typedef int8_t post_b __attribute__((vector_size(LANES)));
typedef uint8_t post_u __attribute__((vector_size(LANES)));

INLINE post_f post_load(const float *p)
{
	post_f v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* min(max(v, lo), hi); a NaN becomes lo. */
INLINE post_f post_clamp(post_f v, float lo, float hi)
{
	post_f l = lo - (post_f) { 0 }, h = hi - (post_f) { 0 };

	v = MAX(v, l);
	return MIN(v, h);
}

INLINE post_f post_sum(const struct rvl_b_tile *t, int at)
{
	post_i pop, base;

	memcpy(&pop, t->pop + at, sizeof(pop));
	memcpy(&base, t->base + at, sizeof(base));
	return __builtin_convertvector(base - pop - pop, post_f);
}

INLINE post_f post_shortcut(const struct rvl_b_post *p, const void *from, int at)
{
	post_i v;

	if (p->shortcut == RVL_TYPE_F32)
		return post_load((const float *)from + at);
	if (p->shortcut == RVL_TYPE_S16) {
		post_h h;

		memcpy(&h, (const int16_t *)from + at, sizeof(h));
		v = __builtin_convertvector(h, post_i);
	} else if (p->shortcut == RVL_TYPE_S8) {
		post_b b;

		memcpy(&b, (const int8_t *)from + at, sizeof(b));
		v = __builtin_convertvector(b, post_i);
	} else {
		post_u u;

		memcpy(&u, (const uint8_t *)from + at, sizeof(u));
		v = __builtin_convertvector(u, post_i);
	}
	return __builtin_convertvector(v - p->shortcut_zero, post_f);
}

INLINE post_f post_value(const struct rvl_b_post *p, const struct rvl_b_tile *t, int at, post_f a)
{
	int64_t m = t->m + at;
	post_f u = FMA(a, post_load(p->scale + m), post_load(p->bias + m));

	if (p->shortcut_scale)
		u = FMA(post_shortcut(p, t->shortcut, at), post_load(p->shortcut_scale + m), u);
	if (p->slope)
		u = BELOW_0(u, u * post_load(p->slope + m)) + post_load(p->after + m);
	return u;
}

INLINE post_i post_store(const struct rvl_b_post *p, void *y, int at, post_f u)
{
	post_f v = post_clamp(u, (float)(p->q_lo - p->y_zero), (float)(p->q_hi - p->y_zero));
	post_i q = __builtin_convertvector(RINT(v), post_i) + p->y_zero;

	if (p->y == RVL_TYPE_S16) {
		post_h h = __builtin_convertvector(q, post_h);

		memcpy((int16_t *)y + at, &h, sizeof(h));
	} else {
		post_b b = __builtin_convertvector(q, post_b);

		memcpy((int8_t *)y + at, &b, sizeof(b));
	}
	return q;
}

INLINE uint32_t post_reaches(post_i q, const int32_t *threshold)
{
	post_i t;

	memcpy(&t, threshold, sizeof(t));
	return REACH_I(q, t);
}

/* LANES channels from @at on; returns their bits. */
INLINE uint32_t post_lanes(const struct rvl_b_post *p, const struct rvl_b_tile *t, int at)
{
	post_f a = post_sum(t, at), u;
	post_i q;

	if (p->clamped)
		a = post_clamp(a, p->lo, p->hi);
	if (!p->scale)
		return post_reaches(__builtin_convertvector(a, post_i), p->t_int + t->m + at);
	u = post_value(p, t, at, a);
	if (p->y == RVL_TYPE_F32) {
		memcpy((float *)t->y + at, &u, sizeof(u));
		return p->t_float ? REACH_F(u, post_load(p->t_float + t->m + at)) : 0;
	}
	q = post_store(p, t->y, at, u);
	return p->t_int ? post_reaches(q, p->t_int + t->m + at) : 0;
}

TARGET static void POST(const struct rvl_b_post *p, const struct rvl_b_tile *t)
{
	for (int at = 0; at < t->n; at += LANES)
		t->bits[0] = at ? t->bits[0] | (uint64_t)post_lanes(p, t, at) << at :
				  post_lanes(p, t, at);
}
