/* SPDX-License-Identifier: MIT */
/*
 * The compiler's process: `rivuletd --worker`, started for one model with three descriptors. It parses
 * untrusted files, so a system call filter and resource limits leave it nothing but computing.
 *
 *   parent                                worker
 *   struct rvl_worker_job        ->       limits, system call filter, maps the model
 *                                <-       struct rvl_worker_hash: before any byte is parsed
 *   RVL_WORKER_GO                ->       compiles, writes the program (a hit in the cache kills it)
 *                                <-       struct rvl_worker_result, then exits
 */
#ifndef RVL_WORKER_H
#define RVL_WORKER_H

#include <stdint.h>

#include "rivulet_board.h"
#include "rivulet_runtime.h"

#define RVL_WORKER_MODEL_FD	3	/* sealed, read only */
#define RVL_WORKER_PROGRAM_FD	4	/* memfd, empty, to be written */
#define RVL_WORKER_CONTROL_FD	5	/* SOCK_SEQPACKET to the parent */
#define RVL_WORKER_GO		0x6f67u

struct rvl_worker_job {
	struct rivulet_board board;
	uint64_t model_size;	/* bytes at the start of the model's descriptor */
	uint64_t batch, symbol;	/* rivulet_compile_options */
	uint64_t memory;	/* bytes of address space */
	uint64_t seconds;	/* of processor time */
	uint64_t program_max;	/* bytes */
	uint32_t flags;		/* enum rivulet_load_flag */
	uint32_t rsvd;
};

struct rvl_worker_hash {
	uint8_t sha256[32];
};

struct rvl_worker_result {
	int32_t error;		/* 0 or negative errno */
	uint32_t rsvd;
	uint64_t size;		/* bytes of the program */
	char text[256];
};

/** rvl_worker_main() - main() of the worker process; returns its exit status */
int rvl_worker_main(void);

/** rvl_worker_sandbox() - set limits and the system call filter of the calling process */
int rvl_worker_sandbox(const struct rvl_worker_job *job);

/**
 * rvl_worker_translate() - model to program, without the sandbox
 * @res: error and text, or 0 and the size; the program is written to @program_fd
 */
void rvl_worker_translate(const struct rvl_worker_job *job, const void *model, int program_fd,
			  struct rvl_worker_result *res);

#endif
