/* SPDX-License-Identifier: MIT */
/*
 * The random shapes of tests/int8, and the choice of the instruction set. RVL_INT8_SHAPES=N tries N
 * shapes instead of 2,000, RVL_INT8_SHAPES=FIRST:PAST a range of them.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "int8/product.h"
#include "int8/shapes.h"
#include "int8/sums.h"
#include "isa.h"
#include "kernels/guarded.h"
#include "rivulet_kernels.h"
#include "shapes_case.h"
#include "suite.h"

#define MODEL_SHAPES 1000

START_TEST(every_set_equals_the_reference)
{
	compare_shapes("RVL_INT8_SHAPES", _i, int8_compare);
}
END_TEST

/* The kernels of a set that the processor lacks, with a model of its instructions, or NULL. */
static const struct rvl_i8_kernels *modelled;

const struct rvl_i8_kernels *__real_rvl_i8_kernels(void);
const struct rvl_i8_kernels *__wrap_rvl_i8_kernels(void);

const struct rvl_i8_kernels *__wrap_rvl_i8_kernels(void)
{
	return modelled ? modelled : __real_rvl_i8_kernels();
}

/* Compares part @part of the shapes, of a model that the processor can run if it has the set @base. */
#ifdef __x86_64__
static void compare_model(const char *base, const struct rvl_i8_kernels *model, int part)
{
	if (rvl_cpu_force(base, NULL))
		return;
	modelled = model;
	for (long i = part; i < MODEL_SHAPES; i += SHAPE_PARTS)
		if (int8_compare_model(i))
			ck_abort_msg("shape %ld differs", i);
	modelled = NULL;
}
#endif

/* Proves that the kernels for AVX-VNNI give the same bits, on a processor that lacks it. */
START_TEST(avxvnni_model_equals_the_reference)
{
#ifdef __x86_64__
	compare_model("avx2", &int8_avxvnni_model, _i);
#endif
}
END_TEST

/* Proves the same for AMX. */
START_TEST(amx_model_equals_the_reference)
{
#ifdef __x86_64__
	compare_model("avx512vnni", &int8_amx_model, _i);
#endif
}
END_TEST

/* Proves the same for products by tables in registers of 512 bits. */
START_TEST(tables512_model_equals_the_reference)
{
#ifdef __x86_64__
	struct rvl_i8_kernels set = rvl_i8_avx2;

	set.tables = &int8_tables512_model;
	compare_model("avx2", &set, _i);
#endif
}
END_TEST

/* Proves for every set that a table gives each byte its entry, also in place, and touches nothing else. */
START_TEST(tables_give_each_byte_its_entry)
{
	struct rvl_cpu_set s;

	for (uint32_t set = 0; rvl_cpu_set(set, &s); set++) {
		if (rvl_cpu_force(s.name, NULL))
			continue;
		for (uint32_t i = 0; i < 300; i++) {
			struct test_guarded x, y;
			uint8_t table[256];
			size_t n = i;

			test_seed(i);
			x = test_guarded(n, 1);
			y = test_guarded(n, 1);
			for (int b = 0; b < 256; b++)
				table[b] = (uint8_t)test_rnd(256);
			for (size_t k = 0; k < n; k++)
				x.p[k] = (uint8_t)test_rnd(256);
			rvl_i8_kernels()->convert->look_up(table, x.p, (int64_t)n, y.p);
			for (size_t k = 0; k < n; k++)
				if (y.p[k] != table[x.p[k]])
					ck_abort_msg("%s: byte %zu of %zu differs", s.name, k, n);
			rvl_i8_kernels()->convert->look_up(table, x.p, (int64_t)n, x.p);
			ck_assert(!memcmp(x.p, y.p, n));
			test_drop(&x);
			test_drop(&y);
		}
	}
	rvl_cpu_force(NULL, NULL);
}
END_TEST

/* Transposes a random matrix with rows and columns between others, whose bytes stay as they are. */
static void transpose(const char *set)
{
	int64_t rows = test_rnd(test_rnd(4) ? 100 : 6), cols = test_rnd(70);
	int64_t from = cols + test_rnd(3), to = rows + test_rnd(3);
	struct test_guarded x = test_guarded((size_t)(rows ? (rows - 1) * from + cols : 0), 1);
	struct test_guarded y = test_guarded((size_t)(cols ? (cols - 1) * to + rows : 0), 1);

	for (size_t i = 0; i < x.size; i++)
		x.p[i] = (uint8_t)test_rnd(256);
	memset(y.p, 0x5a, y.size);
	rvl_i8_kernels()->convert->transpose(x.p, from, rows, cols, y.p, to);
	/* An assertion writes a message to a file even if it holds, and there are millions of bytes. */
	for (int64_t i = 0; i < (int64_t)y.size; i++) {
		int64_t r = i % to, c = i / to;
		uint8_t want = r < rows ? x.p[r * from + c] : 0x5a;

		if (y.p[i] != want)
			ck_abort_msg("%s: row %ld, column %ld of %ld x %ld differs", set, (long)r, (long)c,
				     (long)rows, (long)cols);
	}
	test_drop(&x);
	test_drop(&y);
}

START_TEST(every_set_transposes_bytes)
{
	struct rvl_cpu_set s;

	for (uint32_t set = 0; rvl_cpu_set(set, &s); set++) {
		if (rvl_cpu_force(s.name, NULL))
			continue;
		test_seed(set);
		for (int i = 0; i < 400; i++)
			transpose(s.name);
	}
	rvl_cpu_force(NULL, NULL);
}
END_TEST

static void count_parts(void *ctx, uint32_t lanes, uint32_t n, rvl_part_fn fn, void *arg)
{
	uint32_t *most = ctx;

	*most = n > *most ? n : *most;
	while (n-- > 0)
		fn(arg, n % lanes, n);
}

/* Pitches of a copy of up to four dimensions to another order, with gaps, repeated or reversed. Returns its elements. */
static int64_t random_copy(struct rvl_copy *b, int64_t *first, int64_t *from_size, int64_t *to_size)
{
	int64_t rank = 1 + test_rnd(4), n = 1, dim[4], from[4], to[4] = { 0 };

	*first = 0;
	*from_size = 1;
	for (int64_t d = rank - 1; d >= 0; d--) {
		dim[d] = 1 + test_rnd(test_rnd(2) ? 5 : 70 / (uint32_t)rank);
		from[d] = *from_size;
		*from_size *= dim[d];
		n *= dim[d];
		if (!test_rnd(8)) {
			*first += from[d] * (dim[d] - 1);
			from[d] = -from[d];
		} else if (!test_rnd(8)) {
			from[d] = 0;
		}
	}
	*to_size = 1 + !test_rnd(4);
	for (int64_t left = rank; left; left--) {
		int64_t d = test_rnd((uint32_t)rank);

		while (to[d])
			d = (d + 1) % rank;
		to[d] = *to_size;
		*to_size = *to_size * dim[d] + (test_rnd(4) ? 0 : test_rnd(3));
	}
	for (int64_t d = 0; d < rank; d++)
		rvl_copy_dim(b, dim[d], from[d], to[d]);
	return n;
}

static void copy_elements(bool shared)
{
	struct rvl_copy b = { .size = (size_t)1 << test_rnd(4) };
	int64_t first, from_size, to_size, n = random_copy(&b, &first, &from_size, &to_size);
	struct test_guarded x = test_guarded((size_t)from_size * b.size, b.size);
	struct test_guarded y = test_guarded((size_t)to_size * b.size, b.size);
	struct test_guarded want = test_guarded(y.size, b.size);
	uint32_t parts = 0;
	const struct rvl_pool pool = { .parallel = count_parts, .threads = 3, .ctx = &parts };

	memset(y.p, 0x5a, y.size);
	memset(want.p, 0x5a, want.size);
	for (int64_t i = 0; i < n; i++) {
		int64_t at = i, source = first, place = 0;

		for (int d = b.rank - 1; d >= 0; at /= b.dim[d--]) {
			source += at % b.dim[d] * b.from[d];
			place += at % b.dim[d] * b.to[d];
		}
		memcpy(want.p + (size_t)place * b.size, x.p + (size_t)source * b.size, b.size);
	}
	b.x = x.p + (size_t)first * b.size;
	b.y = y.p;
	rvl_copy_run(&b, shared ? &pool : NULL);
	ck_assert(!memcmp(y.p, want.p, y.size));
	test_drop(&x);
	test_drop(&y);
	test_drop(&want);
}

/* Proves that a copy gives each element its place, and writes no other. */
START_TEST(copies_give_each_element_its_place)
{
	for (int i = 0; i < 200; i++) {
		test_seed(200 * _i + i);
		copy_elements(i % 2);
	}
}
END_TEST

START_TEST(only_known_sets_can_be_forced)
{
	char why[RVL_WHY_MAX];

	ck_assert_int_eq(rvl_cpu_force("z80", why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "z80 is no instruction set of this build; this processor has: scalar"));
	ck_assert_int_eq(rvl_cpu_force("scalar", why), 0);
	ck_assert_int_eq(rvl_cpu_force(NULL, why), 0);
}
END_TEST

/* A convolution with padding of one on each side. */
struct conv {
	struct rvl_kernel_desc d;
	struct test_guarded x, w, y, ref;
};

static struct conv new_conv(int64_t c, int64_t m, int64_t group, int64_t h, int64_t w, enum rvl_type type)
{
	static const float scales[3] = { 0.001f, 0.001f, 4 };
	static const int32_t zeros[3] = { -128, 0, 255 };	/* of int8, of weights, and of uint8 */
	struct conv v = { .d = { .op = RVL_OP_Q_CONV, .n_in = 2, .n_out = 1 } };
	struct rvl_kernel_arg *args[] = { &v.d.in[0], &v.d.in[1], &v.d.out[0] };

	rvl_attr_init(&v.d.attr);
	v.d.attr.group = (int32_t)group;
	for (int i = 0; i < 2; i++) {
		v.d.attr.kernel[i] = 3;
		v.d.attr.pad[i] = v.d.attr.pad[i + 2] = 1;
	}
	if (!w)
		v.d.attr.kernel[1] = 1;
	test_image(&v.d.in[0], type, 1, c, h, w);
	test_image(&v.d.in[1], RVL_TYPE_S8, m, c / group, 3, v.d.attr.kernel[1]);
	test_image(&v.d.out[0], RVL_TYPE_S8, 1, m, h, w ? w : 2);
	for (int i = 0; i < 3; i++)
		args[i]->quant = (struct rvl_kernel_quant) {
			.n = 1, .scale = &scales[i], .zp = &zeros[i == 1 ? 1 : type == RVL_TYPE_U8 && !i ? 2 : 0],
		};
	args[2]->quant.zp = &zeros[1];
	v.x = test_guarded(test_bytes(&v.d.in[0]), 1);
	v.w = test_guarded(test_bytes(&v.d.in[1]), 1);
	v.y = test_guarded(test_bytes(&v.d.out[0]), 1);
	v.ref = test_guarded(test_bytes(&v.d.out[0]), 1);
	v.d.in[1].data = v.w.p;
	return v;
}

static void drop_conv(struct conv *v)
{
	test_drop(&v->x);
	test_drop(&v->w);
	test_drop(&v->y);
	test_drop(&v->ref);
}

static bool conv_differs(void *arg)
{
	const struct conv *v = arg;

	memset(v->y.p, 0x5a, v->y.size);
	test_run(&v->d, false, (const void *[]) { v->x.p, v->w.p }, &v->y, 2);
	return memcmp(v->y.p, v->ref.p, v->y.size);
}

static void compare_conv(struct conv *v)
{
	const char *set;

	test_run(&v->d, true, (const void *[]) { v->x.p, v->w.p }, &v->ref, 0);
	set = test_each_set(conv_differs, v);
	ck_assert_msg(!set, "%s differs", set);
}

/*
 * The most channels, in pairs, whose results are computed in tiles of 2 x 2 and of 4 x 4 if all weights are
 * -128: of int8 and of uint8. Of int8 and tiles of 2 x 2, more would have exact sums.
 */
static const int64_t most_channels[2][2] = { { 2048, 226 }, { 1826, 114 } };

/* Columns for which two transformed tiles are little beside the weights. */
static int64_t columns_for(int64_t channels)
{
	return channels > 1000 ? 64 : 3;
}

/* Weights whose signs alternate from channel to channel. */
static struct conv new_mixed_conv(int64_t channels, enum rvl_type type)
{
	struct conv v = new_conv(channels, 32, 1, 8, 7, type);

	for (size_t i = 0; i < v.w.size; i++)
		v.w.p[i] = (uint8_t)((int64_t)i / 9 % channels % 2 ? 127 : -128);
	return v;
}

/* Nothing but the ends of the ranges. Where not all cases are tried, those of mixed values are. */
START_TEST(sums_of_tiles_do_not_overflow)
{
	enum rvl_type type = _i & 1 ? RVL_TYPE_U8 : RVL_TYPE_S8;
	int64_t channels = most_channels[_i & 1][_i >> 5];
	struct conv v = new_conv(channels, columns_for(channels), 1, 8, 7, type);
	uint8_t high = type == RVL_TYPE_U8 ? 255 : 127, low = (uint8_t)(high + 1);

	if (!all_cases() && (_i & 30) != 30) {
		drop_conv(&v);
		return;
	}
	test_seed(_i);
	memset(v.x.p, _i & 2 ? low : high, v.x.size);
	memset(v.w.p, _i & 4 ? 127 : -128, v.w.size);
	for (size_t i = 0; i < v.x.size && _i & 8; i++)
		v.x.p[i] = test_rnd(2) ? low : high;
	for (size_t i = 0; i < v.w.size && _i & 16; i++)
		v.w.p[i] = test_rnd(2) ? 127 : 128;
	compare_conv(&v);
	drop_conv(&v);
}
END_TEST

/* Weights and pixels of the same sign, channel by channel: int8 has sums of both. */
START_TEST(sums_of_mixed_signs_do_not_overflow)
{
	struct conv v = new_mixed_conv(300, _i & 1 ? RVL_TYPE_U8 : RVL_TYPE_S8);
	int64_t pixels = 8 * 7;

	for (size_t i = 0; i < v.x.size; i++) {
		bool high = (int64_t)i / pixels % 2 != _i >> 1;

		v.x.p[i] = _i & 1 ? (high ? 255 : 0) : (uint8_t)(high ? 127 : -128);
	}
	compare_conv(&v);
	drop_conv(&v);
}
END_TEST

/* Results along an axis of a tile; 0: the results are computed directly. */
static int filter_of(struct conv *v)
{
	struct rvl_kernel *k;
	int results;

	ck_assert_int_eq(rvl_kernel_new(&v->d, false, &k, NULL), 0);
	results = k->i8->filter ? k->i8->filter->results : 0;
	rvl_kernel_free(k);
	drop_conv(v);
	return results;
}

static int filter_of_equal(int64_t channels, enum rvl_type type, int8_t weight)
{
	struct conv v = new_conv(channels, columns_for(channels), 1, 8, 7, type);

	memset(v.w.p, weight, v.w.size);
	return filter_of(&v);
}

/* All weights are zero but those of column @column over all groups. */
static int filter_of_column(int64_t channels, int64_t columns, int64_t groups, int64_t column)
{
	struct conv v = new_conv(channels * groups, columns * groups, groups, 8, 7, RVL_TYPE_U8);

	memset(v.w.p, 0, v.w.size);
	memset(v.w.p + column * channels * 9, -128, (size_t)channels * 9);
	return filter_of(&v);
}

static int filter_of_mixed(int64_t channels, enum rvl_type type)
{
	struct conv v = new_mixed_conv(channels, type);

	return filter_of(&v);
}

static int filter_of_image(int64_t channels, int64_t groups, int64_t h, int64_t w)
{
	struct conv v = new_conv(channels * groups, channels * groups, groups, h, w, RVL_TYPE_U8);

	memset(v.w.p, -100, v.w.size);
	return filter_of(&v);
}

/* Calls @check with each set that has filters. */
static void each_filtering_set(void (*check)(void))
{
	struct rvl_cpu_set set;

	for (uint32_t i = 0; rvl_cpu_set(i, &set); i++) {
		if (!set.available)
			continue;
		ck_assert_int_eq(rvl_cpu_force(set.name, NULL), 0);
		if (rvl_i8_kernels()->winograd)
			check();
	}
	rvl_cpu_force(NULL, NULL);
}

static void check_exact(void)
{
	for (int u8 = 0; u8 < 2; u8++) {
		enum rvl_type type = u8 ? RVL_TYPE_U8 : RVL_TYPE_S8;
		const int64_t *most = most_channels[u8];

		ck_assert_int_eq(filter_of_equal(most[1], type, -128), 4);
		ck_assert_int_eq(filter_of_equal(most[1] + 2, type, -128), 2);
		ck_assert_int_eq(filter_of_equal(most[1] + 2, type, -100), 4);
		ck_assert_int_eq(filter_of_equal(most[0], type, -128), 2);
		ck_assert_int_eq(filter_of_equal(most[0] + 2, type, -128), 0);
		ck_assert_int_eq(filter_of_mixed(300, type), 2);
	}
	ck_assert_int_eq(filter_of_column(116, 18, 1, 17), 2);
	ck_assert_int_eq(filter_of_column(116, 18, 1, 1), 2);
	ck_assert_int_eq(filter_of_column(114, 18, 1, 17), 4);
	ck_assert_int_eq(filter_of_column(116, 18, 2, 35), 2);
	ck_assert_int_eq(filter_of_column(114, 18, 2, 35), 4);
}

/* A filter is chosen if its sums cannot overflow, whatever the pixels are. */
START_TEST(filters_are_exact)
{
	each_filtering_set(check_exact);
}
END_TEST

static void check_fast(void)
{
	static const struct {
		int64_t channels, groups, h, w;
		int results;
	} want[] = {
		{ 128, 1, 56, 56, 4 }, { 128, 1, 7, 7, 4 }, { 128, 1, 10, 10, 2 }, { 128, 1, 6, 7, 2 },
		{ 64, 1, 5, 10, 2 }, { 64, 1, 3, 3, 0 }, { 64, 1, 1, 64, 0 }, { 64, 1, 64, 1, 0 },
		{ 14, 1, 20, 20, 0 }, { 16, 1, 20, 20, 4 }, { 32, 4, 56, 56, 4 }, { 64, 1, 0, 8, 0 }, { 64, 2, 0, 8, 0 },
	};

	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
		ck_assert_msg(filter_of_image(want[i].channels, want[i].groups, want[i].h, want[i].w) == want[i].results,
			      "%lld x %lld channels of %lld x %lld", (long long)want[i].groups,
			      (long long)want[i].channels, (long long)want[i].h, (long long)want[i].w);
}

/* And if it takes less time than direct products, as measured. */
START_TEST(filters_are_fast)
{
	each_filtering_set(check_fast);
}
END_TEST

/*
 * Many channels and few columns: the tiles of two calls of the kernel would be larger than the operands. One
 * pixel with much padding: so would be all tiles.
 */
static void check_small(void)
{
	struct conv v = new_conv(2048, 16, 1, 14, 14, RVL_TYPE_U8);
	struct rvl_kernel *k;

	memset(v.w.p, -7, v.w.size);
	ck_assert_int_ne(filter_of(&v), 4);
	v = new_conv(1024, 1, 1, 1, 1, RVL_TYPE_U8);
	for (int i = 0; i < 4; i++)
		v.d.attr.pad[i] = 250;
	v.d.out[0].shape.dim[2] = v.d.out[0].shape.dim[3] = 499;
	memset(v.w.p, 20, v.w.size);
	ck_assert_int_eq(rvl_kernel_new(&v.d, false, &k, NULL), 0);
	ck_assert_uint_le(rvl_kernel_scratch(k), 4 << 20);
	rvl_kernel_free(k);
	drop_conv(&v);
}

START_TEST(filters_take_little_memory)
{
	each_filtering_set(check_small);
}
END_TEST

struct product {
	struct rvl_kernel_desc d;
	struct test_guarded x, w, b, y, ref;
};

static bool product_differs(void *arg)
{
	const struct product *p = arg;

	memset(p->y.p, 0x5a, p->y.size);
	test_run(&p->d, false, (const void *[]) { p->x.p, p->w.p, p->b.p }, &p->y, 2);
	return memcmp(p->y.p, p->ref.p, p->y.size);
}

/* Most weights of a column are the least or the largest byte. */
static void write_extreme(int8_t *w, int64_t inputs, int64_t columns)
{
	for (int64_t n = 0; n < columns; n++) {
		int8_t extreme = test_rnd(2) ? 127 : -128;

		for (int64_t k = 0; k < inputs; k++)
			w[k * columns + n] = test_rnd(16) ? extreme : (int8_t)test_rnd(256);
	}
}

/*
 * Inputs of which four adjacent ones of all rows are @base and more, up to a value at which kernels of bytes
 * change their method, or the next one. Some are less than @base. All are bytes with 128 added to int8.
 */
static void write_quads(struct test_guarded *x, int64_t inputs, int32_t base, bool u8)
{
	static const int32_t limits[] = { 0, 1, 62, 63, 64, 65, 126, 127, 128, 129, 255 };
	int32_t most = 0, least = 0;

	for (int64_t k = 0; k < inputs; k++) {
		if (k % 4 == 0) {
			most = limits[test_rnd(sizeof(limits) / sizeof(limits[0]))];
			least = test_rnd(6) ? 0 : -255;
		}
		for (size_t at = (size_t)k; at < x->size; at += (size_t)inputs) {
			int32_t v = base + (test_rnd(4) ? most : least + (int32_t)test_rnd(1 + (uint32_t)(most - least)));

			v = v < 0 ? 0 : v > 255 ? 255 : v;
			x->p[at] = (uint8_t)(v ^ (u8 ? 0 : 0x80));
		}
	}
}

/* Biases that bring the results of row 0 to [-60, 60), because saturation changes a sum by as little as 128. */
static void write_biases(const struct product *p, bool u8, int32_t zero, int64_t inputs, int64_t columns)
{
	for (int64_t n = 0; n < columns; n++) {
		int32_t sum = 0;

		for (int64_t k = 0; k < inputs; k++)
			sum += ((u8 ? p->x.p[k] : (int8_t)p->x.p[k]) - zero) * (int8_t)p->w.p[k * columns + n];
		((int32_t *)(void *)p->b.p)[n] = ((int32_t)test_rnd(120) - 60) * 64 - sum;
	}
}

/* Weights of which few pairs of adjacent inputs are, together, at a limit of kernels of bytes or beyond it. */
static void write_peaks(int8_t *w, int64_t inputs, int64_t columns)
{
	static const int8_t peaks[][2] = {
		{ 127, 127 }, { -128, -128 }, { 127, 2 }, { 127, 1 }, { -128, -1 }, { -128, 0 }, { 64, 65 },
		{ -65, -64 }, { 2, 127 }, { -1, -128 }, { 127, -128 },
	};

	for (int64_t k = 0; k < inputs; k += 2) {
		for (int64_t n = 0; n < columns; n++) {
			const int8_t *peak = peaks[test_rnd(sizeof(peaks) / sizeof(peaks[0]))];
			int8_t side = test_rnd(2) ? 64 : -64;

			for (int i = 0; i < 2; i++)
				w[(k + i) * columns + n] = (int8_t)(side < 0 ? -(int)test_rnd(65) : (int)test_rnd(65));
			if (test_rnd(2))
				w[k * columns + n] = w[(k + 1) * columns + n] = side;
			if (!test_rnd(120))
				for (int i = 0; i < 2; i++)
					w[(k + i) * columns + n] = peak[i];
		}
	}
}

/* Whether AVX2 splits the weights; true as well without AVX2. */
static bool is_split(const struct rvl_kernel_desc *d)
{
	struct rvl_kernel *k;
	bool is;

	if (rvl_cpu_force("avx2", NULL))
		return true;
	ck_assert_int_eq(rvl_kernel_new(d, false, &k, NULL), 0);
	is = k->i8->rest;
	if (is)	/* only int8 is copied */
		ck_assert(k->i8->widens == (d->in[0].type == RVL_TYPE_S8));
	rvl_kernel_free(k);
	rvl_cpu_force(NULL, NULL);
	return is;
}

/* Products of @columns columns that @write_weights makes, as case @number. */
static void compare_products(int number, int64_t columns, bool split,
			     void (*write_weights)(int8_t *w, int64_t inputs, int64_t columns))
{
	static const int32_t zeros[] = { 0, 10, 64, 70, 128, 191, 193, 255 };
	static const float scale = 1, y_scale = 64;
	static const int32_t zero;
	static const struct rvl_kernel_quant q = { .n = 1, .scale = &scale, .zp = &zero };
	int64_t inputs, rows = split ? 1 + number / 4 * 3 : 24 + number;
	enum rvl_type type = number & 1 ? RVL_TYPE_U8 : RVL_TYPE_S8;
	int32_t x_byte = zeros[number / 2 % 8], x_zero = x_byte - (number & 1 ? 0 : 128);
	int32_t base = x_byte < 64 ? 0 : x_byte > 192 ? 128 : x_byte - 64;
	struct product p = { .d = { .op = RVL_OP_Q_MATMUL, .n_in = 3, .n_out = 1 } };
	const char *set;

	if (split)	/* the only row of the first cases ends with most of a register */
		inputs = number < 4 ? 60 : 32 + 4 * (int64_t)test_rnd(number % 4 ? 80 : 400);
	else
		inputs = 16 + 16 * (int64_t)test_rnd(number % 4 ? 20 : 58);
	rvl_attr_init(&p.d.attr);
	test_matrix(&p.d.in[0], type, rows, inputs, false);
	test_matrix(&p.d.in[1], RVL_TYPE_S8, inputs, columns, false);
	test_matrix(&p.d.out[0], RVL_TYPE_S8, rows, columns, false);
	p.d.in[0].quant = p.d.in[1].quant = p.d.out[0].quant = q;
	p.d.in[0].quant.zp = &x_zero;
	p.d.out[0].quant.scale = &y_scale;
	p.x = test_guarded(test_bytes(&p.d.in[0]), 1);
	p.w = test_guarded(test_bytes(&p.d.in[1]), 1);
	p.b = test_guarded((size_t)columns * 4, 4);
	p.y = test_guarded(test_bytes(&p.d.out[0]), 1);
	p.ref = test_guarded(test_bytes(&p.d.out[0]), 1);
	write_quads(&p.x, inputs, base, type == RVL_TYPE_U8);
	write_weights((int8_t *)p.w.p, inputs, columns);
	write_biases(&p, type == RVL_TYPE_U8, x_zero, inputs, columns);
	p.d.in[1].data = p.w.p;
	p.d.in[2] = (struct rvl_kernel_arg) { .type = RVL_TYPE_S32, .data = p.b.p,
					      .shape = { .rank = 1, .dim = { columns } } };
	ck_assert(!split || is_split(&p.d));
	test_run(&p.d, true, (const void *[]) { p.x.p, p.w.p, p.b.p }, &p.ref, 0);
	set = test_each_set(product_differs, &p);
	ck_assert_msg(!set, "%s differs", set);
	for (struct test_guarded *g = &p.x; g <= &p.ref; g++)
		test_drop(g);
}

/* Proves that products of bytes do not saturate, and that those of int16 are used where they would. */
START_TEST(sums_of_products_of_bytes_do_not_saturate)
{
	test_seed(_i);
	compare_products(_i, 120 + test_rnd(40), false, write_extreme);
}
END_TEST

/* Nor do those of weights that are split. */
START_TEST(sums_of_split_weights_do_not_saturate)
{
	test_seed(_i);
	compare_products(_i, 1 + test_rnd(100), true, write_peaks);
}
END_TEST

/* Windows of 3 x 3 in two groups: each output has one pair beyond, under some tap and channels. */
START_TEST(sums_of_split_windows_do_not_saturate)
{
	static const float scale = 0.001f * 0.001f * 512;
	enum rvl_type type = _i ? RVL_TYPE_U8 : RVL_TYPE_S8;
	const int64_t channels = 48, columns = 80;
	struct conv v = new_conv(2 * channels, columns, 2, 8, 7, type);

	test_seed(_i);
	test_drop(&v.y);
	test_drop(&v.ref);
	v.d.attr.stride[0] = v.d.attr.stride[1] = 2;
	v.d.out[0].shape.dim[2] = v.d.out[0].shape.dim[3] = 4;
	v.d.out[0].quant.scale = &scale;
	v.y = test_guarded(test_bytes(&v.d.out[0]), 1);
	v.ref = test_guarded(test_bytes(&v.d.out[0]), 1);
	memset(v.w.p, 0, v.w.size);
	for (int64_t n = 0; n < columns; n++) {
		uint8_t *w = v.w.p + (n * channels + 2 * test_rnd(channels / 2)) * 9 + test_rnd(9);

		w[0] = w[9] = test_rnd(2) ? 127 : 128;
	}
	for (size_t i = 0; i < v.x.size; i++)
		v.x.p[i] = (uint8_t)test_rnd(256);
	ck_assert(is_split(&v.d));
	compare_conv(&v);
	drop_conv(&v);
}
END_TEST

/* A product whose scales are one and whose zero points are zero, without its weights. */
static struct rvl_kernel_desc describe_product(int64_t rows, int64_t inputs, int64_t columns)
{
	static const float scale = 1;
	static const int32_t zero;
	static const struct rvl_kernel_quant q = { .n = 1, .scale = &scale, .zp = &zero };
	struct rvl_kernel_desc d = { .op = RVL_OP_Q_MATMUL, .n_in = 2, .n_out = 1 };

	rvl_attr_init(&d.attr);
	test_matrix(&d.in[0], RVL_TYPE_U8, rows, inputs, false);
	test_matrix(&d.in[1], RVL_TYPE_S8, inputs, columns, false);
	test_matrix(&d.out[0], RVL_TYPE_U8, rows, columns, false);
	d.in[0].quant = d.in[1].quant = d.out[0].quant = q;
	return d;
}

/* Gives a pair of adjacent inputs a rest under a column. */
static void set_rest(int8_t *w, int64_t columns, int64_t pair, int64_t column)
{
	w[2 * pair * columns + column] = w[(2 * pair + 1) * columns + column] = 127;
}

/*
 * Whether a product is split of which @rests pairs have a rest, one in each quad, under the last eight columns, then
 * under the eight before. Adjacent quads have it under one of @period columns in turn.
 */
static bool is_split_with(int64_t rows, int64_t inputs, int64_t columns, int64_t rests, int64_t period)
{
	int8_t *w = calloc((size_t)inputs, (size_t)columns);
	struct rvl_kernel_desc d = describe_product(rows, inputs, columns);
	int64_t quads = inputs / 4;
	bool is;

	ck_assert_ptr_nonnull(w);
	d.in[1].data = w;
	for (int64_t i = 0; i < rests; i++)
		set_rest(w, columns, 2 * (i % quads), columns - 1 - i / quads * 8 - i % period);
	is = is_split(&d);
	free(w);
	return is;
}

/*
 * Whether a convolution of 3 x 3 at distance 2 is split: @groups groups of @channels channels and @columns columns,
 * with rests under the first column, in the first @rests pairs of channels, tap by tap.
 */
static bool is_conv_split(int64_t channels, int64_t columns, int64_t groups, int64_t rests)
{
	struct conv v = new_conv(channels * groups, columns * groups, groups, 3, 1, RVL_TYPE_U8);
	int64_t pairs = channels / 2;
	bool is;

	v.d.attr.stride[0] = v.d.attr.stride[1] = 2;
	v.d.out[0].shape.dim[2] = 2;
	memset(v.w.p, 0, v.w.size);
	for (int64_t i = 0; i < rests; i++) {
		uint8_t *w = v.w.p + i % pairs * 2 * 9 + i / pairs;

		w[0] = w[9] = 127;
	}
	is = is_split(&v.d);
	drop_conv(&v);
	return is;
}

/* Proves that weights are split up to a number of steps, and not if a step cannot say where a window begins. */
START_TEST(weights_are_split_where_it_is_faster)
{
	if (rvl_cpu_force("avx2", NULL))
		return;
	ck_assert(is_split_with(1, 400, 8, 16, 1));
	ck_assert(!is_split_with(1, 400, 8, 17, 1));
	ck_assert(is_split_with(1, 400, 20, 50, 1));
	ck_assert(!is_split_with(1, 400, 20, 51, 1));
	ck_assert(is_split_with(24, 400, 128, 80, 1));
	ck_assert(!is_split_with(24, 400, 128, 81, 1));
	ck_assert(is_split_with(24, 400, 120, 250, 1));
	ck_assert(is_split_with(1, 4 * (UINT16_MAX + 1), 1, 100, 1));
	ck_assert(!is_split_with(1, 4 * (UINT16_MAX + 2), 1, 100, 1));
	ck_assert(is_conv_split(4 * (UINT16_MAX / 9), 1, 1, 1));
	ck_assert(!is_conv_split(4 * (UINT16_MAX / 9 + 1), 1, 1, 1));
	ck_assert(is_conv_split(32, 16, 2, 40));	/* of 2 * 2 * 9 * 8 / 6 steps that are allowed */
	ck_assert(!is_conv_split(32, 16, 1, 40));
	ck_assert(!is_split_with(1, 402, 8, 0, 1));
	ck_assert(is_split_with(1, 32, 8, 1, 1));
	ck_assert(!is_split_with(1, 28, 8, 0, 1));
}
END_TEST

/* Proves that a step adds the rests of adjacent quads, one of each column. */
START_TEST(a_step_serves_a_window)
{
	struct rvl_kernel_desc d = describe_product(1, 400, 8);
	int8_t w[400 * 8] = { 0 };

	if (rvl_cpu_force("avx2", NULL))
		return;
	ck_assert(is_split_with(1, 400, 8, 100, 7));
	ck_assert(!is_split_with(1, 400, 8, 100, 6));
	/* Those of column 1 are the second rests of 16 steps, of which each began with another pair. */
	for (int64_t i = 0; i < 16; i++) {
		set_rest(w, 8, i, 0);
		set_rest(w, 8, 14 + i, 1);
	}
	d.in[1].data = w;
	ck_assert(is_split(&d));
}
END_TEST

static const char *const copying[] = { "avx2", "avx512vnni" };

/* Proves that copies of bytes do not keep threads from work: one row is divided by its blocks of columns. */
START_TEST(rows_of_int8_are_divided_like_those_of_uint8)
{
	const int64_t columns = 256;
	struct rvl_kernel_desc d = describe_product(1, 64, columns);
	uint8_t x[64] = { 0 }, y[256];
	int8_t w[64 * 256];
	uint32_t parts = 0;
	const struct rvl_pool pool = { .parallel = count_parts, .threads = 16, .ctx = &parts };
	struct test_guarded scratch;
	struct rvl_kernel *k;

	memset(w, 60, sizeof(w));
	d.in[0].type = RVL_TYPE_S8;
	d.in[1].data = w;
	ck_assert(is_split(&d));
	if (rvl_cpu_force(copying[_i], NULL))
		return;
	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, NULL), 0);
	ck_assert(k->i8->widens);
	scratch = test_guarded(rvl_kernel_scratch(k), 64);
	ck_assert_int_eq(rvl_kernel_run(k, (const void *[]) { x, w }, (void *[]) { y }, scratch.p, &pool), 0);
	ck_assert_int_eq(parts, columns / k->i8->f->nr);
	test_drop(&scratch);
	rvl_kernel_free(k);
	rvl_cpu_force(NULL, NULL);
}
END_TEST

/* All pixels under the windows of an image without columns lie in the padding. */
START_TEST(a_depthwise_image_may_have_no_columns)
{
	struct conv v = new_conv(40, 40, 40, 3, 0, RVL_TYPE_U8);

	compare_conv(&v);
	drop_conv(&v);
}
END_TEST

/* The set that the processor does not have, while a test pretends so. */
static int absent = -1;

bool __real_rvl_isa_available(enum rvl_isa isa);
bool __wrap_rvl_isa_available(enum rvl_isa isa);

bool __wrap_rvl_isa_available(enum rvl_isa isa)
{
	return (int)isa != absent && __real_rvl_isa_available(isa);
}

/* Proves that a set that the processor lacks is refused, and that nothing uses it after that. */
START_TEST(an_absent_set_is_not_used)
{
	struct rvl_cpu_set last;
	char why[RVL_WHY_MAX];

	ck_assert(rvl_cpu_set(RVL_ISA_COUNT - 1, &last));
	ck_assert_int_eq(rvl_cpu_force("scalar", why), 0);
	absent = RVL_ISA_COUNT - 1;
	ck_assert_int_eq(rvl_cpu_force(last.name, why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "does not have the instruction set"));
	ck_assert_int_eq(rvl_isa(), RVL_ISA_SCALAR);
}
END_TEST

/* Proves that a forced set holds for the kernels of stochastic products, too. */
START_TEST(stochastic_products_obey_the_set)
{
	ck_assert_int_eq(rvl_cpu_force("scalar", NULL), 0);
	ck_assert(!rvl_have_vbmi());
#ifdef __x86_64__
	if (__real_rvl_isa_available(RVL_ISA_AVX2)) {
		ck_assert_int_eq(rvl_cpu_force("avx2", NULL), 0);
		ck_assert(!rvl_have_vbmi());
	}
#endif
}
END_TEST

START_TEST(one_set_is_used)
{
	struct rvl_cpu_set set;
	uint32_t i, used = 0;

	for (i = 0; rvl_cpu_set(i, &set); i++) {
		used += set.used;
		ck_assert(set.available || !set.used);
	}
	ck_assert_uint_eq(used, 1);
	ck_assert_uint_ge(i, 1);
}
END_TEST

/* Proves that sets whose products are of bytes multiply those of zero points that only a run knows by them, too. */
START_TEST(sums_of_bytes_are_used_where_a_set_has_them)
{
	static const char *const dots[] = { "avxvnni", "avx512vnni", "amx", "dotprod", "i8mm" };
	struct rvl_cpu_set set;

	for (uint32_t i = 0; rvl_cpu_set(i, &set); i++) {
		bool has = false;

		if (!set.available)
			continue;
		for (size_t k = 0; k < sizeof(dots) / sizeof(dots[0]); k++)
			has |= !strcmp(set.name, dots[k]);
		ck_assert_int_eq(rvl_cpu_force(set.name, NULL), 0);
		ck_assert_msg(rvl_i8_has_sums() == has, "%s", set.name);
	}
	rvl_cpu_force(NULL, NULL);
}
END_TEST

static size_t scratch_of_conv3x3(int64_t channels, int64_t side)
{
	static const float scale = 0.01f;
	static const int32_t zero;
	struct rvl_kernel_desc d = { .op = RVL_OP_Q_CONV, .n_in = 2, .n_out = 1 };
	struct rvl_kernel_arg *args[] = { &d.in[0], &d.in[1], &d.out[0] };
	uint8_t *weights = calloc((size_t)(channels * channels), 9);
	char why[RVL_WHY_MAX];
	struct rvl_kernel *k;
	size_t bytes;

	ck_assert_ptr_nonnull(weights);
	rvl_attr_init(&d.attr);
	for (int i = 0; i < 2; i++) {
		d.attr.kernel[i] = 3;
		d.attr.stride[i] = d.attr.pad[i] = d.attr.pad[i + 2] = 1;
	}
	test_image(&d.in[0], RVL_TYPE_U8, 1, channels, side, side);
	test_image(&d.in[1], RVL_TYPE_S8, channels, channels, 3, 3);
	test_image(&d.out[0], RVL_TYPE_U8, 1, channels, side, side);
	for (int i = 0; i < 3; i++)
		args[i]->quant = (struct rvl_kernel_quant) { .n = 1, .scale = &scale, .zp = &zero };
	d.in[1].data = weights;
	ck_assert_msg(!rvl_kernel_new(&d, false, &k, why), "%s", why);
	bytes = rvl_kernel_scratch(k);
	rvl_kernel_free(k);
	free(weights);
	return bytes;
}

/* Proves that copies of rows as int16 do not multiply the memory of a layer with many weights. */
START_TEST(scratch_is_limited)
{
	struct rvl_cpu_set set;

	for (uint32_t i = 0; rvl_cpu_set(i, &set); i++) {
		if (!set.available)
			continue;
		ck_assert_int_eq(rvl_cpu_force(set.name, NULL), 0);
		ck_assert_uint_le(scratch_of_conv3x3(256, 14), 768 << 10);
		ck_assert_uint_le(scratch_of_conv3x3(512, 7), 768 << 10);
	}
}
END_TEST

/* Memory of a product by @least alone: packed weights of few bits take less. *@scratch: while it runs, in all threads. */
static size_t product_bytes(int64_t rows, int64_t inputs, int64_t columns, int8_t least, size_t *scratch)
{
	int8_t *weights = malloc((size_t)(inputs * columns));
	struct rvl_kernel_desc d = describe_product(rows, inputs, columns);
	char why[RVL_WHY_MAX];
	struct rvl_kernel *k;
	size_t bytes;

	ck_assert_ptr_nonnull(weights);
	memset(weights, least, (size_t)(inputs * columns));
	d.in[1].data = weights;
	ck_assert_msg(!rvl_kernel_new(&d, false, &k, why), "%s", why);
	bytes = rvl_kernel_bytes(k);
	*scratch = rvl_kernel_scratch(k);
	rvl_kernel_free(k);
	free(weights);
	return bytes;
}

static size_t packed_bytes(int64_t rows, int64_t inputs, int64_t columns, int8_t least)
{
	size_t scratch;

	return product_bytes(rows, inputs, columns, least, &scratch);
}

/* Proves that the choice of tables obeys bits, rows and columns, and that it can be switched off. */
START_TEST(tables_are_used_where_they_are_faster)
{
#ifdef __x86_64__
	const size_t weights = (size_t)1024 * 1024;

	if (rvl_cpu_force("avx2", NULL))
		return;
	ck_assert_uint_lt(packed_bytes(64, 1024, 1024, -1), weights / 6);
	ck_assert_uint_ge(packed_bytes(64, 1024, 1024, -2), weights);
	ck_assert_uint_lt(packed_bytes(1, 1024, 1024, -8), weights * 5 / 8);
	ck_assert_uint_ge(packed_bytes(1, 1024, 1024, -9), weights);
	ck_assert_uint_ge(packed_bytes(1, 512, 512, -8), weights / 4);
	ck_assert_uint_ge(packed_bytes(64, 1024, 16, -1), 1024 * 16);
	rvl_tables_force(RVL_TABLES_OFF);
	ck_assert_uint_ge(packed_bytes(64, 1024, 1024, -1), weights);
#endif
}
END_TEST

#ifdef __x86_64__
/* Whether the copies of rows are bytes and int16, 3 bytes for each input, and not int16 alone. */
static bool are_rows_sorted(int64_t rows, int64_t inputs, int64_t columns)
{
	size_t scratch;

	product_bytes(rows, inputs, columns, -128, &scratch);
	return scratch >= (size_t)(rows * inputs * 3);
}
#endif

/* Proves that quads are listed only where rows have many uses, and stay in the caches with the weights. */
START_TEST(rows_are_sorted_where_it_is_faster)
{
#ifdef __x86_64__
	if (rvl_cpu_force("avx2", NULL))
		return;
	ck_assert(are_rows_sorted(24, 960, 256));
	ck_assert(are_rows_sorted(24, 512, 512));
	ck_assert(are_rows_sorted(24, 512, 128));
	ck_assert(!are_rows_sorted(24, 512, 112));
	ck_assert(!are_rows_sorted(24, 512, 528));
	ck_assert(!are_rows_sorted(24, 976, 128));
	ck_assert(!are_rows_sorted(24, 504, 128));
#endif
}
END_TEST

int main(void)
{
	Suite *s = suite_create("int8");
	TCase *shapes = add_case(s, "shapes", 3600, NULL, NULL);
	TCase *models = add_case(s, "models", 600, NULL, NULL);
	TCase *sets = add_case(s, "sets", 60, NULL, NULL);

	tcase_add_loop_test(shapes, every_set_equals_the_reference, 0, SHAPE_PARTS);
	tcase_add_loop_test(models, avxvnni_model_equals_the_reference, 0, SHAPE_PARTS);
	tcase_add_loop_test(models, amx_model_equals_the_reference, 0, SHAPE_PARTS);
	tcase_add_loop_test(models, tables512_model_equals_the_reference, 0, SHAPE_PARTS);
	tcase_add_test(sets, tables_give_each_byte_its_entry);
	tcase_add_test(sets, every_set_transposes_bytes);
	tcase_add_loop_test(sets, copies_give_each_element_its_place, 0, 8);
	tcase_add_loop_test(sets, sums_of_tiles_do_not_overflow, 0, 64);
	tcase_add_loop_test(sets, sums_of_mixed_signs_do_not_overflow, 0, 4);
	tcase_add_test(sets, filters_are_exact);
	tcase_add_test(sets, filters_are_fast);
	tcase_add_test(sets, filters_take_little_memory);
	tcase_add_loop_test(sets, sums_of_products_of_bytes_do_not_saturate, 0, 64);
	tcase_add_loop_test(sets, sums_of_split_weights_do_not_saturate, 0, 64);
	tcase_add_loop_test(sets, sums_of_split_windows_do_not_saturate, 0, 2);
	tcase_add_test(sets, weights_are_split_where_it_is_faster);
	tcase_add_test(sets, a_step_serves_a_window);
	tcase_add_loop_test(sets, rows_of_int8_are_divided_like_those_of_uint8, 0,
			    sizeof(copying) / sizeof(copying[0]));
	tcase_add_test(sets, a_depthwise_image_may_have_no_columns);
	tcase_add_test(sets, only_known_sets_can_be_forced);
	tcase_add_test(sets, tables_are_used_where_they_are_faster);
	tcase_add_test(sets, rows_are_sorted_where_it_is_faster);
	tcase_add_test(sets, one_set_is_used);
	tcase_add_test(sets, sums_of_bytes_are_used_where_a_set_has_them);
	tcase_add_test(sets, scratch_is_limited);
	tcase_add_test(sets, an_absent_set_is_not_used);
	tcase_add_test(sets, stochastic_products_obey_the_set);
	return run_suite(s);
}
