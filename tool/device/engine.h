/* SPDX-License-Identifier: MIT */
/*
 * Where a model runs: an accel node, the linked device model, or the daemon, behind one interface.
 */
#ifndef RVL_TOOL_ENGINE_H
#define RVL_TOOL_ENGINE_H

#include "model/dims.h"
#include "model/mode.h"
#include "rivulet.h"
#include "rivulet_accel.h"
#include "rivulet_board.h"
#include "rivulet_compiler.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"

struct rvl_engine;
struct json_object;
struct rivulet_prof;

/** struct rvl_run_stats - of one run, whatever ran it */
struct rvl_run_stats {
	uint64_t wall_ns;	/* as the caller sees it */
	uint64_t npu_ns, cpu_ns;
	uint64_t cycles, macs, energy_pj;
	uint32_t npu_steps, cpu_steps, level_min, level_max;
};

/** struct rvl_engine_options - how a model is loaded */
struct rvl_engine_options {
	const char *device;	/* node, "daemon", "sim:BOARD"; NULL: daemon, else the first node */
	bool require_npu;
	uint32_t batch;
	const struct rvl_dims *dims;	/* NULL: none */
	uint32_t threads;	/* of the CPU steps; 0: one per processor */
	uint32_t instances;	/* runs that may be in flight; 0: 1 */
	bool fewer;		/* if there is no memory for all instances, take as many as there is for */
	struct rvl_mode *mode;	/* NULL: int8; local devices only */
	bool prof;		/* instructions leave PROF records; local devices only */
	struct rivulet_explain *explain; /* of the compilation; may be NULL, local devices only */
	const void *program;	/* a compiled program in place of the file; local devices only */
	size_t program_size;
};

/**
 * rvl_engine_open() - connect and load the model or program file at @path. 0 or an enum rvl_exit
 */
int rvl_engine_open(const char *path, const struct rvl_engine_options *o, struct rvl_engine **out);
void rvl_engine_close(struct rvl_engine *e);
/** rvl_engine_name() - "daemon (zu3eg-64)", for headings */
const char *rvl_engine_name(const struct rvl_engine *e);
/** rvl_engine_board() - NULL when the daemon's device is unknown here */
const struct rivulet_board *rvl_engine_board(const struct rvl_engine *e);
/**
 * rvl_engine_level() - time and energy of all NPU steps at one level, estimated; NULL without board
 * or NPU steps
 */
const struct rivulet_estimate_row *rvl_engine_level(struct rvl_engine *e, uint32_t level);
/** rvl_engine_program() - the program file */
const struct rivulet_program *rvl_engine_program(const struct rvl_engine *e);
/** rvl_engine_instances() - runs that may be in flight */
uint32_t rvl_engine_instances(const struct rvl_engine *e);
uint32_t rvl_engine_inputs(const struct rvl_engine *e);
uint32_t rvl_engine_outputs(const struct rvl_engine *e);
/** rvl_engine_tensor() - an input or output; if bounded, with the shape of the run waited for last */
const struct rivulet_tensor_info *rvl_engine_tensor(const struct rvl_engine *e, uint32_t i);
/** rvl_engine_find() - number of an input, or -1 with the error noted */
int rvl_engine_find_input(const struct rvl_engine *e, const char *name);
/**
 * rvl_engine_memory() - bytes of a tensor of an instance: write inputs before, read outputs after a
 * run
 */
void *rvl_engine_memory(struct rvl_engine *e, uint32_t instance, uint32_t tensor);
/** rvl_engine_set_level() - the model only. 0 or an enum rvl_exit */
int rvl_engine_set_level(struct rvl_engine *e, uint32_t level);
/**
 * rvl_engine_randomise() - fill the inputs of an instance from a seed, the same everywhere
 * float32: uniform in [0, 1); uint8 and int8: all values; bool: 0 or 1; int32 and int64: 0, because
 * they are indices or shapes in most models.
 */
void rvl_engine_randomise(struct rvl_engine *e, uint32_t instance, uint64_t seed);
/** rvl_engine_exec() - the runtime's instance, for its reports; NULL with the daemon */
const struct rivulet_exec *rvl_engine_exec(const struct rvl_engine *e, uint32_t instance);
/**
 * rvl_prof_of_step() - the PROF records that a step of the last run wrote, by queue and start
 * @out: the caller's to free; NULL if the step writes none. 0 or an enum rvl_exit
 */
int rvl_prof_of_step(const struct rivulet_exec *x, uint32_t step, struct rivulet_prof **out, size_t *n);
bool rvl_engine_is_sim(const struct rvl_engine *e);
/**
 * rvl_engine_monitor() - count NPU jobs that start from now on; a node's only. 0 or an enum
 * rvl_exit
 */
int rvl_engine_monitor(struct rvl_engine *e);
/**
 * rvl_engine_counted() - sums since the last call, RIVULET_PERF_VALUES of them. 0 or an enum
 * rvl_exit
 */
int rvl_engine_counted(struct rvl_engine *e, uint64_t *values);
/** rvl_engine_start() - @timeout_ns from now is the deadline, 0: none */
int rvl_engine_start(struct rvl_engine *e, uint32_t instance, uint64_t timeout_ns, int priority);
/** rvl_engine_wait() - until the instance's run ended. 0 or an enum rvl_exit; @stats may be NULL */
int rvl_engine_wait(struct rvl_engine *e, uint32_t instance, struct rvl_run_stats *stats);
/** rvl_engine_run() - start and wait, with less overhead. Only while no other run is in flight */
int rvl_engine_run(struct rvl_engine *e, uint32_t instance, struct rvl_run_stats *stats);
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
/**
 * rvl_requantise() - the byte that a dequantised value came from: rint(f / scale) is exact for 8
 * bits
 */
uint8_t rvl_requantise(float f, const struct rvl_quant_params *q);

/**
 * rvl_board_of() - board of --device or --board: profile name, file, or an accel node. 0 or an enum
 * rvl_exit
 */
int rvl_board_of(const char *device, struct rivulet_board *b);
/**
 * rvl_daemon_status() - the daemon's STATUS, released by json_object_put(). 0 or an enum rvl_exit
 */
int rvl_daemon_status(struct rivulet_client *c, struct json_object **out);
/** rvl_exit_of() - exit code for a negative errno of opening devices and daemons */
enum rvl_exit rvl_exit_of(int error);

#endif
