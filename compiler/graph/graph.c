/* SPDX-License-Identifier: MIT */
#include "base/math.h"
#include "graph/graph.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hash table of tensor names with open addressing. Entries are ids + 1; at most half are used. */
struct name_index {
	uint32_t *slot;
	uint32_t size;
	uint32_t used;
};

static uint64_t hash_name(const char *s)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return h ^ (h >> 29);
}

static int no_memory(struct rvl_err *err)
{
	return rvl_fail(err, -ENOMEM, "the graph needs more memory than %zu MiB or the machine has",
			RVL_MAX_GRAPH_BYTES >> 20);
}

static void index_put(const struct rvl_graph *g, struct name_index *ix, uint32_t id)
{
	uint32_t i = (uint32_t)hash_name(g->tensors[id]->name) & (ix->size - 1);

	while (ix->slot[i])
		i = (i + 1) & (ix->size - 1);
	ix->slot[i] = id + 1;
	ix->used++;
}

static int index_grow(struct rvl_graph *g, struct name_index *ix)
{
	struct name_index bigger = { .size = ix->size ? ix->size * 2 : 64 };

	if (ix->used * 2 < ix->size)
		return 0;
	bigger.slot = rvl_arena_array(g->arena, bigger.size, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < ix->size; i++)
		if (ix->slot[i])
			index_put(g, &bigger, ix->slot[i] - 1);
	*ix = bigger;
	return 0;
}

struct rvl_tensor *rvl_tensor_find(const struct rvl_graph *g, const char *name)
{
	const struct name_index *ix = g->name_index;

	if (!ix->size)
		return NULL;
	for (uint32_t i = (uint32_t)hash_name(name) & (ix->size - 1); ix->slot[i];
	     i = (i + 1) & (ix->size - 1)) {
		struct rvl_tensor *t = g->tensors[ix->slot[i] - 1];

		if (!strcmp(t->name, name))
			return t;
	}
	return NULL;
}

/* Makes room for one more pointer in an array of the arena. The old array stays allocated. */
static void *grow(struct rvl_arena *a, void *old, uint32_t n, uint32_t *cap)
{
	uint32_t bigger = *cap ? *cap * 2 : 4;
	void **p;

	if (n < *cap)
		return old;
	p = rvl_arena_array(a, bigger, sizeof(*p));
	if (!p)
		return NULL;
	if (n)
		memcpy(p, old, n * sizeof(*p));
	*cap = bigger;
	return p;
}

/* A graph without nodes, to which @a belongs; NULL without memory, or if @a is NULL. */
static struct rvl_graph *graph_in(struct rvl_arena *a)
{
	struct rvl_graph *g = a ? rvl_arena_alloc(a, sizeof(*g)) : NULL;

	if (g)
		g->name_index = rvl_arena_alloc(a, sizeof(struct name_index));
	if (!g || !g->name_index)
		return NULL;
	g->arena = a;
	g->name = "";
	g->producer = "";
	return g;
}

struct rvl_graph *rvl_graph_new(void)
{
	struct rvl_arena *a = rvl_arena_new(RVL_MAX_GRAPH_BYTES);
	struct rvl_graph *g = graph_in(a);

	if (!g)
		rvl_arena_free(a);
	return g;
}

int rvl_graph_beside(const struct rvl_graph *with, struct rvl_graph **out, struct rvl_err *err)
{
	struct rvl_arena *a = rvl_arena_beside(with->arena);
	int rc = 0;

	*out = graph_in(a);
	if (!*out) {
		rc = a ? rvl_arena_report(a, no_memory(err), err) : no_memory(err);
		rvl_arena_free(a);
	}
	return rc;
}

void rvl_graph_free(struct rvl_graph *g)
{
	if (g)
		rvl_arena_free(g->arena);
}

const char *rvl_graph_printf(struct rvl_graph *g, const char *fmt, ...)
{
	char buf[RVL_MAX_NAME + 64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	return rvl_arena_strndup(g->arena, buf, strlen(buf));
}

/* A name of the form "rvl/7" that no tensor has. */
static const char *fresh_name(struct rvl_graph *g)
{
	char buf[32];

	do {
		snprintf(buf, sizeof(buf), "rvl/%u", g->next_name++);
	} while (rvl_tensor_find(g, buf));
	return rvl_arena_strndup(g->arena, buf, strlen(buf));
}

static const char *checked_name(struct rvl_graph *g, const char *name, int *rc, struct rvl_err *err)
{
	const char *copy;

	*rc = 0;
	if (name && strlen(name) > RVL_MAX_NAME) {
		*rc = rvl_fail(err, -E2BIG, "tensor name '%.60s...' is longer than %d bytes", name,
			       RVL_MAX_NAME);
		return NULL;
	}
	if (name && rvl_tensor_find(g, name)) {
		*rc = rvl_fail(err, -EEXIST, "tensor '%s' is defined twice", name);
		return NULL;
	}
	copy = name ? rvl_arena_strndup(g->arena, name, strlen(name)) : fresh_name(g);
	if (!copy)
		*rc = no_memory(err);
	return copy;
}

int rvl_tensor_new(struct rvl_graph *g, const char *name, struct rvl_tensor **out,
		   struct rvl_err *err)
{
	struct rvl_tensor **list;
	struct rvl_tensor *t;
	const char *copy;
	int rc;

	if (g->n_tensors >= RVL_MAX_TENSORS)
		return rvl_fail(err, -E2BIG, "more than %d tensors", RVL_MAX_TENSORS);
	copy = checked_name(g, name, &rc, err);
	if (!copy)
		return rc;
	list = grow(g->arena, g->tensors, g->n_tensors, &g->cap_tensors);
	t = rvl_arena_alloc(g->arena, sizeof(*t));
	if (!list || !t)
		return no_memory(err);
	g->tensors = list;
	t->name = copy;
	t->id = g->n_tensors;
	if (index_grow(g, g->name_index))
		return no_memory(err);
	g->tensors[g->n_tensors++] = t;
	index_put(g, g->name_index, t->id);
	*out = t;
	return 0;
}

int rvl_tensor_like(struct rvl_graph *g, const struct rvl_tensor *like, struct rvl_tensor **out,
		    struct rvl_err *err)
{
	int rc = rvl_tensor_new(g, NULL, out, err);

	if (rc)
		return rc;
	(*out)->type = like->type;
	(*out)->shape = like->shape;
	(*out)->shaped = like->shaped;
	(*out)->quant = like->quant;
	(*out)->bad = like->bad;
	(*out)->nibbles = like->nibbles;
	(*out)->bounded = like->bounded;
	return 0;
}

int64_t rvl_tensor_bytes(const struct rvl_tensor *t)
{
	int64_t n = rvl_shape_count(&t->shape);
	int64_t size = (int64_t)rvl_type_size(t->type);

	if (!t->shaped || !size || n < 0 || n > RVL_MAX_TENSOR_BYTES / size)
		return -1;
	return n * size;
}

int64_t rvl_tensor_span(const struct rvl_tensor *t)
{
	int64_t bytes = rvl_tensor_bytes(t);

	if (!t->pitched || bytes <= 0)
		return bytes;
	bytes = (int64_t)rvl_type_size(t->type);
	for (int d = 0; d < t->shape.rank; d++)
		bytes += (t->shape.dim[d] - 1) * llabs(t->pitch[d]);
	return bytes;
}

int rvl_tensor_const(struct rvl_graph *g, const char *name, enum rvl_type type,
		     const struct rvl_shape *shape, const void *data, struct rvl_tensor **out,
		     struct rvl_err *err)
{
	struct rvl_tensor *t;
	int64_t bytes;
	void *copy;
	int rc = rvl_tensor_new(g, name, &t, err);

	if (rc)
		return rc;
	t->type = type;
	t->shape = *shape;
	t->shaped = true;
	bytes = rvl_tensor_bytes(t);
	if (bytes < 0)
		return rvl_fail(err, -E2BIG, "constant '%s' is too large", t->name);
	copy = rvl_arena_alloc(g->arena, (size_t)bytes);
	if (!copy)
		return no_memory(err);
	if (bytes)
		memcpy(copy, data, (size_t)bytes);
	t->data = copy;
	*out = t;
	return 0;
}

static bool bad_scale(float s)
{
	return !isfinite(s) || s == 0.0f;
}

int rvl_tensor_set_quant(struct rvl_graph *g, struct rvl_tensor *t, uint32_t n, int32_t axis,
			 const float *scale, const int32_t *zp, struct rvl_err *err)
{
	float *s = rvl_arena_array(g->arena, n, sizeof(*s));
	int32_t *z = rvl_arena_array(g->arena, n, sizeof(*z));

	if (!s || !z)
		return no_memory(err);
	for (uint32_t i = 0; i < n; i++) {
		if (bad_scale(scale[i]))
			return rvl_fail(err, -EINVAL, "tensor '%s': scale %g of channel %u is not valid",
					t->name, (double)scale[i], i);
		s[i] = scale[i];
		z[i] = zp[i];
	}
	t->quant = (struct rvl_quant) { .n = n, .axis = axis, .scale = s, .zp = z };
	return 0;
}

int rvl_node_new(struct rvl_graph *g, enum rvl_op op, const char *name, struct rvl_node **out,
		 struct rvl_err *err)
{
	struct rvl_node **list;
	struct rvl_node *n;

	if (g->n_nodes >= RVL_MAX_GRAPH_NODES)
		return rvl_fail(err, -E2BIG, "more than %d nodes", RVL_MAX_GRAPH_NODES);
	list = grow(g->arena, g->nodes, g->n_nodes, &g->cap_nodes);
	n = rvl_arena_alloc(g->arena, sizeof(*n));
	if (!list || !n)
		return no_memory(err);
	g->nodes = list;
	n->id = g->next_node_id++;
	n->op = op;
	n->op_type = rvl_op_name(op) ? rvl_op_name(op) : "?";
	rvl_attr_init(&n->attr);
	n->name = name && *name ? rvl_arena_strndup(g->arena, name, strlen(name)) :
				  rvl_graph_printf(g, "%s_%u", n->op_type, n->id);
	if (!n->name)
		return no_memory(err);
	g->nodes[g->n_nodes++] = n;
	*out = n;
	return 0;
}

int rvl_node_like(struct rvl_graph *g, const struct rvl_node *n, const char *name,
		  struct rvl_node **out, struct rvl_err *err)
{
	int rc = rvl_node_new(g, n->op, name, out, err);

	if (rc)
		return rc;
	(*out)->op_type = n->op_type;
	(*out)->attr = n->attr;
	(*out)->def = n->def;
	(*out)->value = n->value;
	(*out)->fused = n->fused;
	(*out)->note = n->note;
	return 0;
}

int rvl_node_general(struct rvl_graph *g, const struct rvl_op_def *def,
		     const struct rvl_attr_value *value, const char *name, struct rvl_node **out,
		     struct rvl_err *err)
{
	int rc = rvl_node_new(g, RVL_OP_GENERAL, name, out, err);

	if (rc)
		return rc;
	(*out)->op_type = def->name;
	(*out)->def = def;
	(*out)->value = value;
	return 0;
}

/* Searched from the end, because rvl_tensor_replace() empties the list from there. */
static void user_drop(struct rvl_tensor *t, const struct rvl_node *n)
{
	for (uint32_t i = t->n_users; i-- > 0;) {
		if (t->users[i] == n) {
			memmove(t->users + i, t->users + i + 1,
				(t->n_users - i - 1) * sizeof(*t->users));
			t->n_users--;
			return;
		}
	}
}

int rvl_node_set_in(struct rvl_graph *g, struct rvl_node *n, uint32_t i, struct rvl_tensor *t,
		    struct rvl_err *err)
{
	struct rvl_node **users;

	if (i >= RVL_MAX_IN)
		return rvl_fail(err, -E2BIG, "node '%s' (%s) has more than %d inputs", n->name,
				n->op_type, RVL_MAX_IN);
	if (t) {
		users = grow(g->arena, t->users, t->n_users, &t->cap_users);
		if (!users)
			return no_memory(err);
		t->users = users;
		t->users[t->n_users++] = n;
	}
	if (i < n->n_in && n->in[i])
		user_drop(n->in[i], n);
	n->in[i] = t;
	if (i >= n->n_in)
		n->n_in = i + 1;
	while (n->n_in && !n->in[n->n_in - 1])
		n->n_in--;
	return 0;
}

void rvl_node_set_out(struct rvl_node *n, uint32_t i, struct rvl_tensor *t)
{
	if (i < n->n_out && n->out[i] && n->out[i]->producer == n)
		n->out[i]->producer = NULL;
	n->out[i] = t;
	if (t)
		t->producer = n;
	if (i >= n->n_out)
		n->n_out = i + 1;
}

void rvl_node_remove(struct rvl_graph *g, struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i])
			user_drop(n->in[i], n);
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && n->out[i]->producer == n)
			n->out[i]->producer = NULL;
	n->n_in = 0;
	n->n_out = 0;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (g->nodes[i] == n) {
			memmove(g->nodes + i, g->nodes + i + 1,
				(g->n_nodes - i - 1) * sizeof(*g->nodes));
			g->n_nodes--;
			return;
		}
	}
}

static int replace_in_user(struct rvl_graph *g, struct rvl_node *n, struct rvl_tensor *from,
			   struct rvl_tensor *to, struct rvl_err *err)
{
	for (uint32_t i = 0; i < n->n_in; i++) {
		int rc = n->in[i] == from ? rvl_node_set_in(g, n, i, to, err) : 0;

		if (rc)
			return rc;
	}
	return 0;
}

int rvl_tensor_replace(struct rvl_graph *g, struct rvl_tensor *from, struct rvl_tensor *to,
		       struct rvl_err *err)
{
	if (from == to)
		return 0;
	while (from->n_users) {
		int rc = replace_in_user(g, from->users[from->n_users - 1], from, to, err);

		if (rc)
			return rc;
	}
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		if (g->outputs[i] == from) {
			g->outputs[i] = to;
			to->is_output = true;
			from->is_output = false;
		}
	}
	return 0;
}

static int list_add(struct rvl_graph *g, struct rvl_tensor ***list, uint32_t *n,
		    struct rvl_tensor *t, struct rvl_err *err)
{
	bool full = (*n & (*n - 1)) == 0;	/* the capacity is always a power of two */
	struct rvl_tensor **p = *list;

	if (full) {
		p = rvl_arena_array(g->arena, *n ? *n * 2u : 1u, sizeof(*p));
		if (!p)
			return no_memory(err);
		if (*n)
			memcpy(p, *list, *n * sizeof(*p));
		*list = p;
	}
	p[(*n)++] = t;
	return 0;
}

int rvl_graph_add_input(struct rvl_graph *g, struct rvl_tensor *t, struct rvl_err *err)
{
	t->is_input = true;
	return list_add(g, &g->inputs, &g->n_inputs, t, err);
}

int rvl_graph_add_output(struct rvl_graph *g, struct rvl_tensor *t, struct rvl_err *err)
{
	t->is_output = true;
	return list_add(g, &g->outputs, &g->n_outputs, t, err);
}

static int input_index(const struct rvl_graph *g, const char *name)
{
	for (uint32_t i = 0; i < g->n_inputs; i++)
		if (!strcmp(g->inputs[i]->name, name))
			return (int)i;
	return -1;
}

int rvl_graph_freeze(struct rvl_graph *g, const char *input, const void *data, size_t bytes,
		     struct rvl_err *err)
{
	int i = input_index(g, input);
	struct rvl_tensor *t;
	void *copy;

	if (i < 0)
		return rvl_fail(err, -ENOENT, "the model has no input '%s' to freeze", input);
	t = g->inputs[i];
	if (rvl_tensor_bytes(t) != (int64_t)bytes)
		return rvl_fail(err, -EINVAL, "input '%s' takes %lld bytes, not %zu", input,
				(long long)rvl_tensor_bytes(t), bytes);
	copy = rvl_arena_alloc(g->arena, bytes);
	if (!copy)
		return no_memory(err);
	if (bytes)
		memcpy(copy, data, bytes);
	t->data = copy;
	t->is_input = false;
	g->n_inputs--;
	memmove(g->inputs + i, g->inputs + i + 1, (g->n_inputs - (uint32_t)i) * sizeof(*g->inputs));
	return 0;
}

void rvl_node_q_range(const struct rvl_node *n, int32_t *lo, int32_t *hi)
{
	enum rvl_type type = n->out[0]->type;
	int32_t least = type == RVL_TYPE_U8 ? 0 : type == RVL_TYPE_S16 ? -32768 : -128;
	int32_t most = type == RVL_TYPE_U8 ? 255 : type == RVL_TYPE_S16 ? 32767 : 127;

	*lo = n->attr.q_lo < least ? least : n->attr.q_lo > most ? most : n->attr.q_lo;
	*hi = n->attr.q_hi > most ? most : n->attr.q_hi < least ? least : n->attr.q_hi;
}

int rvl_graph_check_supported(const struct rvl_graph *g, struct rvl_err *err)
{
	const struct rvl_node *first = NULL;
	unsigned int more = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (g->nodes[i]->op != RVL_OP_UNSUPPORTED)
			continue;
		if (first)
			more++;
		else
			first = g->nodes[i];
	}
	if (!first)
		return 0;
	if (!more)
		return rvl_fail(err, -EOPNOTSUPP, "node '%.60s' (%.40s): %.120s", first->name,
				first->op_type, first->reason);
	return rvl_fail(err, -EOPNOTSUPP, "node '%.60s' (%.40s): %.90s; and %u more", first->name,
			first->op_type, first->reason, more);
}

/* Result 0 is an image of numbers, or rows of words that have the bits of the channels. */
static uint64_t binary_macs(const struct rvl_node *n)
{
	const struct rvl_shape *w = &n->in[1]->shape, *y = &n->out[0]->shape;
	int64_t m = w->dim[0], pixels = rvl_shape_count(y) / rvl_max(m, 1);

	if (n->out[0]->type == RVL_TYPE_U64)
		pixels = rvl_shape_count(y) / rvl_max((m + 63) / 64, 1);
	return (uint64_t)(pixels * m * w->dim[1] * w->dim[2] * (n->attr.block / rvl_max(n->attr.group, 1)));
}

uint64_t rvl_node_macs(const struct rvl_node *n)
{
	const struct rvl_shape *s;
	int64_t depth;

	if (n->op == RVL_OP_B_CONV)
		return binary_macs(n);
	if (!(rvl_op_traits(n->op) & RVL_TRAIT_PRODUCT))
		return 0;
	if (rvl_op_quantised(n->op) == RVL_OP_Q_CONV) {
		s = &n->in[1]->shape;
		depth = rvl_shape_count(s) / rvl_max(s->dim[0], 1);
	} else {
		s = &n->in[0]->shape;
		depth = s->rank ? s->dim[n->attr.trans_a ? 0 : s->rank - 1] : 1;
	}
	return (uint64_t)rvl_shape_count(&n->out[0]->shape) * (uint64_t)depth;
}
