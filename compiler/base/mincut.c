/* SPDX-License-Identifier: MIT */
/* Dinic's algorithm: augmenting paths of least length, phase by phase, without recursion. */
#include "base/mincut.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Edge i and its reverse i ^ 1 are neighbours in the array. */
struct edge {
	uint32_t to, next;	/* next edge of the same vertex */
	int64_t left;		/* capacity that is not used */
};

struct rvl_mincut {
	uint32_t n;
	uint32_t *head;		/* first edge of a vertex */
	uint32_t *level;	/* distance from the source; NONE: not reached */
	uint32_t *at;		/* next edge of a vertex to try in this phase */
	uint32_t *path;		/* edges of the path at hand; also the queue of a search */
	bool *sink;
	struct edge *e;
	uint32_t n_edges, cap_edges;
	uint64_t steps;
};

struct rvl_mincut *rvl_mincut_new(uint32_t vertices)
{
	struct rvl_mincut *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->n = vertices;
	m->head = malloc(vertices * sizeof(*m->head));
	m->level = malloc(vertices * sizeof(*m->level));
	m->at = malloc(vertices * sizeof(*m->at));
	m->path = malloc(vertices * sizeof(*m->path));
	m->sink = calloc(vertices, sizeof(*m->sink));
	if (!m->head || !m->level || !m->at || !m->path || !m->sink) {
		rvl_mincut_free(m);
		return NULL;
	}
	memset(m->head, 0xff, vertices * sizeof(*m->head));
	return m;
}

void rvl_mincut_free(struct rvl_mincut *m)
{
	if (!m)
		return;
	free(m->head);
	free(m->level);
	free(m->at);
	free(m->path);
	free(m->sink);
	free(m->e);
	free(m);
}

static void add(struct rvl_mincut *m, uint32_t from, uint32_t to, int64_t capacity)
{
	m->e[m->n_edges] = (struct edge) { .to = to, .next = m->head[from], .left = capacity };
	m->head[from] = m->n_edges++;
}

int rvl_mincut_edge(struct rvl_mincut *m, uint32_t from, uint32_t to, int64_t capacity)
{
	if (from == to || capacity <= 0)
		return 0;
	if (m->n_edges + 2 > m->cap_edges) {
		uint32_t cap = m->cap_edges ? 2 * m->cap_edges : 64;
		struct edge *e = realloc(m->e, cap * sizeof(*e));

		if (!e)
			return -ENOMEM;
		m->e = e;
		m->cap_edges = cap;
	}
	add(m, from, to, capacity);
	add(m, to, from, 0);
	return 0;
}

/* Levels of all vertices that the source reaches; false if the sink is not among them. */
static bool find_levels(struct rvl_mincut *m)
{
	uint32_t first = 0, past = 0;

	memset(m->level, 0xff, m->n * sizeof(*m->level));
	m->level[RVL_CUT_SOURCE] = 0;
	m->path[past++] = RVL_CUT_SOURCE;
	while (first < past) {
		uint32_t v = m->path[first++];

		for (uint32_t i = m->head[v]; i != NONE; i = m->e[i].next, m->steps--) {
			uint32_t to = m->e[i].to;

			if (!m->steps)
				return false;
			if (!m->e[i].left || m->level[to] != NONE)
				continue;
			m->level[to] = m->level[v] + 1;
			m->path[past++] = to;
		}
	}
	return m->level[RVL_CUT_SINK] != NONE;
}

static uint32_t end_of(const struct rvl_mincut *m, uint32_t length)
{
	return length ? m->e[m->path[length - 1]].to : RVL_CUT_SOURCE;
}

/* Extends m->path to the sink, one level with each edge; its length, or 0 if there is no more path. */
static uint32_t find_path(struct rvl_mincut *m)
{
	uint32_t length = 0;

	for (;;) {
		uint32_t v = end_of(m, length), *i = &m->at[v];

		if (v == RVL_CUT_SINK)
			return length;
		while (*i != NONE && m->steps &&
		       (!m->e[*i].left || m->level[m->e[*i].to] != m->level[v] + 1)) {
			*i = m->e[*i].next;
			m->steps--;
		}
		if (!m->steps || (*i == NONE && !length))
			return 0;
		if (*i != NONE) {
			m->path[length++] = *i;
			m->steps--;
			continue;
		}
		length--;	/* a dead end: the edge to it is not tried again in this phase */
		i = &m->at[end_of(m, length)];
		*i = m->e[*i].next;
	}
}

static int64_t use_path(struct rvl_mincut *m, uint32_t length)
{
	int64_t most = INT64_MAX;

	for (uint32_t i = 0; i < length; i++)
		most = m->e[m->path[i]].left < most ? m->e[m->path[i]].left : most;
	for (uint32_t i = 0; i < length; i++) {
		m->e[m->path[i]].left -= most;
		m->e[m->path[i] ^ 1].left += most;
	}
	return most;
}

/* The vertices from which the sink can still be reached are those at the sink. */
static void find_sides(struct rvl_mincut *m)
{
	uint32_t first = 0, past = 0;

	m->sink[RVL_CUT_SINK] = true;
	m->path[past++] = RVL_CUT_SINK;
	while (first < past) {
		uint32_t v = m->path[first++];

		for (uint32_t i = m->head[v]; i != NONE; i = m->e[i].next) {
			uint32_t from = m->e[i].to;

			if (m->sink[from] || !m->e[i ^ 1].left)
				continue;
			m->sink[from] = true;
			m->path[past++] = from;
		}
	}
}

int rvl_mincut_solve(struct rvl_mincut *m, uint64_t steps, int64_t *cost)
{
	int64_t flow = 0;
	uint32_t length;

	m->steps = steps;
	while (find_levels(m)) {
		memcpy(m->at, m->head, m->n * sizeof(*m->at));
		while ((length = find_path(m)))
			flow += use_path(m, length);
	}
	if (!m->steps)
		return -E2BIG;
	find_sides(m);
	if (cost)
		*cost = flow;
	return 0;
}

bool rvl_mincut_at_sink(const struct rvl_mincut *m, uint32_t v)
{
	return m->sink[v];
}
