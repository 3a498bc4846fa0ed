/* SPDX-License-Identifier: MIT */
/* Compiled programs, shared by content, and what their runs took. */
#ifndef RVL_CACHE_H
#define RVL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "offload.h"
#include "peak.h"
#include "rivulet_board.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"
#include "util.h"

/**
 * struct rvl_key - all inputs of a compilation; compared as bytes, so it is zeroed before it is
 * filled
 */
struct rvl_key {
	uint8_t sha256[32];
	struct rivulet_target target;
	struct rivulet_board board;	/* input of the compiler's cost model; padding is zero */
	uint64_t batch, symbol;
	uint32_t flags;	/* of LOAD, without WANT_FD */
	uint32_t rsvd;
};

/** struct rvl_totals - sums over runs */
struct rvl_totals {
	uint64_t runs, failed, cancelled, late, refused;
	uint64_t queue_ns, run_ns, npu_ns, cpu_ns;
	uint64_t cycles, energy_pj, macs;
};

/** struct rvl_level_stat - runs of one model whose slowest job was at one level */
struct rvl_level_stat {
	uint64_t runs, late;
	uint64_t run_ns, npu_ns, energy_pj;
	uint64_t measured_ns;	/* moving average of start to end; 0: never ran here */
	struct rvl_peak longest;	/* ns that a run kept the device; epochs of RVL_PEAK_RUNS */
};

#define RVL_PEAK_RUNS 64

/** struct rvl_program - a compiled model; immutable but for its statistics */
struct rvl_program {
	struct rvl_list link;	/* in the cache, most recently used last */
	struct rvl_work work;	/* of its release */
	uint32_t refs;		/* models that use it; 0: idle */
	struct rvl_cache *cache;
	struct rvl_key key;
	int fd;			/* sealed memfd, opened read only */
	const struct rivulet_program *file;	/* mapped */
	size_t size;
	char name[RIVULET_NAME_MAX];	/* of the first LOAD */
	uid_t owner;			/* who loaded it last */
	bool visible;			/* see rvl_status_mark() */
	struct rvl_holding *holding;	/* of the owner, while it is idle */
	uint32_t npu_steps, cpu_steps;
	uint64_t macs, cycles;	/* cycles at the highest level */
	uint64_t compile_ns;
	uint32_t levels;	/* bit n: can run at level n */
	uint64_t cycles_at[RIVULET_LEVELS];	/* estimated */
	struct rvl_level_stat at[RIVULET_LEVELS];
	struct rvl_totals totals;
};

/** struct rvl_holding - the idle programs of one user, the last who had them loaded */
struct rvl_holding {
	struct rvl_list link;
	uid_t uid;
	uint64_t bytes;
	uint32_t programs;
};

/*
 * Idle programs, those with refs 0, stay within a number of bytes and a number of programs, since
 * each of them also costs a file descriptor and a mapping. When one has to go, it is the least
 * recently used one of the user who holds the largest share, so a user who loads many models evicts
 * only their own.
 */
struct rvl_cache {
	struct rvl_list programs;	/* loaded and idle, least recently used first */
	struct rvl_list holdings;
	uint64_t idle_bytes;		/* whole pages */
	uint32_t idle_programs;
	uint64_t max_bytes, max_programs;
	uint64_t hits, misses, evictions;
	struct rvl_offload *closer;	/* releases programs; NULL: the caller's thread does */
};

void rvl_cache_init(struct rvl_cache *c, uint64_t max_bytes, uint64_t max_programs);
void rvl_cache_clear(struct rvl_cache *c);
/** rvl_cache_limit() - new limits of idle programs; evicts at once */
void rvl_cache_limit(struct rvl_cache *c, uint64_t max_bytes, uint64_t max_programs);
/** rvl_cache_find() - look up a program and take a reference; NULL: not cached */
struct rvl_program *rvl_cache_find(struct rvl_cache *c, const struct rvl_key *key);
/**
 * rvl_program_read() - check and seal what a worker wrote; the caller gets the only reference
 * May be called by any thread. @memfd: taken over, also on error. -EINVAL: not a valid program (a
 * worker is not trusted).
 */
int rvl_program_read(const struct rvl_key *key, const char *name, int memfd,
		     struct rvl_program **out, struct rvl_text *err);
/**
 * rvl_cache_insert() - keep a program; returns it, or the one that the cache has for this key
 * @p: taken over
 */
struct rvl_program *rvl_cache_insert(struct rvl_cache *c, struct rvl_program *p);
/** rvl_cache_forget_times() - discard the measured times: they are of another board */
void rvl_cache_forget_times(struct rvl_cache *c);
struct rvl_program *rvl_program_put(struct rvl_program *p);

#endif
