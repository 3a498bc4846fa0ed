/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* CRC32C (Castagnoli, RFC 3720 B.4) of descriptors, statuses and program files; userspace. */
#ifndef RIVULET_CRC32C_H
#define RIVULET_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** rivulet_crc32c() - CRC32C of @len bytes; @seed is 0, or the result so far to continue */
uint32_t rivulet_crc32c(uint32_t seed, const void *data, size_t len);

#endif
