/* SPDX-License-Identifier: MIT */
/*
 * Faults on purpose, so that a driver's recovery can be tested. A list of "KIND@N" or "KIND@N:ARG"; N counts
 * the jobs that were started since power on, from 1; "+N" counts from now.
 */
#ifndef RVL_SIM_INJECT_H
#define RVL_SIM_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* I(name, takes an argument, meaning) */
#define RVL_INJECTIONS(I)                                                                          \
	I(hang, 0, "job N never ends; ABORT and RESET stop it")                                    \
	I(stuck, 0, "job N never ends and ignores ABORT; RESET stops it")                          \
	I(dead, 0, "from the start of job N the device serves nothing")                            \
	I(allones, 0, "at the start of job N the window turns all ones: the device is gone")       \
	I(slow, 1, "job N ends ARG ms late")                                                       \
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
		uint64_t job;
		uint64_t arg;
	} item[RVL_INJECT_MAX];
	unsigned int count;
};

/**
 * rvl_inject_add() - add a comma-separated list, e.g. "hang@3,slow@5:200"; '-' counts as '_'
 * @started: jobs started so far, to which "+N" is added
 * Returns 0, or -EINVAL / -ENOSPC with @err; then nothing was added.
 */
int rvl_inject_add(struct rvl_inject *in, const char *spec, uint64_t started, char *err,
		   size_t errsize);

/** rvl_inject_hit() - is @kind to happen to job @job? @arg (may be NULL): its argument */
bool rvl_inject_hit(const struct rvl_inject *in, enum rvl_inject_kind kind, uint64_t job,
		    uint64_t *arg);

#endif
