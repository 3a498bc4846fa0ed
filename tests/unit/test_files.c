// SPDX-License-Identifier: MIT
/*
 * The files that the `rivulet` command reads and writes: arrays, ONNX tensors, pictures and sysfs. Each
 * error text is compared as a whole, each format with bytes that this test spells out, and each resized
 * picture with a filter that sums over all source pixels.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <png.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <zlib.h>

#include "../../tool/data/built_file.h"
#include "../../tool/data/image.h"
#include "../../tool/device/sysfs.h"
#include "../../tool/verb.h"
#include "files.h"
#include "pbuild.h"
#include "suite.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

static char dir[SCRATCH_MAX];

static void setup(void)
{
	make_scratch(dir);
	rvl_tool_error_clear();
}

static void teardown(void)
{
	remove_scratch(dir);
}

static const char *in_dir(const char *name)
{
	return path_in(dir, name);
}

/* Proves that the last call failed with the file's name and exactly this text. */
static void complained(const char *path, const char *text)
{
	char want[400];

	snprintf(want, sizeof(want), "%s: %s", path, text);
	ck_assert_str_eq(rvl_tool_error, want);
	rvl_tool_error_clear();
}

/* Proves that a file has exactly these bytes. */
static void holds(const char *path, const void *bytes, size_t size)
{
	size_t n;
	void *p = read_file(path, &n);

	ck_assert_uint_eq(n, size);
	ck_assert_mem_eq(p, bytes, size);
	free(p);
}

/* ---- types, shapes and sizes ---- */

static const struct {
	enum rivulet_dtype type;
	const char *name, *npy;
	uint32_t size, onnx;
} types[] = {
	{ RIVULET_F32, "float32", "<f4", 4, 1 },  { RIVULET_U8, "uint8", "|u1", 1, 2 },
	{ RIVULET_S8, "int8", "|i1", 1, 3 },	  { RIVULET_S32, "int32", "<i4", 4, 6 },
	{ RIVULET_S64, "int64", "<i8", 8, 7 },	  { RIVULET_BOOL, "bool", "|b1", 1, 9 },
	{ RIVULET_U16, "uint16", "<u2", 2, 4 },	  { RIVULET_S16, "int16", "<i2", 2, 5 },
	{ RIVULET_U32, "uint32", "<u4", 4, 12 },  { RIVULET_U64, "uint64", "<u8", 8, 13 },
	{ RIVULET_F16, "float16", "<f2", 2, 10 }, { RIVULET_F64, "float64", "<f8", 8, 11 },
	{ RIVULET_BF16, "bfloat16", "<u2", 2, 16 },
};

START_TEST(element_types)
{
	for (size_t i = 0; i < N(types); i++) {
		ck_assert_str_eq(rvl_dtype_name(types[i].type), types[i].name);
		ck_assert_uint_eq(rvl_dtype_size(types[i].type), types[i].size);
	}
	ck_assert_str_eq(rvl_dtype_name(0), "?");
	ck_assert_str_eq(rvl_dtype_name(RIVULET_DTYPE_END), "?");
	ck_assert_uint_eq(rvl_dtype_size(0), 0);
	ck_assert_uint_eq(rvl_dtype_size(RIVULET_DTYPE_END), 0);
}
END_TEST

/* Proves that an element of each type is read as the number that it is. */
START_TEST(values)
{
	static const int16_t s16[] = { 1, -300 };
	static const uint16_t u16[] = { 1, 65000 }, f16[] = { 0, 0x3e00 }, bf16[] = { 0, 0xc040 };
	static const uint32_t u32[] = { 1, 4000000000 };
	static const uint64_t u64[] = { 1, 1ull << 63 };
	static const double f64[] = { 1, 0.1 };

	ck_assert_double_eq(rvl_dtype_value(RIVULET_S16, s16, 1), -300);
	ck_assert_double_eq(rvl_dtype_value(RIVULET_U16, u16, 1), 65000);
	ck_assert_double_eq(rvl_dtype_value(RIVULET_F16, f16, 1), 1.5);
	ck_assert_double_eq(rvl_dtype_value(RIVULET_BF16, bf16, 1), -3);
	ck_assert_double_eq(rvl_dtype_value(RIVULET_U32, u32, 1), 4e9);
	ck_assert_double_eq(rvl_dtype_value(RIVULET_U64, u64, 1), 9223372036854775808.0);
	ck_assert_double_eq(rvl_dtype_value(RIVULET_F64, f64, 1), 0.1);
}
END_TEST

START_TEST(shapes)
{
	static const uint64_t dim[8] = { 1, 20, 300, 4, 5, 6, 7, 8 };
	uint64_t big[8];
	char b[128];

	ck_assert_str_eq(rvl_shape_text(b, 0, dim), "scalar");
	ck_assert_str_eq(rvl_shape_text(b, 1, dim + 1), "20");
	ck_assert_str_eq(rvl_shape_text(b, 8, dim), "1x20x300x4x5x6x7x8");
	/* Numbers of 20 digits: the text stops behind the fifth, at 104 of 128 bytes. */
	memset(big, 0xff, sizeof(big));
	rvl_shape_text(b, 8, big);
	ck_assert_uint_eq(strlen(b), 5 * 20 + 4);
}
END_TEST

START_TEST(allocations)
{
	struct rvl_array a = { .dtype = RIVULET_S16, .ndim = 2, .dim = { 3, 5 } };

	ck_assert_int_eq(rvl_array_alloc(&a), 0);
	ck_assert_uint_eq(a.size, 30);
	for (size_t i = 0; i < 30; i++)
		ck_assert_uint_eq(((uint8_t *)a.data)[i], 0);
	rvl_array_clear(&a);
	ck_assert(!a.data && !a.size && !a.ndim && !a.dtype);
	a = (struct rvl_array) { .dtype = RIVULET_F32, .ndim = 3, .dim = { 3, 0, 7 } };
	ck_assert_int_eq(rvl_array_alloc(&a), 0);
	ck_assert(a.size == 0 && a.data);
	rvl_array_clear(&a);
	a = (struct rvl_array) { .dtype = RIVULET_U8, .ndim = 8, .dim = { 1, 1, 1, 1, 1, 1, 1, 2 } };
	ck_assert_int_eq(rvl_array_alloc(&a), 0);
	ck_assert_uint_eq(a.size, 2);
	rvl_array_clear(&a);
	a = (struct rvl_array) { .dtype = RIVULET_U8, .ndim = 9 };
	ck_assert_int_eq(rvl_array_alloc(&a), -EINVAL);
	a = (struct rvl_array) { .ndim = 1, .dim = { 1 } };
	ck_assert_int_eq(rvl_array_alloc(&a), -EINVAL);
	a = (struct rvl_array) { .dtype = RIVULET_F64, .ndim = 1, .dim = { (1ull << 28) + 1 } };
	ck_assert_int_eq(rvl_array_alloc(&a), -EOVERFLOW);
	a = (struct rvl_array) { .dtype = RIVULET_F64, .ndim = 1, .dim = { 1ull << 61 } };
	ck_assert_int_eq(rvl_array_alloc(&a), -EOVERFLOW);
	/* Two GiB are allowed. The test never touches the pages. */
	a = (struct rvl_array) { .dtype = RIVULET_F64, .ndim = 1, .dim = { 1ull << 28 } };
	ck_assert_int_eq(rvl_array_alloc(&a), 0);
	ck_assert_uint_eq(a.size, 1ull << 31);
	rvl_array_clear(&a);
}
END_TEST

/* ---- whole files ---- */

START_TEST(reading)
{
	struct rvl_blob b;

	write_file(in_dir("f"), "12345", 5);
	ck_assert_int_eq(rvl_read_file(in_dir("f"), 5, &b), 0);
	ck_assert_uint_eq(b.size, 5);
	ck_assert_mem_eq(b.data, "12345", 5);
	rvl_blob_clear(&b);
	ck_assert(!b.data && !b.size);
	ck_assert_int_eq(rvl_read_file(in_dir("f"), 4, &b), RVL_EXIT_REFUSED);
	complained(in_dir("f"), "5 bytes, the limit is 4");
	ck_assert_int_eq(rvl_read_file(in_dir("none"), 4, &b), RVL_EXIT_REFUSED);
	complained(in_dir("none"), "No such file or directory");
	ck_assert_int_eq(rvl_read_file(dir, 4, &b), RVL_EXIT_REFUSED);
	complained(dir, "not a regular file");
	write_file(in_dir("empty"), "", 0);
	ck_assert_int_eq(rvl_read_file(in_dir("empty"), 0, &b), 0);
	ck_assert(b.data && !b.size);
	rvl_blob_clear(&b);
	/* A file of sysfs has a size of one page, but contains less. */
	ck_assert_int_eq(rvl_read_file("/sys/devices/system/cpu/online", 4096, &b), RVL_EXIT_FAILED);
	complained("/sys/devices/system/cpu/online", "the file became shorter");
	ck_assert(!b.data && !b.size);
}
END_TEST

START_TEST(writing)
{
	struct rvl_array a = { .dtype = RIVULET_U8, .ndim = 1, .dim = { 2 }, .size = 2, .data = (char[]){ "ab" } };

	ck_assert_int_eq(rvl_write_file(in_dir("f"), "longer", 6), 0);
	holds(in_dir("f"), "longer", 6);
	ck_assert_int_eq(rvl_write_file(in_dir("f"), "abc", 3), 0);
	holds(in_dir("f"), "abc", 3);
	ck_assert_int_eq(rvl_write_file(in_dir("no/f"), "abc", 3), RVL_EXIT_FAILED);
	complained(in_dir("no/f"), "No such file or directory");
	ck_assert_int_eq(rvl_write_file("/dev/full", "abc", 3), RVL_EXIT_FAILED);
	complained("/dev/full", "No space left on device");
	ck_assert_int_eq(rvl_npy_write(in_dir("no/f"), &a), RVL_EXIT_FAILED);
	complained(in_dir("no/f"), "No such file or directory");
	ck_assert_int_eq(rvl_npy_write("/dev/full", &a), RVL_EXIT_FAILED);
	complained("/dev/full", "No space left on device");
}
END_TEST

/* Files of this process can have at most so many bytes; what exceeds them fails like a full disk. */
static void limit_files(rlim_t bytes)
{
	struct rlimit r;

	ck_assert_ptr_ne(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = bytes;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &r), 0);
}

/* Proves that a file larger than the limit is refused. Without the limit again, so that checks can log. */
static void exceeds(const char *path)
{
	static const char bytes[65536];
	int r;

	limit_files(4096);
	r = rvl_write_file(path, bytes, sizeof(bytes));
	limit_files(RLIM_INFINITY);
	ck_assert_int_eq(r, RVL_EXIT_FAILED);
	complained(path, "File too large");
}

static uint32_t files_in_dir(void)
{
	DIR *d = opendir(dir);
	uint32_t n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

START_TEST(half_of_a_new_file_is_removed)
{
	exceeds(in_dir("f"));
	ck_assert_uint_eq(files_in_dir(), 0);
}
END_TEST

/* A model that is pruned in place must not be lost with the disk full. */
START_TEST(a_failed_replacement_keeps_the_old_file)
{
	ck_assert_int_eq(rvl_write_file(in_dir("f"), "abc", 3), 0);
	exceeds(in_dir("f"));
	holds(in_dir("f"), "abc", 3);
	ck_assert_uint_eq(files_in_dir(), 1);
}
END_TEST

START_TEST(a_replaced_file_keeps_its_mode_and_links)
{
	struct stat before, after;

	ck_assert_int_eq(rvl_write_file(in_dir("f"), "abc", 3), 0);
	ck_assert_int_eq(chmod(in_dir("f"), 0640), 0);
	ck_assert_int_eq(symlink("f", in_dir("s")), 0);
	ck_assert_int_eq(rvl_write_file(in_dir("s"), "de", 2), 0);
	holds(in_dir("f"), "de", 2);
	ck_assert(!lstat(in_dir("s"), &after) && S_ISLNK(after.st_mode));
	ck_assert(!stat(in_dir("f"), &before) && (before.st_mode & 07777) == 0640);
	ck_assert_int_eq(link(in_dir("f"), in_dir("g")), 0);
	ck_assert_int_eq(rvl_write_file(in_dir("f"), "second", 6), 0);
	holds(in_dir("g"), "second", 6);
	ck_assert(!stat(in_dir("g"), &after) && after.st_ino == before.st_ino);
	ck_assert_uint_eq(files_in_dir(), 3);
}
END_TEST

/* ---- .npy ---- */

/* Proves that an array of this shape is written with this dict, and that data begin on 64 bytes. */
static void writes(enum rivulet_dtype type, uint32_t ndim, const uint64_t *dim, const char *dict)
{
	struct rvl_array a = { .dtype = type, .ndim = ndim };
	char want[600];
	size_t len, at;

	memcpy(a.dim, dim, ndim * sizeof(*dim));
	ck_assert_int_eq(rvl_array_alloc(&a), 0);
	memset(a.data, 0x5a, a.size);
	/* The header ends with a line feed after blanks, so that the data begin at a multiple of 64. */
	at = (10 + strlen(dict) + 1 + 63) & ~(size_t)63;
	len = at - 10;
	memset(want, ' ', sizeof(want));
	memcpy(want, "\x93NUMPY\x01\x00", 8);
	want[8] = (char)(len & 255);
	want[9] = (char)(len >> 8);
	memcpy(want + 10, dict, strlen(dict));
	want[at - 1] = '\n';
	memset(want + at, 0x5a, a.size);
	ck_assert_int_eq(rvl_npy_write(in_dir("a.npy"), &a), 0);
	holds(in_dir("a.npy"), want, at + a.size);
	rvl_array_clear(&a);
}

/* A large file is mapped, and only for reading: a mapping for writing counts as memory of the process. */
START_TEST(large_files_are_mapped)
{
	char line[512], mode[8] = "";
	struct rvl_blob b;
	FILE *f;

	write_file(in_dir("large"), "x", 1);
	ck_assert(!truncate(in_dir("large"), 64 << 20));
	ck_assert_int_eq(rvl_read_file(in_dir("large"), 64 << 20, &b), 0);
	f = fopen("/proc/self/maps", "re");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, in_dir("large")))
			ck_assert_int_eq(sscanf(line, "%*s %7s", mode), 1);
	fclose(f);
	ck_assert_str_eq(mode, "r--p");
	ck_assert(b.mapped && b.size == 64 << 20 && b.data[0] == 'x' && !b.data[b.size - 1]);
	rvl_blob_clear(&b);
}
END_TEST

/* Builds a file of 100 bytes in an unnamed file, and puts it to @path. The number of files is that before. */
static int build_at(const char *path, char first)
{
	struct rvl_built_file f = { .path = path, .mapped_from = 64, .fd = -1 };
	struct rivulet_blob b = { 0 };
	struct rvl_err err = { "" };
	int r;

	ck_assert_msg(!rvl_built_reserve(&f, 128, &b, &err), "%s", err.msg);
	ck_assert_int_ge(f.fd, 0);
	ck_assert_uint_eq(b.size, 128);
	((char *)b.data)[0] = first;
	b.size = 100;
	r = rvl_built_put(&f, &b);
	rivulet_blob_free(&b);
	rvl_built_close(&f);
	return r;
}

static void was_built(const char *path, char first)
{
	char want[100] = { first };

	holds(path, want, sizeof(want));
}

/* A built file is written to what its path names, and nothing else in the folder is touched. */
START_TEST(built_files)
{
	struct stat a, b;

	write_file(in_dir("new.part"), "mine", 4);
	ck_assert_int_eq(build_at(in_dir("new"), 'a'), 0);
	was_built(in_dir("new"), 'a');
	holds(in_dir("new.part"), "mine", 4);
	ck_assert(!stat(in_dir("new"), &a) && !link(in_dir("new"), in_dir("second")));
	ck_assert_int_eq(build_at(in_dir("new"), 'b'), 0);
	ck_assert(!stat(in_dir("new"), &b) && a.st_ino == b.st_ino);
	was_built(in_dir("second"), 'b');
	ck_assert(!symlink("new", in_dir("link")) && !symlink("made", in_dir("dangling")) &&
		  !symlink("/dev/null", in_dir("null")));
	ck_assert_int_eq(build_at(in_dir("link"), 'c') | build_at(in_dir("dangling"), 'd') |
			 build_at(in_dir("null"), 'e'), 0);
	was_built(in_dir("new"), 'c');
	was_built(in_dir("made"), 'd');
	ck_assert(!lstat(in_dir("link"), &a) && S_ISLNK(a.st_mode));
	ck_assert(!stat(in_dir("null"), &a) && S_ISCHR(a.st_mode));
	ck_assert(!mkdir(in_dir("folder"), 0755));
	ck_assert_int_eq(build_at(in_dir("folder"), 'f'), RVL_EXIT_FAILED);
	complained(in_dir("folder"), "Is a directory");
	ck_assert_uint_eq(files_in_dir(), 8);
}
END_TEST

/* A small file is on the heap. A file for which there is no space is refused. */
START_TEST(built_file_sizes)
{
	struct rvl_built_file f = { .path = in_dir("x"), .mapped_from = 4096, .fd = -1 };
	struct rivulet_blob b = { 0 };
	struct rvl_err err = { "" };

	ck_assert_int_eq(rvl_built_reserve(&f, 64, &b, &err), 0);
	ck_assert_int_eq(f.fd, -1);
	ck_assert_int_eq(rvl_built_put(&f, &b), 0);
	rivulet_blob_free(&b);
	ck_assert_int_lt(rvl_built_reserve(&f, (size_t)1 << 62, &b, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "4611686018427387904 bytes"));
	ck_assert_ptr_null(b.data);
	rvl_built_close(&f);
	ck_assert_uint_eq(files_in_dir(), 1);
}
END_TEST

START_TEST(npy_bytes)
{
	static const uint64_t dim[8] = { 3, 2, 1, 2, 1, 1, 1, 1 };
	char dict[100];

	writes(RIVULET_F32, 0, dim, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }");
	writes(RIVULET_F32, 1, dim, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }");
	writes(RIVULET_F32, 2, dim, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }");
	writes(RIVULET_U8, 8, dim, "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2, 1, 2, 1, 1, 1, 1), }");
	for (size_t i = 0; i < N(types); i++) {
		snprintf(dict, sizeof(dict), "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }", types[i].npy);
		writes(types[i].type, 1, dim, dict);
	}
}
END_TEST

/* Proves that a shape whose dict is longer than 256 bytes has both bytes of its length. */
START_TEST(npy_long_header)
{
	struct rvl_array a = { .dtype = RIVULET_U8, .ndim = 8 }, b;
	size_t n;
	uint8_t *p;

	for (int i = 0; i < 7; i++)
		a.dim[i] = 999999999999999ull;
	a.data = calloc(1, 1);
	ck_assert_int_eq(rvl_npy_write(in_dir("l.npy"), &a), 0);
	p = read_file(in_dir("l.npy"), &n);
	ck_assert_uint_eq(n, 192);
	ck_assert(p[8] == 182 && p[9] == 0);
	free(p);
	for (int i = 0; i < 7; i++)
		a.dim[i] = UINT64_MAX;
	ck_assert_int_eq(rvl_npy_write(in_dir("l.npy"), &a), 0);
	p = read_file(in_dir("l.npy"), &n);
	ck_assert_uint_eq(n, 256);
	ck_assert(p[8] == 246 && p[9] == 0 && p[255] == '\n');
	free(p);
	free(a.data);
	/* A shape with a dimension of 0 needs no data. */
	a = (struct rvl_array) { .dtype = RIVULET_U8, .ndim = 2, .dim = { 4, 0 }, .data = "" };
	ck_assert_int_eq(rvl_npy_write(in_dir("z.npy"), &a), 0);
	ck_assert_int_eq(rvl_array_read(in_dir("z.npy"), &b), 0);
	ck_assert(b.ndim == 2 && b.dim[0] == 4 && b.dim[1] == 0 && b.size == 0);
	rvl_array_clear(&b);
}
END_TEST

/* Parses a header of @version with @dict and @bytes of data that count from 1. */
static int parse_npy(int version, const char *dict, size_t bytes, struct rvl_array *a, char *why)
{
	size_t n = strlen(dict), at = version == 1 ? 10 : 12;
	uint8_t *p = calloc(1, at + n + bytes);
	int r;

	memcpy(p, "\x93NUMPY", 6);
	p[6] = (uint8_t)version;
	p[8] = (uint8_t)n;
	p[9] = (uint8_t)(n >> 8);
	if (at == 12) {
		p[10] = (uint8_t)(n >> 16);
		p[11] = (uint8_t)(n >> 24);
	}
	memcpy(p + at, dict, n);
	for (size_t i = 0; i < bytes; i++)
		p[at + n + i] = (uint8_t)(i + 1);
	r = rvl_npy_parse(p, at + n + bytes, a, why);
	free(p);
	return r;
}

START_TEST(npy_versions)
{
	static const char dict[] = "{'descr':'|u1','fortran_order':False,'shape':(2,3)}";
	static char padded[70000], long_header[(1 << 17) + 2];
	struct rvl_array a;
	char why[160];

	for (int version = 0; version < 5; version++) {
		int r = parse_npy(version, dict, 6, &a, why);

		ck_assert_int_eq(r, version >= 1 && version <= 3 ? 0 : -EINVAL);
		if (r) {
			ck_assert_str_eq(why, "damaged .npy header");
			continue;
		}
		ck_assert(a.dtype == RIVULET_U8 && a.ndim == 2 && a.dim[0] == 2 && a.dim[1] == 3 && a.size == 6);
		ck_assert_mem_eq(a.data, "\1\2\3\4\5\6", 6);
		rvl_array_clear(&a);
	}
	/* The length of a header of version 2 has more than two bytes. */
	memset(padded, ' ', sizeof(padded) - 1);
	memcpy(padded, dict, strlen(dict));
	ck_assert_int_eq(parse_npy(2, padded, 6, &a, why), 0);
	rvl_array_clear(&a);
	/* A hostile file could make the reader read a very long header of blanks. */
	memset(long_header, ' ', sizeof(long_header) - 1);
	memcpy(long_header, dict, strlen(dict));
	ck_assert_int_eq(parse_npy(2, long_header, 6, &a, why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "is longer than 131072"));
	long_header[sizeof(long_header) - 2] = '\0';
	ck_assert_int_eq(parse_npy(2, long_header, 6, &a, why), 0);
	rvl_array_clear(&a);
}
END_TEST

/* Proves each type's name in a header, in both kinds of quotes. */
START_TEST(npy_types)
{
	struct rvl_array a;
	char why[160], dict[100];

	for (size_t i = 0; i < N(types); i++) {
		char q = i % 2 ? '"' : '\'';

		if (types[i].type == RIVULET_BF16)
			continue;
		snprintf(dict, sizeof(dict), "{ %cdescr%c : %c%s%c,\t'fortran_order':\nTrue , 'shape' : ( 3 , ) } ",
			 q, q, q, types[i].npy, q);
		ck_assert_int_eq(parse_npy(1, dict, 3 * types[i].size, &a, why), 0);
		ck_assert(a.dtype == types[i].type && a.ndim == 1 && a.dim[0] == 3 && a.size == 3 * types[i].size);
		rvl_array_clear(&a);
	}
}
END_TEST

START_TEST(npy_refusals)
{
	static const struct { const char *dict; size_t bytes; int want; const char *why; } bad[] = {
		{ "{'descr':'<c8','fortran_order':False,'shape':(1,)}", 8, -EOPNOTSUPP,
		  "NumPy type \"<c8\" is not supported (float32, uint8, int8, int32, int64, bool are)" },
		{ "{'descr':'','fortran_order':False,'shape':(1,)}", 8, -EOPNOTSUPP,
		  "NumPy type \"\" is not supported (float32, uint8, int8, int32, int64, bool are)" },
		{ "{'descr':'|u1','fortran_order':True,'shape':(1,2)}", 2, -EOPNOTSUPP,
		  "column-major arrays are not supported: save a C-ordered copy" },
		{ "{'descr':'|u1','fortran_order':False,'shape':(3,)}", 2, -EINVAL, "2 bytes of data, the shape says 3" },
		{ "{'descr':'|u1','fortran_order':False,'shape':(3,)}", 4, -EINVAL, "4 bytes of data, the shape says 3" },
		{ "{'descr':'|u1','fortran_order':False,'shape':(2147483649,)}", 1, -EOVERFLOW, "the shape is too large" },
		{ "{'descr':'|u1' 'fortran_order':False,'shape':(1,)}", 1, -EINVAL, "damaged .npy header" },
		{ "{'descr':'|u1','fortran_order':False,'shape':(1 1,)}", 1, -EINVAL, "damaged .npy header" },
		{ "{'descr':'|u1','fortran_order':False,'shape':(,)}", 1, -EINVAL, "damaged .npy header" },
		{ "{'descr':'|u1','fortran_order':False,'shape':(1,)", 1, -EINVAL, "damaged .npy header" },
		{ "{'descr':'|u1','fortran_order':False,'shape':(1,", 1, -EINVAL, "damaged .npy header" },
		{ "{'descr':'|u1','fortran_order':False,'shape':(18446744073709551616,)}", 1, -EINVAL,
		  "damaged .npy header" },
		{ "{'descr':'|u1','fortran_order':False,'shape':(18446744073709551620,)}", 1, -EINVAL,
		  "damaged .npy header" },
		{ "{'descr':'|u1','fortran_order':False,'fortran_order':False,'shape':(1,)}", 1, -EINVAL,
		  "damaged .npy header" },
		{ "{'descr':'|u1','fortran_order':False,'shape':(1,),'shape':(1,)}", 1, -EINVAL, "damaged .npy header" },
		{ "{'descr':|u1,'fortran_order':False,'shape':(1,)}", 1, -EINVAL, "damaged .npy header" },
		{ "{'descr' '|u1','fortran_order':False,'shape':(1,)}", 1, -EINVAL, "damaged .npy header" },
		{ "{'descr':'|u1\",'fortran_order':False,'shape':(1,)}", 1, -EINVAL, "damaged .npy header" },
		{ "{'fortran_order':False,'shape':(1,)}", 1, -EINVAL, "damaged .npy header" },
		{ "{'descr':'|u1','shape':(1,)}", 1, -EINVAL, "damaged .npy header" },
		{ "{'descr':'|u1','fortran_order':Tru,'shape':(1,)}", 1, -EINVAL, "damaged .npy header" },
		/* A key and a type that are longer than every valid one. */
		{ "{'descr-------------------':'|u1','fortran_order':False,'shape':(1,)}", 1, -EINVAL,
		  "damaged .npy header" },
		{ "{'descr':'<f4--------------------','fortran_order':False,'shape':(1,)}", 1, -EOPNOTSUPP,
		  "NumPy type \"<f4-----------------\" is not supported (float32, uint8, int8, int32, int64, "
		  "bool are)" },
		{ "{'descr':'<f4---------------------','fortran_order':False,'shape':(1,)}", 1, -EINVAL,
		  "damaged .npy header" },
		{ "['descr']", 1, -EINVAL, "damaged .npy header" },
	};
	uint8_t head[12] = "\x93NUMPY\x01";
	struct rvl_array a;
	char why[160];

	for (size_t i = 0; i < N(bad); i++) {
		int r = parse_npy(1, bad[i].dict, bad[i].bytes, &a, why);

		ck_assert_msg(r == bad[i].want, "%s: %d, %s", bad[i].dict, r, why);
		ck_assert_str_eq(why, bad[i].why);
	}
	/* A header that extends beyond the end of the file must not be read beyond it. */
	{
		static const char dict[] = "{'descr':'|u1','fortran_order':False,'shape':(1,)}";
		char file[100] = "\x93NUMPY\x01";

		file[8] = (char)(sizeof(dict) - 1);
		memcpy(file + 10, dict, sizeof(dict));
		for (size_t n = 0; n < 10 + sizeof(dict) - 1; n++) {
			ck_assert_int_eq(rvl_npy_parse((uint8_t *)file, n, &a, why), -EINVAL);
			ck_assert_str_eq(why, "damaged .npy header");
		}
		ck_assert_int_eq(rvl_npy_parse((uint8_t *)file, 10 + sizeof(dict) - 1, &a, why), -EINVAL);
		ck_assert_str_eq(why, "0 bytes of data, the shape says 1");
	}
	/* The header is longer than the file. */
	head[8] = 3;
	ck_assert_int_eq(rvl_npy_parse(head, 12, &a, why), -EINVAL);
	/* The error names the file. */
	write_file(in_dir("h.npy"), head, 12);
	ck_assert_int_eq(rvl_array_read(in_dir("h.npy"), &a), RVL_EXIT_REFUSED);
	complained(in_dir("h.npy"), "damaged .npy header");
}
END_TEST

/* ---- ONNX tensors ---- */

/* Proves that a message is the tensor of this type, of two elements, with these bytes; frees the message. */
static void tensor_is(struct pb *m, enum rivulet_dtype type, const void *bytes)
{
	struct rvl_array a;
	char why[160];
	int r = rvl_pb_parse(m->p, m->n, &a, why);

	ck_assert_msg(!r, "%s: %d, %s", rvl_dtype_name(type), r, why);
	ck_assert(a.dtype == type && a.ndim == 2 && a.dim[0] == 1 && a.dim[1] == 2);
	ck_assert_mem_eq(a.data, bytes, 2 * rvl_dtype_size(type));
	rvl_array_clear(&a);
	free(m->p);
}

static struct pb tensor_head(uint32_t type)
{
	struct pb m = { .p = NULL };

	pb_int(&m, 1, 1);
	pb_int(&m, 1, 2);
	pb_int(&m, 2, type);
	return m;
}

/* The field of TensorProto that holds the values of a type, by the ONNX specification. */
static unsigned int field_of(enum rivulet_dtype t)
{
	return t == RIVULET_F32 ? 4 : t == RIVULET_F64 ? 10 : t == RIVULET_S64 ? 7 :
	       t == RIVULET_U32 || t == RIVULET_U64 ? 11 : 5;
}

/* Proves each type as raw bytes, as a packed field and as a repeated field. */
START_TEST(tensor_values)
{
	static const float floats[2] = { 1.5f, -2.25f };
	static const double doubles[2] = { 1.5, -2.25 };

	for (size_t i = 0; i < N(types); i++) {
		uint32_t size = types[i].size, wire = types[i].type == RIVULET_F32 ? 5 :
						      types[i].type == RIVULET_F64 ? 1 : 0;
		const void *want = wire == 5 ? (const void *)floats : wire == 1 ? (const void *)doubles : NULL;
		uint8_t integers[16] = { 0 };
		struct pb m = tensor_head(types[i].onnx);

		integers[0] = 9;
		integers[size] = 5;
		want = want ? want : integers;
		pb_len(&m, 9, want, 2 * size);
		tensor_is(&m, types[i].type, want);
		m = tensor_head(types[i].onnx);
		pb_len(&m, field_of(types[i].type), wire ? want : "\x09\x05", wire ? 2 * size : 2);
		tensor_is(&m, types[i].type, want);
		m = tensor_head(types[i].onnx);
		for (uint32_t k = 0; k < 2; k++) {
			pb_varint(&m, field_of(types[i].type) << 3 | wire);
			if (wire)
				pb_bytes(&m, (const char *)want + k * size, size);
			else
				pb_varint(&m, k ? 5 : 9);
		}
		/* Values of another type's field are ignored. */
		pb_int(&m, types[i].type == RIVULET_S64 ? 5 : 7, 1);
		tensor_is(&m, types[i].type, want);
	}
}
END_TEST

/* Proves that a packed list of dimensions is one, and that eight of them are the limit. */
START_TEST(tensor_shapes)
{
	struct rvl_array a;
	char why[160];

	for (size_t n = 7; n <= 9; n++) {
		struct pb m = { .p = NULL };

		pb_len(&m, 1, "\1\1\1\1\1\1\2\1\1", n);
		pb_int(&m, 2, 2);
		pb_len(&m, 9, "ab", 2);
		ck_assert_int_eq(rvl_pb_parse(m.p, m.n, &a, why), n > 8 ? -EINVAL : 0);
		if (n <= 8) {
			ck_assert(a.ndim == n && a.dim[6] == 2 && a.dim[0] == 1);
			rvl_array_clear(&a);
		}
		free(m.p);
	}
}
END_TEST

START_TEST(tensor_refusals)
{
	struct rvl_array a;
	char why[160];
	struct pb m = tensor_head(2);

	pb_len(&m, 9, "abc", 3);
	ck_assert_int_eq(rvl_pb_parse(m.p, m.n, &a, why), -EINVAL);
	ck_assert_str_eq(why, "ONNX tensor: data and shape differ in size");
	free(m.p);
	m = tensor_head(8);	/* strings */
	ck_assert_int_eq(rvl_pb_parse(m.p, m.n, &a, why), -EOPNOTSUPP);
	ck_assert_str_eq(why, "not an .npy file, and as an ONNX tensor its element type 8 is not supported");
	free(m.p);
	m = tensor_head(17);
	ck_assert_int_eq(rvl_pb_parse(m.p, m.n, &a, why), -EOPNOTSUPP);
	ck_assert_str_eq(why, "not an .npy file, and as an ONNX tensor its element type 17 is not supported");
	free(m.p);
	m = (struct pb) { .p = NULL };
	pb_int(&m, 1, (1ull << 31) + 1);
	pb_int(&m, 2, 2);
	ck_assert_int_eq(rvl_pb_parse(m.p, m.n, &a, why), -EINVAL);
	ck_assert_str_eq(why, "neither an .npy file nor an ONNX tensor");
	free(m.p);
	/* One value too few, one too many. */
	for (int n = 1; n <= 3; n += 2) {
		m = tensor_head(3);
		pb_len(&m, 5, "\1\2\3", (size_t)n);
		ck_assert_int_eq(rvl_pb_parse(m.p, m.n, &a, why), -EINVAL);
		free(m.p);
	}
	write_file(in_dir("t.pb"), "hello", 5);
	ck_assert_int_eq(rvl_array_read(in_dir("t.pb"), &a), RVL_EXIT_REFUSED);
	complained(in_dir("t.pb"), "neither an .npy file nor an ONNX tensor");
	ck_assert_int_eq(rvl_array_read(in_dir("none"), &a), RVL_EXIT_REFUSED);
	complained(in_dir("none"), "No such file or directory");
}
END_TEST

/* ---- pictures ---- */

static void put_png(uint32_t w, uint32_t h, uint32_t format, const void *data)
{
	png_image png = { .version = PNG_IMAGE_VERSION, .width = w, .height = h, .format = format };

	ck_assert(png_image_write_to_file(&png, in_dir("p.png"), 0, data, 0, NULL));
}

START_TEST(png_files)
{
	static const uint8_t rgba[8] = { 200, 100, 50, 255, 200, 100, 50, 0 };
	uint8_t *wide = calloc(1, RVL_IMAGE_SIDE + 1);
	struct rvl_image img;

	/* A transparent pixel becomes black. */
	put_png(2, 1, PNG_FORMAT_RGBA, rgba);
	ck_assert_int_eq(rvl_image_read(in_dir("p.png"), &img), 0);
	ck_assert(img.w == 2 && img.h == 1 && img.channels == 3);
	ck_assert_mem_eq(img.data, "\xc8\x64\x32\0\0\0", 6);
	free(img.data);
	for (uint32_t side = RVL_IMAGE_SIDE; side <= RVL_IMAGE_SIDE + 1; side++)
		for (int tall = 0; tall < 2; tall++) {
			put_png(tall ? 1 : side, tall ? side : 1, PNG_FORMAT_GRAY, wide);
			if (side == RVL_IMAGE_SIDE) {
				ck_assert_int_eq(rvl_image_read(in_dir("p.png"), &img), 0);
				ck_assert(img.channels == 1 && img.w * img.h == side);
				free(img.data);
				continue;
			}
			ck_assert_int_eq(rvl_image_read(in_dir("p.png"), &img), RVL_EXIT_REFUSED);
			complained(in_dir("p.png"), tall ? "1 x 16385 pixels, at most 16384 a side" :
							   "16385 x 1 pixels, at most 16384 a side");
		}
	free(wide);
	write_file(in_dir("b.png"), "\x89PNG\r\n\x1a\n", 8);
	ck_assert_int_eq(rvl_image_read(in_dir("b.png"), &img), RVL_EXIT_REFUSED);
	ck_assert_ptr_null(strstr(rvl_tool_error, "neither PNG"));
	ck_assert_ptr_null(strstr(rvl_tool_error, "Invalid argument"));
}
END_TEST

/* Proves that pixel data that are damaged or cut off are an error, after a header that is sound. */
START_TEST(png_damage)
{
	static uint8_t noise[64 * 64];
	struct rvl_image img;
	uint8_t *p;
	size_t n;

	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)(i * 2654435761u >> 13);
	put_png(64, 64, PNG_FORMAT_GRAY, noise);
	p = read_file(in_dir("p.png"), &n);
	write_file(in_dir("c.png"), p, n / 2);
	ck_assert_int_eq(rvl_image_read(in_dir("c.png"), &img), RVL_EXIT_REFUSED);
	ck_assert(strlen(rvl_tool_error) > strlen(in_dir("c.png")) + 5);
	ck_assert_ptr_null(strstr(rvl_tool_error, "Invalid argument"));
	ck_assert_ptr_null(img.data);
	free(p);
}
END_TEST

static int parse_pnm(const char *text, size_t size, struct rvl_image *img, char *why)
{
	uint8_t *p = malloc(size);	/* of exact size, for the sanitizer */
	int r;

	memcpy(p, text, size);
	*img = (struct rvl_image) { 0 };
	r = rvl_pnm_parse(p, size, img, why);
	free(p);
	return r;
}

#define PNM(text) parse_pnm(text, sizeof(text) - 1, &img, why)

START_TEST(pnm_files)
{
	static char wide[20 + RVL_IMAGE_SIDE];
	struct rvl_image img;
	char why[160];

	ck_assert_int_eq(PNM("P5\t#c\r#d\n2\r\n#\n# e\n3 255#abcdef"), 0);
	ck_assert(img.w == 2 && img.h == 3 && img.channels == 1);
	ck_assert_mem_eq(img.data, "abcdef", 6);
	free(img.data);
	/* More data than the picture needs are ignored. */
	ck_assert_int_eq(PNM("P6 1 2 255\nabcdefg"), 0);
	ck_assert(img.w == 1 && img.h == 2 && img.channels == 3);
	ck_assert_mem_eq(img.data, "abcdef", 6);
	free(img.data);
	for (int side = 16383; side <= 16385; side++)
		for (int tall = 0; tall < 2; tall++) {
			int n = snprintf(wide, sizeof(wide), "P5 %d %d 255 ", tall ? 1 : side, tall ? side : 1);
			int r = parse_pnm(wide, (size_t)n + (size_t)side - (side > 16384), &img, why);

			ck_assert_int_eq(r, side > 16384 ? -EINVAL : 0);
			ck_assert(r || img.w * img.h == (uint32_t)side);
			ck_assert(!r || !strcmp(why, "damaged PGM or PPM header (sides up to 16384, 8 bits a sample)"));
			free(img.data);
		}
}
END_TEST

START_TEST(pnm_refusals)
{
	static const char *const headers[] = { "P5 0 1 255 a", "P5 1 0 255 a", "P5 1 1 254 a", "P5 1 1 256 a",
		"P5 1 1 65535 aa", "P5 1 1 255", "P5 1 1 x a", "P5 1 x 255 a", "P5 x 1 255 a", "P5 1 1    ",
		"P5 -1 1 255 a", "P5 4294967297 1 255 a", "P5 # 1 1 255 a" };
	struct rvl_image img;
	char why[160];

	for (size_t i = 0; i < N(headers); i++) {
		ck_assert_msg(parse_pnm(headers[i], strlen(headers[i]), &img, why) == -EINVAL, "%s", headers[i]);
		ck_assert_str_eq(why, "damaged PGM or PPM header (sides up to 16384, 8 bits a sample)");
	}
	ck_assert_int_eq(PNM("P5 2 2 255 abc"), -EINVAL);
	ck_assert_str_eq(why, "the picture's data is cut off");
	ck_assert_int_eq(PNM("P6 2 1 255 abcde"), -EINVAL);
	ck_assert_str_eq(why, "the picture's data is cut off");
	ck_assert_int_eq(PNM("P4 1 1 255 a"), -EINVAL);
	ck_assert_str_eq(why, "neither PNG nor binary PGM or PPM");
	ck_assert_int_eq(PNM("P7 1 1 255 a"), -EINVAL);
	ck_assert_int_eq(PNM("Q5 1 1 255 a"), -EINVAL);
	ck_assert_str_eq(why, "neither PNG nor binary PGM or PPM");
	/* One byte less than the smallest picture, and the smallest picture. */
	ck_assert_int_eq(PNM("P5 1 1 "), -EINVAL);
	ck_assert_str_eq(why, "neither PNG nor binary PGM or PPM");
	ck_assert_int_eq(PNM("P5 1 1 2"), -EINVAL);
	ck_assert_str_eq(why, "damaged PGM or PPM header (sides up to 16384, 8 bits a sample)");
	write_file(in_dir("x"), "P5 2 2 255 abc", 14);
	ck_assert_int_eq(rvl_image_read(in_dir("x"), &img), RVL_EXIT_REFUSED);
	complained(in_dir("x"), "the picture's data is cut off");
	ck_assert_int_eq(rvl_image_read(in_dir("none"), &img), RVL_EXIT_REFUSED);
	complained(in_dir("none"), "No such file or directory");
}
END_TEST

#define IDX(bytes, ndim) (write_file(in_dir("i"), bytes, sizeof(bytes) - 1), rvl_idx_read(in_dir("i"), ndim, &a))

START_TEST(idx_files)
{
	struct rvl_array a;
	gzFile f;

	ck_assert_int_eq(IDX("\0\0\x08\x02\0\0\0\x02\0\0\0\x03" "abcdef", 2), 0);
	ck_assert(a.dtype == RIVULET_U8 && a.ndim == 2 && a.dim[0] == 2 && a.dim[1] == 3 && a.size == 6);
	ck_assert_mem_eq(a.data, "abcdef", 6);
	rvl_array_clear(&a);
	f = gzopen(in_dir("z"), "wb");
	ck_assert_int_eq(gzwrite(f, "\0\0\x08\x01\0\0\1\2", 8), 8);
	for (int i = 0; i < 0x102; i++)
		gzputc(f, i);
	gzclose(f);
	ck_assert_int_eq(rvl_idx_read(in_dir("z"), 1, &a), 0);
	ck_assert(a.ndim == 1 && a.dim[0] == 0x102 && a.size == 0x102 && ((uint8_t *)a.data)[0x101] == 1);
	rvl_array_clear(&a);
	ck_assert_int_eq(IDX("\0\0\x08\x01\0\0\0\x02" "ab", 2), RVL_EXIT_REFUSED);
	complained(in_dir("i"), "an IDX file of 1 dimensions where 2 belong");
	ck_assert_int_eq(IDX("\1\0\x08\x01\0\0\0\x02" "ab", 1), RVL_EXIT_REFUSED);
	complained(in_dir("i"), "not an IDX file of unsigned bytes");
	ck_assert_int_eq(IDX("\0\1\x08\x01\0\0\0\x02" "ab", 1), RVL_EXIT_REFUSED);
	complained(in_dir("i"), "not an IDX file of unsigned bytes");
	ck_assert_int_eq(IDX("\0\0\x09\x01\0\0\0\x02" "ab", 1), RVL_EXIT_REFUSED);
	complained(in_dir("i"), "not an IDX file of unsigned bytes");
	ck_assert_int_eq(IDX("\0\0\x08", 1), RVL_EXIT_REFUSED);
	complained(in_dir("i"), "not an IDX file of unsigned bytes");
	ck_assert_int_eq(IDX("\0\0\x08\x01\0\0\0", 1), RVL_EXIT_REFUSED);
	complained(in_dir("i"), "cut off");
	ck_assert_int_eq(IDX("\0\0\x08\x01\0\0\0\x03" "ab", 1), RVL_EXIT_REFUSED);
	complained(in_dir("i"), "cut off");
	/* Each byte of a dimension counts: with this byte, the array is larger than the limit. */
	ck_assert_int_eq(IDX("\0\0\x08\x01\x80\0\0\1" "ab", 1), RVL_EXIT_REFUSED);
	complained(in_dir("i"), "too large");
	ck_assert_int_eq(IDX("\0\0\x08\x02\0\1\0\0\0\0\x80\1", 2), RVL_EXIT_REFUSED);
	complained(in_dir("i"), "too large");
	ck_assert_int_eq(rvl_idx_read(in_dir("none"), 1, &a), RVL_EXIT_REFUSED);
	complained(in_dir("none"), "No such file or directory");
}
END_TEST

/* ---- another size ---- */

/* The value at a point of the source under a triangle of this reach: all pixels are summed. */
static double filtered(const struct rvl_image *s, double cx, double cy, double rx, double ry, uint32_t k)
{
	double sum = 0, weight = 0;

	for (uint32_t y = 0; y < s->h; y++)
		for (uint32_t x = 0; x < s->w; x++) {
			double w = fmax(0, 1 - fabs(x + 0.5 - cx) / rx) * fmax(0, 1 - fabs(y + 0.5 - cy) / ry);

			sum += w * s->data[(y * s->w + x) * s->channels + k];
			weight += w;
		}
	return sum / weight;
}

/*
 * Checks each pixel of a picture of w x h: it is the filter over its part of the source, or black.
 */
static void check_fit(const struct rvl_image *s, uint32_t w, uint32_t h, enum rvl_fit fit)
{
	double sx = (double)s->w / w, sy = (double)s->h / h, x0 = 0, y0 = 0;
	uint32_t in_w = w, in_h = h, left = 0, top = 0;
	struct rvl_image d;

	if (fit == RVL_FIT_CROP) {
		sx = sy = fmin(sx, sy);
		x0 = (s->w - sx * w) / 2;
		y0 = (s->h - sy * h) / 2;
	} else if (fit == RVL_FIT_PAD) {
		double scale = fmax(sx, sy);

		in_w = (uint32_t)fmax(1, round(s->w / scale));
		in_h = (uint32_t)fmax(1, round(s->h / scale));
		left = (w - in_w) / 2;
		top = (h - in_h) / 2;
		sx = (double)s->w / in_w;
		sy = (double)s->h / in_h;
	}
	ck_assert_int_eq(rvl_image_fit(s, w, h, fit, &d), 0);
	ck_assert(d.w == w && d.h == h && d.channels == s->channels);
	for (uint32_t i = 0; i < w * h * s->channels; i++) {
		uint32_t k = i % s->channels, x = i / s->channels % w - left, y = i / s->channels / w - top;
		double want = x < in_w && y < in_h ? filtered(s, x0 + (x + 0.5) * sx, y0 + (y + 0.5) * sy,
							      fmax(sx, 1), fmax(sy, 1), k) : 0;

		ck_assert_msg(fabs(d.data[i] - want) < 0.501, "%u x %u to %u x %u, %s: sample %u is %u, not %f",
			      s->w, s->h, w, h, rvl_fit_name(fit), i, d.data[i], want);
	}
	free(d.data);
}

START_TEST(sizes)
{
	static const uint32_t to[][2] = { { 7, 5 }, { 1, 1 }, { 3, 3 }, { 5, 7 }, { 14, 10 }, { 20, 3 }, { 2, 19 },
					  { 1, 9 }, { 11, 1 }, { 100, 1 }, { 1, 100 } };
	static const uint32_t from[][2] = { { 7, 5 }, { 1, 1 }, { 9, 2 }, { 4, 13 } };
	uint8_t data[3 * 64];
	uint32_t seed = 3;

	for (size_t i = 0; i < sizeof(data); i++) {
		seed = seed * 1664525 + 1013904223;
		data[i] = (uint8_t)(seed >> 24);
	}
	for (size_t i = 0; i < N(from); i++)
		for (size_t k = 0; k < N(to); k++)
			for (uint32_t channels = 1; channels <= 3; channels += 2)
				for (int fit = RVL_FIT_CROP; fit <= RVL_FIT_STRETCH; fit++)
					check_fit(&(struct rvl_image) { .w = from[i][0], .h = from[i][1],
							.channels = channels, .data = data },
						  to[k][0], to[k][1], (enum rvl_fit)fit);
}
END_TEST

START_TEST(fits)
{
	static const char *const names[] = { "none", "crop", "pad", "stretch" };
	struct rvl_image s = { .w = 2, .h = 1, .channels = 1, .data = (uint8_t[]){ 3, 4 } }, d;

	for (int i = 0; i < 4; i++) {
		ck_assert_str_eq(rvl_fit_name((enum rvl_fit)i), names[i]);
		ck_assert_int_eq(rvl_fit_find(names[i]), i);
	}
	ck_assert_int_eq(rvl_fit_find("cropped"), -1);
	ck_assert_int_eq(rvl_fit_find(""), -1);
	ck_assert_int_eq(rvl_image_fit(&s, 2, 1, RVL_FIT_NONE, &d), 0);
	ck_assert_mem_eq(d.data, s.data, 2);
	free(d.data);
	ck_assert_int_eq(rvl_image_fit(&s, 1, 1, RVL_FIT_NONE, &d), -EINVAL);
	ck_assert_int_eq(rvl_image_fit(&s, 2, 2, RVL_FIT_NONE, &d), -EINVAL);
}
END_TEST

/* ---- on a terminal ---- */

static void drawn(uint32_t count, const uint8_t *const *pixels, uint32_t w, uint32_t h, const char *const *labels,
		  bool colour, const char *want)
{
	FILE *f = fopen(in_dir("pic"), "we");

	rvl_picture(f, count, pixels, w, h, labels, colour);
	fclose(f);
	holds(in_dir("pic"), want, strlen(want));
}

#define HALF_UP "\xe2\x96\x80"
#define HALF_DOWN "\xe2\x96\x84"

START_TEST(blocks)
{
	/* Pairs of one column: the contrast of 96 is a shade, 97 is a half block. */
	static const uint8_t a[] = { 96, 97, 0, 0, 50, 51, 102, 103, 153, 154, 204, 205, 255,
				     0, 0, 96, 97, 50, 51, 102, 103, 153, 154, 204, 205, 255 };
	static const uint8_t odd[] = { 97, 200, 255 };
	const uint8_t *const two[] = { odd, odd };

	drawn(1, (const uint8_t *const[]){ a }, 13, 2, (const char *const[]){ "a long name of it" }, false,
	      "   " HALF_UP " " HALF_DOWN "  \xe2\x96\x91\xe2\x96\x92\xe2\x96\x92\xe2\x96\x93\xe2\x96\x93"
	      "\xe2\x96\x88\xe2\x96\x88\n  a long name o\n\n");
	/* The row below the last of an odd height is black. */
	drawn(2, two, 1, 3, (const char *const[]){ "A", "" }, false,
	      "  " HALF_DOWN "  " HALF_DOWN "\n  " HALF_UP "  " HALF_UP "\n  A   \n\n");
}
END_TEST

#define PIXEL(top, bottom) "\x1b[38;5;" top "m\x1b[48;5;" bottom "m" HALF_UP

/* Proves the grey ramp of 256 colours at both ends of each range, and 24-bit colour by COLORTERM. */
START_TEST(colours)
{
	static const uint8_t p[] = { 3, 4, 14, 246, 247, 255, 0, 15, 25, 128, 244, 1 };
	const uint8_t *const one[] = { p };
	const char *const none[] = { "" };
	static const char *const terms[] = { "truecolor", "24bit", "256color" };

	unsetenv("COLORTERM");
	drawn(1, one, 6, 2, none, true, "  " PIXEL("16", "16") PIXEL("232", "233") PIXEL("232", "234")
	      PIXEL("255", "244") PIXEL("231", "255") PIXEL("231", "16") "\x1b[0m\n        \n\n");
	for (int i = 0; i < 3; i++) {
		setenv("COLORTERM", terms[i], 1);
		drawn(1, one, 1, 1, none, true, i < 2 ? "  \x1b[38;2;3;3;3m\x1b[48;2;0;0;0m" HALF_UP "\x1b[0m\n   \n\n" :
		      "  " PIXEL("16", "16") "\x1b[0m\n   \n\n");
	}
}
END_TEST

/* ---- sysfs ---- */

static void put_link(const char *path, const char *target)
{
	char full[300];

	put_file(dir, path, "");
	snprintf(full, sizeof(full), "%s/%s", dir, path);
	unlink(full);
	ck_assert_int_eq(symlink(target, full), 0);
}

static bool second(void *ctx, const char *name)
{
	snprintf((char *)ctx + strlen(ctx), 20, "%s ", name);
	return !strcmp(name, "b");
}

START_TEST(system_files)
{
	char text[16], list[64] = "", path[RVL_PATH_MAX];

	rvl_sys_root = dir;
	put_file(dir, "sys/a", "one\ntwo\n");
	put_file(dir, "sys/empty", "");
	put_file(dir, "sys/long", "0123456789abcdefgh");
	ck_assert_str_eq(rvl_sys_path(path, "sys/%s", "a"), path);
	ck_assert_str_eq(path + strlen(dir), "/sys/a");
	ck_assert(rvl_sys_exists("sys/%c", 'a') && !rvl_sys_exists("sys/%c", 'b'));
	ck_assert(rvl_sys_read(text, sizeof(text), "sys/%s", "a"));
	ck_assert_str_eq(text, "one");
	ck_assert(rvl_sys_read(text, sizeof(text), "sys/long"));
	ck_assert_str_eq(text, "0123456789abcde");
	ck_assert(!rvl_sys_read(text, sizeof(text), "sys/empty"));
	ck_assert_str_eq(text, "");
	strcpy(text, "old");
	ck_assert(!rvl_sys_read(text, sizeof(text), "sys/none"));
	ck_assert_str_eq(text, "");
	put_link("sys/far", "../../x/y");
	put_link("sys/near", "y");
	ck_assert(rvl_sys_link(text, sizeof(text), "sys/far"));
	ck_assert_str_eq(text, "y");
	ck_assert(rvl_sys_link(text, sizeof(text), "sys/near"));
	ck_assert_str_eq(text, "y");
	ck_assert(!rvl_sys_link(text, sizeof(text), "sys/a"));
	put_file(dir, "list/.hidden", "");
	put_file(dir, "list/c", "");
	put_file(dir, "list/a", "");
	ck_assert(!rvl_sys_each("list", second, list));
	ck_assert_str_eq(list, "a c ");
	list[0] = '\0';
	put_file(dir, "list/b", "");
	ck_assert(rvl_sys_each("list", second, list));
	ck_assert_str_eq(list, "a b ");
	ck_assert(!rvl_sys_each("nothing", second, list));
	ck_assert_str_eq(list, "a b ");
}
END_TEST

START_TEST(frequency_devices)
{
	char name[64] = "none", device[64];

	rvl_sys_root = dir;
	put_link("sys/class/drm/renderD128/device", "../../../0000:00:04.0");
	put_link("sys/class/accel/accel0/device", "../../../0000:00:06.0");
	put_file(dir, "sys/class/devfreq/bare", NULL);
	ck_assert(!rvl_sys_devfreq("renderD128", name, sizeof(name)));
	put_link("sys/class/devfreq/a/device", "../../../0000:00:05.0");
	ck_assert(!rvl_sys_devfreq("renderD128", name, sizeof(name)));
	ck_assert_str_eq(name, "none");
	put_link("sys/class/devfreq/c/device", "../../../0000:00:06.0");
	put_link("sys/class/devfreq/b/device", "../../../0000:00:04.0");
	ck_assert(rvl_sys_devfreq("renderD128", name, sizeof(name)));
	ck_assert_str_eq(name, "b");
	ck_assert(rvl_sys_devfreq("accel0", name, sizeof(name)));
	ck_assert_str_eq(name, "c");
	ck_assert(rvl_sys_link(device, sizeof(device), "sys/class/devfreq/%s/device", name));
	ck_assert_str_eq(device, "0000:00:06.0");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("files");
	TCase *t = add_case(s, "files", 30, setup, teardown);

	tcase_add_test(t, element_types);
	tcase_add_test(t, values);
	tcase_add_test(t, shapes);
	tcase_add_test(t, allocations);
	tcase_add_test(t, reading);
	tcase_add_test(t, writing);
	tcase_add_test(t, half_of_a_new_file_is_removed);
	tcase_add_test(t, a_failed_replacement_keeps_the_old_file);
	tcase_add_test(t, a_replaced_file_keeps_its_mode_and_links);
	tcase_add_test(t, large_files_are_mapped);
	tcase_add_test(t, built_files);
	tcase_add_test(t, built_file_sizes);
	tcase_add_test(t, npy_bytes);
	tcase_add_test(t, npy_long_header);
	tcase_add_test(t, npy_versions);
	tcase_add_test(t, npy_types);
	tcase_add_test(t, npy_refusals);
	tcase_add_test(t, tensor_values);
	tcase_add_test(t, tensor_shapes);
	tcase_add_test(t, tensor_refusals);
	tcase_add_test(t, png_files);
	tcase_add_test(t, png_damage);
	tcase_add_test(t, pnm_files);
	tcase_add_test(t, pnm_refusals);
	tcase_add_test(t, idx_files);
	tcase_add_test(t, sizes);
	tcase_add_test(t, fits);
	tcase_add_test(t, blocks);
	tcase_add_test(t, colours);
	tcase_add_test(t, system_files);
	tcase_add_test(t, frequency_devices);
	return run_suite(s);
}
