/* SPDX-License-Identifier: MIT */
/*
 * The register window: 32-bit words of memory shared with the driver, each with one writer. Loads
 * have acquire and stores release semantics, so that a word written last publishes all words before
 * it (docs/device.md, 2.1).
 */
#ifndef RVL_SIM_REGS_H
#define RVL_SIM_REGS_H

#include <stdatomic.h>
#include <stdint.h>

#include "rivulet_dev.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the model runs on little-endian hosts");

#define RVL_WINDOW_WORDS (RIVULET_WINDOW_SIZE / 4)

/** struct rvl_window - the words, and callbacks for the device's accesses (NULL: none) */
struct rvl_window {
	_Atomic uint32_t *word;
	void (*reading)(void *ctx, uint32_t reg);	/* before the read */
	void (*trace)(void *ctx, uint32_t reg, uint32_t value);	/* after the write */
	void *ctx;
};

static inline uint32_t rvl_rd(const struct rvl_window *w, uint32_t reg)
{
	if (w->reading)
		w->reading(w->ctx, reg);
	return atomic_load_explicit(&w->word[reg / 4], memory_order_acquire);
}

static inline void rvl_wr(const struct rvl_window *w, uint32_t reg, uint32_t value)
{
	atomic_store_explicit(&w->word[reg / 4], value, memory_order_release);
	if (w->trace)
		w->trace(w->ctx, reg, value);
}

#endif
