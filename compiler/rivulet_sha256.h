/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4) by libnettle: the identity of a model in program files and in the cache. */
#ifndef RIVULET_SHA256_H
#define RIVULET_SHA256_H

#include <stddef.h>
#include <stdint.h>

/** rivulet_sha256() - hash @size bytes at @data into 32 bytes at @out */
void rivulet_sha256(const void *data, size_t size, uint8_t out[32]);

#endif
