// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "priv.h"
#include "sized.h"

#define SIZE_MAX_SANE 65536	/* no struct of this library will have more bytes */

/* Reads the size field of the caller's struct, and judges it. */
static int check_size(const void *p, size_t first, const char *name, size_t *size)
{
	memcpy(size, p, sizeof(*size));
	if (*size >= first && *size <= SIZE_MAX_SANE)
		return 0;
	return rvl_lib_fail(EINVAL, "%s: field size is %zu: set it to sizeof(%s)", name, *size, name);
}

int rvl_sized_read(void *to, size_t size, const void *from, size_t first, const char *name)
{
	size_t given;
	int r;

	memset(to, 0, size);
	if (!from)
		return 0;
	r = check_size(from, first, name, &given);
	if (r)
		return r;
	for (size_t i = size; i < given; i++)
		if (((const uint8_t *)from)[i])
			return rvl_lib_fail(E2BIG, "%s: byte %zu is set, and this library knows %zu",
					    name, i, size);
	memcpy(to, from, given < size ? given : size);
	return 0;
}

int rvl_sized_write(void *to, const void *from, size_t size, size_t first, const char *name)
{
	size_t room;
	int r = check_size(to, first, name, &room);

	if (r)
		return r;
	memset(to, 0, room);
	memcpy(to, from, room < size ? room : size);
	memcpy(to, &room, sizeof(room));
	return 0;
}
