/* SPDX-License-Identifier: MIT */
/*
 * Which bitstream length a model takes at each voltage/frequency level (seed 003): prediction of time and
 * energy, the choice, and the plan file. The choice is a pure function of what it is given; accuracies come
 * from a callback, asked only for what the choice depends on. Nothing here prints, measures or opens files.
 */
#ifndef RIVULET_PLAN_H
#define RIVULET_PLAN_H

#include "rivulet_compiler.h"

/* ---- what a way of computing costs ---- */

#define RIVULET_PLAN_WAYS 250 /* int8, and streams of 8 to 256 bits */

/** struct rivulet_plan_way - a way to make the model's products, and an inference's cost on the NPU by level */
struct rivulet_plan_way {
	uint32_t length; /* bits of a stream; 0: int8 */
	double seconds[RIVULET_LEVELS];
	double joule[RIVULET_LEVELS];
};

/**
 * rivulet_plan_predict() - fill in the costs of @n ways whose lengths are set
 * @opt: as for rivulet_compile(); lengths and accuracies in it are ignored. Walks the command streams, which is
 * exact; executes nothing. CPU steps cost nothing here.
 * -EOPNOTSUPP: no step of the model runs on this board's NPU; else errors as rivulet_compile().
 */
int rivulet_plan_predict(const void *onnx, size_t size, const struct rivulet_board *board,
			 const struct rivulet_compile_options *opt, struct rivulet_plan_way *way,
			 uint32_t n, struct rvl_err *err);

/* ---- the choice ---- */

/* X(NAME, word, meaning) */
#define RIVULET_PLAN_OBJECTIVES(X)                                                                 \
	X(ACCURACY, "accuracy", "the longest streams that fit the time; int8 counts as longest")   \
	X(RUNS, "runs", "the most inferences per charge that meet the accuracy")                   \
	X(REWARD, "reward", "the most of seed 003's reward")

enum rivulet_plan_objective {
#define RIVULET_PLAN_ENUM(name, word, doc) RIVULET_PLAN_##name,
	RIVULET_PLAN_OBJECTIVES(RIVULET_PLAN_ENUM)
#undef RIVULET_PLAN_ENUM
		RIVULET_PLAN_OBJECTIVE_COUNT
};

/** rivulet_plan_objective_name(), rivulet_plan_objective_find() - "runs"; NULL and -1 for strangers */
const char *rivulet_plan_objective_name(uint32_t objective);
int rivulet_plan_objective_find(const char *word);

/** struct rivulet_plan_level - a level of the plan */
struct rivulet_plan_level {
	uint32_t level; /* of the board */
	uint32_t least; /* accuracy that is demanded, ppm; 0: any */
	double joule;	/* of the battery, spent here */
};

/**
 * struct rivulet_plan_problem - what is asked
 * @level: in the order in which the battery passes them, the fastest first
 * @base_power: W that the rest of the board draws while an inference runs, and, when @awake, between them too
 * @rate: inferences a second; 0: the next starts when the last ends
 * @best, @worst: accuracies that count 1 and 0 in the reward, ppm
 * @tolerance: ppm by which a slower level may be the more accurate without @penalty
 * @accuracy: ppm of a way; called at most once for each, in an order that the objective chooses
 */
struct rivulet_plan_problem {
	const struct rivulet_plan_way *way;
	uint32_t n_ways; /* 1..RIVULET_PLAN_WAYS */
	struct rivulet_plan_level level[RIVULET_LEVELS];
	uint32_t n_levels;
	double constraint; /* s */
	double base_power, rate;
	bool awake;
	enum rivulet_plan_objective objective;
	uint32_t best, worst, tolerance;
	double penalty;
	int (*accuracy)(void *ctx, uint32_t way, uint32_t *ppm, struct rvl_err *err);
	void *ctx;
};

/**
 * struct rivulet_plan_answer - what was chosen, or how far it is from feasible; entries by the problem's levels
 * @missed: bit i: level i has no way that fits
 * @least_time: infeasible: the least constraint with which all levels meet their accuracy, s; INFINITY: none
 * @level_time, @highest: the same of one level; the highest accuracy within the constraint, ppm, 0: nothing fits
 */
struct rivulet_plan_answer {
	bool feasible;
	uint32_t missed;
	uint32_t way[RIVULET_LEVELS];
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
 * rivulet_plan_choose() - the best of all combinations of a way for each level
 * Exact: as if every combination had been compared. Returns 0, feasible or not; -EINVAL: the problem contradicts
 * itself; what @accuracy returned.
 */
int rivulet_plan_choose(const struct rivulet_plan_problem *p, struct rivulet_plan_answer *a,
			struct rvl_err *err);

/**
 * rivulet_plan_stay() - the best plan that spends the whole charge at the problem's level @i
 * @strict: with the highest accuracy that any level of the problem demands, instead of that level's.
 * The answer's entry 0 is that level.
 */
int rivulet_plan_stay(const struct rivulet_plan_problem *p, uint32_t i, bool strict,
		      struct rivulet_plan_answer *a, struct rvl_err *err);

/** rivulet_plan_run_joule() - what an inference takes of the battery, by a way at a level of the board */
double rivulet_plan_run_joule(const struct rivulet_plan_problem *p, uint32_t way, uint32_t level);

/** rivulet_plan_dominated() - a faster level of the board at no higher voltage, or -1 */
int rivulet_plan_dominated(const struct rivulet_board *b, uint32_t level);

/* ---- the plan file ---- */

#define RIVULET_PLAN_VERSION 1
#define RIVULET_PLAN_KEEP    256
#define RIVULET_PLAN_FILE_MAX (1u << 20)

/** struct rivulet_plan_entry - a level of a plan file; accuracies in ppm */
struct rivulet_plan_entry {
	uint32_t level;
	uint64_t hz;
	uint32_t microvolt;
	uint32_t length;   /* 0: int8 */
	uint32_t accuracy; /* of all examples */
	uint32_t chosen;   /* of those that the plan was chosen by */
	uint32_t held;	   /* of the others */
	uint32_t least;	   /* demanded */
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
	char *keep[RIVULET_PLAN_KEEP]; /* nodes that stay int8 */
	uint32_t n_keep;
	enum rivulet_plan_objective objective;
	uint64_t constraint_ns;
	uint32_t n_levels;
	struct rivulet_plan_entry level[RIVULET_LEVELS];
};

/** rivulet_plan_clear() - a zeroed one is fine */
void rivulet_plan_clear(struct rivulet_plan *p);

/** rivulet_plan_bind() - set model, board, calibration and the rest of @opt that a plan depends on; -ENOMEM, -E2BIG */
int rivulet_plan_bind(struct rivulet_plan *p, const void *onnx, size_t size,
		      const struct rivulet_board *b, const struct rivulet_compile_options *opt,
		      struct rvl_err *err);

/** rivulet_plan_text() - the file's text (size without the NUL); 0 or -ENOMEM */
int rivulet_plan_text(const struct rivulet_plan *p, struct rivulet_blob *out);

/** rivulet_plan_parse() - read untrusted text; -EBADMSG with line and reason, -ENOMEM. @p is cleared on errors */
int rivulet_plan_parse(struct rivulet_plan *p, const void *text, size_t size, struct rvl_err *err);

/**
 * rivulet_plan_apply() - make compile options of a plan, once it is the plan of this model on this board
 * @opt: calibration as it will be used; the plan's batch, symbol, nodes kept, lengths and accuracies are filled in,
 * pointing into @p. Levels without an entry get no variant. -ESTALE: something differs, and is named.
 */
int rivulet_plan_apply(const struct rivulet_plan *p, const void *onnx, size_t size,
		       const struct rivulet_board *b, struct rivulet_compile_options *opt,
		       struct rvl_err *err);

#endif
