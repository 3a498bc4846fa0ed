// SPDX-License-Identifier: MIT
/*
 * NumPy's .npy: "\x93NUMPY", version, header length, a Python dict literal, data. The input is
 * untrusted: the dict must have exactly the three keys that the format defines, and nothing else.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/array.h"
#include "verb.h"

#define HEADER_MAX (1 << 17)	/* bytes; what NumPy writes is far shorter */

struct scan {
	const char *p, *end;
};

static void skip(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t'))
		s->p++;
}

static bool eat(struct scan *s, char c)
{
	skip(s);
	if (s->p == s->end || *s->p != c)
		return false;
	s->p++;
	return true;
}

/* A quoted string without escapes, as NumPy writes them. */
static bool string(struct scan *s, char *out, size_t size)
{
	char quote;
	size_t n = 0;

	skip(s);
	if (s->p == s->end || (*s->p != '\'' && *s->p != '"'))
		return false;
	quote = *s->p++;
	while (s->p < s->end && *s->p != quote && n < size - 1)
		out[n++] = *s->p++;
	out[n] = 0;
	return eat(s, quote);
}

static bool number(struct scan *s, uint64_t *out)
{
	bool any = false;

	skip(s);
	*out = 0;
	for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++, any = true)
		if (__builtin_mul_overflow(*out, 10, out) ||
		    __builtin_add_overflow(*out, (uint64_t)(*s->p - '0'), out))
			return false;
	return any;
}

static bool shape(struct scan *s, struct rvl_array *a)
{
	if (!eat(s, '('))
		return false;
	while (!eat(s, ')')) {
		if (a->ndim == RIVULET_MAX_DIMS || !number(s, &a->dim[a->ndim]))
			return false;
		a->ndim++;
		if (!eat(s, ',') && (s->p == s->end || *s->p != ')'))
			return false;
	}
	return true;
}

static bool boolean(struct scan *s, bool *out)
{
	skip(s);
	for (int i = 0; i < 2; i++) {
		const char *word = i ? "True" : "False";
		size_t n = strlen(word);

		if ((size_t)(s->end - s->p) >= n && !memcmp(s->p, word, n)) {
			s->p += n;
			*out = i;
			return true;
		}
	}
	return false;
}

static enum rivulet_dtype descr_type(const char *d)
{
	static const struct { const char *descr; enum rivulet_dtype type; } t[] = {
#define DTYPE_ROW(name, value, text, bytes, npy, onnx) { npy, RIVULET_##name },
		RIVULET_DTYPES(DTYPE_ROW)
#undef DTYPE_ROW
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		if (*d && !strcmp(t[i].descr, d))
			return t[i].type;
	return 0;
}

static int header(struct scan *s, struct rvl_array *a, char *why)
{
	bool fortran = true, have[3] = { false };
	char key[24], descr[24] = "";

	if (!eat(s, '{'))
		return -EINVAL;
	while (!eat(s, '}')) {
		bool ok;

		if (!string(s, key, sizeof(key)) || !eat(s, ':'))
			return -EINVAL;
		if (!strcmp(key, "descr"))
			ok = !have[0] && (have[0] = true) && string(s, descr, sizeof(descr));
		else if (!strcmp(key, "fortran_order"))
			ok = !have[1] && (have[1] = true) && boolean(s, &fortran);
		else if (!strcmp(key, "shape"))
			ok = !have[2] && (have[2] = true) && shape(s, a);
		else
			ok = false;
		if (!ok || (!eat(s, ',') && (s->p == s->end || *s->p != '}')))
			return -EINVAL;
	}
	a->dtype = descr_type(descr);
	if (!have[0] || !have[1] || !have[2])
		return -EINVAL;
	if (!a->dtype) {
		snprintf(why, 160, "NumPy type \"%.20s\" is not supported (float32, uint8, int8, int32, "
			 "int64, bool are)", descr);
		return -EOPNOTSUPP;
	}
	if (fortran && a->ndim > 1) {
		strcpy(why, "column-major arrays are not supported: save a C-ordered copy");
		return -EOPNOTSUPP;
	}
	return 0;
}

int rvl_npy_parse(const uint8_t *p, size_t size, struct rvl_array *out, char *why)
{
	struct rvl_array a = { 0 };
	struct scan s;
	size_t at, len;
	int r;

	strcpy(why, "damaged .npy header");
	if (size < 12 || memcmp(p, "\x93NUMPY", 6) || p[6] < 1 || p[6] > 3)
		return -EINVAL;
	at = p[6] == 1 ? 10 : 12;
	len = p[8] | (size_t)p[9] << 8;
	if (p[6] > 1)
		len |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
	if (len > HEADER_MAX) {
		snprintf(why, 160, "its header of %zu bytes is longer than %d", len, HEADER_MAX);
		return -EINVAL;
	}
	if (len > size - at)
		return -EINVAL;
	s = (struct scan) { (const char *)p + at, (const char *)p + at + len };
	r = header(&s, &a, why);
	if (r)
		return r;
	r = rvl_array_measure(&a);
	if (!r && size - at - len != a.size) {
		snprintf(why, 160, "%zu bytes of data, the shape says %llu", size - at - len,
			 (unsigned long long)a.size);
		return -EINVAL;
	}
	if (!r)
		r = rvl_array_alloc(&a);
	if (r) {
		strcpy(why, "the shape is too large");
		return r;
	}
	memcpy(a.data, p + at + len, a.size);
	*out = a;
	return 0;
}

int rvl_npy_write(const char *path, const struct rvl_array *a)
{
#define DTYPE_ROW(name, value, text, bytes, npy, onnx) [RIVULET_##name] = (npy),
	static const char *const descr[] = { RIVULET_DTYPES(DTYPE_ROW) };
#undef DTYPE_ROW
	char h[512];
	/* NumPy has no bfloat16: its bits are written as uint16. */
	int n = snprintf(h, sizeof(h), "{'descr': '%s', 'fortran_order': False, 'shape': (",
			 *descr[a->dtype] ? descr[a->dtype] : "<u2");
	int total;
	FILE *f;

	for (uint32_t i = 0; i < a->ndim; i++)
		n += snprintf(h + n, sizeof(h) - (size_t)n, "%s%llu%s", i ? " " : "",
			      (unsigned long long)a->dim[i], a->ndim == 1 || i + 1 < a->ndim ? "," : "");
	n += snprintf(h + n, sizeof(h) - (size_t)n, "), }");
	total = (10 + n + 1 + 63) / 64 * 64 - 10;
	f = fopen(path, "wbe");
	if (!f)
		return rvl_tool_fail(RVL_EXIT_FAILED, "%s: %s", path, strerror(errno));
	fwrite("\x93NUMPY\x01\x00", 1, 8, f);
	putc(total & 255, f);
	putc(total >> 8, f);
	fprintf(f, "%-*s\n", total - 1, h);
	fwrite(a->data, 1, a->size, f);
	if (ferror(f) | fclose(f))
		return rvl_tool_fail(RVL_EXIT_FAILED, "%s: %s", path, strerror(errno));
	return 0;
}
