// SPDX-License-Identifier: MIT
/*
 * The central directory at the end of the archive names the members; each has a local header before
 * its bytes. Archives of several volumes, encrypted members and ZIP64 are refused. So are members
 * that share bytes, with which a small archive could have any number of large arrays.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "data/npz.h"

#define END_SIGNATURE 0x06054b50u
#define ENTRY_SIGNATURE 0x02014b50u
#define LOCAL_SIGNATURE 0x04034b50u
#define END_SIZE 22
#define ENTRY_SIZE 46
#define LOCAL_SIZE 30
#define MAX_COMMENT 65535
#define MAX_NAME 255
#define MAX_GROWTH 1032	/* deflate cannot expand by more */

enum { STORED = 0, DEFLATED = 8 };

static uint32_t u16(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t u32(const uint8_t *p)
{
	return u16(p) | u16(p + 2) << 16;
}

struct member {
	char name[MAX_NAME + 1];
	uint32_t method, packed, size, crc;
	const uint8_t *data;
};

static const uint8_t *find_end(const uint8_t *p, size_t size)
{
	for (size_t back = END_SIZE; back <= size && back <= END_SIZE + MAX_COMMENT; back++)
		if (u32(p + size - back) == END_SIGNATURE)
			return p + size - back;
	return NULL;
}

/* The bytes behind the local header, whose name and extra field may differ from the directory's. */
static int find_data(const uint8_t *p, size_t size, uint32_t offset, struct member *m)
{
	size_t at;

	if (offset > size || size - offset < LOCAL_SIZE || u32(p + offset) != LOCAL_SIGNATURE)
		return -EINVAL;
	at = (size_t)offset + LOCAL_SIZE + u16(p + offset + 26) + u16(p + offset + 28);
	if (at > size || size - at < m->packed)
		return -EINVAL;
	m->data = p + at;
	return 0;
}

/* One entry of the directory; *at moves behind it. */
static int read_entry(const uint8_t *p, size_t size, size_t *at, struct member *m, char *why)
{
	const uint8_t *e = p + *at;
	uint32_t name, offset;

	if (size - *at < ENTRY_SIZE || u32(e) != ENTRY_SIGNATURE)
		return -EINVAL;
	name = u16(e + 28);
	if (size - *at - ENTRY_SIZE < (size_t)name + u16(e + 30) + u16(e + 32))
		return -EINVAL;
	*at += ENTRY_SIZE + (size_t)name + u16(e + 30) + u16(e + 32);
	*m = (struct member) { .method = u16(e + 10), .crc = u32(e + 16), .packed = u32(e + 20),
			       .size = u32(e + 24) };
	offset = u32(e + 42);
	snprintf(m->name, sizeof(m->name), "%.*s", (int)(name < MAX_NAME ? name : MAX_NAME),
		 (const char *)e + ENTRY_SIZE);
	if (u16(e + 8) & 1 || (m->method != STORED && m->method != DEFLATED) ||
	    m->packed == UINT32_MAX || m->size == UINT32_MAX || offset == UINT32_MAX) {
		snprintf(why, 160, "member \"%.60s\" is encrypted, of ZIP64, or packed by an unknown method",
			 m->name);
		return -EOPNOTSUPP;
	}
	return find_data(p, size, offset, m);
}

static bool inflate_all(const struct member *m, uint8_t *out)
{
	z_stream z = { .next_in = (uint8_t *)(uintptr_t)m->data, .avail_in = m->packed,
		       .next_out = out, .avail_out = m->size };
	bool ok;

	if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
		return false;
	ok = inflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out == m->size;
	inflateEnd(&z);
	return ok;
}

/* A member's bytes; @out is freed by the caller. A wrong size or checksum is damage. */
static int unpack(const struct member *m, uint8_t **out)
{
	*out = NULL;
	if (m->size > RVL_ARRAY_MAX || (m->method == STORED && m->packed != m->size) ||
	    m->size / MAX_GROWTH > m->packed)
		return -EINVAL;
	*out = malloc(m->size ? m->size : 1);
	if (!*out)
		return -ENOMEM;
	if (m->method == STORED)
		memcpy(*out, m->data, m->size);
	else if (!inflate_all(m, *out))
		return -EINVAL;
	return crc32(0, *out, m->size) == m->crc ? 0 : -EINVAL;
}

static int give(const struct member *m, int (*each)(void *, const char *, struct rvl_array *),
		void *arg, char *why)
{
	char name[MAX_NAME + 1], reason[160] = "";
	size_t n = strlen(m->name);
	struct rvl_array a;
	uint8_t *bytes;
	int r = unpack(m, &bytes);

	if (!r)
		r = rvl_npy_parse(bytes, m->size, &a, reason);
	free(bytes);
	if (r) {
		snprintf(why, 160, "member \"%.40s\": %.90s", m->name,
			 *reason ? reason : r == -ENOMEM ? "out of memory" : "damaged");
		return r;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(n > 4 && !strcmp(m->name + n - 4, ".npy") ? n - 4 : n),
		 m->name);
	return each(arg, name, &a);
}

/* Members that lie one behind the other have no more bytes than the archive. */
static int check_sums(uint64_t packed, uint64_t unpacked, uint64_t size, char *why)
{
	if (packed > size) {
		snprintf(why, 160, "members of the archive share bytes");
		return -EINVAL;
	}
	if (unpacked > RVL_ARRAY_MAX) {
		snprintf(why, 160, "the members of the archive have more than %llu bytes",
			 (unsigned long long)RVL_ARRAY_MAX);
		return -EOVERFLOW;
	}
	return 0;
}

int rvl_npz_each(const uint8_t *p, size_t size,
		 int (*each)(void *arg, const char *name, struct rvl_array *a), void *arg, char *why)
{
	const uint8_t *end = find_end(p, size);
	uint64_t packed = 0, unpacked = 0;
	struct member m;
	size_t at;
	int r = 0;

	strcpy(why, "damaged .npz archive");
	if (!end || u32(end + 16) > size)
		return -EINVAL;
	at = u32(end + 16);
	for (uint32_t i = 0; i < u16(end + 10) && !r; i++) {
		r = read_entry(p, size, &at, &m, why);
		if (r)
			return r;
		packed += LOCAL_SIZE + (uint64_t)m.packed;
		unpacked += m.size;
		r = check_sums(packed, unpacked, size, why);
		if (!r)
			r = give(&m, each, arg, why);
	}
	return r;
}
