/* SPDX-License-Identifier: MIT */
/* Time, traffic and energy of command streams. */
#ifndef RVL_ESTIMATE_H
#define RVL_ESTIMATE_H

#include "base/bytes.h"
#include "base/err.h"
#include "rivulet_board.h"
#include "rivulet_compiler.h"
#include "rivulet_cost.h"
#include "rivulet_program.h"

/* Cycles and traffic of one layer, from the timeline. */
struct rvl_layer_cost {
	uint64_t cycles, read_bytes, write_bytes;
	uint64_t macs;		      /* of the array */
	uint64_t conv_busy, alu_busy; /* cycles */
	uint64_t port_busy;
	bool array; /* uses CONV */
};

/**
 * Walks a command stream. @layer maps instructions to layers, for @cost and for what the array waits
 * for between layers; both may be NULL.
 */
int rvl_estimate_stream(const struct rivulet_board *b, const void *cmd, size_t bytes,
			const uint32_t *layer, struct rvl_layer_cost *cost,
			struct rivulet_explain_segment *seg, struct rvl_err *err);
/**
 * Appends the work of the engines in a stream to @spans. Pauses of at most @pause cycles do not end
 * a span. @layer: of each instruction, becomes the row of a span; NULL: all have @row.
 */
int rvl_spans_of_stream(const struct rivulet_board *b, const void *cmd, size_t bytes,
			const uint32_t *layer, struct rivulet_explain_span base, uint64_t pause,
			struct rvl_bytes *spans);
/** Appends a piece of work, or lengthens the last span of its engine and row. @last: by engine. */
int rvl_spans_add(struct rvl_bytes *spans, uint32_t *last, const struct rivulet_explain_span *piece,
		  uint64_t pause);
/** Pause between spans of a step of @cycles that a drawing cannot show. */
uint64_t rvl_spans_pause(uint64_t cycles);
/** The resource that works the longest, as `explain` names it. */
const char *rvl_bound(uint64_t array, uint64_t alu, uint64_t port);
/** Adds a segment to the work of a program. */
void rvl_add_work(struct rivulet_work *w, const struct rivulet_explain_segment *seg);
/** The work of all NPU steps of a checked program at one level. */
int rvl_work_at(const struct rivulet_program *program, const struct rivulet_board *board,
		uint32_t level, struct rivulet_work *w, struct rvl_err *err);
/** Time and energy of @w at one level. */
void rvl_estimate_level(const struct rivulet_board *b, uint32_t level,
			const struct rivulet_work *w, struct rivulet_estimate_row *row);

#endif
