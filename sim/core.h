/* SPDX-License-Identifier: MIT */
/*
 * The interface between the compute core (engines, scratchpads, regions) and the queue. It is
 * implemented by core.c, region.c, load.c, conv.c, alu.c and store.c, and used by device.c
 * (descriptors, queue, time).
 */
#ifndef RVL_SIM_CORE_H
#define RVL_SIM_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rivulet_board.h"
#include "rivulet_dev.h"
#include "rivulet_isa.h"

/**
 * struct rvl_bus - the memory that the device masters
 * @map: host address of [addr, addr + len), or NULL when any byte of it is outside memory (or, with
 * @write, not writable). Pointers stay valid while a job runs.
 * @bits: width of the addresses that the device drives; rivulet_sim_new() sets it to the board's
 * dma_bits. 0 stands for 64.
 */
struct rvl_bus {
	void *(*map)(void *ctx, uint64_t addr, uint64_t len, bool write);
	void *ctx;
	uint32_t bits;
};

/**
 * rvl_bus_map() - host address of [addr, addr + len), or NULL
 * A device has no wires for the address bits above its width. Memory above must not be reachable by
 * an alias in the lower part.
 */
static inline void *rvl_bus_map(const struct rvl_bus *bus, uint64_t addr, uint64_t len, bool write)
{
	uint64_t last = addr + len - 1;

	if (last < addr || (bus->bits && bus->bits < 64 && last >> bus->bits))
		return NULL;
	return bus->map(bus->ctx, addr, len, write);
}

/** struct rvl_access - where the last failed access was */
struct rvl_access {
	uint32_t slot;
	uint64_t offset;
};

/** struct rvl_regions - the region table of the running job, checked on every access */
struct rvl_regions {
	const struct rvl_bus *bus;
	struct rivulet_region region[RIVULET_SLOTS];	/* host byte order */
	struct rvl_access bad;
};

/**
 * rvl_region_span() - the host bytes of the longest contiguous piece at the start of
 * [offset, offset + len)
 * The whole range is checked against the slot first. Returns 0 with @p and @got (1..len), or an
 * enum rivulet_fault with r->bad set. @len >= 1.
 */
int rvl_region_span(struct rvl_regions *r, uint32_t slot, uint64_t offset, uint64_t len, bool write,
		    void **p, uint64_t *got);
/**
 * rvl_region_read(), rvl_region_write() - copy across page boundaries
 * Return 0, or a fault, after which nothing was written.
 */
int rvl_region_read(struct rvl_regions *r, uint32_t slot, uint64_t offset, void *dst, uint64_t len);
int rvl_region_write(struct rvl_regions *r, uint32_t slot, uint64_t offset, const void *src,
		     uint64_t len);

/** struct rvl_job - one program to run */
struct rvl_job {
	struct rvl_regions regions;
	struct rivulet_variant variant;		/* host byte order, validated: length > 0 */
	const atomic_bool *abort;		/* checked between instructions; NULL: never */
	_Atomic uint32_t *progress;		/* incremented per instruction; NULL: not wanted */
	struct rivulet_work work;		/* filled by rvl_core_run(), for its energy */
	bool drop_token;			/* injected: the first pushed token is dropped */
};

struct rvl_core;

/**
 * rvl_core_new() - engines and cleared scratchpads of @board, which must outlive it; NULL: no
 * memory
 */
struct rvl_core *rvl_core_new(const struct rivulet_board *b);
struct rvl_core *rvl_core_free(struct rvl_core *c);

/** rvl_core_clear() - zero scratchpads and accumulators, as a change of client demands */
void rvl_core_clear(struct rvl_core *c);

/**
 * rvl_core_run() - run a program to its end, fault or abort
 * Fills of @st: state (DONE, FAULT, ABORTED), fault, fault_slot, fault_offset, insn, cycles,
 * *_busy, stalls, bytes, macs; the caller fills the rest. Lack of memory is FAULT_INTERNAL.
 */
void rvl_core_run(struct rvl_core *c, struct rvl_job *job, struct rivulet_status *st);

/**
 * rvl_core_begin(), rvl_core_go() - rvl_core_run() in two parts, for a caller that must not block
 * @job lives until rvl_core_go() returns true: the program has ended and @st is filled. With
 * @brief, rvl_core_go() takes some microseconds at most. If it returns false, a call without
 * @brief, from any thread, must run the rest.
 */
void rvl_core_begin(struct rvl_core *c, struct rvl_job *job);
bool rvl_core_go(struct rvl_core *c, bool brief, struct rivulet_status *st);

#endif
