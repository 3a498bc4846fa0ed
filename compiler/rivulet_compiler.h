/* SPDX-License-Identifier: MIT */
/*
 * The compiler as its users see it: an ONNX model in, a program file for one board out, and an
 * account of what runs where, why, and how long it will take. Nothing here prints, exits, opens a
 * file or knows an ioctl.
 */
#ifndef RIVULET_COMPILER_H
#define RIVULET_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files.h"
#include "rivulet_board.h"
#include "rivulet_program.h"

/** struct rivulet_blob - bytes owned by the caller; release with rivulet_blob_free() */
struct rivulet_blob {
	void *data;
	size_t size;
	void (*release)(void *data, size_t size); /* NULL: free() */
};

/** rivulet_blob_free() - free the bytes and clear the blob; an empty blob is fine */
void rivulet_blob_free(struct rivulet_blob *b);

/** struct rivulet_frozen - a graph input that becomes a constant of the program */
struct rivulet_frozen {
	const char *name;
	const void *data; /* dense, little endian, of the input's type; borrowed during the call */
	size_t size;	  /* bytes; must equal the input's */
};

/* How the range of a tensor follows from its values. X(identifier, name, what it is) */
#define RIVULET_RANGES(X)                                                                          \
	X(AUTO, "auto", "the method whose model is nearest to the float model on the examples")    \
	X(MIN_MAX, "min-max", "all values")                                                        \
	X(PERCENTILE, "percentile", "all but a share of outliers")                                 \
	X(ENTROPY, "entropy", "least divergence between both distributions")                       \
	X(MSE, "mse", "least mean squared error")

enum rivulet_range {
#define RIVULET_RANGE_ENUM(id, name, doc) RIVULET_RANGE_##id,
	RIVULET_RANGES(RIVULET_RANGE_ENUM)
#undef RIVULET_RANGE_ENUM
	RIVULET_RANGE_COUNT
};

/** enum rivulet_correct - whether biases take up the mean error of rounded weights */
enum rivulet_correct {
	RIVULET_CORRECT_AUTO, /* with RIVULET_RANGE_AUTO where it brings the outputs nearer, else not */
	RIVULET_CORRECT_YES,
	RIVULET_CORRECT_NO
};

/** enum rivulet_wide - whether images that binary layers make and add are int16, not 8 bits */
enum rivulet_wide {
	/*
	 * Where the outputs on the examples gain RIVULET_WIDE_DB of SNR or more by int16: then at least half
	 * of their error is the rounding of these images to 8 bits.
	 */
	RIVULET_WIDE_AUTO,
	RIVULET_WIDE_YES,
	RIVULET_WIDE_NO
};
#define RIVULET_WIDE_DB 3.0

/** struct rivulet_examples - values of one input, example behind example */
struct rivulet_examples {
	const char *input; /* NULL: the model's only input */
	const void *data;  /* dense, little endian, of the input's type; borrowed during the call */
	size_t size;	   /* bytes */
};

/**
 * struct rivulet_quantise - how a float model becomes a quantised one; all zero: not at all
 * Examples for a model whose inputs hold several of them in the first dimension need not be a
 * multiple of that number: the first examples fill the last run.
 */
struct rivulet_quantise {
	const struct rivulet_examples *examples; /* one entry for each input */
	uint32_t n_examples;
	enum rivulet_range range;
	double percentile; /* of RIVULET_RANGE_PERCENTILE, 50 to 100; 0: 99.99 */
	bool s8;	   /* activations int8, not uint8 */
	const char *const *keep_float; /* names of nodes that stay float */
	uint32_t n_keep_float;
	enum rivulet_correct correct;
	bool equalise; /* channels between convolutions get weights of equal ranges on both sides */
	enum rivulet_wide wide;
	/*
	 * In dB, 0: off. Where the SNR of an output is below it on the first examples, the products that
	 * harm most stay float until it is not.
	 */
	double mixed;
	/*
	 * One of both at most, 0: 8 bits. @bits: the mean width of quantised weights over all
	 * multiplications of an inference, 1 to 8. @bits_loss: the percentage of the answers on the
	 * examples that may be others than the float model's, an answer being the class of the largest
	 * value along axis 1 of a float output. Each product gets 1 to 8 bits by what its narrower weights
	 * do to the outputs.
	 */
	double bits, bits_loss;
	uint32_t threads; /* 0: one per processor */
	/*
	 * Receives the quantised model as ONNX, with QuantizeLinear and DequantizeLinear around every
	 * quantised operator; NULL: not wanted. -EOPNOTSUPP where the model's opset lacks an operator.
	 */
	struct rivulet_blob *exported;
};

/** struct rivulet_input_shape - the shape of a graph input */
struct rivulet_input_shape {
	const char *name;
	uint32_t rank;
	int64_t dim[RIVULET_MAX_DIMS];
};

/** struct rivulet_dimension - the value of all dimensions that the model gives one name */
struct rivulet_dimension {
	const char *name;
	int64_t value;
};

/* By what the compiler chooses modes, cuts and cascades. X(identifier, name, what it is) */
#define RIVULET_MEASURES(X)                                                                        \
	X(CYCLES, "cycles", "the device's cycles, of equals the energy at the highest level")      \
	X(ENERGY, "energy", "energy at the highest level, of equals the cycles")

enum rivulet_measure {
#define RIVULET_MEASURE_ENUM(id, name, doc) RIVULET_BY_##id,
	RIVULET_MEASURES(RIVULET_MEASURE_ENUM)
#undef RIVULET_MEASURE_ENUM
	RIVULET_MEASURE_COUNT
};

/** rivulet_measure_name() - "cycles" or "energy" */
const char *rivulet_measure_name(enum rivulet_measure m);

#define RIVULET_NO_VARIANT UINT32_MAX
#define RIVULET_MEMORY_BASE	(UINT64_C(64) << 20)
#define RIVULET_MEMORY_PER_BYTE 8

/** struct rivulet_compile_options - all zero is the default */
struct rivulet_compile_options {
	int64_t batch;	/* value of a symbolic first dimension; 0: 1 */
	int64_t symbol; /* value of other symbolic dimensions; 0: refuse them */
	const struct rivulet_input_shape *shapes; /* decide before @dimensions, those before the two */
	uint32_t n_shapes;
	const struct rivulet_dimension *dimensions;
	uint32_t n_dimensions;
	const struct rivulet_files *files; /* NULL: a model with data in other files is refused */
	const struct rivulet_frozen *frozen;
	uint32_t n_frozen;
	bool serial;	       /* one instruction at a time on the NPU, for debugging */
	bool prof;	       /* every instruction writes a PROF record to RIVULET_SLOT_PROF */
	bool drawing;	       /* the account has edges and spans, for rivulet_explain_html() */
	uint32_t most_instructions; /* of a command stream; 0: the compiler's limit */
	uint64_t most_bytes; /* of the program file; 0: the limit of the format */
	/*
	 * Bytes that the compiler, its process included, may take at a time. -ENOMEM with a text where it
	 * needs more. Calibration and comparison, which run the model, are not counted. 0:
	 * RIVULET_MEMORY_BASE and RIVULET_MEMORY_PER_BYTE for each byte of the model and of its data in
	 * other files.
	 */
	uint64_t most_memory;
	/*
	 * Zeroed memory for the program file, aligned to RIVULET_PROGRAM_ALIGN, as @out->data with
	 * @out->release; a mapped file, for instance. Returns 0 or a negative errno with @err. NULL:
	 * the heap.
	 */
	int (*reserve)(void *arg, size_t size, struct rivulet_blob *out, struct rvl_err *err);
	void *reserve_arg;
	bool no_views;	       /* slices, joins and reshapes are copies */
	bool no_layouts;       /* every image that the CPU touches is in NCHW */
	bool no_chains;        /* every operator on the CPU is a step of its own */
	uint32_t without_modes; /* bit n: CONV mode n is not used, even if the board has it */
	enum rivulet_measure measure; /* of which the compiler chooses the least */
	bool no_reconstruct;   /* an operator whose result a float operator reads stays float */
	bool no_binary;	       /* layers whose inputs and weights have two values are no BinaryConv */
	bool no_gather;	       /* no patches of a convolution are gathered into channels */
	bool no_cascade;       /* every value between two layers of the NPU goes through memory */
	bool no_prefetch;      /* no weights of a layer are loaded before the tiles of another one */
	bool require_npu;      /* -EOPNOTSUPP naming a node that would run on the CPU */
	bool average_within_1; /* accept average pools on the NPU that differ by 1 from
				  onnxruntime's float sums */
	bool cpu_only;	       /* everything on the CPU; needs no board */
	struct rivulet_quantise quantise; /* of a float model */
	bool stochastic;       /* products by bitstreams, of the length of the level's variant */
	const char *const *keep_int8; /* names of nodes that stay int8, or "first", "last" */
	uint32_t n_keep_int8;
	uint32_t length[RIVULET_LEVELS]; /* stochastic: bits by level (8..256), 0: int8 there,
					    RIVULET_NO_VARIANT: the program does not run there */
	uint32_t accuracy[RIVULET_LEVELS]; /* ppm expected at each level, of a plan; 0: unknown */
};

/**
 * struct rivulet_explain_contest - how the mode of a layer was chosen
 * Times and energies (joule at the highest level) are those of the layer and the one before it together.
 */
struct rivulet_explain_contest {
	const char *measure; /* of which the least was chosen */
	const char *chosen;  /* mode */
	const char *other;   /* the mode that came next; NULL: none was near, and all this is zero */
	uint64_t chosen_cycles, other_cycles;
	double chosen_joule, other_joule;
};

/** struct rivulet_explain_row - one layer: a node of the optimised graph with what was fused into
 * it */
struct rivulet_explain_row {
	const char *node;
	const char *op;
	const char *where;  /* "npu" or "cpu" */
	const char *reason; /* cpu: why not on the NPU; npu: "" or what was decided ("gather",
			       "alias") */
	const char *fused;  /* names of the nodes fused into it, "" if none */
	const char *out;    /* output shape, "1x64x112x112" */
	const char *layout; /* of the output in memory: "plain", "nhwc" or "blocked" */
	/* values whose elements lie apart for the step: "reads a, b; writes y"; "" if none */
	const char *pitches;
	uint32_t step;	    /* index in the program's steps */
	const char *bound;  /* what the layer's time is for: "array", "ALU", "port" or "CPU" */
	uint64_t macs;	    /* of the model, padding not counted */
	uint64_t array_macs; /* that the array makes, padding and zeros included; 0 on the CPU */
	uint64_t cycles;    /* estimate; by how much the layer delays the end of its segment */
	uint64_t read_bytes; /* on the CPU: those of the operands */
	uint64_t write_bytes;
	double utilisation; /* macs / (cycles * peak), 0..1; 0 on the CPU */
	double gops;	    /* 1e9 operations of the array a second at the highest level: 2 array_macs */
	double dense_gops;  /* the same of the model: 2 macs */
	struct rivulet_explain_contest contest;
};

/** struct rivulet_explain_segment - one NPU step in total */
struct rivulet_explain_segment {
	uint32_t step;
	uint32_t layers;
	uint32_t instructions;
	uint64_t macs;	     /* of the model */
	uint64_t array_macs; /* of the array, padding included */
	uint64_t sparse_macs; /* of these, by (value, index) pairs */
	uint64_t binary_macs; /* of these, of one bit by one bit */
	uint64_t plane_macs; /* of these, by bit planes */
	uint64_t plane_adds; /* the additions of those */
	uint64_t stream_macs; /* of these, stochastic */
	uint64_t stream_fj;   /* their energy at the highest level */
	uint64_t cycles;
	uint64_t busy[4]; /* by enum rivulet_queue */
	uint64_t port_busy;
	uint64_t read_bytes, write_bytes;
	uint64_t layer_wait;  /* the array's, between the last work of a layer and the first of the next */
	uint64_t weight_wait; /* of these, for the weights alone: what else the layer needs is there */
	double utilisation;
};

/** struct rivulet_explain_edge - row @to uses a value that row @from makes */
struct rivulet_explain_edge {
	uint32_t from, to;
};

#define RIVULET_NO_ROW UINT32_MAX

/**
 * struct rivulet_explain_span - work of one engine for one row, with only short pauses in it
 */
struct rivulet_explain_span {
	uint32_t step;
	uint32_t row;	     /* of the account; RIVULET_NO_ROW: setup of the step */
	uint32_t queue;	     /* enum rivulet_queue */
	uint64_t start, end; /* cycles since the step began */
	uint64_t busy;	     /* cycles in which the engine worked, @end - @start at most */
	uint64_t port;	     /* LOAD, STORE: cycles in which they held the memory port */
};

/** struct rivulet_estimate_row - all NPU steps of a program at one level, run one after the other
 */
struct rivulet_estimate_row {
	uint32_t level;
	uint32_t length; /* of the bitstreams; 0: int8 */
	uint64_t hz;
	uint64_t cycles;
	double seconds;
	double joule;
};

/** struct rivulet_explain - filled by rivulet_compile(); strings and arrays belong to it */
struct rivulet_explain {
	char board[32];
	uint32_t peak; /* MACs per cycle */
	uint32_t dense_peak; /* MACs per cycle that sparse layers stand for; @peak without that mode */
	uint32_t port_bytes; /* of the memory port, a cycle */
	uint32_t n_rows;
	struct rivulet_explain_row *rows;
	uint32_t n_edges;
	struct rivulet_explain_edge *edges;
	uint32_t n_spans;
	struct rivulet_explain_span *spans; /* of the highest level's streams */
	bool measured; /* the spans come from PROF records of a run, else from the timeline model */
	uint32_t n_segments;
	struct rivulet_explain_segment *segments;
	uint32_t n_levels;
	struct rivulet_estimate_row level[RIVULET_LEVELS];
	uint64_t program_bytes, weight_bytes, arena_bytes;
	uint32_t views;	       /* values that lie in the memory of others, so that nothing moves them */
	uint64_t view_bytes;   /* summed over the views; a view of a view counts by itself */
	uint32_t copies;       /* steps and layers that only copy */
	uint64_t copy_bytes;   /* that they write */
	uint32_t reorders;     /* images that CPU steps bring from one layout to another */
	uint64_t reorder_bytes;
	uint32_t cascades;     /* values that stay in the NPU between two layers */
	int64_t cascade_bytes; /* fewer bytes moved for it than without */
	uint32_t prefetches;   /* layers whose first weights load before the end of the layer before */
	const char *binary; /* of how many bits the images of binary layers are, and why; "" or NULL: nothing chosen */
	void *priv; /* owns what the rows point to */
};

/** rivulet_explain_free() - free what it owns and clear it; a zeroed one is fine */
void rivulet_explain_free(struct rivulet_explain *e);

/**
 * rivulet_explain_derive() - fill in utilisation, gops and dense_gops of rows and segments from the
 * other figures; rivulet_compile() has done so
 */
void rivulet_explain_derive(struct rivulet_explain *e);
/** rivulet_explain_board() - name, peaks and port; NULL: everything on the CPU */
void rivulet_explain_board(struct rivulet_explain *e, const struct rivulet_board *board);

/**
 * rivulet_explain_text() - aligned table with units, NPU segments and levels behind it
 * rivulet_explain_json() - the same as one JSON object
 * rivulet_explain_csv() - the rows as comma-separated values, RFC 4180
 * rivulet_explain_html() - one page with the rows, the graph, a roofline and the timeline, which
 * loads nothing; @title: of the page, any bytes
 * All return 0 with a NUL-terminated @out (size without the NUL), or -ENOMEM.
 */
int rivulet_explain_text(const struct rivulet_explain *e, struct rivulet_blob *out);
int rivulet_explain_json(const struct rivulet_explain *e, struct rivulet_blob *out);
int rivulet_explain_csv(const struct rivulet_explain *e, struct rivulet_blob *out);
int rivulet_explain_html(const struct rivulet_explain *e, const char *title, struct rivulet_blob *out);

/**
 * rivulet_compile() - compile a model for a board
 * @onnx, @size: the model file; not needed after the call
 * @board: from rivulet_board_load() or from what a device reports
 * @opt: NULL for defaults
 * @program: receives the program file; passes rivulet_program_check()
 * @explain: may be NULL
 * Returns 0; -EBADMSG (not an ONNX file), -EINVAL (a model that contradicts itself), -EOPNOTSUPP
 * (an operator nothing here executes, named with node and reason), -ENOENT (no input of a frozen
 * name), -E2BIG (beyond a limit), -ENOMEM; @err says what and where.
 */
int rivulet_compile(const void *onnx, size_t size, const struct rivulet_board *board,
		    const struct rivulet_compile_options *opt, struct rivulet_blob *program,
		    struct rivulet_explain *explain, struct rvl_err *err);

/**
 * rivulet_explain_model() - what runs where and why, also of a model that cannot be compiled
 * Unsupported nodes get where "none" and their reason. Otherwise as rivulet_compile().
 */
int rivulet_explain_model(const void *onnx, size_t size, const struct rivulet_board *board,
			  const struct rivulet_compile_options *opt,
			  struct rivulet_explain *explain, struct rvl_err *err);

/**
 * rivulet_estimate() - time and energy of a checked program's NPU steps on a board, by walking the
 * command streams; executes nothing
 * @rows: RIVULET_LEVELS entries, board->levels of them filled
 * Returns the number of rows, or -EINVAL when a stream is malformed.
 */
int rivulet_estimate(const struct rivulet_program *program, const struct rivulet_board *board,
		     struct rivulet_estimate_row *rows, struct rvl_err *err);

/** struct rivulet_compare_row - a quantised tensor beside its float counterpart */
struct rivulet_compare_row {
	char *tensor, *node; /* node: that makes it, "" for an input */
	const char *op;
	double snr_db; /* power about the mean over power of the difference; at most 200 */
	float scale;
	int32_t zero_point;
	uint32_t order; /* in the graph */
};

/** struct rivulet_compare_tensor - float32 values of the runs that are kept, one behind the other */
struct rivulet_compare_tensor {
	char *name; /* NULL: an output that is not float32 */
	uint32_t ndim;
	uint64_t dim[RIVULET_MAX_DIMS]; /* of one run */
	float *want, *got; /* of the float model and of the quantised one */
};

/** struct rivulet_compare - filled by rivulet_compare(); rows with the lowest SNR first */
struct rivulet_compare {
	uint64_t runs;
	uint64_t kept; /* the first runs, of which there are values: at least one */
	uint32_t n_rows;
	struct rivulet_compare_row *rows;
	uint32_t n_outputs;
	struct rivulet_compare_tensor *output;
	const char *dump_name;
	struct rivulet_compare_tensor dump;
};

/**
 * rivulet_compare() - a float model beside its quantised form over the first @runs runs of the examples
 * @opt: batch, symbol, frozen and quantise. @runs: 0: all. @keep: bytes of values that @out may have:
 * only the first runs that fit have values. @dump: a tensor whose values are wanted,
 * or NULL: any tensor that both forms compute. The quantised form computes the bits of the device, and
 * @program receives the program of the same graph. Errors as rivulet_compile(); -ENOENT: no tensor of
 * both forms is called @dump; -E2BIG: the values of one run are more than @keep bytes.
 */
int rivulet_compare(const void *onnx, size_t size, const struct rivulet_board *board,
		    const struct rivulet_compile_options *opt, uint64_t runs, uint64_t keep, const char *dump,
		    struct rivulet_blob *program, struct rivulet_compare *out, struct rvl_err *err);
void rivulet_compare_free(struct rivulet_compare *out);

/** struct rivulet_prune - which weights of a float model become zero */
struct rivulet_prune {
	double sparsity; /* % of the weights of the layers that are pruned */
	bool global;	 /* over all layers together, by what each loses; else of each layer */
};

/** struct rivulet_prune_report - what rivulet_prune() has done */
struct rivulet_prune_report {
	uint32_t layers, spared; /* products that were pruned, and that were not */
	uint64_t weights, kept;	 /* of the former */
	uint64_t runs;	 /* over the examples; 0: there were none */
	double snr_db;	 /* of the worst output against the model as it was; at most 200 */
};

/**
 * rivulet_prune() - a float model with block-sparse weights, as ONNX
 * @opt: batch, symbol, files, frozen inputs and examples, which may be none
 * Of each run of 16 input channels of a row the weights of the largest magnitudes stay. The first
 * product and depthwise or grouped convolutions are spared. -EINVAL: nothing can be pruned. Other
 * errors as rivulet_compile().
 */
int rivulet_prune(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
		  const struct rivulet_prune *p, struct rivulet_blob *out,
		  struct rivulet_prune_report *report, struct rvl_err *err);

/** struct rivulet_model_input - an input of a model */
struct rivulet_model_input {
	char *name;
	enum rivulet_dtype dtype;
	uint32_t ndim;
	uint64_t dim[RIVULET_MAX_DIMS];
};

/**
 * rivulet_model_hash() - SHA-256 that identifies a model: of its file, and of the data that it has
 * in the files of @opt
 * A program file has the same in its header. Errors as rivulet_compile().
 */
int rivulet_model_hash(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
		       uint8_t out[32], struct rvl_err *err);

/**
 * rivulet_model_inputs_of() - the inputs that a model has left with the batch, symbol and frozen
 * inputs of @opt
 * @out: *@n entries, to be freed with rivulet_model_inputs_free(). Errors as rivulet_compile().
 */
int rivulet_model_inputs_of(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
			    struct rivulet_model_input **out, uint32_t *n, struct rvl_err *err);
void rivulet_model_inputs_free(struct rivulet_model_input *list, uint32_t n);

/**
 * rivulet_quantise_hash() - SHA-256 of the examples and of all that a quantised model depends on
 * All zero where @q has no examples.
 */
void rivulet_quantise_hash(const struct rivulet_quantise *q, uint8_t out[32]);

/**
 * rivulet_target_of() - what a program for @board may demand, to compare with rivulet_program_fits()
 */
void rivulet_target_of(const struct rivulet_board *board, struct rivulet_target *t);

#endif
