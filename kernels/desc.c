/* SPDX-License-Identifier: MIT */
/* Kernel descriptors as bytes of a program file. */
#include <string.h>

#include "internal.h"

#define DESC_MAGIC 0x334b5652u	/* "RVK3" */
#define DESC_MAX (1 << 20)

struct packed_arg {
	uint32_t type;
	int32_t rank;
	uint32_t n_quant;
	int32_t axis;
	uint32_t layout;	/* enum rivulet_layout */
	uint32_t rsvd;
	uint32_t dim[RVL_MAX_RANK];
};

struct packed_head {
	uint32_t magic;
	uint32_t size;		/* of the whole descriptor, bytes */
	uint32_t op;
	uint32_t n_in;
	uint32_t n_out;
	uint32_t rsvd;
	struct rvl_attr attr;
};

static const struct rvl_kernel_arg *arg_at(const struct rvl_kernel_desc *d, uint32_t i)
{
	return i < d->n_in ? &d->in[i] : &d->out[i - d->n_in];
}

static int64_t aligned(int64_t n)
{
	return (n + 7) / 8 * 8;
}

static int64_t packed_size(const struct rvl_kernel_desc *d)
{
	uint32_t n = d->n_in + d->n_out;
	int64_t size = sizeof(struct packed_head) + n * (int64_t)sizeof(struct packed_arg);

	for (uint32_t i = 0; i < n; i++)
		size += (int64_t)arg_at(d, i)->quant.n * 8;
	if (d->def)
		size = aligned(size) + rvl_attrs_size(d);
	if (d->op == RVL_OP_CHAIN)
		size = aligned(size) + d->parts_size;
	return size;
}

static int pack_arg(const struct rvl_kernel_arg *a, struct packed_arg *p)
{
	*p = (struct packed_arg) {
		.type = a->type, .rank = a->shape.rank, .n_quant = a->quant.n,
		.axis = a->quant.axis, .layout = a->layout,
	};
	for (int i = 0; i < a->shape.rank; i++) {
		if (a->shape.dim[i] < 0 || a->shape.dim[i] > UINT32_MAX)
			return -E2BIG;
		p->dim[i] = (uint32_t)a->shape.dim[i];
	}
	return 0;
}

static void put(uint8_t **p, const void *src, size_t n)
{
	memcpy(*p, src, n);
	*p += n;
}

int64_t rvl_desc_pack(const struct rvl_kernel_desc *d, void *buf, size_t size)
{
	int64_t need = packed_size(d);
	uint32_t n = d->n_in + d->n_out;
	struct packed_head h = {
		.magic = DESC_MAGIC, .size = (uint32_t)need, .op = d->op, .n_in = d->n_in,
		.n_out = d->n_out, .attr = d->attr,
	};
	uint8_t *p = buf;

	if (need > DESC_MAX)
		return -E2BIG;
	if (!buf || size < (size_t)need)
		return need;
	put(&p, &h, sizeof(h));
	for (uint32_t i = 0; i < n; i++) {
		struct packed_arg a;
		int rc = pack_arg(arg_at(d, i), &a);

		if (rc)
			return rc;
		put(&p, &a, sizeof(a));
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct rvl_kernel_quant *q = &arg_at(d, i)->quant;

		if (q->n) {
			put(&p, q->scale, q->n * sizeof(float));
			put(&p, q->zp, q->n * sizeof(int32_t));
		}
	}
	if (d->def) {
		memset(p, 0, (size_t)(need - rvl_attrs_size(d)) - (size_t)(p - (uint8_t *)buf));
		rvl_attrs_pack(d, (uint8_t *)buf + (need - rvl_attrs_size(d)));
	}
	if (d->op == RVL_OP_CHAIN) {
		memset(p, 0, (size_t)(need - d->parts_size) - (size_t)(p - (uint8_t *)buf));
		memcpy((uint8_t *)buf + (need - d->parts_size), d->parts, d->parts_size);
	}
	return need;
}

static int unpack_arg(const struct packed_arg *p, struct rvl_kernel_arg *a)
{
	if (p->type >= RVL_TYPE_COUNT || p->layout >= RIVULET_LAYOUT_END || p->rsvd || p->rank < 0 || p->rank > RVL_MAX_RANK ||
	    p->n_quant > DESC_MAX / 8)
		return -EBADMSG;
	*a = (struct rvl_kernel_arg) {
		.type = (enum rvl_type)p->type, .shape = { .rank = p->rank },
		.quant = { .n = p->n_quant, .axis = p->axis },
		.layout = (enum rivulet_layout)p->layout,
	};
	for (int i = 0; i < p->rank; i++)
		a->shape.dim[i] = p->dim[i];
	return rvl_shape_count(&a->shape) < 0 ? -EBADMSG : 0;
}

/* The arrays behind the arguments; @left bytes remain. */
static int unpack_quant(struct rvl_kernel_arg *a, const uint8_t **p, size_t *left)
{
	struct rvl_kernel_quant *q = &a->quant;

	if (*left < (size_t)q->n * 8)
		return -EBADMSG;
	if (!q->n)
		return 0;
	q->scale = (const float *)*p;
	q->zp = (const int32_t *)(*p + q->n * 4);
	*p += q->n * 8;
	*left -= q->n * 8;
	return 0;
}

static int unpack_head(const void *buf, size_t size, struct rvl_kernel_desc *d)
{
	struct packed_head h;

	if (size < sizeof(h) || (uintptr_t)buf % 8)
		return -EBADMSG;
	memcpy(&h, buf, sizeof(h));
	if (h.magic != DESC_MAGIC || h.size > size || h.rsvd || h.n_in > RVL_MAX_IN ||
	    h.n_out < 1 || h.n_out > RVL_MAX_OUT || !rvl_op_name((enum rvl_op)h.op))
		return -EBADMSG;
	*d = (struct rvl_kernel_desc) {
		.op = (enum rvl_op)h.op, .n_in = h.n_in, .n_out = h.n_out, .attr = h.attr,
	};
	return 0;
}

/* What a chain has behind its arguments, to the end of the descriptor. */
static int unpack_parts(const uint8_t *p, const void *buf, struct rvl_kernel_desc *d)
{
	struct packed_head h;

	memcpy(&h, buf, sizeof(h));
	if (p > (const uint8_t *)buf + h.size)
		return -EBADMSG;
	d->parts = p;
	d->parts_size = h.size - (uint32_t)(p - (const uint8_t *)buf);
	return 0;
}

int rvl_desc_unpack(const void *buf, size_t size, struct rvl_kernel_desc *d)
{
	const uint8_t *p = (const uint8_t *)buf + sizeof(struct packed_head);
	int rc = unpack_head(buf, size, d);
	size_t left;
	uint32_t n;

	if (rc)
		return rc;
	n = d->n_in + d->n_out;
	left = size - sizeof(struct packed_head);
	for (uint32_t i = 0; i < n; i++) {
		struct packed_arg a;

		if (left < sizeof(a))
			return -EBADMSG;
		memcpy(&a, p, sizeof(a));
		p += sizeof(a);
		left -= sizeof(a);
		rc = unpack_arg(&a, i < d->n_in ? &d->in[i] : &d->out[i - d->n_in]);
		if (rc)
			return rc;
	}
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = unpack_quant(i < d->n_in ? &d->in[i] : &d->out[i - d->n_in], &p, &left);
	if (rc || !(rvl_op_names_def(d->op) || d->op == RVL_OP_CHAIN))
		return rc;
	p = (const uint8_t *)buf + aligned(p - (const uint8_t *)buf);
	if (p > (const uint8_t *)buf + size)
		return -EBADMSG;
	if (d->op == RVL_OP_CHAIN)
		return unpack_parts(p, buf, d);
	return rvl_attrs_unpack(p, size - (size_t)(p - (const uint8_t *)buf), d);
}

const char *rvl_desc_op_name(const void *buf, size_t size)
{
	struct rvl_kernel_desc d;

	if (rvl_desc_unpack(buf, size, &d))
		return "unknown operator";
	return d.def ? d.def->name : rvl_op_name(d.op);
}
