/* SPDX-License-Identifier: MIT */
/* The log of make demo-battery as report.c reads it and draw.c draws it. */
#ifndef RVL_BATTERY_REPORT_H
#define RVL_BATTERY_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define ARMS_MAX   32
#define GROUPS_MAX 4	/* pairs of level and length in one discharge */
#define LEVELS_MAX 8

/** struct run - one inference; @charge in ppm before it */
struct run {
	uint32_t charge, level, length;
	uint64_t ns, pj;
};

/** struct group - the runs of an arm at one level with one length, in order of appearance */
struct group {
	uint32_t level, length;
	uint32_t runs, right, misses;
	double ns, pj;		/* summed */
	uint32_t charge;	/* ppm before the first */
};

/** struct arm - one discharge */
struct arm {
	char model[16], experiment[16], name[16];
	double joule;		/* of the device that the battery holds: its capacity over the factor */
	double factor;
	uint32_t runs, refused;
	double seconds, waited;	/* of the wall's clock */
	double taken;		/* J, by the device's counter */
	struct run *run;
	uint32_t room;
	struct group group[GROUPS_MAX];
	uint32_t groups;
};

/** arm_misses(), arm_model() - late runs; what the battery's shares over the energies of a run give */
uint32_t arm_misses(const struct arm *a);
double arm_model(const struct arm *a);

/** draw_tables() - runs of each arm as bars, a row a model; 0 or -1 */
int draw_tables(const char *path, const struct arm *arm, uint32_t arms);
/** draw_timeline() - charge, level, length and latency of the arms of @model, by inference; 0 or -1 */
int draw_timeline(const char *path, const struct arm *arm, uint32_t arms, const char *model);

#endif
