// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/*
 * Bursts and beats of regular runs of bytes. They depend on addresses only by the position in a
 * page, so that a nest of many runs is summed over the 4096 positions instead of over the runs.
 */
#include "runs.h"

#include <string.h>

#define DIRECT_MAX 2048 /* runs that are summed one by one */

struct table {
	struct rivulet_bursts at[RIVULET_PAGE_BYTES];
};

/* Bytes [@from, @to) of one page. */
static void piece(const struct rivulet_board *b, uint64_t n, uint64_t from, uint64_t to,
		  struct rivulet_bursts *sum)
{
	uint64_t beats = (to - 1) / b->port_bytes - from / b->port_bytes + 1;
	uint64_t most = b->burst_bytes / b->port_bytes;

	sum->beats += n * beats;
	sum->bursts += n * ((beats + most - 1) / most);
}

/* One run of @len bytes that begins at position @at of a page. */
static void run(const struct rivulet_board *b, uint64_t at, uint64_t len,
		struct rivulet_bursts *sum)
{
	uint64_t first = RIVULET_PAGE_BYTES - at;

	if (len <= first) {
		piece(b, 1, at, at + len, sum);
		return;
	}
	piece(b, 1, at, RIVULET_PAGE_BYTES, sum);
	len -= first;
	piece(b, len / RIVULET_PAGE_BYTES, 0, RIVULET_PAGE_BYTES, sum);
	if (len % RIVULET_PAGE_BYTES)
		piece(b, 1, 0, len % RIVULET_PAGE_BYTES, sum);
}

static void add(struct rivulet_bursts *to, const struct rivulet_bursts *b, uint64_t n)
{
	to->bursts += n * b->bursts;
	to->beats += n * b->beats;
}

/* The number of steps of @pitch after which the position in a page repeats. */
static uint64_t period(uint64_t pitch)
{
	uint64_t low = pitch & (RIVULET_PAGE_BYTES - 1);

	return low ? RIVULET_PAGE_BYTES / (low & -low) : 1;
}

static struct rivulet_bursts sum_of(const struct table *in, uint64_t at, uint64_t n, uint64_t pitch)
{
	struct rivulet_bursts s = { 0 };

	for (uint64_t i = 0; i < n; i++)
		add(&s, &in->at[(at + i * pitch) % RIVULET_PAGE_BYTES], 1);
	return s;
}

/* For each position, the sum over the @n positions that steps of @pitch reach from it. */
static void fold_cycle(const struct table *in, uint64_t from, uint64_t n, uint64_t pitch,
		       struct table *out)
{
	uint64_t length = period(pitch), rest = n % length;
	struct rivulet_bursts all = sum_of(in, from, length, pitch);
	struct rivulet_bursts window = sum_of(in, from, rest, pitch);

	for (uint64_t i = 0; i < length; i++) {
		uint64_t at = (from + i * pitch) % RIVULET_PAGE_BYTES;
		const struct rivulet_bursts *next = &in->at[(at + rest * pitch) % RIVULET_PAGE_BYTES];

		out->at[at] = window;
		add(&out->at[at], &all, n / length);
		window.bursts += next->bursts - in->at[at].bursts;
		window.beats += next->beats - in->at[at].beats;
	}
}

static void fold(const struct table *in, uint64_t n, uint64_t pitch, struct table *out)
{
	uint64_t cycles = RIVULET_PAGE_BYTES / period(pitch);

	for (uint64_t i = 0; i < cycles; i++)
		fold_cycle(in, i, n, pitch, out);
}

static void sum_tables(const struct rivulet_board *b, const struct rivulet_runs *r,
		       struct rivulet_bursts *sum)
{
	struct table t[2];

	memset(&t[0], 0, sizeof(t[0]));
	for (uint64_t i = 0; i < RIVULET_PAGE_BYTES; i++)
		run(b, i, r->len, &t[0].at[i]);
	for (int d = 0; d < RUN_DIMS; d++)
		fold(&t[d & 1], r->dim[d].n, r->dim[d].pitch, &t[~d & 1]);
	add(sum, &t[RUN_DIMS & 1].at[r->at % RIVULET_PAGE_BYTES], 1);
}

void rivulet_bursts_add(const struct rivulet_board *b, const struct rivulet_runs *r,
			struct rivulet_bursts *sum)
{
	uint64_t n0 = r->dim[0].n, n1 = r->dim[1].n, n2 = r->dim[2].n;

	if (!r->len)
		return;
	if (n0 > DIRECT_MAX || n1 > DIRECT_MAX / n0 || n2 > DIRECT_MAX / (n0 * n1)) {
		sum_tables(b, r, sum);
		return;
	}
	for (uint64_t i = 0; i < n0; i++)
		for (uint64_t j = 0; j < n1; j++)
			for (uint64_t k = 0; k < n2; k++)
				run(b,
				    (r->at + i * r->dim[0].pitch + j * r->dim[1].pitch +
				     k * r->dim[2].pitch) % RIVULET_PAGE_BYTES,
				    r->len, sum);
}
