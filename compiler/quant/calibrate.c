/* SPDX-License-Identifier: MIT */
/*
 * From a float graph to a QDQ graph: the graph runs over the examples once, and histograms of its
 * tensors give ranges by any method. With RIVULET_RANGE_AUTO each method quantises a copy, which
 * runs the first examples as the device would; the copy nearest to the float graph decides.
 */
#include "quant/calibrate.h"

#include "pass/pass.h"
#include "pass/passes.h"
#include "quant/bits.h"
#include "quant/choose.h"
#include "quant/equalise.h"
#include "quant/insert.h"
#include "quant/measure.h"
#include "quant/prepare.h"
#include "quant/range.h"
#include "quant/wide.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PERCENTILE 99.99
#define MEASURED_RUNS 4 /* by which methods are compared */
#define NARROW_RUNS 32 /* by which widths of weights are compared, and methods then, too */
#define WIDE_RUNS 16 /* by which the widths of images of binary layers are compared */
#define MAX_CHANNELS 65536 /* whose means are taken */
#define WEIGHED_RUNS 1 /* runs by which the loss of a single layer is measured */

struct calibration {
	struct rvl_graph *g;
	const struct rivulet_quantise *q;
	struct rvl_samples samples;
	struct rvl_reference reference;
	struct rvl_seen *seen; /* by tensor id */
	struct rvl_params *own;    /* by tensor id: of its own values */
	struct rvl_params *params; /* by tensor id: as chosen */
	struct rvl_chosen chosen;
	enum rivulet_range method; /* by which ranges are found */
	bool *keep_float; /* by index in g->nodes */
	bool corrected; /* biases take up the mean error of weights */
	bool wide; /* images of binary layers are int16 */
	uint32_t n_tensors;
	struct rvl_err *err;
};

/* ---- --keep-float ---- */

/* Whether @name is one of the names in a list joined by '+'. */
static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; p && *p; p = strchr(p, '+') ? strchr(p, '+') + 1 : NULL)
		if (!strncmp(p, name, n) && (!p[n] || p[n] == '+'))
			return true;
	return false;
}

static int keep_float(struct calibration *c)
{
	for (uint32_t k = 0; k < c->q->n_keep_float; k++) {
		const char *name = c->q->keep_float[k];
		bool any = false;

		for (uint32_t i = 0; i < c->g->n_nodes; i++) {
			const struct rvl_node *n = c->g->nodes[i];

			if (strcmp(n->name, name) && !listed(n->fused, name))
				continue;
			any = c->keep_float[i] = true;
		}
		if (!any)
			return rvl_fail(c->err, -ENOENT, "no node \"%s\" to keep in float", name);
	}
	return 0;
}

/* ---- ranges ---- */

/* Every chosen tensor takes the parameters that the choice gives it. */
static void share_params(struct calibration *c)
{
	for (uint32_t i = 0; i < c->n_tensors; i++)
		c->params[i] = c->own[rvl_chosen_like(&c->chosen, i)];
}

/* Results of operators on the model's own bytes are of their type. */
static enum rvl_type type_of(const struct calibration *c, const struct rvl_tensor *t)
{
	const struct rvl_node *n = t->producer;

	if (n && n->op == RVL_OP_BATCH_NORM)
		n = n->in[0]->producer;
	if (n && rvl_op_lacks_scale(t->producer))
		return n->in[0]->producer->in[0]->type;
	return c->q->s8 ? RVL_TYPE_S8 : RVL_TYPE_U8;
}

/* Parameters by c->method. The values of an input are given, so none of them is clipped. */
static void find_params(struct calibration *c)
{
	double percentile = c->q->percentile > 0 ? c->q->percentile : PERCENTILE;

	for (uint32_t i = 0; i < c->n_tensors; i++) {
		struct rvl_params *p = &c->own[i];

		if (!c->seen[i].wanted)
			continue;
		p->type = type_of(c, c->g->tensors[i]);
		rvl_range_params(rvl_range_of(&c->seen[i], c->g->tensors[i]->is_input ?
					      RIVULET_RANGE_MIN_MAX : c->method, percentile),
				 p->type, &p->scale, &p->zp);
	}
	share_params(c);
}

/* A quantised copy, which computes as the device does; to be freed in any case. */
static int copy_quantised(struct calibration *c, struct rvl_graph **copy)
{
	int rc = rvl_graph_clone(c->g, copy, c->err);

	if (!rc)
		rc = rvl_insert(*copy, &c->chosen, c->params, c->corrected ? c->seen : NULL, c->err);
	if (!rc && c->wide)
		rc = rvl_widen(*copy, c->seen, c->n_tensors, c->err);
	return rc ? rc : rvl_optimise(*copy, c->err);
}

/* The SNR of a quantised copy. */
static int try(struct calibration *c, double *db)
{
	struct rvl_graph *copy = NULL;
	int rc = copy_quantised(c, &copy);

	if (!rc)
		rc = rvl_measure(&c->samples, copy, &c->reference, db, c->err);
	rvl_graph_free(copy);
	return rc;
}

/* The method with the best SNR becomes c->method. */
static int best_method(struct calibration *c, double *most)
{
	enum rivulet_range best = RIVULET_RANGE_MIN_MAX;
	int rc = 0;

	*most = -INFINITY;
	for (int m = RIVULET_RANGE_MIN_MAX; m < RIVULET_RANGE_COUNT && !rc; m++) {
		double db = 0;

		c->method = (enum rivulet_range)m;
		find_params(c);
		rc = try(c, &db);
		if (!rc && db > *most) {
			*most = db;
			best = c->method;
		}
	}
	c->method = best;
	return rc;
}

/* Bias correction is kept where it helps. */
static int try_correction(struct calibration *c, double without)
{
	double with = 0;
	int rc;

	c->corrected = true;
	rc = try(c, &with);
	c->corrected = with >= without;
	return rc;
}

static int choose_params(struct calibration *c)
{
	bool every = c->q->range == RIVULET_RANGE_AUTO;
	double db = 0;
	int rc = 0;

	c->method = c->q->range;
	if (every)
		rc = best_method(c, &db);
	if (rc)
		return rc;
	find_params(c);
	c->corrected = c->q->correct == RIVULET_CORRECT_YES;
	if (every && c->q->correct == RIVULET_CORRECT_AUTO)
		rc = try_correction(c, db);
	return rc;
}

/* ---- --wide-binary ---- */

static bool compares_widths(const struct calibration *c)
{
	return c->q->wide == RIVULET_WIDE_AUTO && rvl_may_widen(c->g, c->seen);
}

/* The width of the images of binary layers by the SNR of both; @runs: of the reference. */
static int choose_width(struct calibration *c, uint64_t runs)
{
	double db[2] = { 0 };
	int rc = 0;

	c->wide = c->q->wide == RIVULET_WIDE_YES;
	if (!compares_widths(c))
		return 0;
	c->reference.runs = runs;
	for (int wide = 0; wide < 2 && !rc; wide++) {
		c->wide = wide;
		rc = try(c, &db[wide]);
	}
	c->wide = db[1] - db[0] >= RIVULET_WIDE_DB;
	c->g->binary_note = rvl_graph_printf(
		c->g, "%s: the outputs have %.1f dB of SNR with 8 bits and %.1f dB with int16, which is taken from %.1f dB more on",
		c->wide ? "int16" : "8 bits", db[0], db[1], RIVULET_WIDE_DB);
	return rc;
}

/* ---- --mixed ---- */

/* A product and the SNR of the model in which it alone is quantised. */
struct weighed {
	uint32_t node;
	double db;
};

static int worst_first(const void *a, const void *b)
{
	const struct weighed *x = a, *y = b;

	if (x->db < y->db || x->db > y->db)
		return x->db < y->db ? -1 : 1;
	return x->node < y->node ? -1 : 1;
}

/* Repeats the choice without the nodes that @keep marks. */
static void choose_without(struct calibration *c, const bool *keep)
{
	rvl_chosen_clear(c->g, &c->chosen);
	rvl_choose(c->g, keep, &c->chosen);
	share_params(c);
}

/* Measures the SNR with each product quantised alone. */
static int weigh(struct calibration *c, struct weighed *list, uint32_t n, bool *keep)
{
	uint64_t runs = c->reference.runs;
	int rc = 0;

	c->reference.runs = runs < WEIGHED_RUNS ? runs : WEIGHED_RUNS;
	memset(keep, true, c->g->n_nodes * sizeof(*keep));
	for (uint32_t i = 0; i < n && !rc; i++) {
		keep[list[i].node] = false;
		choose_without(c, keep);
		rc = try(c, &list[i].db);
		keep[list[i].node] = true;
	}
	c->reference.runs = runs;
	qsort(list, n, sizeof(*list), worst_first);
	return rc;
}

/* The SNR with the @k worst products in float. */
static int try_without(struct calibration *c, const struct weighed *list, uint32_t k, bool *keep,
		       double *db)
{
	memcpy(keep, c->keep_float, c->g->n_nodes * sizeof(*keep));
	for (uint32_t i = 0; i < k; i++)
		keep[list[i].node] = true;
	choose_without(c, keep);
	return try(c, db);
}

/* The fewest of the worst products whose absence brings the SNR to the tolerance. */
static int keep_worst(struct calibration *c, const struct weighed *list, uint32_t n, bool *keep)
{
	uint32_t lo = 1, hi = n; /* with all of them in float nothing is quantised */
	double db;

	while (lo < hi) {
		uint32_t k = lo + (hi - lo) / 2;
		int rc = try_without(c, list, k, keep, &db);

		if (rc)
			return rc;
		if (db >= c->q->mixed)
			hi = k;
		else
			lo = k + 1;
	}
	if (lo == n)
		return rvl_fail(c->err, -ERANGE,
				"no quantised layer leaves the outputs within %.1f dB", c->q->mixed);
	return try_without(c, list, lo, keep, &db);
}

static int mix(struct calibration *c)
{
	struct weighed *list = calloc(c->g->n_nodes + 1u, sizeof(*list));
	bool *keep = calloc(c->g->n_nodes + 1u, sizeof(*keep));
	uint32_t n = 0;
	double db = 0;
	int rc = list && keep ? try(c, &db) : rvl_fail(c->err, -ENOMEM, "no memory for calibration");

	for (uint32_t i = 0; i < c->g->n_nodes && !rc; i++)
		if (c->chosen.node[i] && rvl_is_product(c->g->nodes[i]))
			list[n++].node = i;
	if (!rc && db < c->q->mixed)
		rc = weigh(c, list, n, keep);
	if (!rc && db < c->q->mixed)
		rc = keep_worst(c, list, n, keep);
	free(list);
	free(keep);
	return rc;
}

/* ---- --bits and --bits-loss ---- */

/* The products of a model while their bits are chosen. */
struct allocation {
	struct rvl_bits_layer *layer;
	struct rvl_bits_step *step;
	uint32_t n, steps;
};

static void take_bits(struct calibration *c, const struct allocation *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		c->chosen.bits[a->layer[i].node] = a->layer[i].bits;
}

/* The power of the outputs' error beside that of the outputs. */
static int noise(struct calibration *c, double *power)
{
	double db = 0;
	int rc = try(c, &db);

	*power = pow(10, -db / 10);
	return rc;
}

/* Each product with each width alone, the others with 8 bits. */
static int weigh_bits(struct calibration *c, struct allocation *a)
{
	double plain = 0;
	int rc = noise(c, &plain);

	for (uint32_t i = 0; i < a->n && !rc; i++) {
		a->layer[i].noise[RVL_MOST_BITS] = plain;
		for (uint32_t bits = 1; bits < RVL_MOST_BITS && !rc; bits++) {
			c->chosen.bits[a->layer[i].node] = (uint8_t)bits;
			rc = noise(c, &a->layer[i].noise[bits]);
		}
		c->chosen.bits[a->layer[i].node] = RVL_MOST_BITS;
	}
	return rc;
}

/* Percent of the examples' answers that the first @count steps change. */
static int loss_after(struct calibration *c, struct allocation *a, const struct rvl_answers *answers,
		      uint32_t count, double *loss)
{
	struct rvl_graph *copy = NULL;
	int rc;

	rvl_bits_follow(a->layer, a->n, a->step, count);
	take_bits(c, a);
	rc = copy_quantised(c, &copy);
	if (!rc)
		rc = rvl_answers_changed(&c->samples, copy, answers, loss, c->err);
	rvl_graph_free(copy);
	*loss *= 100;
	return rc;
}

/* The most steps that keep the loss, by bisection: it is taken to grow with them. */
static int keep_loss(struct calibration *c, struct allocation *a)
{
	uint32_t lo = 0, hi = a->steps;
	struct rvl_answers answers = { .of_run = NULL };
	double loss = 0;
	int rc = rvl_answers_make(&c->samples, &answers, c->err);

	if (!rc)
		rc = loss_after(c, a, &answers, 0, &loss);
	if (!rc && loss > c->q->bits_loss)
		rc = rvl_fail(c->err, -ERANGE, "with 8 bits %.2f %% of the answers on the examples are "
			      "others than the float model's, more than the loss allowed", loss);
	while (!rc && lo < hi) {
		uint32_t k = hi - (hi - lo) / 2;

		rc = loss_after(c, a, &answers, k, &loss);
		if (loss <= c->q->bits_loss)
			lo = k;
		else
			hi = k - 1;
	}
	rvl_answers_free(&answers);
	rvl_bits_follow(a->layer, a->n, a->step, lo);
	return rc;
}

static void keep_mean(const struct calibration *c, struct allocation *a)
{
	double macs = 0;

	for (uint32_t i = 0; i < a->n; i++)
		macs += (double)a->layer[i].macs;
	rvl_bits_fill(a->layer, a->n, a->step, a->steps, (uint64_t)(c->q->bits * macs));
}

static int list_products(struct calibration *c, struct allocation *a)
{
	a->layer = calloc(c->g->n_nodes + 1u, sizeof(*a->layer));
	for (uint32_t i = 0; a->layer && i < c->g->n_nodes; i++)
		if (c->chosen.node[i] && rvl_is_product(c->g->nodes[i]))
			a->layer[a->n++] = (struct rvl_bits_layer){
				.node = i,
				.macs = rvl_node_macs(c->g->nodes[i]) };
	a->step = calloc((size_t)a->n * (RVL_MOST_BITS - 1) + 1, sizeof(*a->step));
	return a->layer && a->step ? 0 : rvl_fail(c->err, -ENOMEM, "no memory for calibration");
}

/*
 * The error of the mean grows as weights lose bits, so that biases take it up here unless the user
 * forbids it.
 */
static int allocate_bits(struct calibration *c)
{
	struct allocation a = { .n = 0 };
	int rc = list_products(c, &a);

	c->corrected = c->q->correct != RIVULET_CORRECT_NO;
	if (!rc)
		rc = weigh_bits(c, &a);
	if (!rc) {
		a.steps = rvl_bits_path(a.layer, a.n, a.step);
		if (c->q->bits > 0)
			keep_mean(c, &a);
		else
			rc = keep_loss(c, &a);
	}
	if (!rc)
		take_bits(c, &a);
	free(a.layer);
	free(a.step);
	return rc;
}

/* ---- all ---- */

static int allocate(struct calibration *c)
{
	c->n_tensors = c->g->n_tensors;
	c->seen = calloc(c->n_tensors + 1u, sizeof(*c->seen));
	c->own = calloc(c->n_tensors + 1u, sizeof(*c->own));
	c->params = calloc(c->n_tensors + 1u, sizeof(*c->params));
	c->keep_float = calloc(c->g->n_nodes + 1u, sizeof(*c->keep_float));
	if (!c->seen || !c->own || !c->params || !c->keep_float || rvl_chosen_new(c->g, &c->chosen))
		return rvl_fail(c->err, -ENOMEM, "no memory for calibration");
	return 0;
}

static void release(struct calibration *c)
{
	rvl_seen_clear(c->seen, c->n_tensors);
	rvl_reference_free(&c->samples, &c->reference);
	rvl_chosen_free(&c->chosen);
	free(c->seen);
	free(c->own);
	free(c->params);
	free(c->keep_float);
}

/* Means of the channels of a product's input, for the correction of its bias. */
static void want_means(struct calibration *c, const struct rvl_tensor *t)
{
	if (t->shape.rank < 2 || t->shape.dim[1] > MAX_CHANNELS)
		return;
	c->seen[t->id].wanted = true;
	c->seen[t->id].channels = (uint32_t)t->shape.dim[1];
}

static int choose(struct calibration *c)
{
	int rc = keep_float(c);

	if (!rc && !rvl_choose(c->g, c->keep_float, &c->chosen))
		rc = rvl_fail(c->err, -EINVAL,
			      "nothing to calibrate: no convolution or matrix product with constant weights is float, or lacks a scale for its result");
	for (uint32_t i = 0; i < c->n_tensors; i++)
		c->seen[i].wanted = c->chosen.tensor[i];
	for (uint32_t i = 0; i < c->g->n_nodes && !rc && c->q->correct != RIVULET_CORRECT_NO; i++)
		if (c->chosen.node[i] && rvl_is_product(c->g->nodes[i]))
			want_means(c, c->g->nodes[i]->in[0]);
	return rc;
}

int rvl_calibrate_prepare(struct rvl_graph *g, const struct rivulet_quantise *q, struct rvl_err *err)
{
	int rc = rvl_prepare(g, err);

	return !rc && q->equalise ? rvl_equalise(g, err) : rc;
}

/* The float outputs of @most runs, and of more if widths are compared; *runs: of how many. */
static int measure_reference(struct calibration *c, uint64_t most, uint64_t *runs)
{
	bool any = c->q->range == RIVULET_RANGE_AUTO || c->q->mixed > 0 || most == NARROW_RUNS;
	bool widths = compares_widths(c);
	int rc;

	if (!any && !widths)
		return 0;
	rc = rvl_reference_make(&c->samples, widths && most < WIDE_RUNS ? WIDE_RUNS : most, &c->reference, c->err);
	*runs = c->reference.runs;
	if (*runs > most)
		c->reference.runs = most;
	return rc;
}

/* Comparisons with NaN are false. */
static int check_bits(const struct rivulet_quantise *q, struct rvl_err *err)
{
	if (!(q->bits == 0 || (q->bits >= 1 && q->bits <= RVL_MOST_BITS)))
		return rvl_fail(err, -EINVAL, "quantise.bits is %g, not a mean of 1 to %d bits", q->bits,
				RVL_MOST_BITS);
	if (!(q->bits_loss >= 0 && q->bits_loss <= 100))
		return rvl_fail(err, -EINVAL, "quantise.bits_loss is %g, not a percentage", q->bits_loss);
	if (q->bits > 0 && q->bits_loss > 0)
		return rvl_fail(err, -EINVAL, "quantise.bits and quantise.bits_loss exclude each other");
	return 0;
}

int rvl_calibrate(struct rvl_graph *g, const struct rivulet_quantise *q, struct rvl_err *err)
{
	struct calibration c = { .g = g, .q = q, .err = err };
	bool narrow = q->bits > 0 || q->bits_loss > 0;
	uint64_t runs = 0;
	int rc = check_bits(q, err);

	if (!rc)
		rc = rvl_calibrate_prepare(g, q, err);
	if (!rc)
		rc = rvl_samples_bind(g, q, &c.samples, err);
	if (!rc)
		rc = allocate(&c);
	if (!rc)
		rc = choose(&c);
	if (!rc)
		rc = rvl_observe(&c.samples, c.seen, err);
	if (!rc)
		rc = measure_reference(&c, narrow ? NARROW_RUNS : MEASURED_RUNS, &runs);
	if (!rc)
		rc = choose_params(&c);
	if (!rc)
		rc = choose_width(&c, runs);
	if (!rc && q->mixed > 0)
		rc = mix(&c);
	if (!rc && narrow)
		rc = allocate_bits(&c);
	if (!rc)
		rc = rvl_insert(g, &c.chosen, c.params, c.corrected ? c.seen : NULL, err);
	if (!rc && c.wide)
		rc = rvl_widen(g, c.seen, c.n_tensors, err);
	release(&c);
	return rc;
}
