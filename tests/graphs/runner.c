/* SPDX-License-Identifier: MIT */
/*
 * Compiles and runs models for tests/graphs/check_graphs.py, one after the other, so that a graph
 * costs no process. Reads requests from standard input and writes answers to standard output, all
 * numbers little endian:
 *
 *	request		u32 bytes of the model, the model, u8 how, u8 board, u16 inputs,
 *			for each input u32 bytes, the bytes (in the order of the graph's inputs)
 *	answer		i32 result, u32 NPU steps, u32 modes of CONV, u32 outputs, for each output u32
 *			type, u32 rank, i64 dimensions[rank], u32 bytes, the bytes; with a negative
 *			result u32 length, the reason instead of the outputs
 *
 * usage: graph_runner BOARD...
 *	graph_runner --types	print the number of each type with its name in .npy files
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_run.h"

#define MOST_BOARDS 8

static struct rivulet_board boards[MOST_BOARDS];
static struct rvl_core *cores[MOST_BOARDS];

static void get(void *to, size_t n)
{
	if (fread(to, 1, n, stdin) != n)
		exit(0);
}

static void put(const void *from, size_t n)
{
	if (fwrite(from, 1, n, stdout) != n)
		exit(1);
}

static void put_u32(uint32_t v)
{
	put(&v, sizeof(v));
}

static void get_buffer(struct graph_buffer *b)
{
	get(&b->size, sizeof(b->size));
	b->data = aligned_alloc(64, ((size_t)b->size + 127) / 64 * 64);
	if (!b->data)
		exit(1);
	get(b->data, b->size);
}

static void get_request(struct graph_run *r)
{
	uint8_t board;

	get_buffer(&r->model);
	get(&r->how, 1);
	get(&board, 1);
	get(&r->n_in, 2);
	if (r->n_in > GRAPH_MOST_IO || board >= MOST_BOARDS)
		exit(1);
	r->board = &boards[board];
	r->core = cores[board];
	for (uint32_t i = 0; i < r->n_in; i++)
		get_buffer(&r->in[i]);
}

static void put_error(int rc, const char *why)
{
	uint32_t n = (uint32_t)strlen(why);

	put(&rc, sizeof(rc));
	put_u32(0);
	put_u32(0);
	put_u32(n);
	put(why, n);
}

static void put_head(void *arg, const struct graph_parts *parts)
{
	(void)arg;
	put_u32(0);
	put_u32(parts->npu_steps);
	put_u32(parts->modes);
	put_u32(parts->outputs);
}

static void put_value(void *arg, const struct rvl_value *v)
{
	uint32_t bytes = (uint32_t)((size_t)rvl_shape_count(&v->shape) * rvl_type_size(v->type));

	(void)arg;
	put_u32(v->type);
	put_u32((uint32_t)v->shape.rank);
	put(v->shape.dim, (size_t)v->shape.rank * sizeof(*v->shape.dim));
	put_u32(bytes);
	put(v->data, bytes);
}

static void answer(struct graph_run *r)
{
	struct rvl_err err = { "" };
	int rc = graph_run(r, &err);

	if (rc)
		put_error(rc, err.msg[0] ? err.msg : "no reason given");
	fflush(stdout);
	free(r->model.data);
	for (uint32_t i = 0; i < r->n_in; i++)
		free(r->in[i].data);
}

static int print_types(void)
{
#define PRINT_TYPE(name, number, text, bytes, npy, onnx) \
	if (npy[0]) \
		printf("%d %s\n", number, npy);
	RIVULET_DTYPES(PRINT_TYPE)
#undef PRINT_TYPE
	return 0;
}

int main(int argc, char **argv)
{
	char why[256];

	if (argc == 2 && !strcmp(argv[1], "--types"))
		return print_types();
	for (int i = 1; i < argc && i <= MOST_BOARDS; i++) {
		if (rivulet_board_load(&boards[i - 1], argv[i], why, sizeof(why))) {
			fprintf(stderr, "graph_runner: %s\n", why);
			return 2;
		}
		cores[i - 1] = rvl_core_new(&boards[i - 1]);
		if (!cores[i - 1])
			return 2;
	}
	for (;;) {
		struct graph_run r = { .head = put_head, .value = put_value };

		get_request(&r);
		answer(&r);
	}
}
