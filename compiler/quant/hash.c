/* SPDX-License-Identifier: MIT */
#include "rivulet_compiler.h"

#include "rivulet_sha256.h"

#include <string.h>

/* Replaces @out by the SHA-256 of @out followed by the SHA-256 of the bytes. */
static void add(uint8_t out[32], const void *data, size_t size)
{
	uint8_t pair[64];

	memcpy(pair, out, 32);
	rivulet_sha256(data, size, pair + 32);
	rivulet_sha256(pair, sizeof(pair), out);
}

void rivulet_quantise_hash(const struct rivulet_quantise *q, uint8_t out[32])
{
	const uint32_t settings[] = { q->range, q->s8, q->correct, q->equalise, q->wide };

	memset(out, 0, 32);
	if (!q->n_examples)
		return;
	for (uint32_t i = 0; i < q->n_examples; i++) {
		const char *name = q->examples[i].input ? q->examples[i].input : "";

		add(out, name, strlen(name));
		add(out, q->examples[i].data, q->examples[i].size);
	}
	add(out, settings, sizeof(settings));
	add(out, &q->percentile, sizeof(q->percentile));
	add(out, &q->mixed, sizeof(q->mixed));
	if (q->bits > 0 || q->bits_loss > 0) {
		add(out, &q->bits, sizeof(q->bits));
		add(out, &q->bits_loss, sizeof(q->bits_loss));
	}
	for (uint32_t i = 0; i < q->n_keep_float; i++)
		add(out, q->keep_float[i], strlen(q->keep_float[i]) + 1);
}
