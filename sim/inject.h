/* SPDX-License-Identifier: MIT */
/*
 * Faults on purpose, so that a driver's recovery can be tested. A list of "KIND@N" or "KIND@N:ARG"; N counts
 * the jobs that were started since power on, from 1; "+N" counts from now; "=TAG" is the next job whose
 * descriptor has that client tag, whoever else's jobs come before it.
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
	I(allones, 0, "at the start of job N the window turns all ones: the device is gone")       \
	I(late_dma, 0, "job N ignores ABORT; its work is done between RESET and its acknowledge")  \
	I(lost_token, 0, "the first token that job N hands on is lost: its queues deadlock")       \
	I(flip_desc, RVL_DESC_BITS - 1, "bit ARG of job N's descriptor flips on its way in")       \
	I(slow, UINT32_MAX, "job N ends ARG ms late")                                              \
	I(lost_irq, 0, "job N retires without its interrupt")                                      \
	I(dup_irq, 0, "job N retires with two interrupts")                                         \
	I(corrupt_status, 0, "the status of job N has a wrong checksum")                           \
	I(internal, 0, "job N ends with fault INTERNAL")

#define RVL_INJECT_ENUM(name, arg, doc) RVL_INJECT_##name,
enum rvl_inject_kind { RVL_INJECTIONS(RVL_INJECT_ENUM) RVL_INJECT_KINDS };

#define RVL_INJECT_MAX 32

/** struct rvl_inject - what is to happen; zero: nothing */
struct rvl_inject {
	struct {
		enum rvl_inject_kind kind;
		bool by_client;		/* not bound to a job yet: @client's next one */
		uint32_t client;
		uint64_t job;
		uint64_t arg;
		bool hit;		/* counted in @hits */
	} item[RVL_INJECT_MAX];
	unsigned int count;
	uint64_t hits[RVL_INJECT_KINDS];	/* faults that took place, since power on */
};

/**
 * rvl_inject_add() - add a comma-separated list, e.g. "hang@3,slow@5:200"; '-' counts as '_'
 * @started: jobs started so far, to which "+N" is added; what was for jobs long past is forgotten
 * Returns 0, or -EINVAL / -ENOSPC with @err; then nothing was added.
 */
int rvl_inject_add(struct rvl_inject *in, const char *spec, uint64_t started, char *err,
		   size_t errsize);

/** rvl_inject_hit() - is @kind to happen to job @job? Counts it once. @arg (may be NULL): its argument */
bool rvl_inject_hit(struct rvl_inject *in, enum rvl_inject_kind kind, uint64_t job, uint64_t *arg);

/** rvl_inject_bind() - job @job of @client starts: what waited for this client is for this job */
void rvl_inject_bind(struct rvl_inject *in, uint32_t client, uint64_t job);

/**
 * rvl_inject_flip() - flip a bit of a descriptor of @client that was just read, if that is wanted
 * @job: the number that it will have when it starts
 * Once: the entry that is refused for it never becomes job @job.
 */
void rvl_inject_flip(struct rvl_inject *in, uint32_t client, uint64_t job, void *desc);

#endif
