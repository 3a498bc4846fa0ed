/* SPDX-License-Identifier: MIT */
/*
 * The bitstream length of a model at each voltage/frequency level (docs/plan.md): prediction of
 * time and energy, the choice, and the plan file. The choice is a pure function of its problem.
 * Accuracies come from a callback, which is called only for those that the choice depends on.
 * Nothing here prints, measures or opens files.
 */
#ifndef RIVULET_PLAN_H
#define RIVULET_PLAN_H

#include "rivulet_compiler.h"

/* ---- the cost of a candidate ---- */

#define RIVULET_PLAN_CANDIDATES 250 /* int8, and streams of 8 to 256 bits */

/**
 * struct rivulet_plan_candidate - a length of the model's products, and the cost of an inference on
 * the NPU by level
 */
struct rivulet_plan_candidate {
	uint32_t length; /* bits of a stream; 0: int8 */
	double seconds[RIVULET_LEVELS];
	double joule[RIVULET_LEVELS];
};

/**
 * rivulet_plan_predict() - fill in the costs of @n candidates whose lengths are set
 * @opt: as for rivulet_compile(); lengths and accuracies in it are ignored. The costs are exact,
 * because they are those of the command streams; nothing is executed. CPU steps are not included.
 * -EOPNOTSUPP: no step of the model runs on this board's NPU; else errors as rivulet_compile().
 */
int rivulet_plan_predict(const void *onnx, size_t size, const struct rivulet_board *board,
			 const struct rivulet_compile_options *opt,
				 struct rivulet_plan_candidate *candidate,
			 uint32_t n, struct rvl_err *err);

/* ---- the choice ---- */

/* X(NAME, word, meaning) */
#define RIVULET_PLAN_OBJECTIVES(X)                                                                 \
	X(ACCURACY, "accuracy", "the longest streams that fit the time; int8 counts as longest")   \
	X(RUNS, "runs", "the most inferences per charge that meet the accuracy")                   \
	X(REWARD, "reward", "the highest reward, as RR-SC defines it")

enum rivulet_plan_objective {
#define RIVULET_PLAN_ENUM(name, word, doc) RIVULET_PLAN_##name,
	RIVULET_PLAN_OBJECTIVES(RIVULET_PLAN_ENUM)
#undef RIVULET_PLAN_ENUM
		RIVULET_PLAN_OBJECTIVE_COUNT
};

/** rivulet_plan_objective_name(), rivulet_plan_objective_find() - "runs"; NULL and -1 if unknown */
const char *rivulet_plan_objective_name(uint32_t objective);
int rivulet_plan_objective_find(const char *word);

/** struct rivulet_plan_level - a level of the plan */
struct rivulet_plan_level {
	uint32_t level; /* of the board */
	uint32_t least; /* minimum accuracy, ppm; 0: any */
	double joule;	/* of the battery, spent here */
};

/**
 * struct rivulet_plan_problem - the input of the choice
 * @level: in the order in which the battery passes them, the fastest first
 * @base_power: W that the rest of the board draws while an inference runs, and with @awake between
 * inferences, too
 * @rate: inferences per second; 0: the next one starts when the previous one ends
 * @best, @worst: accuracies that count 1 and 0 in the reward, ppm
 * @tolerance: ppm by which a slower level may be the more accurate without @penalty
 * @accuracy: returns the ppm of a candidate; called at most once for each, in an order that depends
 * on the objective
 */
struct rivulet_plan_problem {
	const struct rivulet_plan_candidate *candidate;
	uint32_t n_candidates; /* 1..RIVULET_PLAN_CANDIDATES */
	struct rivulet_plan_level level[RIVULET_LEVELS];
	uint32_t n_levels;
	double constraint; /* s */
	double base_power, rate;
	bool awake;
	enum rivulet_plan_objective objective;
	uint32_t best, worst, tolerance;
	double penalty;
	int (*accuracy)(void *ctx, uint32_t candidate, uint32_t *ppm, struct rvl_err *err);
	void *ctx;
};

/**
 * struct rivulet_plan_answer - the choice, or how far the problem is from feasible; entries are by
 * the problem's levels
 * @missed: bit i: level i has no candidate that fits
 * @least_time: if infeasible, the smallest constraint with which all levels meet their accuracy, s;
 * INFINITY: none
 * @level_time: the same for one level
 * @highest: the highest accuracy of a level within the constraint, ppm; 0: nothing fits
 */
struct rivulet_plan_answer {
	bool feasible;
	uint32_t missed;
	uint32_t candidate[RIVULET_LEVELS];
	uint32_t ppm[RIVULET_LEVELS];
	double level_runs[RIVULET_LEVELS];
	double level_seconds[RIVULET_LEVELS]; /* that the level's share lasts */
	double runs;	/* per charge */
	double seconds; /* that a charge lasts */
	double reward;
	double least_time;
	double level_time[RIVULET_LEVELS];
	uint32_t highest[RIVULET_LEVELS];
};

/**
 * rivulet_plan_choose() - the best of all combinations of a candidate for each level
 * The result is that of comparing every combination. Returns 0, feasible or not; -EINVAL if the
 * problem contradicts itself; or the error of @accuracy.
 */
int rivulet_plan_choose(const struct rivulet_plan_problem *p, struct rivulet_plan_answer *a,
			struct rvl_err *err);

/**
 * rivulet_plan_stay() - the best plan that spends the whole charge at the problem's level @i
 * @strict: with the highest accuracy that any level of the problem requires, instead of that
 * level's. The answer's entry 0 is that level.
 */
int rivulet_plan_stay(const struct rivulet_plan_problem *p, uint32_t i, bool strict,
		      struct rivulet_plan_answer *a, struct rvl_err *err);

/**
 * rivulet_plan_run_joule() - battery energy of an inference with a candidate at a level of the
 * board
 */
double rivulet_plan_run_joule(const struct rivulet_plan_problem *p, uint32_t candidate,
			      uint32_t level);

/** rivulet_plan_dominated() - a faster level of the board at no higher voltage, or -1 */
int rivulet_plan_dominated(const struct rivulet_board *b, uint32_t level);

/* ---- the plan file ---- */

#define RIVULET_PLAN_VERSION 2
#define RIVULET_PLAN_KEEP    256
#define RIVULET_PLAN_DIMS    256 /* shapes, and dimensions */
#define RIVULET_PLAN_FILE_MAX (1u << 20)

/** struct rivulet_plan_entry - a level of a plan file; accuracies in ppm */
struct rivulet_plan_entry {
	uint32_t level;
	uint64_t hz;
	uint32_t microvolt;
	uint32_t length;   /* 0: int8 */
	uint32_t accuracy; /* of all examples */
	uint32_t chosen;   /* of those by which the plan was chosen */
	uint32_t held;	   /* of those held out */
	uint32_t least;	   /* required */
	uint64_t time_ns, energy_pj; /* predicted, NPU */
};

/** struct rivulet_plan - a plan file; rivulet_plan_clear() frees what it owns */
struct rivulet_plan {
	char board[32];
	uint8_t model[32];	 /* SHA-256 of the ONNX file */
	uint8_t opp[32];	 /* of the levels */
	uint8_t profile[32];	 /* of the board's other keys */
	uint8_t calibration[32]; /* of the examples; zero: none */
	uint8_t data[32];	 /* of examples and labels */
	uint32_t examples_chosen, examples_held;
	uint64_t batch, symbol;
	struct rivulet_input_shape shape[RIVULET_PLAN_DIMS]; /* the plan owns the names of these and of */
	struct rivulet_dimension dimension[RIVULET_PLAN_DIMS]; /* the dimensions */
	uint32_t n_shapes, n_dimensions;
	char *keep[RIVULET_PLAN_KEEP]; /* nodes that stay int8 */
	uint32_t n_keep;
	enum rivulet_plan_objective objective;
	uint64_t constraint_ns;
	uint32_t n_levels;
	struct rivulet_plan_entry level[RIVULET_LEVELS];
};

/** rivulet_plan_clear() - free what the plan owns; a zeroed plan is allowed */
void rivulet_plan_clear(struct rivulet_plan *p);

/**
 * rivulet_plan_bind() - set model, board, calibration and the parts of @opt that a plan depends on
 * Returns 0, -ENOMEM or -E2BIG.
 */
int rivulet_plan_bind(struct rivulet_plan *p, const void *onnx, size_t size,
		      const struct rivulet_board *b, const struct rivulet_compile_options *opt,
		      struct rvl_err *err);

/** rivulet_plan_text() - the file's text (size without the NUL); 0 or -ENOMEM */
int rivulet_plan_text(const struct rivulet_plan *p, struct rivulet_blob *out);

/**
 * rivulet_plan_parse() - read untrusted text
 * Returns 0, -EBADMSG with line and reason, or -ENOMEM. @p is cleared on errors.
 */
int rivulet_plan_parse(struct rivulet_plan *p, const void *text, size_t size, struct rvl_err *err);

/**
 * rivulet_plan_apply() - fill compile options from a plan of this model on this board
 * @opt: calibration and files as they will be used; the plan's batch, symbol, shapes, dimensions, kept nodes,
 * lengths and accuracies are filled in and point into @p. Levels without an entry get no variant. Returns
 * -ESTALE with the name of what differs if the plan is for another model, board or calibration.
 */
int rivulet_plan_apply(const struct rivulet_plan *p, const void *onnx, size_t size,
		       const struct rivulet_board *b, struct rivulet_compile_options *opt,
		       struct rvl_err *err);

#endif
