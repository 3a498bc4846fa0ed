/* SPDX-License-Identifier: MIT */
/* Figures that follow from others of the account, so that every form prints the same ones. */
#include <stdio.h>

#include "rivulet_compiler.h"
#include "rivulet_isa.h"

static double share(uint64_t macs, uint64_t cycles, uint32_t peak)
{
	return cycles && peak ? (double)macs / ((double)cycles * peak) : 0.0;
}

/* Giga-operations per second, two for each of @macs. */
static double rate(uint64_t hz, uint64_t macs, uint64_t cycles)
{
	return cycles ? 2e-9 * (double)macs * (double)hz / (double)cycles : 0.0;
}

void rivulet_explain_board(struct rivulet_explain *e, const struct rivulet_board *board)
{
	snprintf(e->board, sizeof(e->board), "%s", board ? board->name : "cpu");
	if (!board)
		return;
	e->peak = e->dense_peak = rivulet_board_peak(board);
	if (board->modes >> RIVULET_MODE_SPARSE & 1)
		e->dense_peak = board->tm * board->tn;
	e->port_bytes = board->port_bytes;
}

void rivulet_explain_derive(struct rivulet_explain *e)
{
	uint64_t hz = e->n_levels ? e->level[e->n_levels - 1].hz : 0;

	for (uint32_t i = 0; i < e->n_rows; i++) {
		struct rivulet_explain_row *r = &e->rows[i];

		r->utilisation = share(r->macs, r->cycles, e->peak);
		r->gops = rate(hz, r->array_macs, r->cycles);
		r->dense_gops = rate(hz, r->macs, r->cycles);
	}
	for (uint32_t i = 0; i < e->n_segments; i++)
		e->segments[i].utilisation =
			share(e->segments[i].macs, e->segments[i].cycles, e->peak);
}
