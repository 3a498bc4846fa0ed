// SPDX-License-Identifier: MIT
#include "rivulet_sha256.h"

#include <nettle/sha2.h>

void rivulet_sha256(const void *data, size_t size, uint8_t out[32])
{
	struct sha256_ctx ctx;

	sha256_init(&ctx);
	sha256_update(&ctx, size, data);
	sha256_digest(&ctx, SHA256_DIGEST_SIZE, out);
}
