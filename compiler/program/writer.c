/* SPDX-License-Identifier: MIT */
/*
 * Writes the program file. The sections are in the order of the offsets in rivulet_program.h.
 * Everything before the constants is complete before instructions are emitted, because instructions
 * name weights by their offset in the file.
 */
#include "program/program.h"
#include "rivulet_crc32c.h"
#include "rivulet_kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The tables during their construction. */
struct writer {
	struct rvl_backend *be;
	struct rvl_tensor **tensor; /* by number in the file */
	uint32_t n_tensors;
	uint32_t *number; /* by tensor id, RVL_NONE: not in the file */
	struct rvl_bytes strings;
	uint32_t *step_name;
	struct rivulet_program h;
};

/* The name of a tensor as the model knows it. */
static const char *public_name(const struct rvl_backend *be, const struct rvl_tensor *t)
{
	for (uint32_t i = 0; t->is_output && i < be->g->n_outputs; i++)
		if (be->g->outputs[i] == t)
			return be->out_name[i];
	return t->name;
}

static int add_string(struct writer *w, const char *s, uint32_t *out)
{
	uint64_t at;
	int rc = rvl_bytes_add(&w->strings, s, strlen(s) + 1, 1, &at);

	*out = at;
	return rc;
}

static void add_tensor(struct writer *w, struct rvl_tensor *t)
{
	if (w->number[t->id] != RVL_NONE)
		return;
	w->number[t->id] = w->n_tensors;
	w->tensor[w->n_tensors++] = t;
}

static int collect_tensors(struct writer *w)
{
	struct rvl_backend *be = w->be;
	struct rvl_graph *g = be->g;

	w->tensor = calloc(g->n_tensors + 1, sizeof(*w->tensor));
	w->number = malloc((g->n_tensors + 1) * sizeof(*w->number));
	if (!w->tensor || !w->number)
		return -ENOMEM;
	memset(w->number, 0xff, (g->n_tensors + 1) * sizeof(*w->number));
	for (uint32_t i = 0; i < g->n_inputs; i++)
		add_tensor(w, g->inputs[i]);
	for (uint32_t i = 0; i < g->n_outputs; i++)
		add_tensor(w, g->outputs[i]);
	if (w->n_tensors != g->n_inputs + g->n_outputs)
		return rvl_fail(be->err, -EINVAL, "an output of the model is named twice");
	for (uint32_t i = 0; i < be->n_steps; i++) {
		const struct rvl_bstep *s = &be->step[i];

		for (uint32_t j = 0; j < s->nread; j++)
			add_tensor(w, s->read[j]);
		for (uint32_t j = 0; j < s->nwrite; j++)
			add_tensor(w, s->write[j]);
	}
	if (w->n_tensors > RIVULET_MAX_TENSORS)
		return rvl_fail(be->err, -E2BIG, "more than %u tensors", RIVULET_MAX_TENSORS);
	return 0;
}

/* The operator's descriptor, and the memory that its kernel needs. */
static int pack_params(struct writer *w, struct rvl_bstep *s)
{
	struct rvl_backend *be = w->be;
	const struct rvl_mode *mode = rvl_mode_of(s->node);
	uint32_t length;
	struct rvl_tensor *in[RVL_MAX_IN];
	struct rvl_kernel_desc d;
	struct rvl_kernel *k;
	char why[RVL_WHY_MAX] = "no kernel for these types";
	int64_t size;
	int rc = 0;

	if (s->node->chain)
		rc = rvl_chain_desc(be->g, s->node->chain, &d, in);
	else
		rvl_node_desc(s->node, &d);
	if (rc)
		return rc;
	if (!s->node->chain && mode->reference) {
		rc = rvl_variants_of_cpu(be, s->node, &length);
		if (rc)
			return rc;
		mode->reference(&d, length);
	}
	rc = rvl_kernel_new(&d, false, &k, why);
	if (!rc) {
		rc = rvl_kernels_add(&be->cpu_need, k, why);
		rvl_kernel_free(k);
	}
	if (rc)
		return rvl_fail(be->err, rc == -ENOMEM || rc == -E2BIG ? rc : -EOPNOTSUPP,
				"node \"%s\" (%s): %s", s->node->name, s->node->op_type,
				rc == -ENOMEM ? "out of memory" : why);
	size = rvl_desc_pack(&d, NULL, 0);
	if (size < 0)
		return rvl_fail(be->err, size, "node \"%s\": its parameters are too large",
				s->node->name);
	rc = rvl_bytes_add(&be->params, NULL, size, 8, &s->params_off);
	if (rc)
		return rc;
	s->params_size = size;
	rvl_desc_pack(&d, be->params.data + s->params_off, size);
	return 0;
}

static int collect_params(struct writer *w)
{
	int rc = 0;

	for (uint32_t i = 0; i < w->be->n_steps && !rc; i++)
		if (!w->be->step[i].npu)
			rc = pack_params(w, &w->be->step[i]);
	return rc;
}

static int collect_strings(struct writer *w)
{
	struct rvl_backend *be = w->be;
	int rc = add_string(w, be->board ? be->board->name : "cpu", &w->h.board_name);

	w->step_name = calloc(be->n_steps + 1, sizeof(*w->step_name));
	if (!w->step_name)
		return -ENOMEM;
	if (!rc)
		rc = add_string(w, be->g->name ? be->g->name : "", &w->h.model_name);
	for (uint32_t i = 0; i < be->n_steps && !rc; i++)
		rc = add_string(w, be->step[i].name, &w->step_name[i]);
	return rc;
}

static uint64_t aligned(uint64_t v)
{
	return (v + RIVULET_PROGRAM_ALIGN - 1) / RIVULET_PROGRAM_ALIGN * RIVULET_PROGRAM_ALIGN;
}

/* Tensor names are the last strings, so that all sizes before the constants are known here. */
static int place_sections(struct writer *w, uint32_t *names)
{
	struct rivulet_program *h = &w->h;
	int rc = 0;

	for (uint32_t i = 0; i < w->n_tensors && !rc; i++)
		rc = add_string(w, public_name(w->be, w->tensor[i]), &names[i]);
	h->tensors = w->n_tensors;
	h->steps = w->be->n_steps;
	h->tensors_off = aligned(sizeof(*h));
	h->steps_off =
		aligned(h->tensors_off + (uint64_t)h->tensors * sizeof(struct rivulet_tensor));
	h->strings_off = aligned(h->steps_off + (uint64_t)h->steps * sizeof(struct rivulet_step));
	h->strings_size = w->strings.size;
	h->params_off = aligned(h->strings_off + h->strings_size);
	h->params_size = w->be->params.size;
	/*
	 * Page-aligned, because bursts end at page boundaries: the cycles must not depend on the
	 * size of the sections before.
	 */
	h->const_off = rvl_div_up(h->params_off + h->params_size, RIVULET_PAGE_BYTES) *
		       RIVULET_PAGE_BYTES;
	w->be->const_off = h->const_off;
	return rc;
}

static bool is_constant(const struct rvl_store *s, uint32_t tensor)
{
	return s && s->used && s->place == RIVULET_PLACE_CONST && s->root->id == tensor;
}

/* Weights are packed directly into the file, so that only one copy of them is in memory. */
static int place_constants(struct writer *w)
{
	struct rvl_backend *be = w->be;
	int rc = 0;

	for (uint32_t i = 0; i < be->g->n_tensors; i++) {
		struct rvl_store *s = be->store[i];

		if (is_constant(s, i))
			s->offset = rvl_reserve(be, s->size, RIVULET_PROGRAM_ALIGN);
	}
	for (uint32_t i = 0; i < be->n_layers && !rc; i++)
		rc = rvl_place_layer(be, be->layer[i]);
	return rc;
}

static int write_constants(const struct rvl_backend *be, uint8_t *file)
{
	int rc = 0;

	for (uint32_t i = 0; i < be->g->n_tensors; i++) {
		const struct rvl_store *s = be->store[i];

		if (is_constant(s, i))
			memcpy(file + s->offset, s->root->data, s->size);
	}
	for (uint32_t i = 0; i < be->n_layers && !rc; i++)
		rc = rvl_pack_layer(be, be->layer[i], file);
	return rc;
}

static void write_tensor(const struct writer *w, uint32_t i, uint32_t name,
			 struct rivulet_tensor *out)
{
	const struct rvl_tensor *t = w->tensor[i];
	const struct rvl_store *s = w->be->store[t->id];
	const struct rvl_view *v = &s->view;
	int64_t dim[4] = { v->n, v->c, v->h, v->w };

	*out = (struct rivulet_tensor){
		.name = name,
		/* The words of the array are bytes of bits. */
		.dtype = s->blocked && t->type == RVL_TYPE_U64 ? RVL_TYPE_U8 : (uint32_t)t->type,
		.place = s->place,
		.size = s->size,
		.offset = s->place == RIVULET_PLACE_INPUT || s->place == RIVULET_PLACE_OUTPUT ?
				  s->io :
				  s->offset,
		.at = s->place == RIVULET_PLACE_INPUT || s->place == RIVULET_PLACE_OUTPUT ?
			      s->at : 0,
		.layout = s->blocked ? RIVULET_LAYOUT_BLOCKED : t->layout,
		.ndim = s->blocked ? 4 : t->shape.rank,
		.flags = (t->bounded ? RIVULET_TENSOR_BOUNDED : 0) |
			 (t->pitched ? RIVULET_TENSOR_PITCHED : 0),
	};
	for (uint32_t d = 0; d < out->ndim; d++) {
		out->dim[d] = s->blocked ? dim[d] : t->shape.dim[d];
		out->pitch[d] = t->pitch[d];
	}
	if (t->quant.n == 1 && !t->quant.plain) {
		out->scale = t->quant.scale[0];
		out->zero_point = t->quant.zp[0];
	}
}

static void write_step(const struct writer *w, uint32_t i, struct rivulet_step *out)
{
	const struct rvl_bstep *s = &w->be->step[i];

	*out = (struct rivulet_step){
		.kind = s->npu ? RIVULET_STEP_NPU : RIVULET_STEP_CPU,
		.name = w->step_name[i],
		.op = s->npu ? 0 : (uint32_t)(s->node->chain ? RVL_OP_CHAIN : s->node->op),
		.slots = s->slots,
		.writes_mask = s->writes_mask,
		.params = s->params_off,
		.params_size = s->params_size,
		.nread = s->nread,
		.nwrite = s->nwrite,
		.macs = s->macs,
	};
	for (uint32_t j = 0; j < s->nread; j++)
		out->read[j] = w->number[s->read[j]->id];
	for (uint32_t j = 0; j < s->nwrite; j++)
		out->write[j] = w->number[s->write[j]->id];
	for (uint32_t l = 0; s->npu && l < w->be->board->levels; l++) {
		const struct rvl_bcmd *c = &s->cmd[w->be->of_level[l] % RIVULET_LEVELS];

		if (w->be->of_level[l] != RVL_NONE)
			out->variant[l] =
				(struct rivulet_step_variant){ .offset = w->h.cmd_off + c->off,
							       .length = c->len,
							       .cycles = c->cycles };
	}
}

static uint32_t options_hash(const struct rivulet_compile_options *o, const uint8_t files_hash[32])
{
	const uint32_t flags = o->serial | o->prof << 1 | o->require_npu << 2 | o->cpu_only << 3 |
			       o->average_within_1 << 4 | o->stochastic << 5 |
			       o->no_cascade << 6 | o->no_views << 7 |
			       o->no_prefetch << 8 | o->no_layouts << 9 |
			       o->no_reconstruct << 10 | o->no_gather << 11 |
			       o->no_binary << 12 | o->no_chains << 13 |
			       (uint32_t)o->measure << 14;
	uint32_t h = rivulet_crc32c(0, &flags, sizeof(flags));
	uint8_t quantise[32];

	h = rivulet_crc32c(h, files_hash, 32);
	h = rivulet_crc32c(h, &o->without_modes, sizeof(o->without_modes));
	h = rivulet_crc32c(h, &o->batch, sizeof(o->batch));
	h = rivulet_crc32c(h, &o->symbol, sizeof(o->symbol));
	h = rivulet_crc32c(h, o->accuracy, sizeof(o->accuracy));
	h = rivulet_crc32c(h, o->length, sizeof(o->length));
	rivulet_quantise_hash(&o->quantise, quantise);
	h = rivulet_crc32c(h, quantise, sizeof(quantise));
	for (uint32_t i = 0; i < o->n_shapes; i++) {
		h = rivulet_crc32c(h, o->shapes[i].name, strlen(o->shapes[i].name) + 1);
		h = rivulet_crc32c(h, o->shapes[i].dim, o->shapes[i].rank * sizeof(int64_t));
	}
	for (uint32_t i = 0; i < o->n_dimensions; i++) {
		h = rivulet_crc32c(h, o->dimensions[i].name, strlen(o->dimensions[i].name) + 1);
		h = rivulet_crc32c(h, &o->dimensions[i].value, sizeof(o->dimensions[i].value));
	}
	for (uint32_t i = 0; i < o->n_keep_int8; i++)
		h = rivulet_crc32c(h, o->keep_int8[i], strlen(o->keep_int8[i]) + 1);
	for (uint32_t i = 0; i < o->n_frozen; i++) {
		h = rivulet_crc32c(h, o->frozen[i].name, strlen(o->frozen[i].name));
		h = rivulet_crc32c(h, o->frozen[i].data, o->frozen[i].size);
	}
	return h;
}

static uint32_t modes_used(const struct rvl_backend *be)
{
	uint32_t modes = 0;

	for (uint32_t i = 0; i < be->n_layers; i++) {
		for (uint32_t v = 0; be->layer[i]->mode && v < be->n_variants; v++)
			modes |= 1u << rvl_mode_at(be->layer[i], be->length[v])->isa;
	}
	return modes;
}

static void finish_header(struct writer *w, const void *onnx, size_t size)
{
	struct rvl_backend *be = w->be;
	struct rivulet_program *h = &w->h;

	h->const_size = be->const_size;
	/* Aligned to the bursts of the fetch unit. */
	h->cmd_off = rvl_div_up(h->const_off + h->const_size, RIVULET_FETCH_BYTES) *
		     RIVULET_FETCH_BYTES;
	h->cmd_size = be->cmds.size;
	h->size = h->cmd_off + h->cmd_size;
	h->magic = RIVULET_PROGRAM_MAGIC;
	h->version = RIVULET_PROGRAM_VERSION;
	h->header_size = sizeof(*h);
	h->inputs = be->g->n_inputs;
	h->outputs = be->g->n_outputs;
	h->arena_size = be->arena_size;
	h->cpu_scratch = be->cpu_need.scratch;
	h->options_hash = options_hash(be->opt, be->g->files_hash);
	rvl_model_identity(onnx, size, be->g, h->model_hash);
	if (be->board)
		rivulet_target_of(be->board, &h->target);
	for (uint32_t l = 0; be->board && l < be->board->levels; l++) {
		if (be->of_level[l] == RVL_NONE)
			continue;
		h->level[l].accuracy = be->opt->accuracy[l];
		h->level[l].length = be->length[be->of_level[l]];
	}
	h->target.modes &= modes_used(be);
}

static bool has_npu_step(const struct rvl_backend *be)
{
	for (uint32_t i = 0; i < be->n_steps; i++)
		if (be->step[i].npu)
			return true;
	return false;
}

static int check_size(const struct rvl_backend *be, uint64_t size)
{
	uint64_t most = be->opt->most_bytes ? be->opt->most_bytes : RIVULET_PROGRAM_MAX;
	bool npu = size > RIVULET_PROGRAM_NPU_MAX && has_npu_step(be);

	if (npu)
		most = rvl_min(most, RIVULET_PROGRAM_NPU_MAX);
	if (size <= most)
		return 0;
	return rvl_fail(be->err, -E2BIG, "the program has %llu bytes, more than %llu%s",
			(unsigned long long)size, (unsigned long long)most,
			npu ? ", the largest buffer of the device, in which a program with NPU steps lies" : "");
}

/* Zeroed memory for the file. */
static int reserve(const struct rvl_backend *be, uint64_t size, struct rivulet_blob *out)
{
	if (!rvl_arena_count(be->g->arena, size)) /* until the graph is released */
		return -ENOMEM;
	if (be->opt->reserve)
		return be->opt->reserve(be->opt->reserve_arg, size, out, be->err);
	*out = (struct rivulet_blob){ .data = aligned_alloc(RIVULET_PROGRAM_ALIGN, size), .size = size };
	if (!out->data)
		return -ENOMEM;
	memset(out->data, 0, size);
	return 0;
}

/* What the loader would refuse is an error here. */
static int check_file(const struct rvl_backend *be, struct rivulet_blob *out)
{
	char why[200];
	int rc = rivulet_program_check(out->data, out->size, why, sizeof(why));

	if (!rc)
		return 0;
	rivulet_blob_free(out);
	return rvl_fail(be->err, rc, "the loader would refuse the program: %s", why);
}

static int write_file(struct writer *w, const uint32_t *names, struct rivulet_blob *out)
{
	const struct rvl_backend *be = w->be;
	const struct rivulet_program *h = &w->h;
	uint8_t *p;
	uint32_t crc;
	int rc;

	rc = check_size(be, h->size);
	if (!rc)
		rc = reserve(be, aligned(h->size), out);
	if (rc)
		return rc;
	p = out->data;
	rc = write_constants(be, p);
	if (rc) {
		rivulet_blob_free(out);
		return rc;
	}
	for (uint32_t i = 0; i < h->tensors; i++)
		write_tensor(w, i, names[i], (struct rivulet_tensor *)(p + h->tensors_off) + i);
	for (uint32_t i = 0; i < h->steps; i++)
		write_step(w, i, (struct rivulet_step *)(p + h->steps_off) + i);
	memcpy(p + h->strings_off, w->strings.data, h->strings_size);
	if (h->params_size)
		memcpy(p + h->params_off, be->params.data, h->params_size);
	if (h->cmd_size)
		memcpy(p + h->cmd_off, be->cmds.data, h->cmd_size);
	memcpy(p, h, sizeof(*h));
	crc = rivulet_crc32c(0, p, h->size);
	memcpy(p + offsetof(struct rivulet_program, crc), &crc, sizeof(crc));
	out->size = h->size;
	return check_file(be, out);
}

static int prepare(struct writer *w)
{
	int rc = collect_tensors(w);

	if (!rc)
		rc = collect_params(w);
	return rc ? rc : collect_strings(w);
}

int rvl_write_program(struct rvl_backend *be, const void *onnx, size_t size,
		      struct rivulet_blob *out)
{
	struct writer w = { .be = be, .strings.arena = be->g->arena };
	uint32_t *names = NULL;
	int rc = prepare(&w);

	if (!rc) {
		names = calloc(w.n_tensors + 1, sizeof(*names));
		rc = names ? place_sections(&w, names) : -ENOMEM;
	}
	if (!rc)
		rc = place_constants(&w);
	if (!rc)
		rc = rvl_emit_steps(be);
	if (!rc) {
		finish_header(&w, onnx, size);
		rc = write_file(&w, names, out);
	}
	free(names);
	free(w.tensor);
	free(w.number);
	free(w.step_name);
	rvl_bytes_free(&w.strings);
	return rc;
}

void rivulet_target_of(const struct rivulet_board *board, struct rivulet_target *t)
{
	*t = (struct rivulet_target){
		.isa_version = RIVULET_ISA_VERSION,
		.tm = board->tm,
		.tn = board->tn,
		.dn = board->dn,
		.inp_bytes = board->inp_bytes,
		.wgt_bytes = board->wgt_bytes,
		.acc_bytes = board->acc_bytes,
		.modes = board->modes,
		.queue_depth = 1,
	};
}
