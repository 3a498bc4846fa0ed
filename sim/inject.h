/* SPDX-License-Identifier: MIT */
/*
 * Injected faults, for tests of a driver's recovery. A list of "KIND@N" or "KIND@N:ARG": N counts
 * the jobs started since power on, from 1; "+N" counts from this call; "=TAG" is the next job whose
 * descriptor has that client tag.
 */
#ifndef RVL_SIM_INJECT_H
#define RVL_SIM_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RVL_DESC_BITS 4608	/* of a descriptor */

/* I(name, highest argument or 0: takes none, meaning) */
#define RVL_INJECTIONS(I)                                                                          \
	I(hang, 0, "job N never ends; ABORT and RESET stop it")                                    \
	I(stuck, 0, "job N never ends and ignores ABORT; RESET stops it")                          \
	I(outrun_abort, 0, "job N ends when it is aborted, just before the ABORT is served")       \
	I(dead, 0, "from the start of job N the device serves nothing")                            \
	I(allones, 0, "at the start of job N the window reads all ones, as if removed")            \
	I(late_dma, 0, "job N ignores ABORT; its work is done between RESET and its acknowledge")  \
	I(lost_token, 0, "the first token that job N pushes is lost: its queues deadlock")         \
	I(flip_desc, RVL_DESC_BITS - 1, "bit ARG of job N's descriptor flips while it is read")    \
	I(slow, UINT32_MAX, "job N ends ARG ms late")                                              \
	I(lost_irq, 0, "job N retires without its interrupt")                                      \
	I(dup_irq, 0, "job N retires with two interrupts")                                         \
	I(corrupt_status, 0, "the status of job N has a wrong checksum")                           \
	I(internal, 0, "job N ends with fault INTERNAL")

#define RVL_INJECT_ENUM(name, arg, doc) RVL_INJECT_##name,
enum rvl_inject_kind { RVL_INJECTIONS(RVL_INJECT_ENUM) RVL_INJECT_KINDS };

#define RVL_INJECT_MAX 32

/** struct rvl_inject - pending injections; zero: none */
struct rvl_inject {
	struct {
		enum rvl_inject_kind kind;
		bool by_client;		/* not bound to a job yet: for the next job of @client */
		uint32_t client;
		uint64_t job;
		uint64_t arg;
		bool hit;		/* counted in @hits */
	} item[RVL_INJECT_MAX];
	unsigned int count;
	uint64_t hits[RVL_INJECT_KINDS];	/* faults that were injected since power on */
};

/**
 * rvl_inject_add() - add a comma-separated list, e.g. "hang@3,slow@5:200"; '-' counts as '_'
 * @started: jobs started so far, to which "+N" is added; injections of past jobs are dropped
 * Returns 0, or -EINVAL / -ENOSPC with @err; then nothing was added.
 */
int rvl_inject_add(struct rvl_inject *in, const char *spec, uint64_t started, char *err,
		   size_t errsize);

/**
 * rvl_inject_hit() - whether @kind applies to job @job; counted once. @arg (or NULL): its argument
 */
bool rvl_inject_hit(struct rvl_inject *in, enum rvl_inject_kind kind, uint64_t job, uint64_t *arg);

/**
 * rvl_inject_bind() - job @job of @client starts and gets the injections pending for this client
 */
void rvl_inject_bind(struct rvl_inject *in, uint32_t client, uint64_t job);

/**
 * rvl_inject_flip() - flip a bit of a descriptor of @client that was just read, if one is injected
 * @job: the number that it will have when it starts
 * Applies once, because the entry is refused and does not become job @job.
 */
void rvl_inject_flip(struct rvl_inject *in, uint32_t client, uint64_t job, void *desc);

#endif
