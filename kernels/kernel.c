/* SPDX-License-Identifier: MIT */
/* Selects, sets up and runs kernels. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dispatch {
	enum rvl_op op;
	rvl_setup_fn setup;
	struct rvl_inputs inputs;
};

#define MAX_KERNEL_BYTES ((int64_t)RVL_KERNELS_MOST)
#define MAX_ELEMENTS ((int64_t)1 << 30)

#define rvl_setup_none NULL
static const struct dispatch table[] = {
#define KERNEL(id, num, name, inputs, kernel, ...) \
	{ RVL_OP_##id, rvl_setup_##kernel, inputs },
	RVL_OPS(KERNEL)
#undef KERNEL
};
#undef rvl_setup_none

static const struct dispatch *find(enum rvl_op op)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].op == op)
			return table[i].setup ? &table[i] : NULL;
	return NULL;
}

int rvl_why(char *why, const char *fmt, ...)
{
	va_list ap;

	if (!why)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(why, RVL_WHY_MAX, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* Vector loads may look past the end. */
static int64_t rounded(int64_t bytes)
{
	return (bytes + 63) / 64 * 64 + 64;
}

void *rvl_kernel_mem(struct rvl_kernel *k, int64_t n, size_t size)
{
	int64_t bytes;
	void *p;

	if (k->n_mem == RVL_KERNEL_MEM || n < 0)
		return NULL;
	if (__builtin_mul_overflow(n, (int64_t)size, &bytes) || bytes > MAX_KERNEL_BYTES) {
		k->too_large = true;
		return NULL;
	}
	bytes = rounded(bytes);
	p = aligned_alloc(64, (size_t)bytes);
	if (!p)
		return NULL;
	k->mem[k->n_mem++] = p;
	k->mem_bytes += (size_t)bytes;
	return memset(p, 0, (size_t)bytes);
}

void rvl_kernel_drop(struct rvl_kernel *k, const void *p, int64_t n, size_t size)
{
	uint32_t i = 0;

	while (i < k->n_mem && k->mem[i] != p)
		i++;
	if (i == k->n_mem)
		return;
	free(k->mem[i]);
	k->mem[i] = k->mem[--k->n_mem];
	k->mem_bytes -= (size_t)rounded(n * (int64_t)size);
}

void rvl_parallel_lanes(const struct rvl_pool *pool, int64_t lanes, int64_t n, rvl_part_fn fn, void *arg)
{
	if (pool && pool->threads != 1 && lanes > 1 && n > 1) {
		pool->parallel(pool->ctx, (uint32_t)lanes, (uint32_t)n, fn, arg);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		fn(arg, 0, (uint32_t)i);
}

struct parts {
	void (*fn)(void *arg, uint32_t i);
	void *arg;
};

static void run_part(void *arg, uint32_t lane, uint32_t i)
{
	const struct parts *p = arg;

	(void)lane;
	p->fn(p->arg, i);
}

void rvl_parallel(const struct rvl_pool *pool, uint32_t n, void (*fn)(void *arg, uint32_t i),
		  void *arg)
{
	struct parts p = { fn, arg };

	rvl_parallel_lanes(pool, UINT32_MAX, n, run_part, &p);
}

static int check_arg(const struct rvl_kernel_arg *a, const char *what, uint32_t i, char *why)
{
	const struct rvl_kernel_quant *q = &a->quant;
	int64_t n = rvl_shape_count(&a->shape);

	if (a->type == RVL_TYPE_NONE)
		return 0;
	if (!rvl_type_size(a->type) || n < 0 || n > MAX_ELEMENTS)
		return rvl_why(why, "%s %u has no valid type or shape", what, i);
	if (q->n && (!q->scale || !q->zp))
		return rvl_why(why, "%s %u lacks quantisation parameters", what, i);
	if (q->n > 1 && (q->axis < 0 || q->axis >= a->shape.rank ||
			 a->shape.dim[q->axis] != (int64_t)q->n))
		return rvl_why(why, "%s %u has %u scales for other channels", what, i, q->n);
	for (uint32_t c = 0; c < q->n; c++) {
		if (!isfinite(q->scale[c]) || q->scale[c] == 0.0f)
			return rvl_why(why, "%s %u has a scale that is no number", what, i);
		if ((a->type == RVL_TYPE_U8 && (q->zp[c] < 0 || q->zp[c] > 255)) ||
		    (a->type == RVL_TYPE_S8 && (q->zp[c] < -128 || q->zp[c] > 127)))
			return rvl_why(why, "%s %u has zero point %d", what, i, q->zp[c]);
	}
	return 0;
}

/*
 * The kernels of RVL_OPS take the element types up to bool; operands of the other types are left to
 * the descriptors. A copy takes any type, because a folded constant may be an output of the model. The
 * operators of a chain check their operands.
 */
static int check_types(const struct rvl_kernel_desc *d, char *why)
{
	bool bits = rvl_op_traits(d->op) & RVL_TRAIT_BITS;
	bool wide = d->op == RVL_OP_DEQUANTIZE || d->op == RVL_OP_Q_RESCALE;

	if (d->op == RVL_OP_IDENTITY || d->op == RVL_OP_REORDER || d->op == RVL_OP_CHAIN)
		return 0;
	for (uint32_t i = 0; i < d->n_in + d->n_out; i++) {
		enum rvl_type t = i < d->n_in ? d->in[i].type : d->out[i - d->n_in].type;

		if (t > RVL_TYPE_BOOL && !(bits && t == RVL_TYPE_U64) &&
		    !((bits || wide) && t == RVL_TYPE_S16))
			return rvl_why(why, "its kernel does not take %s", rvl_type_name(t));
	}
	return 0;
}

/* A kernel that renames needs no operand that describes the shape. */
static struct rvl_inputs inputs_of(const struct dispatch *row)
{
	const struct rvl_op_def *def = row->inputs.of_row ? rvl_op_of_kernel(row->op) : NULL;
	bool renames = rvl_op_traits(row->op) & RVL_TRAIT_RENAMES;

	if (!def)
		return row->inputs;
	return (struct rvl_inputs) { renames ? 1 : def->least_in, def->most_in, true };
}

static int check_desc(const struct rvl_kernel_desc *d, const struct dispatch *row, char *why)
{
	struct rvl_inputs inputs = inputs_of(row);
	int rc = 0;

	if (d->n_in < inputs.least || d->n_in > inputs.most || d->n_out < 1 ||
	    d->n_out > (d->op == RVL_OP_GENERAL ? RVL_MAX_OUT : 2))
		return rvl_why(why, "%u inputs and %u outputs", d->n_in, d->n_out);
	if (d->n_out > 1 && d->op != RVL_OP_MAX_POOL && d->op != RVL_OP_B_CONV && d->op != RVL_OP_GENERAL)
		return rvl_why(why, "a second output");
	if (d->op != RVL_OP_GENERAL &&
	    (d->in[0].type == RVL_TYPE_NONE || d->out[0].type == RVL_TYPE_NONE))
		return rvl_why(why, "no first input or output");
	for (uint32_t i = 0; i < d->n_in && !rc; i++)
		rc = check_arg(&d->in[i], "input", i, why);
	for (uint32_t i = 0; i < d->n_out && !rc; i++)
		rc = check_arg(&d->out[i], "output", i, why);
	if (!rc && d->op != RVL_OP_GENERAL)
		rc = check_types(d, why);
	if (!rc)
		rc = rvl_kernel_check_layouts(d, why);
	return rc ? rc : rvl_kernel_check_pitches(d, why);
}

/* Copies the scales and zero points of all arguments into one block that the kernel owns. */
static int copy_quant(struct rvl_kernel *k)
{
	struct rvl_kernel_arg *arg[RVL_MAX_IN + RVL_MAX_OUT];
	uint32_t n = 0;
	int64_t total = 0;
	int32_t *p;

	for (uint32_t i = 0; i < k->d.n_in; i++)
		arg[n++] = &k->d.in[i];
	for (uint32_t i = 0; i < k->d.n_out; i++)
		arg[n++] = &k->d.out[i];
	for (uint32_t i = 0; i < n; i++)
		total += arg[i]->quant.n;
	p = rvl_kernel_mem(k, total * 2, sizeof(*p));
	if (!p)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		struct rvl_kernel_quant *q = &arg[i]->quant;

		if (!q->n)
			continue;
		memcpy(p, q->scale, q->n * sizeof(float));
		q->scale = (const float *)p;
		p += q->n;
		memcpy(p, q->zp, q->n * sizeof(int32_t));
		q->zp = p;
		p += q->n;
	}
	return 0;
}

int rvl_kernel_new(const struct rvl_kernel_desc *d, bool reference, struct rvl_kernel **out,
		   char *why)
{
	const struct dispatch *row = find(d->op);
	struct rvl_kernel *k;
	int rc;

	if (!row) {
		rvl_why(why, "no kernel for this operator");
		return -EOPNOTSUPP;
	}
	rc = check_desc(d, row, why);
	if (rc)
		return rc;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->d = *d;
	rc = copy_quant(k);
	if (!rc)
		rc = row->setup(k, reference, why);
	if (rc == -ENOMEM && k->too_large) {
		rvl_why(why, "its packed weights or tables have more than %llu MiB", RVL_KERNELS_MOST >> 20);
		rc = -E2BIG;
	}
	if (rc) {
		rvl_kernel_free(k);
		return rc;
	}
	*out = k;
	return 0;
}

void rvl_kernel_free(struct rvl_kernel *k)
{
	if (!k)
		return;
	rvl_kernel_free(k->inner);
	rvl_chain_free(k->chain);
	for (uint32_t i = 0; i < k->n_mem; i++)
		free(k->mem[i]);
	free(k);
}

size_t rvl_kernel_bytes(const struct rvl_kernel *k)
{
	return k->mem_bytes + (k->inner ? k->inner->mem_bytes : 0);
}

size_t rvl_kernel_scratch(const struct rvl_kernel *k)
{
	return k->scratch;
}

static unsigned long long mib(uint64_t bytes)
{
	return (bytes + (1 << 20) - 1) >> 20;
}

int rvl_kernels_add(struct rvl_kernels_need *need, const struct rvl_kernel *k, char *why)
{
	need->kept += rvl_kernel_bytes(k);
	if (k->scratch > need->scratch)
		need->scratch = k->scratch;
	if (need->kept > RVL_KERNELS_MOST)
		rvl_why(why, "with its %llu MiB of packed weights and tables the CPU steps keep %llu MiB, at most %llu MiB are allowed",
			mib(rvl_kernel_bytes(k)), mib(need->kept), mib(RVL_KERNELS_MOST));
	else if (need->scratch > RVL_KERNELS_MOST)
		rvl_why(why, "it needs %llu MiB of workspace, at most %llu MiB are allowed",
			mib(need->scratch), mib(RVL_KERNELS_MOST));
	else
		return 0;
	return -E2BIG;
}

int rvl_kernel_run(const struct rvl_kernel *k, const void *const *in, void *const *out,
		   void *scratch, const struct rvl_pool *pool)
{
	const void *ptr[RVL_MAX_IN] = { NULL };

	for (uint32_t i = 0; i < k->d.n_in; i++)
		ptr[i] = k->d.in[i].data ? k->d.in[i].data : in[i];
	if (k->d.op != RVL_OP_GENERAL && rvl_shape_count(&k->d.out[0].shape) == 0)
		return 0;
	return k->run(k, ptr, out, scratch, pool);
}

static int fixed_shapes(const struct rvl_kernel *k, const struct rvl_value *in, char *why)
{
	for (uint32_t i = 0; i < k->d.n_in; i++)
		if (in[i].type && in[i].shape.rank != RVL_RANK_COMPILED &&
		    !rvl_shape_equal(&in[i].shape, &k->d.in[i].shape))
			return rvl_why(why, "input %u has another shape than when it was compiled", i);
	return 0;
}

int rvl_kernel_run_values(const struct rvl_kernel *k, const struct rvl_value *in,
			  struct rvl_value *out, void *scratch, const struct rvl_pool *pool,
			  char *why)
{
	const void *src[RVL_MAX_IN];
	void *dst[RVL_MAX_OUT];
	int rc;

	if (k->d.op == RVL_OP_GENERAL)
		return rvl_general_run(k, in, out, scratch, pool, why);
	rc = fixed_shapes(k, in, why);
	for (uint32_t i = 0; i < k->d.n_in; i++)
		src[i] = in[i].data;
	for (uint32_t i = 0; i < k->d.n_out; i++)
		dst[i] = out[i].data;
	if (!rc)
		rc = rvl_kernel_run(k, src, dst, scratch, pool);
	if (rc == -EINVAL && why && !*why)
		rvl_why(why, "a scale or shape operand is not valid");
	return rc;
}
