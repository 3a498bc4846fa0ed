/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/* SHA-256 (FIPS 180-4): the name of a model in program files and caches. */
#ifndef RIVULET_SHA256_H
#define RIVULET_SHA256_H

#include <stddef.h>
#include <stdint.h>

/** rivulet_sha256() - @size bytes at @data to 32 bytes at @out */
void rivulet_sha256(const void *data, size_t size, uint8_t out[32]);

#endif
