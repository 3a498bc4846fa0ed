/* SPDX-License-Identifier: MIT */
/* Reads a model with the compiler's options, and lists its inputs. */
#include "onnx/onnx.h"
#include "program/program.h"
#include "rivulet_compiler.h"
#include "rivulet_sha256.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that stand for what is not counted: the process itself, and small tables of single passes. */
#define UNCOUNTED ((size_t)8 << 20)

static void fill_memory(const struct rivulet_compile_options *o, size_t size, struct rvl_onnx_opts *out)
{
	out->memory = o->most_memory ? o->most_memory :
				       RIVULET_MEMORY_BASE + RIVULET_MEMORY_PER_BYTE * size;
	out->memory_held = UNCOUNTED + size;
	out->memory_per_byte = o->most_memory ? 0 : RIVULET_MEMORY_PER_BYTE;
}

/* The dimensions of the options in the reader's form. The caller frees the arrays. */
static int fill_dims(const struct rivulet_compile_options *o, struct rvl_onnx_opts *out,
		     struct rvl_err *err)
{
	struct rvl_onnx_shape *s = calloc(o->n_shapes + 1u, sizeof(*s));
	struct rvl_onnx_symbol *d = calloc(o->n_dimensions + 1u, sizeof(*d));

	*out = (struct rvl_onnx_opts) {
		.batch = o->batch, .symbol = o->symbol, .shapes = s, .n_shapes = o->n_shapes,
		.symbols = d, .n_symbols = o->n_dimensions, .files = o->files,
	};
	if (!s || !d)
		return rvl_fail(err, -ENOMEM, "no memory for the shapes of inputs");
	for (uint32_t i = 0; i < o->n_shapes; i++) {
		const struct rivulet_input_shape *from = &o->shapes[i];

		if (from->rank > RVL_MAX_RANK)
			return rvl_fail(err, -EINVAL, "the shape of input '%.60s' has more than %d dimensions",
					from->name, RVL_MAX_RANK);
		s[i].input = from->name;
		s[i].shape.rank = (int32_t)from->rank;
		memcpy(s[i].shape.dim, from->dim, sizeof(s[i].shape.dim));
	}
	for (uint32_t i = 0; i < o->n_dimensions; i++)
		d[i] = (struct rvl_onnx_symbol) { o->dimensions[i].name, o->dimensions[i].value };
	return 0;
}

int rvl_read_model(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
		   struct rvl_graph **out, struct rvl_err *err)
{
	struct rvl_onnx_opts opts;
	int rc = fill_dims(opt, &opts, err);

	fill_memory(opt, size, &opts);
	if (!rc)
		rc = rvl_onnx_load(onnx, size, &opts, out, err);
	free((void *)(uintptr_t)opts.shapes);
	free((void *)(uintptr_t)opts.symbols);
	for (uint32_t i = 0; i < opt->n_frozen && !rc; i++)
		rc = rvl_graph_freeze(*out, opt->frozen[i].name, opt->frozen[i].data,
				      opt->frozen[i].size, err);
	return rc;
}

void rvl_model_identity(const void *onnx, size_t size, const struct rvl_graph *g, uint8_t out[32])
{
	uint8_t both[32 + sizeof(g->files_hash)];

	rivulet_sha256(onnx, size, out);
	if (!g->from_files)
		return;
	memcpy(both, out, 32);
	memcpy(both + 32, g->files_hash, sizeof(g->files_hash));
	rivulet_sha256(both, sizeof(both), out);
}

int rivulet_model_hash(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
		       uint8_t out[32], struct rvl_err *err)
{
	/* The key under which a tensor names its file. A model without it need not be read. */
	static const char key[] = "location";
	struct rvl_graph *g = NULL;
	int rc;

	rivulet_sha256(onnx, size, out);
	if (!opt->files || !memmem(onnx, size, key, sizeof(key) - 1))
		return 0;
	rc = rvl_read_model(onnx, size, opt, &g, err);
	if (!rc)
		rvl_model_identity(onnx, size, g, out);
	rvl_graph_free(g);
	return rc;
}

static int fill(const struct rvl_graph *g, struct rivulet_model_input **out, uint32_t *n,
		struct rvl_err *err)
{
	struct rivulet_model_input *list = calloc(g->n_inputs + 1u, sizeof(*list));

	if (!list)
		return rvl_fail(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < g->n_inputs; i++) {
		const struct rvl_tensor *t = g->inputs[i];

		list[i].name = strdup(t->name);
		list[i].dtype = (enum rivulet_dtype)t->type;
		list[i].ndim = (uint32_t)t->shape.rank;
		for (int32_t k = 0; k < t->shape.rank; k++)
			list[i].dim[k] = (uint64_t)t->shape.dim[k];
		if (!list[i].name) {
			rivulet_model_inputs_free(list, g->n_inputs);
			return rvl_fail(err, -ENOMEM, "out of memory");
		}
	}
	*out = list;
	*n = g->n_inputs;
	return 0;
}

int rivulet_model_inputs_of(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
			    struct rivulet_model_input **out, uint32_t *n, struct rvl_err *err)
{
	struct rvl_graph *g = NULL;
	int rc = rvl_read_model(onnx, size, opt, &g, err);

	if (!rc)
		rc = fill(g, out, n, err);
	rvl_graph_free(g);
	return rc;
}

void rivulet_model_inputs_free(struct rivulet_model_input *list, uint32_t n)
{
	for (uint32_t i = 0; list && i < n; i++)
		free(list[i].name);
	free(list);
}
