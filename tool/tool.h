/* SPDX-License-Identifier: MIT */
/* What the commands share: errors, output, arrays from files, and where models run. */
#ifndef RVL_TOOL_H
#define RVL_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "rivulet.h"
#include "rivulet_accel.h"
#include "rivulet_board.h"
#include "rivulet_compiler.h"
#include "rivulet_eval.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"

/* Exit codes, documented in rivulet(1). X(NAME, value, meaning) */
#define RVL_EXITS(X)                                                                               \
	X(OK, 0, "all went well")                                                                  \
	X(FAILED, 1, "a run, the device or the system failed")                                     \
	X(USAGE, 2, "wrong usage")                                                                 \
	X(DIFFERENT, 3, "done, but a result is not what was expected, or doctor found a problem")  \
	X(ABSENT, 4, "no device, no daemon, or no right to use it")                                \
	X(REFUSED, 5, "a file was refused: model, program, tensor, picture, board")

#define RVL_EXIT_ENUM(name, value, doc) RVL_EXIT_##name = (value),
enum rvl_exit { RVL_EXITS(RVL_EXIT_ENUM) };
#undef RVL_EXIT_ENUM

/** struct rvl_command - one verb; run() returns an enum rvl_exit. argv[0] is the verb */
struct rvl_command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
};

int rvl_cmd_info(int argc, char **argv);
int rvl_cmd_compile(int argc, char **argv);
int rvl_cmd_explain(int argc, char **argv);
int rvl_cmd_run(int argc, char **argv);
int rvl_cmd_bench(int argc, char **argv);
int rvl_cmd_eval(int argc, char **argv);
int rvl_cmd_plan(int argc, char **argv);
int rvl_cmd_doctor(int argc, char **argv);
int rvl_cmd_disasm(int argc, char **argv);
int rvl_cmd_asm(int argc, char **argv);
int rvl_cmd_status(int argc, char **argv);
int rvl_cmd_policy(int argc, char **argv);

/* ---- errors (options.c): the first failure is kept, and told once at the end ---- */

/** rvl_tool_fail() - note what failed. Returns @code, an enum rvl_exit; a second call changes nothing */
int rvl_tool_fail(enum rvl_exit code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** rvl_tool_error - its text, "" while all is well */
extern char rvl_tool_error[1200];
/** rvl_tool_json - --json was given */
extern bool rvl_tool_json;

/* ---- options (options.c) ---- */

/** struct rvl_option - --NAME, with a value when @value is not NULL; may be given often when @fn is set */
struct rvl_option {
	const char *name;
	char letter;			/* -X, or 0 */
	const char *value;		/* name of the value in --help; NULL: a switch */
	const char *help;
	const char **text;		/* where the value goes, or */
	uint64_t *number;		/* ... a whole number, with suffix k, M, or */
	bool *flag;			/* ... a switch, or */
	int (*fn)(void *ctx, const char *value);	/* ... a function, 0 or an enum rvl_exit */
	void *ctx;
};

/**
 * rvl_tool_options() - parse; options and operands may mix; --json and --help are understood everywhere
 * @usage: operands, for --help. Returns the number of operands, moved to the front of argv (from 1), or
 * a negative: -1 - enum rvl_exit, when the command is to end (help was shown, or an error noted).
 */
int rvl_tool_options(int argc, char **argv, const struct rvl_option *o, const char *usage);

/* ---- output (out.c) ---- */

/* JSON to stdout, written as it comes. Keys are literals of ours; strings are escaped. */
void rvl_json_open(const char *key, char bracket);	/* '{' or '['; key NULL: in an array or on top */
void rvl_json_close(void);
void rvl_json_str(const char *key, const char *value);
void rvl_json_u64(const char *key, uint64_t value);
void rvl_json_i64(const char *key, int64_t value);
void rvl_json_num(const char *key, double value);	/* null when not finite */
void rvl_json_bool(const char *key, bool value);
/** rvl_json_raw() - @text is JSON already */
void rvl_json_raw(const char *key, const char *text);
/** rvl_json_begin() - the top object with its schema, "rivulet.NAME/1" */
void rvl_json_begin(const char *name);
/** rvl_json_end() - close it, newline */
void rvl_json_end(void);
/** rvl_json_written() - whether a whole object went out: an error then goes to standard error only */
bool rvl_json_written(void);

/* JSON from the daemon (json.c). Absent members, and those of another type, read as NULL, 0, false or "". */
struct json_object;
/** rvl_json_parse() - the whole of @text, or NULL; released by json_object_put() */
struct json_object *rvl_json_parse(const char *text);
/** rvl_json_member(), rvl_json_item() - borrowed from their container */
struct json_object *rvl_json_member(struct json_object *object, const char *key);
struct json_object *rvl_json_item(struct json_object *array, size_t index);
uint64_t rvl_json_number(struct json_object *object, const char *key);
bool rvl_json_true(struct json_object *object, const char *key);
/** rvl_json_text() - a string member without control characters; returns @buf */
const char *rvl_json_text(struct json_object *object, const char *key, char *buf, size_t size);
/** rvl_daemon_status() - what rivulet_client_status() gives, as text to free. 0 or an enum rvl_exit */
int rvl_daemon_status(struct rivulet_client *c, char **out);

#define RVL_TABLE_COLS 12
/** struct rvl_table - rows are kept, then printed aligned; numbers to the right */
struct rvl_table {
	int cols;
	bool right[RVL_TABLE_COLS];
	char **cell;
	size_t rows, room;
};
/** rvl_table_init() - @heads: one a column; a leading '>' aligns the column to the right */
void rvl_table_init(struct rvl_table *t, int cols, const char *const *heads);
/** rvl_table_cell() - the next cell, row by row */
void rvl_table_cell(struct rvl_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** rvl_table_print() - with @indent spaces before each line; frees the table */
void rvl_table_print(struct rvl_table *t, int indent);

/** rvl_tool_now() - CLOCK_MONOTONIC in ns; rvl_tool_seconds() - the same in seconds */
uint64_t rvl_tool_now(void);
double rvl_tool_seconds(void);
/** rvl_unit() - a value with an SI prefix: "1.23 MHz"; @buf of 32 bytes is returned */
const char *rvl_unit(char *buf, double value, const char *unit);
/** rvl_bytes() - "96.0 KiB" */
const char *rvl_bytes(char *buf, uint64_t n);
/** rvl_figure() - "figure PREFIX.NAME VALUE UNIT", when a prefix was asked for */
void rvl_figure(const char *prefix, const char *name, double value, const char *unit);

/* ---- arrays from and to files (array.c, npy.c, onnx_pb.c, picture_file.c, idx.c) ---- */

#define RVL_ARRAY_MAX (1ull << 31)	/* bytes of one array from a file */

/** struct rvl_array - a dense array, row major; owns @data */
struct rvl_array {
	enum rivulet_dtype dtype;
	uint32_t ndim;
	uint64_t dim[RIVULET_MAX_DIMS];
	uint64_t size;		/* bytes */
	void *data;
};

struct rvl_blob {
	uint8_t *data;
	size_t size;
};

/** rvl_read_file() - a whole file of at most @max bytes. 0 or an enum rvl_exit */
int rvl_read_file(const char *path, uint64_t max, struct rvl_blob *out);
void rvl_blob_clear(struct rvl_blob *b);
void rvl_array_clear(struct rvl_array *a);
/** rvl_array_alloc() - sets size from type and dims and allocates; -EOVERFLOW, -EINVAL, -ENOMEM */
int rvl_array_alloc(struct rvl_array *a);
/** rvl_dtype_name(), rvl_dtype_size() - "float32", 4; "?" and 0 for numbers outside the table */
const char *rvl_dtype_name(uint32_t dtype);
uint32_t rvl_dtype_size(uint32_t dtype);
/** rvl_shape_text() - "1x3x224x224", "scalar"; @buf of 128 bytes is returned */
const char *rvl_shape_text(char *buf, uint32_t ndim, const uint64_t *dim);

/* The parsers take untrusted bytes: 0, or -EINVAL, -EOVERFLOW, -EOPNOTSUPP, -ENOMEM with @why (160 bytes). */
int rvl_npy_parse(const uint8_t *p, size_t size, struct rvl_array *out, char *why);
int rvl_pb_parse(const uint8_t *p, size_t size, struct rvl_array *out, char *why);
/** rvl_npy_write() - version 1.0 file. 0 or an enum rvl_exit */
int rvl_npy_write(const char *path, const struct rvl_array *a);
/** rvl_array_read() - .npy or ONNX TensorProto, told apart by content. 0 or an enum rvl_exit */
int rvl_array_read(const char *path, struct rvl_array *out);

/** struct rvl_image - 8 bits a sample, interleaved; owns @data */
struct rvl_image {
	uint32_t w, h, channels;	/* 1 grey, 3 RGB */
	uint8_t *data;
};
/** rvl_image_read() - PNG, or PGM/PPM (binary). 0 or an enum rvl_exit */
int rvl_image_read(const char *path, struct rvl_image *out);
int rvl_pnm_parse(const uint8_t *p, size_t size, struct rvl_image *out, char *why);

/** rvl_idx_read() - an IDX file of unsigned bytes (MNIST's), plain or gzip. @ndim: what it must have */
int rvl_idx_read(const char *path, uint32_t ndim, struct rvl_array *out);

/** struct rvl_dataset - labelled examples; @set points into the rest */
struct rvl_dataset {
	struct rvl_array examples, answers;
	uint8_t *label;
	struct rivulet_eval_data set;
};
/**
 * rvl_dataset_read() - examples and labels, each an IDX file of bytes (plain or .gz) or .npy, from example @first,
 * at most @count. 0 or an enum rvl_exit; clear it in any case
 */
int rvl_dataset_read(const char *data, const char *labels, uint64_t first, uint64_t count,
		     struct rvl_dataset *d);
void rvl_dataset_clear(struct rvl_dataset *d);
/** rvl_lengths_parse() - "64", "8-256" or several with commas: sets entries of @lengths, RIVULET_SC_MAX + 1 long */
int rvl_lengths_parse(const char *s, bool *lengths);

/** struct rvl_expect - recorded outputs: images x classes bytes of the last quantised tensor */
struct rvl_expect {
	uint32_t images, classes;
	bool is_signed;
	const uint8_t *q;	/* in @blob */
	struct rvl_blob blob;
};
int rvl_expect_read(const char *path, struct rvl_expect *out);

/** rvl_picture() - grey images side by side, two pixel rows a line; @labels under each */
void rvl_picture(FILE *f, uint32_t count, const uint8_t *const *pixels, uint32_t w, uint32_t h,
		 const char *const *labels, bool colour);

/* ---- how products are computed (mode.c) ---- */

#define RVL_MODE_KEEP 256

/** struct rvl_mode - --mode and what goes with it; all zero is int8 */
struct rvl_mode {
	const char *mode, *lengths;
	uint64_t length;
	const char *keep[RVL_MODE_KEEP];
	uint32_t n_keep;
	const char *calibrate;
	struct rvl_array examples; /* of --calibrate; rvl_mode_clear() */
};
/** rvl_mode_keep() - an option's function for --keep-int8, @ctx a struct rvl_mode */
int rvl_mode_keep(void *ctx, const char *value);
/** RVL_MODE_OPTIONS() - entries of an option table */
#define RVL_MODE_OPTIONS(m)                                                                        \
	{ "mode", 0, "int8|sc", "products: int8, or stochastic bitstreams (int8)", .text = &(m)->mode }, \
	{ "length", 0, "BITS", "sc: of a bitstream at every level (64)", .number = &(m)->length },  \
	{ "lengths", 0, "L0,L1,...", "sc: by level, slowest first: bits, int8, or - for no variant", \
	  .text = &(m)->lengths },                                                                 \
	{ "keep-int8", 0, "NODE", "sc: a node, first or last stays int8; repeatable",              \
	  .fn = rvl_mode_keep, .ctx = (m) },                                                       \
	{ "calibrate", 0, "FILE", "quantise a float model by examples of its input (.npy, float32)", \
	  .text = &(m)->calibrate }
/** rvl_mode_fill() - into compile options for a board of so many levels. 0 or an enum rvl_exit */
int rvl_mode_fill(struct rvl_mode *m, uint32_t levels, struct rivulet_compile_options *o);
/** rvl_mode_clear() - what rvl_mode_fill() has read */
void rvl_mode_clear(struct rvl_mode *m);
/** rvl_mode_given() - whether any of them was given */
bool rvl_mode_given(const struct rvl_mode *m);

/* ---- where a model runs (engine.c) ---- */

struct rvl_engine;

/** struct rvl_run_stats - of one run, whatever ran it */
struct rvl_run_stats {
	uint64_t wall_ns;	/* as the caller sees it */
	uint64_t queue_ns, npu_ns, cpu_ns;
	uint64_t cycles, macs, conv_busy, read_bytes, write_bytes, energy_pj;
	uint32_t npu_steps, cpu_steps, level_min, level_max;
};

/** struct rvl_engine_options - how a model is loaded */
struct rvl_engine_options {
	const char *device;	/* node, "daemon", "sim:BOARD"; NULL: daemon, else the first node */
	bool require_npu;
	uint32_t batch, symbol;
	const struct rivulet_frozen *frozen;
	uint32_t n_frozen;
	uint32_t threads;	/* of the CPU steps; 0: one per processor */
	uint32_t instances;	/* runs that may be in flight; 0: 1 */
	struct rvl_mode *mode;	/* NULL: int8; local devices only */
};

/** rvl_engine_open() - connect and load the model or program file at @path. 0 or an enum rvl_exit */
int rvl_engine_open(const char *path, const struct rvl_engine_options *o, struct rvl_engine **out);
void rvl_engine_close(struct rvl_engine *e);
/** rvl_engine_name() - "daemon (zu3eg-64)", for headings */
const char *rvl_engine_name(const struct rvl_engine *e);
/** rvl_engine_board() - NULL when the daemon's device is unknown here */
const struct rivulet_board *rvl_engine_board(const struct rvl_engine *e);
/** rvl_engine_level() - time and energy of all NPU steps at one level, estimated; NULL without board or NPU steps */
const struct rivulet_estimate_row *rvl_engine_level(struct rvl_engine *e, uint32_t level);
/** rvl_engine_program() - the program file */
const struct rivulet_program *rvl_engine_program(const struct rvl_engine *e);
uint32_t rvl_engine_inputs(const struct rvl_engine *e);
uint32_t rvl_engine_outputs(const struct rvl_engine *e);
const struct rivulet_tensor_info *rvl_engine_tensor(const struct rvl_engine *e, uint32_t i);
/** rvl_engine_find() - number of an input, or -1 with the error noted */
int rvl_engine_find_input(const struct rvl_engine *e, const char *name);
/** rvl_engine_memory() - bytes of a tensor of an instance: write inputs before, read outputs after a run */
void *rvl_engine_memory(struct rvl_engine *e, uint32_t instance, uint32_t tensor);
/** rvl_engine_set_level() - the model only. 0 or an enum rvl_exit */
int rvl_engine_set_level(struct rvl_engine *e, uint32_t level);
bool rvl_engine_is_sim(const struct rvl_engine *e);
/** rvl_engine_monitor() - count NPU jobs that start from now on; a node's only. 0 or an enum rvl_exit */
int rvl_engine_monitor(struct rvl_engine *e);
/** rvl_engine_counted() - sums since the last call, DRM_RIVULET_PERF_COUNT of them. 0 or an enum rvl_exit */
int rvl_engine_counted(struct rvl_engine *e, uint64_t *values);
/** rvl_engine_start() - @timeout_ns from now is the deadline, 0: none */
int rvl_engine_start(struct rvl_engine *e, uint32_t instance, uint64_t timeout_ns, int priority);
/** rvl_engine_wait() - until the instance's run ended. 0 or an enum rvl_exit; @stats may be NULL */
int rvl_engine_wait(struct rvl_engine *e, uint32_t instance, struct rvl_run_stats *stats);
/** rvl_engine_any() - wait until one of the runs in flight ended: its instance, or negative */
int rvl_engine_any(struct rvl_engine *e);

/**
 * rvl_last_quantised() - parameters of the tensor whose dequantisation output @output is
 * Returns false when the output is not the direct result of a DequantizeLinear.
 */
struct rvl_quant_params {
	float scale;
	int32_t zero_point;
	bool is_signed;
};
bool rvl_last_quantised(const struct rivulet_program *p, uint32_t output, struct rvl_quant_params *q);
/** rvl_requantise() - the byte that a dequantised value came from: rint(f / scale) is exact for 8 bits */
uint8_t rvl_requantise(float f, const struct rvl_quant_params *q);

/** rvl_board_of() - board of --device or --board: profile name, file, or an accel node. 0 or an enum rvl_exit */
int rvl_board_of(const char *device, struct rivulet_board *b);
/** rvl_exit_of() - exit code for a negative errno of opening devices and daemons */
enum rvl_exit rvl_exit_of(int error);

#endif
