// SPDX-License-Identifier: MIT
/*
 * Images: a program file is copied into the back end's memory and checked there, because the copy
 * cannot be changed by others; then its CPU steps are prepared. rivulet_program_check() validates
 * the structure of the file. The parameters of CPU steps are compared with the tensors here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "rivulet_isa.h"

#define INLINE_BYTES 16384u
#define INLINE_MACS 65536u

/* Checks that the bytes of a tensor are inside the memory that a run has for them. */
static int check_place(const struct rivulet_program *p, const struct rivulet_tensor *t)
{
	const struct rivulet_tensor *all = rivulet_program_tensors(p);
	uint64_t limit = 0;

	if (t->place == RIVULET_PLACE_ARENA || t->place == RIVULET_PLACE_CONST) {
		limit = t->place == RIVULET_PLACE_ARENA ? p->arena_size : p->size;
		return t->offset <= limit && t->size <= limit - t->offset ? 0 : -EINVAL;
	}
	if (t->place == RIVULET_PLACE_INPUT && t->offset < p->inputs)
		limit = all[t->offset].size;
	if (t->place == RIVULET_PLACE_OUTPUT && t->offset < p->outputs)
		limit = all[p->inputs + t->offset].size;
	return t->at <= limit && t->size <= limit - t->at ? 0 : -EINVAL;
}

/*
 * Whether the operand has the elements of the tensor: as many, or in the same dimensions if they
 * have pitches or each run finds their number.
 */
static bool same_elements(const struct rvl_kernel_arg *a, const struct rivulet_tensor *t)
{
	int64_t n = rvl_shape_count(&a->shape);

	if (!(t->flags & (RIVULET_TENSOR_PITCHED | RIVULET_TENSOR_BOUNDED)))
		return n >= 0 && (uint64_t)n * rvl_type_size(a->type) == t->size;
	if (n < 0)
		return false;
	for (uint32_t d = 0; d < t->ndim; d++)
		if ((uint32_t)a->shape.rank != t->ndim || (uint64_t)a->shape.dim[d] != t->dim[d])
			return false;
	return (uint32_t)a->shape.rank == t->ndim;
}

/* Checks that an operand in the step's parameters and its tensor have the same type and size. */
static int check_operand(const struct rivulet_program *p, const struct rvl_kernel_arg *a,
			 uint32_t tensor, bool write)
{
	const struct rivulet_tensor *t = &rivulet_program_tensors(p)[tensor];

	if (tensor >= p->tensors || (uint32_t)a->type != t->dtype ||
	    (uint32_t)a->layout != t->layout || check_place(p, t) || !same_elements(a, t))
		return -EINVAL;
	if (write && t->place != RIVULET_PLACE_ARENA && t->place != RIVULET_PLACE_OUTPUT)
		return -EINVAL;
	return 0;
}

/*
 * Matches the operands of one side with the step's tensors, in order. An absent operand (type NONE)
 * has no tensor. Constants get their address in the file, and operands the pitches of their tensors.
 */
static int bind_operands(const struct rivulet_image *img, struct rvl_kernel_arg *arg, uint32_t n,
			 const uint32_t *list, uint32_t count, bool write, uint32_t *tensor)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct rivulet_tensor *t;

		tensor[i] = UINT32_MAX;
		if (arg[i].type == RVL_TYPE_NONE)
			continue;
		if (used == count || list[used] >= img->prog->tensors ||
		    check_operand(img->prog, &arg[i], list[used], write))
			return -EINVAL;
		tensor[i] = list[used++];
		t = &rivulet_program_tensors(img->prog)[tensor[i]];
		if (t->place == RIVULET_PLACE_CONST)
			arg[i].data = (const char *)img->mem.host + t->offset + rivulet_tensor_first(t);
		arg[i].pitched = t->flags & RIVULET_TENSOR_PITCHED;
		memcpy(arg[i].pitch, t->pitch, sizeof(arg[i].pitch));
	}
	return used == count ? 0 : -EINVAL;
}

static bool is_small(const struct rivulet_image *img, const struct rivulet_step *s)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(img->prog);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < s->nread; i++)
		bytes += t[s->read[i]].size;
	for (uint32_t i = 0; i < s->nwrite; i++)
		bytes += t[s->write[i]].size;
	return bytes <= INLINE_BYTES && s->macs <= INLINE_MACS;
}

static int fail_step(const struct rivulet_image *img, uint32_t i, int code, const char *why,
		     struct rivulet_runtime_error *err)
{
	const struct rivulet_step *s = &rivulet_program_steps(img->prog)[i];

	return rvl_rt_fail(err, code, "step %u (%s, %s): %s", i,
			   rivulet_program_string(img->prog, s->name),
			   rvl_desc_op_name((const char *)img->mem.host + img->prog->params_off +
					    s->params, s->params_size), why);
}

/*
 * Kernels that are not RVL_TRAIT_PLACES may use data as an index, a count or a coordinate, and check
 * it before they use it.
 */
static bool uses_addresses(enum rvl_op op)
{
	return !(rvl_op_traits(op) & RVL_TRAIT_PLACES);
}

/* Marks the inputs and outputs of the model among the operands of a step. */
static void mark(const struct rivulet_image *img, const uint32_t *tensor, uint32_t n, bool *marks)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(img->prog);

	for (uint32_t i = 0; i < n; i++) {
		if (tensor[i] == UINT32_MAX)
			continue;
		if (t[tensor[i]].place == RIVULET_PLACE_INPUT)
			marks[t[tensor[i]].offset] = true;
		if (t[tensor[i]].place == RIVULET_PLACE_OUTPUT)
			marks[img->prog->inputs + t[tensor[i]].offset] = true;
	}
}

/* What the kernels keep, and the records of the CPU steps. */
static uint64_t kept_bytes(const struct rivulet_image *img)
{
	return img->need.kept + img->prog->steps * (uint64_t)sizeof(*img->cpu);
}

static int prepare_cpu(struct rivulet_image *img, uint32_t i, uint64_t limit,
		       struct rivulet_runtime_error *err)
{
	const struct rivulet_step *s = &rivulet_program_steps(img->prog)[i];
	struct rvl_rt_cpu_step *c = &img->cpu[i];
	struct rvl_kernel_desc d;
	char why[RVL_WHY_MAX] = "no kernel for these types";
	int r;

	r = rvl_desc_unpack((const char *)img->mem.host + img->prog->params_off + s->params,
			    s->params_size, &d);
	if (r || (uint32_t)d.op != s->op)
		return fail_step(img, i, EINVAL, "its parameters are damaged", err);
	c->n_in = d.n_in;
	c->n_out = d.n_out;
	if (bind_operands(img, d.in, d.n_in, s->read, s->nread, false, c->in) ||
	    bind_operands(img, d.out, d.n_out, s->write, s->nwrite, true, c->out))
		return fail_step(img, i, EINVAL, "its operands are not what its parameters say", err);
	if (rvl_rt_aliased(img, s))
		return fail_step(img, i, EINVAL, "it writes bytes that it reads, or writes twice", err);
	mark(img, c->in, d.n_in, img->on_cpu);
	mark(img, c->out, d.n_out, img->on_cpu);
	if (uses_addresses(d.op)) {
		mark(img, c->in, d.n_in, img->addresses);
		mark(img, c->out, d.n_out, img->addresses);
	}
	r = rvl_kernel_new(&d, false, &c->kernel, why);
	if (r)
		return fail_step(img, i, -r, r == -ENOMEM ? "out of memory" : why, err);
	c->scratch = rvl_kernel_scratch(c->kernel);
	if (rvl_kernels_add(&img->need, c->kernel, why))
		return fail_step(img, i, E2BIG, why, err);
	if (kept_bytes(img) > limit)
		return fail_step(img, i, EDQUOT, "the CPU steps up to it need more memory than is left",
				 err);
	c->inlined = is_small(img, s);
	return 0;
}

uint64_t rvl_rt_prof_bytes(const struct rivulet_image *img, uint32_t i)
{
	const struct rivulet_step *s = &rivulet_program_steps(img->prog)[i];
	uint32_t longest = 0;

	if (s->kind != RIVULET_STEP_NPU || !(s->slots >> RIVULET_SLOT_PROF & 1))
		return 0;
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		longest = s->variant[l].length > longest ? s->variant[l].length : longest;
	return (uint64_t)(longest / sizeof(struct rivulet_insn)) * sizeof(struct rivulet_prof);
}

static void prepare_npu(struct rivulet_image *img, uint32_t i)
{
	img->report[i] = img->npu_steps++;
	img->tail = i + 1;
	img->io_slots |= rivulet_program_steps(img->prog)[i].slots;
	img->prof_size += rvl_rt_prof_bytes(img, i);
}

static int prepare_steps(struct rivulet_image *img, uint64_t limit,
			 struct rivulet_runtime_error *err)
{
	uint32_t n = img->prog->steps, io = img->prog->inputs + img->prog->outputs + 1;
	int r = 0;

	img->cpu = calloc(n + 1, sizeof(*img->cpu));
	img->report = calloc(n + 1, sizeof(*img->report));
	img->on_cpu = calloc(io, sizeof(*img->on_cpu));
	img->addresses = calloc(io, sizeof(*img->addresses));
	if (!img->cpu || !img->report || !img->on_cpu || !img->addresses || rvl_rt_deps(img))
		return rvl_rt_fail(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; !r && i < n; i++) {
		if (rivulet_program_steps(img->prog)[i].kind == RIVULET_STEP_CPU)
			r = prepare_cpu(img, i, limit, err);
		else
			prepare_npu(img, i);
	}
	return r;
}

static int check_image(struct rivulet_image *img, uint64_t limit,
		       struct rivulet_runtime_error *err)
{
	struct rivulet_target t;
	char why[400];
	int r = rivulet_program_check(img->mem.host, img->mem.size, why, sizeof(why));

	if (!r) {
		img->prog = img->mem.host;
		rivulet_runtime_target(img->rt, &t);
		r = rivulet_program_fits(img->prog, &t, why, sizeof(why));
	}
	if (r)
		return rvl_rt_fail(err, -r, "%s", why);
	return prepare_steps(img, limit, err);
}

static int image_new(struct rivulet_runtime *rt, uint64_t size, struct rivulet_image **out,
		     struct rivulet_runtime_error *err)
{
	struct rivulet_image *img;
	int r;

	if (size < sizeof(struct rivulet_program) || size > RIVULET_PROGRAM_MAX)
		return rvl_rt_fail(err, EINVAL, "a program file has %zu to %llu bytes, not %llu",
				   sizeof(struct rivulet_program), RIVULET_PROGRAM_MAX,
				   (unsigned long long)size);
	img = calloc(1, sizeof(*img));
	if (!img)
		return rvl_rt_fail(err, ENOMEM, "out of memory");
	atomic_init(&img->refs, 1);
	img->rt = rivulet_runtime_ref(rt);
	r = rt->backend->mem_alloc(rt, size, &img->mem, err);
	if (r) {
		rivulet_image_unref(img);
		return r;
	}
	*out = img;
	return 0;
}

int rivulet_image_load(struct rivulet_runtime *rt, const void *data, size_t size,
		       struct rivulet_image **out, struct rivulet_runtime_error *err)
{
	return rivulet_image_load_within(rt, data, size, UINT64_MAX, out, err);
}

int rivulet_image_load_within(struct rivulet_runtime *rt, const void *data, size_t size,
			      uint64_t limit, struct rivulet_image **out,
			      struct rivulet_runtime_error *err)
{
	struct rivulet_image *img = NULL;
	int r = image_new(rt, size, &img, err);

	if (r)
		return r;
	memcpy(img->mem.host, data, size);
	r = check_image(img, limit, err);
	if (r) {
		rivulet_image_unref(img);
		return r;
	}
	*out = img;
	return 0;
}

struct rivulet_image *rivulet_image_ref(struct rivulet_image *img)
{
	if (img)
		atomic_fetch_add(&img->refs, 1);
	return img;
}

struct rivulet_image *rivulet_image_unref(struct rivulet_image *img)
{
	if (!img || atomic_fetch_sub(&img->refs, 1) != 1)
		return NULL;
	for (uint32_t i = 0; img->prog && img->cpu && i < img->prog->steps; i++)
		rvl_kernel_free(img->cpu[i].kernel);
	free(img->cpu);
	free(img->report);
	free(img->on_cpu);
	free(img->addresses);
	free(img->deps);
	rvl_rt_mem_free(&img->mem);
	rivulet_runtime_unref(img->rt);
	free(img);
	return NULL;
}

const struct rivulet_program *rivulet_image_program(const struct rivulet_image *img)
{
	return img->prog;
}

uint64_t rivulet_image_bytes(const struct rivulet_image *img)
{
	return img->need.kept + img->need.scratch * rivulet_workers_threads(img->rt->pool) +
	       img->prog->steps * (uint64_t)(sizeof(*img->cpu) + sizeof(*img->deps));
}

/* Of inputs and outputs whose memory a run copies, at most. */
static uint64_t copied_bytes(const struct rivulet_image *img)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(img->prog);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < img->prog->inputs + img->prog->outputs; i++)
		sum += img->addresses[i] ? t[i].size : 0;
	return sum;
}

uint64_t rivulet_image_exec_bytes(const struct rivulet_image *img)
{
	return img->prog->arena_size + copied_bytes(img) + img->prof_size + (uint64_t)img->npu_steps * RVL_RT_REPORT +
	       img->prog->steps * (uint64_t)sizeof(struct rvl_rt_task) +
	       img->prog->tensors * (uint64_t)sizeof(struct rvl_shape);
}
