// SPDX-License-Identifier: MIT
/*
 * Operands of a CPU step that share bytes. A kernel may read an operand after it wrote a result, and
 * it checks an index before it writes and uses it afterwards, so that a result must not overlap an
 * operand or another result. Views of one buffer are compared element by element: a step may read
 * some channels of an image and write others.
 */
#include "graph/view.h"
#include "internal.h"

/* The bytes of a tensor, as a view of its buffer. Returns false on overflow. */
static bool view_of(const struct rivulet_tensor *t, struct rvl_tview *v)
{
	uint64_t at = t->place == RIVULET_PLACE_ARENA ? t->offset : t->at;
	bool pitched = t->flags & RIVULET_TENSOR_PITCHED;

	if (at > INT64_MAX - t->size || t->size > INT64_MAX)
		return false;
	if (!pitched) {
		*v = (struct rvl_tview){ (int64_t)at, 1, { (int64_t)t->size }, { 1 } };
		return true;
	}
	v->origin = (int64_t)(at + rivulet_tensor_first(t));
	v->rank = (int32_t)t->ndim + 1;
	for (uint32_t d = 0; d < t->ndim; d++) {
		v->dim[d] = (int64_t)t->dim[d];
		v->pitch[d] = t->pitch[d];
	}
	v->dim[t->ndim] = (int64_t)rvl_type_size((enum rvl_type)t->dtype);
	v->pitch[t->ndim] = 1;
	return true;
}

static bool meet(const struct rivulet_tensor *a, const struct rivulet_tensor *b)
{
	struct rvl_tview va, vb;

	if (!rvl_rt_overlap(a, b))
		return false;
	if (!((a->flags | b->flags) & RIVULET_TENSOR_PITCHED))
		return true;
	return !view_of(a, &va) || !view_of(b, &vb) || rvl_tview_overlap(&va, &vb);
}

/* Kernels leave out a copy of all bytes to where they are (rvl_kernel_run()). */
static bool in_place(uint32_t op, const struct rivulet_tensor *from, const struct rivulet_tensor *to)
{
	if (op != RVL_OP_IDENTITY && op != RVL_OP_RESHAPE && op != RVL_OP_FLATTEN)
		return false;
	return !((from->flags | to->flags) & RIVULET_TENSOR_PITCHED) && from->offset == to->offset &&
	       from->at == to->at && from->size == to->size;
}

bool rvl_rt_aliased(const struct rivulet_image *img, const struct rivulet_step *s)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(img->prog);

	for (uint32_t i = 0; i < s->nwrite; i++) {
		const struct rivulet_tensor *y = &t[s->write[i]];

		for (uint32_t j = 0; j < s->nread; j++)
			if (meet(y, &t[s->read[j]]) && (j || !in_place(s->op, &t[s->read[0]], y)))
				return true;
		for (uint32_t j = 0; j < i; j++)
			if (meet(y, &t[s->write[j]]))
				return true;
	}
	return false;
}
