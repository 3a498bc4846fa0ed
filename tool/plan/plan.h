/* SPDX-License-Identifier: MIT */
/* The state of one rivulet plan, for the files of this folder and verbs/cmd_plan.c. */
#ifndef RVL_TOOL_PLAN_H
#define RVL_TOOL_PLAN_H

#include "data/dataset.h"
#include "model/beside.h"
#include "model/dims.h"
#include "model/mode.h"
#include "progress.h"
#include "rivulet_board.h"
#include "rivulet_plan.h"

/* The examples that choose, and those held out to see whether the choice holds. */
enum rvl_part { RVL_CHOOSE, RVL_HELD, RVL_PARTS };

/** struct rvl_curve - right answers by length (0: int8), measured once and kept in a file */
struct rvl_curve {
	struct rivulet_eval *eval;
	struct rivulet_eval_data part[RVL_PARTS];
	uint32_t threads;
	bool known[RVL_PARTS][RIVULET_SC_MAX + 1];
	uint64_t right[RVL_PARTS][RIVULET_SC_MAX + 1];
	uint8_t key[32];	/* of everything that the counts depend on */
	char file[4096];	/* "": not kept */
	uint32_t measured, unsaved;
	struct rvl_progress progress;
	uint32_t wanted; /* measurements that may be needed */
	double saved;		/* rvl_tool_seconds() */
};

/** rvl_curve_open() - set the file below @dir (NULL: the user's cache) and read it; @key is set */
void rvl_curve_open(struct rvl_curve *c, const char *dir);
/** rvl_curve_save() - write what is not yet in the file */
void rvl_curve_save(struct rvl_curve *c);
/**
 * rvl_curve_right() - right answers of a part, measured when not known; negative errno with @err
 */
int rvl_curve_right(struct rvl_curve *c, enum rvl_part part, uint32_t length, uint64_t *right,
		    struct rvl_err *err);
/** rvl_curve_ppm() - of one part, and of all examples */
int rvl_curve_ppm(struct rvl_curve *c, enum rvl_part part, uint32_t length, uint32_t *ppm,
		  struct rvl_err *err);
int rvl_curve_ppm_all(struct rvl_curve *c, uint32_t length, uint32_t *ppm, struct rvl_err *err);

/** struct rvl_planning - one run of the verb */
struct rvl_planning {
	/* options */
	const char *board_name, *levels, *constraint, *accuracy, *data, *objective, *modes,
		*lengths, *rate, *base_power, *battery, *shares, *range, *penalty, *tolerance,
		*margin, *left, *output, *svg, *cache, *figures;
	uint64_t choose, threads, batch;
	struct rvl_dims dims;
	bool no_cache, quiet;
	struct rvl_mode keep; /* of the mode, only RVL_KEEP_OPTIONS are options */
	/* state */
	const char *model;
	struct rvl_blob onnx;
	struct rivulet_board board;
	struct rivulet_compile_options opt;
	struct rvl_beside beside;
	struct rvl_dataset set;
	struct rvl_curve curve;
	struct rivulet_plan_candidate candidate[RIVULET_PLAN_CANDIDATES];
	struct rivulet_plan_candidate int8; /* also when it may not be chosen */
	struct rivulet_plan_problem problem;
	uint32_t least[RIVULET_LEVELS]; /* accuracy demanded, ppm; @problem adds the margin */
	double charge; /* percent, that the battery has now */
	bool by_rate; /* the rate leaves less time than --time-constraint */
	struct rivulet_plan_answer answer;
	struct rivulet_plan plan;
};

/** rvl_plan_report() - the plan and its alternatives, as text or JSON. 0 or an enum rvl_exit */
int rvl_plan_report(struct rvl_planning *v);
/** rvl_plan_partial() - the accuracies that are known, of a plan that was interrupted */
void rvl_plan_partial(const struct rvl_planning *v);
/** rvl_plan_refusal() - note the error of an infeasible problem; returns RVL_EXIT_DIFFERENT */
int rvl_plan_refusal(const struct rvl_planning *v);
/**
 * rvl_plan_svg() - accuracy, latency and runs against length by level, to @path. 0 or an enum
 * rvl_exit
 */
int rvl_plan_svg(struct rvl_planning *v, const char *path);

#endif
