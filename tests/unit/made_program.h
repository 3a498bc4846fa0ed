/* SPDX-License-Identifier: MIT */
/*
 * Program files that a test builds step by step: CPU steps on float vectors, NPU steps without
 * commands.
 */
#ifndef RVL_MADE_PROGRAM_H
#define RVL_MADE_PROGRAM_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_crc32c.h"
#include "rivulet_kernels.h"
#include "rivulet_program.h"

struct made {
	struct rivulet_tensor t[700];
	struct rivulet_step s[700];
	uint8_t params[1 << 20];
	uint32_t tensors, steps, inputs, outputs;
	uint64_t params_size, const_size, arena, cmd_size;
	struct rivulet_target target; /* for NPU steps */
	char *file;
	size_t size;
};

static inline uint32_t add_tensor(struct made *m, enum rivulet_place place, uint64_t offset,
				  uint64_t n)
{
	m->t[m->tensors] = (struct rivulet_tensor){ .dtype = RIVULET_F32,
						    .place = place,
						    .offset = offset,
						    .size = 4 * n,
						    .ndim = 1,
						    .dim = { n } };
	m->inputs += place == RIVULET_PLACE_INPUT;
	m->outputs += place == RIVULET_PLACE_OUTPUT;
	if (place == RIVULET_PLACE_ARENA && offset + 4 * n > m->arena)
		m->arena = offset + 4 * n;
	return m->tensors++;
}

/* c = a + b, or c = relu(a) with b = UINT32_MAX. */
static inline void add_step(struct made *m, uint32_t a, uint32_t b, uint32_t c)
{
	bool two = b != UINT32_MAX;
	struct rvl_kernel_desc d = { .op = two ? RVL_OP_ADD : RVL_OP_RELU,
				     .n_in = 1 + two,
				     .n_out = 1 };
	struct rivulet_step *s = &m->s[m->steps++];
	int64_t n;

	rvl_attr_init(&d.attr);
	for (uint32_t i = 0; i < d.n_in + 1; i++) {
		struct rvl_kernel_arg *arg = i < d.n_in ? &d.in[i] : &d.out[0];

		arg->type = RVL_TYPE_F32;
		arg->shape.rank = 1;
		arg->shape.dim[0] = (int64_t)m->t[i == d.n_in ? c : i ? b : a].dim[0];
	}
	n = rvl_desc_pack(&d, m->params + m->params_size, sizeof(m->params) - m->params_size);
	ck_assert(n > 0);
	*s = (struct rivulet_step){ .kind = RIVULET_STEP_CPU,
				    .op = d.op,
				    .params = m->params_size,
				    .params_size = (uint64_t)n,
				    .nread = d.n_in,
				    .nwrite = 1,
				    .read = { a, two ? b : 0 },
				    .write = { c } };
	m->params_size += ((uint64_t)n + 7) / 8 * 8;
}

/*
 * An NPU step that has a command stream of 16 * (level + 1) zero bytes at each of @levels, a mask.
 * It reads tensor @a and writes tensor @c; its slots are those of the program, the arena and the
 * report.
 */
static inline struct rivulet_step *add_npu_step(struct made *m, uint32_t a, uint32_t c,
						uint32_t levels)
{
	struct rivulet_step *s = &m->s[m->steps++];

	*s = (struct rivulet_step){ .kind = RIVULET_STEP_NPU,
				    .slots = 1u << RIVULET_SLOT_PROGRAM | 1u << RIVULET_SLOT_ARENA |
					     1u << RIVULET_SLOT_REPORT,
				    .writes_mask = 1u << RIVULET_SLOT_ARENA,
				    .nread = 1,
				    .nwrite = 1,
				    .read = { a },
				    .write = { c } };
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
		if (!(levels >> l & 1))
			continue;
		s->variant[l] = (struct rivulet_step_variant){ .offset = m->cmd_size,
							       .length = 16 * (l + 1) };
		m->cmd_size += 128;
	}
	return s;
}

static inline void seal(void *file, size_t size)
{
	struct rivulet_program *p = file;

	p->crc = 0;
	p->crc = rivulet_crc32c(0, file, size);
}

static inline uint64_t put(struct made *m, const void *data, uint64_t size)
{
	uint64_t at = (m->size + 63) / 64 * 64;

	memcpy(m->file + at, data, size);
	m->size = at + size;
	return at;
}

static inline void make_file(struct made *m)
{
	static const char strings[] = "\0board\0model";
	struct rivulet_program h = { .magic = RIVULET_PROGRAM_MAGIC,
				     .version = RIVULET_PROGRAM_VERSION,
				     .header_size = sizeof(h),
				     .inputs = m->inputs,
				     .outputs = m->outputs,
				     .tensors = m->tensors,
				     .steps = m->steps,
				     .strings_size = sizeof(strings),
				     .params_size = m->params_size,
				     .arena_size = m->arena,
				     .board_name = 1,
				     .model_name = 7,
				     .target = m->target };

	m->file = calloc(1, 4 << 20);
	m->size = sizeof(h);
	h.tensors_off = put(m, m->t, m->tensors * sizeof(m->t[0]));
	h.steps_off = put(m, m->s, m->steps * sizeof(m->s[0]));
	h.strings_off = put(m, strings, sizeof(strings));
	h.params_off = put(m, m->params, m->params_size);
	h.const_off = put(m, m->params, m->const_size);
	h.const_size = m->const_size;
	h.cmd_off = (m->size + 63) / 64 * 64;
	h.cmd_size = m->cmd_size;
	m->size = h.cmd_off + h.cmd_size;
	for (uint32_t i = 0; i < m->steps; i++)
		for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
			if (m->s[i].variant[l].length)
				((struct rivulet_step *)(m->file + h.steps_off))[i]
					.variant[l]
					.offset += h.cmd_off;
	for (uint32_t i = 0; i < m->tensors; i++)
		if (m->t[i].place == RIVULET_PLACE_CONST)
			((struct rivulet_tensor *)(m->file + h.tensors_off))[i].offset =
				h.const_off;
	h.size = m->size;
	memcpy(m->file, &h, sizeof(h));
	seal(m->file, m->size);
}

#endif
