/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * The program file: a model compiled for one board. It is position independent and little endian.
 * The same file is the read-only buffer of slot 0, from which the device reads commands and packed
 * weights without conversion. Offsets are bytes from the start of the file.
 */
#ifndef RIVULET_PROGRAM_H
#define RIVULET_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "rivulet_dev.h"
#include "rivulet_types.h"

#define RIVULET_PROGRAM_MAGIC	0x50565652u	/* "RVVP" */
#define RIVULET_PROGRAM_VERSION	6u
#define RIVULET_PROGRAM_MAX	(1ull << 36)	/* bytes of a file: offsets of LOAD have 36 bits */
/* Bytes of a file with NPU steps, which lies in one buffer of the device. */
#define RIVULET_PROGRAM_NPU_MAX	(1ull << 31)
#define RIVULET_ARENA_MAX	(1u << 30)	/* bytes of the arena, and of a CPU step's workspace */
#define RIVULET_MAX_TENSORS	65536u
#define RIVULET_MAX_STEPS	65536u
#define RIVULET_MAX_IO		12u		/* inputs plus outputs that the NPU touches directly */
#define RIVULET_STEP_REFS	32		/* tensors a step reads or writes */
#define RIVULET_PROGRAM_ALIGN	64

/* Slots of every NPU step. Inputs and outputs follow in the order of their index. */
#define RIVULET_SLOT_PROGRAM	0		/* this file, read only */
#define RIVULET_SLOT_ARENA	1		/* activations between steps, read-write */
#define RIVULET_SLOT_IO		2		/* input i: 2 + i; output j: 2 + inputs + j */
#define RIVULET_SLOT_PROF	14		/* PROF records, when asked for */
#define RIVULET_SLOT_REPORT	15		/* status copy */

enum rivulet_place {
	RIVULET_PLACE_INPUT = 1,	/* bound by the caller; offset is the input's index */
	RIVULET_PLACE_OUTPUT = 2,	/* likewise the output's */
	RIVULET_PLACE_ARENA = 3,	/* byte offset in the arena */
	RIVULET_PLACE_CONST = 4,	/* byte offset in the file */
};

/** enum rivulet_tensor_flag - properties of a tensor of a program */
enum rivulet_tensor_flag {
	RIVULET_TENSOR_BOUNDED = 1 << 0, /* dim[] is an upper bound; each run finds the shape */
	RIVULET_TENSOR_PITCHED = 1 << 1	/* elements lie pitch[] apart; else they are dense */
};

/** struct rivulet_target - the board that the commands were made for; all must match the device */
struct rivulet_target {
	uint32_t isa_version;
	uint32_t tm, tn, dn;
	uint32_t inp_bytes, wgt_bytes, acc_bytes;
	uint32_t modes;		/* CONV modes used; a subset of the device's */
	uint32_t queue_depth;	/* lowest depth with which the program cannot block */
	uint32_t rsvd;
};

/**
 * struct rivulet_level_info - length and accuracy at a V/F level; zero for levels without variants
 */
struct rivulet_level_info {
	/* shortest stochastic bitstream of its layers, 8..256 bits; 0: none */
	uint32_t length;
	/* parts per million expected, as measured for the plan; 0: unknown */
	uint32_t accuracy;
};

/**
 * struct rivulet_program - header at offset 0
 * @crc: CRC32C of the whole file with this field zero
 * @*_off: multiples of RIVULET_PROGRAM_ALIGN; @strings_off: NUL-terminated UTF-8, each name an
 * offset in it
 * @model_hash: rivulet_model_hash() of the model; @options_hash: CRC32C of the compile options
 */
struct rivulet_program {
	uint32_t magic;
	uint32_t version;
	uint64_t size;
	uint32_t crc;
	uint32_t header_size;
	struct rivulet_target target;
	uint32_t inputs;
	uint32_t outputs;
	uint32_t tensors;
	uint32_t steps;
	uint64_t tensors_off;
	uint64_t steps_off;
	uint64_t strings_off;
	uint64_t strings_size;
	uint64_t params_off;	/* blobs of CPU steps */
	uint64_t params_size;
	uint64_t const_off;	/* weights, tables, constant tensors */
	uint64_t const_size;
	uint64_t cmd_off;
	uint64_t cmd_size;
	uint64_t arena_size;
	uint64_t cpu_scratch;	/* bytes of workspace that one CPU step may need */
	uint32_t board_name;	/* string */
	uint32_t model_name;	/* string */
	uint8_t model_hash[32];
	uint32_t options_hash;
	uint32_t rsvd[7];
	struct rivulet_level_info level[RIVULET_LEVELS];
};

/**
 * struct rivulet_tensor - a tensor; the first ones are the graph's inputs and outputs, in order
 * Tensors may be views of the same bytes: a part of an input, of an output or of another tensor in
 * the arena. Steps depend on each other by the bytes that they read and write.
 *
 * A pitched tensor is an operand of CPU steps only. Element (i0, i1, ...) lies at its first element
 * + i0 * pitch[0] + i1 * pitch[1] + ...; its @size bytes are those from the lowest to the highest
 * byte of any element, so that rivulet_tensor_first() gives the place of the first element. A pitch
 * is a multiple of the element, negative where the index runs backwards, and 0 where all indices are
 * the same element or the dimension is 1. In a tensor that a step writes no two elements are the
 * same bytes. A step that has a pitched operand has no bounded one.
 */
struct rivulet_tensor {
	uint32_t name;		/* string */
	uint32_t dtype;		/* enum rivulet_dtype */
	/*
	 * enum rivulet_layout. PLAIN for inputs, outputs and constants; a part of an input or output
	 * may be NHWC. BLOCKED in the arena only. It is that of the operand in a CPU step's parameters.
	 */
	uint32_t layout;
	uint32_t place;		/* enum rivulet_place */
	uint64_t offset;	/* as @place says */
	uint64_t at;		/* INPUT, OUTPUT: its first byte there; else 0 */
	uint64_t size;		/* bytes in memory */
	uint32_t ndim;
	uint32_t flags;		/* enum rivulet_tensor_flag */
	uint64_t dim[RIVULET_MAX_DIMS];
	int64_t pitch[RIVULET_MAX_DIMS];	/* bytes, by dimension; 0 unless PITCHED */
	float scale;		/* per tensor; 0: not quantised */
	int32_t zero_point;
};

enum rivulet_step_kind { RIVULET_STEP_CPU = 1, RIVULET_STEP_NPU = 2 };

/** struct rivulet_step_variant - command stream of an NPU step at one level */
struct rivulet_step_variant {
	uint64_t offset;	/* in the file, multiple of 64 */
	uint32_t length;	/* bytes; 0: no variant for this level */
	uint32_t rsvd;
	uint64_t cycles;	/* estimated by the compiler */
};

/**
 * struct rivulet_step - in execution order; a step may run after the steps that write its operands
 * What a CPU step writes shares no byte with what it reads or with what else it writes. Identity,
 * Reshape and Flatten may write all bytes of their first operand to where they are.
 */
struct rivulet_step {
	uint32_t kind;		/* enum rivulet_step_kind */
	uint32_t name;		/* string: the part of the model */
	uint32_t op;		/* CPU: kernel code (kernels/rivulet_kernels.h) */
	uint32_t slots;		/* NPU: mask of region slots used */
	uint32_t writes_mask;	/* NPU: of these, written */
	uint32_t min_level;
	uint64_t params;	/* CPU: offset in params; NPU: 0 */
	uint64_t params_size;
	uint32_t nread;
	uint32_t nwrite;
	uint32_t read[RIVULET_STEP_REFS];	/* tensor numbers; operands in the kernel's order */
	uint32_t write[RIVULET_STEP_REFS];
	struct rivulet_step_variant variant[RIVULET_LEVELS];
	uint64_t macs;		/* of the model's layers in it, padding not counted */
};

/**
 * rivulet_program_check() - validate an untrusted program file completely: sizes, checksum, every
 * offset, count, string and tensor reference, so that users need no further checks (commands are
 * checked by the device). @size: bytes at @p. Returns 0, or -EINVAL with @err.
 */
int rivulet_program_check(const void *p, size_t size, char *err, size_t errsize);

/**
 * rivulet_program_levels() - bit n: a checked program can run with the device at level n, because
 * every NPU step has a variant for it and no step requires a higher level
 */
uint32_t rivulet_program_levels(const struct rivulet_program *p);
/** rivulet_program_string() - a string of a checked program */
const char *rivulet_program_string(const struct rivulet_program *p, uint32_t name);
/** rivulet_program_tensors(), rivulet_program_steps() - tables of a checked program */
const struct rivulet_tensor *rivulet_program_tensors(const struct rivulet_program *p);
const struct rivulet_step *rivulet_program_steps(const struct rivulet_program *p);

/**
 * rivulet_tensor_first() - byte of a checked tensor's @size bytes at which its first element lies
 */
uint64_t rivulet_tensor_first(const struct rivulet_tensor *t);

/**
 * rivulet_program_fits() - whether a checked program runs on a device of this target
 * Returns 0, or -ENOEXEC with @err naming the property that differs and both values.
 */
int rivulet_program_fits(const struct rivulet_program *p, const struct rivulet_target *device,
			 char *err, size_t errsize);

#endif
