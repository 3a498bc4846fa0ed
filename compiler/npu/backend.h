/* SPDX-License-Identifier: MIT */
/*
 * The state of one compilation behind the graph, shared by lowering, memory plan, emission and the
 * program writer.
 *
 * A segment of the graph becomes a list of layers. A layer is one pass of the engines over an
 * activation: convolution (with the operations on drain), pool, element-wise, table or copy. Layers
 * become operations, one per LOAD, CONV, ALU and STORE, in an order that is correct when executed
 * one by one. sched.c derives the dependencies from what each operation reads and writes, and
 * encodes them as tokens, so that operations may overlap without a change of the result.
 */
#ifndef RVL_BACKEND_H
#define RVL_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "npu/estimate.h"
#include "npu/layer.h"
#include "rivulet_compiler.h"

#define RVL_NONE UINT32_MAX

struct rvl_memo;
struct rvl_choice;

/* A command stream: bytes of be->cmds. */
struct rvl_bcmd {
	uint64_t off, len, cycles;
};

/* One step of the program being built. */
struct rvl_bstep {
	bool npu;
	const struct rvl_node *node; /* CPU: the node, or the last of a chain; NPU: of the first layer */
	uint32_t layer0, layers;     /* NPU: of be->layer */
	uint32_t nread, nwrite;
	struct rvl_tensor *read[RIVULET_STEP_REFS]; /* CPU: by operand, NULL where absent */
	struct rvl_tensor *write[RIVULET_STEP_REFS];
	struct rvl_bcmd cmd[RIVULET_LEVELS]; /* by variant */
	uint64_t params_off, params_size;
	uint32_t slots, writes_mask;
	uint64_t macs;
	const char *name;
};

struct rvl_backend {
	struct rvl_graph *g;
	struct rivulet_board target;	   /* without the modes that the options exclude */
	const struct rivulet_board *board; /* @target; NULL: CPU only */
	const struct rivulet_compile_options *opt;
	const char **out_name;	  /* of each output, as the model names it */
	struct rvl_store **store; /* by tensor id; NULL: weights and other private constants */
	struct rvl_layer **layer;
	uint32_t n_layers, cap_layers;
	struct rvl_choice *lowered; /* the layers before modes and cuts were chosen; or NULL */
	struct rvl_bstep *step;
	uint32_t n_steps, cap_steps;
	/* Variants: one for each length that some level asks for; the last is the highest level's. */
	uint32_t n_variants;
	uint32_t length[RIVULET_LEVELS];   /* by variant; 0: int8 */
	uint32_t of_level[RIVULET_LEVELS]; /* variant, or RVL_NONE */
	bool views; /* rvl_pass_views() ran */
	uint64_t arena_size;
	struct rvl_bytes params, cmds;
	uint64_t const_off, const_size; /* constants in the file */
	uint64_t weight_bytes;
	struct rvl_memo *memo; /* times of layers; NULL before the first */
	uint32_t cascades;     /* values that stay in INP */
	int64_t cascade_bytes; /* that are not moved for it */
	uint32_t prefetches;   /* layers whose first weights load ahead, in the last variant */
	struct rvl_kernels_need cpu_need;
	struct rvl_layer_cost *cost;	     /* by layer */
	struct rivulet_explain_segment *seg; /* by variant and step; zero for CPU steps */
	struct rvl_bytes spans; /* struct rivulet_explain_span, @row is a layer; if the options ask for them */
	struct rvl_err *err;
};

/**
 * Inserts copies for the CPU of values that layers of the NPU read, too, where that costs fewer cycles
 * of the port. For the partitioned graph, once its layouts are known.
 */
int rvl_copy_for_cpu(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_err *err);

/** Steps and layers of the partitioned graph, stores of all tensors, forms decided. */
int rvl_lower(struct rvl_backend *be);

/**
 * Before rvl_lower(): marks bits that the NPU is to have as bytes, where that takes fewer cycles; the
 * partitioned graph is lowered in both ways for it.
 */
int rvl_choose_bytes_of_bits(struct rvl_backend *be);
/** Frees what the back end has made of the graph, which stays. */
void rvl_backend_clear(struct rvl_backend *be);

/** A store for every tensor of the partitioned graph. */
int rvl_stores_make(struct rvl_backend *be);
/** Offsets of parts from those of their bases, which are in use if a part is. */
void rvl_stores_settle(const struct rvl_backend *be);
/** The steps in order; @node_layer: by node id, RVL_NONE on the CPU. */
int rvl_steps_make(struct rvl_backend *be, const uint32_t *node_layer);

/**
 * Decides modes, forms and cuts of all layers, cascades and what loads ahead. A step for which a mode was
 * chosen that could make its neighbours slower (struct rvl_mode, rival) is also made without that mode.
 */
int rvl_decide(struct rvl_backend *be);
/**
 * Chooses mode, form and cut of each layer of a step: of those that the tiler finds near, the best by
 * opt->measure. be->lowered has the layers as they were lowered.
 */
int rvl_choose_layers(struct rvl_backend *be, const struct rvl_bstep *step);
/** Cycles, the energy in joule at the highest level, and which of two segments is better. */
double rvl_segment_joule(const struct rvl_backend *be, const struct rivulet_explain_segment *seg);
bool rvl_segment_better(const struct rvl_backend *be, const struct rivulet_explain_segment *a,
			const struct rivulet_explain_segment *b);
/** Whether LOAD could gather the patches of a convolution from a PLAIN operand, and may. */
bool rvl_can_gather(const struct rvl_backend *be, const struct rvl_layer *l);
/**
 * The forms in which layer @l, as it was lowered, can be computed: its own mode and those that could
 * replace it, with patches gathered or not. @form has room for rvl_forms_most(). Returns how many.
 */
uint32_t rvl_forms(struct rvl_backend *be, const struct rvl_layer *l, struct rvl_layer *form);
uint32_t rvl_forms_most(void);
/** Sets the note of a layer whose form was decided. */
void rvl_note_form(struct rvl_layer *l);
/**
 * Times the stream of @n layers from @l on in the last variant. seg->cycles is RVL_TOO_LONG where
 * the stream has more instructions than the compiler allows.
 */
#define RVL_TOO_LONG UINT64_MAX
int rvl_time_layers(struct rvl_backend *be, struct rvl_layer *const *l, uint32_t n,
		    struct rivulet_explain_segment *seg);
/**
 * By opt->measure: cycles and a 64th of the bytes moved, or picojoule at the highest level;
 * RVL_TOO_LONG where the stream is too long.
 */
uint64_t rvl_segment_cost(const struct rvl_backend *be, const struct rivulet_explain_segment *seg);
/** The cost of layers as cascades compare them; or RVL_TOO_LONG. */
int rvl_cost_layers(struct rvl_backend *be, struct rvl_layer *const *l, uint32_t n, uint64_t *cost);
/** Sets for each store how many layers read it, and whether steps pass it on. */
void rvl_count_readers(const struct rvl_backend *be);
/** Whether @b alone reads what @a makes, as the same image, so that they can be in one cascade. */
bool rvl_linked(const struct rvl_layer *a, const struct rvl_layer *b);
/**
 * struct rvl_keep - how values are kept in INP
 * @operands: a result may take the place of what the first layer of its cascade reads, not only of a
 *	second operand
 * @changes: set to how often something was improved
 * @taken: set to the results that took the place of an operand
 */
struct rvl_keep {
	bool operands;
	uint32_t changes, taken;
};

/**
 * Improves the division of the @n layers of a step into cascades, and decides which values are kept
 * in INP between cascades, where that costs less. @alone: the layers as they are cut without
 * cascades.
 */
int rvl_keep_values(struct rvl_backend *be, struct rvl_layer **l, const struct rvl_choice *alone,
		    uint32_t n, struct rvl_keep *keep);
/** Changes how the layers of a step that is decided take turns and how they are cut, where that costs less. */
int rvl_refine(struct rvl_backend *be, struct rvl_layer **l, uint32_t n);
/**
 * Decides which values stay in INP between two layers of a step, and which layers' first weights are
 * loaded ahead; after rvl_choose_layers().
 */
int rvl_cascade(struct rvl_backend *be, struct rvl_bstep *step);
/** Notes on the layers what rvl_cascade() decided. */
void rvl_note_cascades(struct rvl_backend *be);
/** Decides whose first weights of the @n layers of a step load ahead, if the options allow it. */
int rvl_prefetch_layers(struct rvl_backend *be, struct rvl_layer **l, uint32_t n);
/** Whether the array is idle for so much of the step @seg that weights which load early may gain. */
bool rvl_idles(const struct rvl_backend *be, const struct rivulet_explain_segment *seg);
/**
 * Decides whether weights of the @n layers of a step load early, whenever the port is idle; @seg is the
 * timeline without, and becomes that of what is decided.
 */
int rvl_load_early(struct rvl_backend *be, struct rvl_layer **l, uint32_t n,
		   struct rivulet_explain_segment *seg);
/** Slots, stores and products of the NPU steps; once rvl_cascade() has decided. */
void rvl_steps_sum(struct rvl_backend *be);

/** Offset in the file of @bytes of constants, aligned. */
uint64_t rvl_reserve(struct rvl_backend *be, uint64_t bytes, uint64_t align);
/** Offsets of weights (in the order the stream loads them), {bias, factor} and tables. */
int rvl_place_layer(struct rvl_backend *be, struct rvl_layer *l);
/** Writes them into @file, which is zero there. */
int rvl_pack_layer(const struct rvl_backend *be, const struct rvl_layer *l, uint8_t *file);

/** Variants and levels from the options; marks the graph's nodes. -EINVAL: lengths out of range. */
int rvl_variants_choose(struct rvl_backend *be);
/** The one length of CPU steps. -EOPNOTSUPP naming @n when levels differ: the CPU has no level. */
int rvl_variants_of_cpu(const struct rvl_backend *be, const struct rvl_node *n, uint32_t *length);
/** Cycles of a layer in the longest of the variants. */
uint64_t rvl_layer_cycles(const struct rvl_backend *be, const struct rvl_layer *l);
/** Whether some variant computes the layer in @mode, which may be NULL. */
bool rvl_mode_used(const struct rvl_backend *be, const struct rvl_layer *l,
		   const struct rvl_mode *mode);
/** Whether the step's stream depends on the length: a layer's mode has another one for int8. */
bool rvl_step_varies(const struct rvl_backend *be, const struct rvl_bstep *s);
/** Segment of step @i in variant @v. */
static inline struct rivulet_explain_segment *rvl_seg(const struct rvl_backend *be, uint32_t v,
						      uint32_t i)
{
	return &be->seg[v * be->n_steps + i];
}

#endif
