/* SPDX-License-Identifier: MIT */
/* The command streams of all NPU steps, in each variant. */
#include "npu/kept_check.h"
#include "npu/stream.h"
#include "program/program.h"

#include <errno.h>
#include <stdlib.h>

static int append_stream(struct rvl_backend *be, const struct rvl_stream *s, struct rvl_bcmd *cmd)
{
	int rc;

	cmd->len = (s->n + 1) * sizeof(struct rivulet_insn);
	rc = rvl_bytes_add(&be->cmds, NULL, cmd->len, RIVULET_FETCH_BYTES, &cmd->off);
	return rc ? rc : rvl_stream_code(s, (struct rivulet_insn *)(be->cmds.data + cmd->off));
}

/* What of a stream is needed beside its instructions, once these are in be->cmds. */
struct emitted {
	uint32_t variant, preloads;
	uint32_t *layer; /* of each instruction, RVL_NONE for END */
};

/* `explain` lists the layers of the last variant, which is that of the highest level. */
static int estimate_step(struct rvl_backend *be, const struct emitted *e,
			 const struct rvl_bstep *step, struct rvl_bcmd *cmd)
{
	struct rivulet_explain_segment *seg = rvl_seg(be, e->variant, step - be->step);
	bool top = e->variant == be->n_variants - 1;
	int rc;

	rc = rvl_estimate_stream(be->board, be->cmds.data + cmd->off, cmd->len,
				 top ? e->layer : NULL, be->cost, seg, be->err);
	if (!rc && top && be->opt->drawing)
		rc = rvl_spans_of_stream(be->board, be->cmds.data + cmd->off, cmd->len, e->layer,
					 (struct rivulet_explain_span){ .step = step - be->step },
					 rvl_spans_pause(seg->cycles), &be->spans);
	seg->step = step - be->step;
	seg->layers = step->layers;
	seg->macs = step->macs;
	cmd->cycles = seg->cycles;
	return rc;
}

static int note_layers(const struct rvl_stream *s, struct emitted *e)
{
	e->preloads = s->preloads;
	e->layer = malloc((s->n + 1) * sizeof(*e->layer));
	if (!e->layer)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n; i++)
		e->layer[i] = s->op[i].layer;
	e->layer[s->n] = RVL_NONE;
	return 0;
}

/* The operations of a step take many times the memory of its instructions, and only here. */
static int emit_stream(struct rvl_backend *be, struct rvl_bstep *step, struct emitted *e,
		       struct rvl_bcmd *cmd)
{
	struct rvl_stream s;
	int rc;

	rvl_stream_init(&s, be->board, be->opt->prof, be->err);
	s.arena = be->g->arena;
	s.variant = e->variant;
	s.length = be->length[e->variant];
	if (be->opt->most_instructions)
		s.most = be->opt->most_instructions;
	rvl_emit_prof_setup(&s);
	rvl_segment_emit(&s, be->layer + step->layer0, step->layers, step->layer0);
	rvl_emit_prof_finish(&s);
	rc = s.rc;
	if (!rc)
		rc = rvl_schedule(&s, be->opt->serial);
	if (!rc)
		rc = append_stream(be, &s, cmd);
	if (!rc)
		rc = note_layers(&s, e);
	rvl_stream_free(&s);
	return rc;
}

static int check_stream(struct rvl_backend *be, const struct rvl_bstep *step, const struct emitted *e,
			const struct rvl_bcmd *cmd)
{
	int rc = rvl_check_stream(be, step, cmd);

	return rc ? rc : rvl_kept_check(be->board, be->layer + step->layer0, step->layers, step->layer0,
					(const void *)(be->cmds.data + cmd->off),
					cmd->len / sizeof(struct rivulet_insn), e->layer, be->err);
}

static int emit_variant(struct rvl_backend *be, struct rvl_bstep *step, uint32_t variant)
{
	struct rvl_bcmd *cmd = &step->cmd[variant];
	struct emitted e = { .variant = variant };
	int rc = emit_stream(be, step, &e, cmd);

	if (!rc)
		rc = check_stream(be, step, &e, cmd);
	if (!rc)
		rc = estimate_step(be, &e, step, cmd);
	if (variant == be->n_variants - 1)
		be->prefetches += e.preloads;
	free(e.layer);
	return rc;
}

/* A step whose layers are the same in all variants has one stream, that of the last variant. */
static int emit_step(struct rvl_backend *be, struct rvl_bstep *step)
{
	uint32_t last = be->n_variants - 1, i = step - be->step;
	bool own = rvl_step_varies(be, step);
	int rc = emit_variant(be, step, last);

	for (uint32_t v = 0; v < last && !rc; v++) {
		if (own) {
			rc = emit_variant(be, step, v);
			continue;
		}
		step->cmd[v] = step->cmd[last];
		*rvl_seg(be, v, i) = *rvl_seg(be, last, i);
	}
	return rc;
}

int rvl_emit_steps(struct rvl_backend *be)
{
	int rc = 0;

	be->cost = rvl_scratch(be->g->arena, be->n_layers + 1, sizeof(*be->cost));
	be->seg = rvl_scratch(be->g->arena, (size_t)be->n_variants * be->n_steps + 1, sizeof(*be->seg));
	if (!be->cost || !be->seg)
		return -ENOMEM;
	for (uint32_t i = 0; i < be->n_steps && !rc; i++)
		if (be->step[i].npu)
			rc = emit_step(be, &be->step[i]);
	return rc;
}
