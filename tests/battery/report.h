/* SPDX-License-Identifier: MIT */
/* The log of make demo-battery: report.c parses it, draw.c draws it. */
#ifndef RVL_BATTERY_REPORT_H
#define RVL_BATTERY_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define ARMS_MAX   32
#define GROUPS_MAX 4 /* pairs of level and length in one discharge */
#define LEVELS_MAX 8

/** struct run - one inference; @charge is the charge before it, in ppm */
struct run {
	uint32_t charge, level, length;
	uint64_t ns, pj;
};

/** struct group - the runs of an arm at one level with one length */
struct group {
	uint32_t level, length;
	uint32_t runs, right, misses;
	double ns, pj;	 /* summed */
	uint32_t charge; /* ppm before the first */
};

/** struct arm - one discharge */
struct arm {
	char model[16], experiment[16], name[16];
	double joule; /* energy of a full battery as the device counts it */
	double factor;
	uint32_t runs, refused;
	double seconds, waited; /* wall-clock time */
	double taken;		/* J, from the device's energy counter */
	struct run *run;
	uint32_t room;
	struct group group[GROUPS_MAX];
	uint32_t groups;
};

/** arm_misses() - the number of runs that took the device longer than the constraint */
uint32_t arm_misses(const struct arm *a);
/**
 * arm_model() - the expected number of runs: for each group, its part of the charge over the energy
 * of a run
 */
double arm_model(const struct arm *a);

/** draw_tables() - draw the runs of each arm as bars, one row for each model. Returns 0 or -1 */
int draw_tables(const char *path, const struct arm *arm, uint32_t arms);
/**
 * draw_timeline() - draw charge, level, length and latency over the inferences of @model. Returns 0
 * or -1
 */
int draw_timeline(const char *path, const struct arm *arm, uint32_t arms, const char *model);

#endif
