/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes program files: the runtime loads and runs the input on the linked device model. The
 * checksum is corrected, so that the later checks are reached. Two of three mutations of a sound
 * file change the parameters of a step and its tensors together.
 */

#include "fuzz.h"
#include "fuzz/change.h"
#include "rivulet_runtime.h"

#define ROOM (4u << 20)	/* limit for the tensors of a program that is run */
#define ARENA_MOST (256u << 20)	/* limit for an execution that is made */
#define RUN_MS 240000	/* ends a hang; fuzz_end() limits the processor time */
#define PROGRAM_MEMORY (64ull << 20)

/* Boards that have, taken together, every mode of CONV. */
static const char *const boards[] = { "zu3eg-64", "zcu102-binary", "cyclonev-64-nodsp" };
#define BOARDS (sizeof(boards) / sizeof(boards[0]))

static struct rivulet_runtime *runtime(unsigned int i)
{
	static struct rivulet_runtime *rt[BOARDS];
	static struct rivulet_workers *workers;
	struct rivulet_runtime_error err;
	struct rivulet_board board;
	char why[256];

	if (!rt[i] && (rivulet_board_load(&board, boards[i], why, sizeof(why)) ||
		       (!workers && rivulet_workers_new(1, &workers)) ||
		       rivulet_runtime_new_sim(&board, workers, &rt[i], &err)))
		abort();
	return rt[i];
}

/* A device of the size and the modes that the file names; else the first one. */
static struct rivulet_runtime *runtime_for(const struct rivulet_program *p)
{
	const struct rivulet_target *want = &p->target;
	struct rivulet_target have;

	for (unsigned int i = 0; i < BOARDS; i++) {
		rivulet_runtime_target(runtime(i), &have);
		if (want->tm == have.tm && want->tn == have.tn && want->dn == have.dn &&
		    want->inp_bytes == have.inp_bytes && !(want->modes & ~have.modes))
			return runtime(i);
	}
	return runtime(0);
}

/* Memory for all inputs and outputs, each of its exact size; NULL if they are too large. */
static void **make_operands(const struct rivulet_program *p)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(p);
	uint32_t n = p->inputs + p->outputs;
	uint64_t all = 0;
	void **memory;

	for (uint32_t i = 0; i < n; i++)
		all += t[i].size;
	if (all > ROOM || p->arena_size > ROOM)
		return NULL;
	memory = calloc(n + 1, sizeof(*memory));
	for (uint32_t i = 0; i < n; i++)
		memory[i] = calloc(1, t[i].size ? t[i].size : 1);
	return memory;
}

static void run(struct rivulet_exec *x, const struct rivulet_program *p)
{
	struct rivulet_runtime_error err = { "" };
	void **memory = make_operands(p);
	uint32_t n = p->inputs + p->outputs;

	if (!memory)
		return;
	for (uint32_t i = 0; i < n; i++)
		fuzz_expect(!rivulet_exec_bind_memory(x, i, memory[i],
						      rivulet_program_tensors(p)[i].size, &err));
	if (rivulet_exec_start(x, NULL, &err))
		fuzz_expect(err.text[0]);
	else if (rivulet_exec_wait(x, RUN_MS))
		fuzz_expect(rivulet_exec_result(x)->text[0]);
	for (uint32_t i = 0; i < n; i++)
		free(memory[i]);
	free(memory);
}

/* A copy with a correct checksum, aligned as rivulet_program_check() expects it. */
static uint8_t *aligned_copy(const uint8_t *data, size_t size)
{
	uint8_t *file = aligned_alloc(64, (size + 63) / 64 * 64);

	memcpy(file, data, size);
	fuzz_set_checksum(file, size);
	return file;
}

#ifdef FUZZ_MAIN
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed)
{
	uint64_t state = seed;
	bool changed = false;
	uint8_t *file;

	if (seed % 3 && size >= sizeof(struct rivulet_program)) {
		file = aligned_copy(data, size);
		changed = fuzz_change_program(file, size, &state);
		memcpy(data, file, size);
		free(file);
	}
	return changed ? size : LLVMFuzzerMutate(data, size, most);
}
#endif

FUZZ_TARGET(program)
{
	struct rivulet_runtime_error err = { "" };
	struct rivulet_runtime *rt;
	struct rivulet_image *img;
	struct rivulet_exec *x;
	struct fuzz_cost cost;
	uint64_t memory = 0;
	uint8_t *file;

	if (size < sizeof(struct rivulet_program))
		return 0;
	file = aligned_copy(data, size);
	rt = runtime_for((const struct rivulet_program *)file);
	cost = fuzz_begin();
	if (rivulet_image_load(rt, file, size, &img, &err)) {
		fuzz_expect(err.text[0]);
	} else {
		/* An execution has the arena that the file names; the daemon limits it. */
		memory = rivulet_image_program(img)->arena_size;
		if (memory <= ARENA_MOST && !rivulet_exec_new(img, &x, &err)) {
			run(x, rivulet_image_program(img));
			rivulet_exec_unref(x);
		}
		rivulet_image_unref(img);
	}
	free(file);
	fuzz_end(&cost, PROGRAM_MEMORY + 8 * (uint64_t)size + memory);
	return 0;
}
