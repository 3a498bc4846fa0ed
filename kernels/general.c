/* SPDX-License-Identifier: MIT */
/* Kernels of RVL_OP_GENERAL, which run the operator of a descriptor. */
#include <string.h>

#include "internal.h"

void rvl_desc_call(const struct rvl_kernel_desc *d, struct rvl_call *c)
{
	memset(c, 0, sizeof(*c));
	c->def = d->def;
	c->attr = d->value;
	c->n_in = d->n_in;
	c->n_out = d->n_out;
	for (uint32_t i = 0; i < d->n_in; i++)
		c->in[i] = (struct rvl_value) {
			.type = d->in[i].type, .shape = d->in[i].shape,
			.data = (void *)(uintptr_t)d->in[i].data,
			.pitch = d->in[i].pitched ? d->in[i].pitch : NULL,
		};
	for (uint32_t i = 0; i < d->n_out; i++)
		c->out[i] = (struct rvl_value) {
			.type = d->out[i].type, .shape = d->out[i].shape,
			.pitch = d->out[i].pitched ? d->out[i].pitch : NULL,
		};
}

static void say(const struct rvl_call *c, char *why)
{
	if (why)
		memcpy(why, c->why, RVL_WHY_MAX);
}

/* Where only a run knows the shapes, those of the descriptor are bounds, with which the run compares. */
static bool same_outputs(const struct rvl_call *c, const struct rvl_kernel_desc *d)
{
	for (uint32_t i = 0; i < d->n_out; i++)
		if (d->out[i].type && (c->out[i].type != d->out[i].type ||
				       (!c->bounded && !rvl_shape_equal(&c->out[i].shape, &d->out[i].shape))))
			return false;
	return true;
}

static int run_pointers(const struct rvl_kernel *k, const void *const *in, void *const *out,
			void *scratch, const struct rvl_pool *pool)
{
	struct rvl_value vi[RVL_MAX_IN], vo[RVL_MAX_OUT];

	for (uint32_t i = 0; i < k->d.n_in; i++)
		vi[i] = (struct rvl_value) { .type = k->d.in[i].type, .shape = k->d.in[i].shape,
					     .data = (void *)(uintptr_t)in[i] };
	for (uint32_t i = 0; i < k->d.n_out; i++)
		vo[i] = (struct rvl_value) { .type = k->d.out[i].type,
					     .shape = k->d.out[i].shape, .data = out[i] };
	return rvl_general_run(k, vi, vo, scratch, pool, NULL);
}

/* Images in NHWC have the pitches of that layout. */
static void set_pitches(struct rvl_kernel_arg *arg, uint32_t n, bool *any)
{
	for (uint32_t i = 0; i < n; i++) {
		struct rvl_kernel_arg *a = &arg[i];

		*any |= a->pitched || a->layout == RIVULET_LAYOUT_NHWC;
		if (a->pitched || a->layout != RIVULET_LAYOUT_NHWC)
			continue;
		rvl_arg_strides(a, a->pitch);
		for (int d = 0; d < a->shape.rank; d++)
			a->pitch[d] *= (int64_t)rvl_type_size(a->type);
		a->pitched = true;
	}
}

/* Packs constant operands, unless only a run knows the shapes. */
static int pack(struct rvl_kernel *k, const struct rvl_call *c)
{
	int64_t floats = k->d.def->packed && !k->moving ? k->d.def->packed(c) : 0;

	if (floats <= 0 || floats > RVL_MAX_PACKED)
		return 0;
	k->f32 = rvl_kernel_mem(k, floats, sizeof(*k->f32));
	if (!k->f32)
		return -ENOMEM;
	k->d.def->pack(c, k->f32);
	return 0;
}

int rvl_setup_general(struct rvl_kernel *k, bool reference, char *why)
{
	bool pitched = false;
	struct rvl_call c;
	int64_t scratch;
	int rc;

	(void)reference;
	if (!k->d.def)
		return rvl_why(why, "it has no descriptor");
	set_pitches(k->d.in, k->d.n_in, &pitched);
	set_pitches(k->d.out, k->d.n_out, &pitched);
	rvl_desc_call(&k->d, &c);
	rc = rvl_op_infer(&c);
	if (rc && !c.unknown) {
		say(&c, why);
		return rc;
	}
	if (!rc && !same_outputs(&c, &k->d))
		return rvl_why(why, "its outputs have other types or shapes");
	k->moving = rc || c.bounded;
	if (k->moving && pitched)
		return rvl_why(why, "an operand has pitches, but only a run knows the shapes");
	for (uint32_t i = 0; rc && i < k->d.n_out; i++)
		c.out[i].shape = k->d.out[i].shape;
	scratch = k->d.def->scratch ? k->d.def->scratch(&c) : 0;
	if (scratch < 0 || scratch > RVL_MAX_SCRATCH)
		return rvl_why(why, "it needs %lld MiB of workspace, at most %lld MiB are allowed",
			       (long long)((scratch < 0 ? INT64_MAX : scratch) >> 20),
			       (long long)(RVL_MAX_SCRATCH >> 20));
	k->scratch = (size_t)scratch;
	k->run = run_pointers;
	return pack(k, &c);
}

/*
 * The outputs keep the shapes that the run determined, which must fit the memory provided for them.
 */
static int take_outputs(const struct rvl_kernel *k, struct rvl_call *c, struct rvl_value *out)
{
	for (uint32_t i = 0; i < k->d.n_out; i++) {
		int64_t room = rvl_shape_count(&k->d.out[i].shape);

		if (!out[i].data)
			continue;
		if (c->out[i].type != k->d.out[i].type || rvl_count(&c->out[i]) < 0 ||
		    rvl_count(&c->out[i]) > room)
			return rvl_op_fail(c, "its output %u is larger than its bound of %lld elements",
					   i, (long long)room);
		out[i].shape = c->out[i].shape;
		c->out[i].data = out[i].data;
	}
	return 0;
}

static bool true_shapes(const struct rvl_kernel *k, const struct rvl_call *c)
{
	for (uint32_t i = 0; i < k->d.n_in; i++)
		if (!rvl_shape_equal(&c->in[i].shape, &k->d.in[i].shape))
			return false;
	return true;
}

/* Elements of another shape than the compiled one may lie outside the memory of the pitches. */
static int check_pitched_shapes(const struct rvl_kernel *k, struct rvl_call *c)
{
	for (uint32_t i = 0; i < k->d.n_in + k->d.n_out; i++) {
		bool input = i < k->d.n_in;
		const struct rvl_kernel_arg *a = input ? &k->d.in[i] : &k->d.out[i - k->d.n_in];
		const struct rvl_value *v = input ? &c->in[i] : &c->out[i - k->d.n_in];

		if (a->type && a->pitched && !rvl_shape_equal(&v->shape, &a->shape))
			return rvl_op_fail(c, "operand %u has pitches for another shape", i);
	}
	return 0;
}

int rvl_general_run(const struct rvl_kernel *k, const struct rvl_value *in, struct rvl_value *out,
		    void *scratch, const struct rvl_pool *pool, char *why)
{
	struct rvl_call c;
	int rc = 0;

	rvl_desc_call(&k->d, &c);
	for (uint32_t i = 0; i < k->d.n_in; i++) {
		if (!c.in[i].type)
			continue;
		if (in[i].shape.rank != RVL_RANK_COMPILED)
			c.in[i].shape = in[i].shape;
		if (!c.in[i].data)
			c.in[i].data = in[i].data;
	}
	c.scratch = scratch;
	c.pool = pool;
	if (k->moving || !true_shapes(k, &c))
		rc = rvl_op_infer(&c);
	else
		c.packed = k->f32;
	if (!rc)
		rc = check_pitched_shapes(k, &c);
	if (!rc)
		rc = take_outputs(k, &c, out);
	if (!rc && k->d.def->scratch && k->d.def->scratch(&c) > (int64_t)k->scratch)
		rc = rvl_op_fail(&c, "it needs more workspace than when it was compiled");
	if (!rc)
		rc = k->d.def->run(&c);
	for (uint32_t i = 0; i < k->d.n_out && !rc; i++)
		if (out[i].data)
			out[i].shape = c.out[i].shape;
	if (rc)
		say(&c, why);
	return rc;
}
