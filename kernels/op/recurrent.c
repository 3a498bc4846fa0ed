/* SPDX-License-Identifier: MIT */
/*
 * Recurrent networks: LSTM, GRU and RNN, and the LSTM with weights of 8 bits. Sequences and
 * directions are computed independently.
 */
#include <string.h>

#include "float/product.h"
#include "isa.h"
#include "qmath.h"
#include "rivulet_op.h"
#include "sizes.h"

/* ---- activation functions ---- */

struct activation {
	const char *name;
	float (*fn)(float x, float a, float b);
	/* For @n numbers in place, by the vector units; NULL: fn for each of them */
	void (*row)(float *x, int64_t n);
	bool takes_alpha, takes_beta;
	float alpha, beta;	/* where the model gives none */
};

static float act_affine(float x, float a, float b)
{
	return a * x + b;
}

static float act_elu(float x, float a, float b)
{
	(void)b;
	return x < 0 ? a * expm1f(x) : x;
}

static float act_hard_sigmoid(float x, float a, float b)
{
	return fmaxf(0.0f, fminf(1.0f, a * x + b));
}

static float act_leaky_relu(float x, float a, float b)
{
	(void)b;
	return x < 0 ? a * x : x;
}

static float act_relu(float x, float a, float b)
{
	(void)a;
	(void)b;
	return x < 0 ? 0.0f : x;
}

static float act_scaled_tanh(float x, float a, float b)
{
	return a * tanhf(b * x);
}

static void row_sigmoid(float *x, int64_t n)
{
	rvl_f32_kernels()->math->sigmoid(x, n, x);
}

static void row_tanh(float *x, int64_t n)
{
	rvl_f32_kernels()->math->tanh(x, n, x);
}

static float act_softplus(float x, float a, float b)
{
	(void)a;
	(void)b;
	return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

static float act_softsign(float x, float a, float b)
{
	(void)a;
	(void)b;
	return x / (1.0f + fabsf(x));
}

static float act_thresholded_relu(float x, float a, float b)
{
	(void)b;
	return x > a ? x : 0.0f;
}

static const struct activation activations[] = {
	{ "Affine", act_affine, NULL, true, true, 1.0f, 0.0f },
	{ "Elu", act_elu, NULL, true, false, 1.0f, 0.0f },
	{ "HardSigmoid", act_hard_sigmoid, NULL, true, true, 0.2f, 0.5f },
	{ "LeakyRelu", act_leaky_relu, NULL, true, false, 0.01f, 0.0f },
	{ "Relu", act_relu, NULL, false, false, 0.0f, 0.0f },
	{ "ScaledTanh", act_scaled_tanh, NULL, true, true, 1.0f, 1.0f },
	{ "Sigmoid", NULL, row_sigmoid, false, false, 0.0f, 0.0f },
	{ "Softplus", act_softplus, NULL, false, false, 0.0f, 0.0f },
	{ "Softsign", act_softsign, NULL, false, false, 0.0f, 0.0f },
	{ "Tanh", NULL, row_tanh, false, false, 0.0f, 0.0f },
	{ "ThresholdedRelu", act_thresholded_relu, NULL, true, false, 1.0f, 0.0f },
};

#define ACTIVATIONS (sizeof(activations) / sizeof(activations[0]))
#define MOST_GATES 4
#define MOST_ACTIVATIONS 3	/* of a direction */

/* ---- the network ---- */

struct net;

/* What the three networks differ in. */
struct kind {
	const char *name;
	int gates, activations;
	const char *missing[MOST_ACTIVATIONS];	/* activations for a model that names none */
	void (*step)(const struct net *k, int d, const float *x, float *state);
};

struct net {
	struct rvl_call *c;
	const struct kind *kind;
	int dirs;
	bool reversed;			/* of direction 0; direction 1 always is */
	int64_t seq, batch, in, n;	/* n: hidden elements */
	/* Elements between neighbours in time, batch and direction. */
	int64_t x_time, x_batch, y_time, y_batch, y_dir, h_batch, h_dir;
	float clip;
	bool forget;			/* the forget gate is 1 - input gate */
	bool late_reset;
	struct activation act[2][MOST_ACTIVATIONS];
	bool quantised;			/* W and R are bytes [dirs, from, gates], with inputs 8 to 11 */
	float x_scale;			/* of X in bytes, for the whole tensor */
	int32_t x_zero;
};

/* The state of a sequence in the workspace, n elements each. */
#define STATE_H 0
#define STATE_C 1
#define STATE_GATES 2
#define STATE_SPARE (STATE_GATES + MOST_GATES)
#define STATES (STATE_SPARE + 2 * MOST_GATES)

static const float *input(const struct net *k, uint32_t i)
{
	return rvl_has(k->c, i) ? k->c->in[i].data : NULL;
}

/* Adds to @y what gates @first to @past - 1 make of @v, by the weights of input @i (1: W, 2: R). */
static void add_product(const struct net *k, uint32_t i, int d, int first, int past, const float *v,
			float *y)
{
	int64_t cols = i == 1 ? k->in : k->n;
	struct rvl_f32_gemv_call g = {
		.m = input(k, i) + ((int64_t)d * k->kind->gates + first) * k->n * cols, .row = cols,
		.rows = (past - first) * k->n, .v = v, .n = cols, .y = y,
	};

	rvl_f32_kernels()->gemv(&g);
}

#define PART 256	/* elements of an operand that are quantised at a time */
#define MOST_STEPS 16	/* whose operands are quantised together, */
#define AHEAD 256	/* and of all sequences, unless these are more */

/* Vectors that are multiplied by weights of 8 bits. */
struct byte_rows {
	const float *v;
	int64_t v_row, rows;
	float scale;
	int32_t zero;
	uint32_t *sum;			/* [rows][gates * n] */
	uint32_t total[MOST_STEPS];	/* of the elements of each vector */
};

/* Bytes of the packed weights of input @i for one direction. */
static int64_t packed_bytes(const struct net *k, uint32_t i)
{
	int64_t pairs = rvl_ceil_div(i == 1 ? k->in : k->n, 2);

	return 2 * rvl_f32_packed(k->kind->gates * k->n, pairs, RVL_F32_PAIR_COLS);
}

/* Where they lie: those of input 1 for all directions, then those of input 2. */
static const uint8_t *packed_of(const struct net *k, uint32_t i, int d)
{
	const uint8_t *p = (const uint8_t *)k->c->packed;

	return p + (i == 2 ? k->dirs * packed_bytes(k, 1) : 0) + d * packed_bytes(k, i);
}

/* Adds to the sums the weights of input @i times elements [first, first + n) of each vector. */
static void add_bytes(const struct net *k, uint32_t i, int d, int64_t first, int64_t n, struct byte_rows *b)
{
	const struct rvl_value *w = &k->c->in[i];
	int64_t gates = k->kind->gates * k->n, cols = i == 1 ? k->in : k->n;
	int16_t part[MOST_STEPS * PART];
	struct rvl_f32_sum_call sums = {
		.v = part, .v_row = PART, .rows = b->rows, .k = n,
		.w = (const uint8_t *)w->data + (d * cols + first) * gates,
		.u8 = w->type == RVL_TYPE_U8, .w_row = gates, .n = gates, .y = b->sum, .y_row = gates,
	};

	if (k->c->packed) {
		sums.w = packed_of(k, i, d) + first * RVL_F32_PAIR_COLS;
		sums.panel = 2 * RVL_F32_PAIR_COLS * rvl_ceil_div(cols, 2);
	}

	for (int64_t r = 0; r < b->rows; r++)
		for (int64_t c = 0; c < n; c++) {
			const float *v = b->v + r * b->v_row + first + c;
			int32_t q = rvl_quantize(*v, b->scale, b->zero, 0, 255) - b->zero;

			part[r * PART + c] = (int16_t)q;
			b->total[r] += (uint32_t)q;
		}
	rvl_f32_kernels()->bytes->sum(&sums);
}

/* Adds the products of vectors by the weights of input @i to @y, [rows][gates * n]. */
static void add_rows(const struct net *k, uint32_t i, int d, struct byte_rows *b, float *y)
{
	const struct rvl_value *scale = &k->c->in[6 + 2 * i], *zero = &k->c->in[7 + 2 * i];
	int64_t cols = i == 1 ? k->in : k->n, n = k->kind->gates * k->n;
	int64_t step = rvl_count(scale) == k->dirs * n, z_step = rvl_count(zero) == k->dirs * n;
	const float *s = (const float *)scale->data + d * (step ? n : 1);

	memset(b->total, 0, sizeof(b->total));
	memset(b->sum, 0, (size_t)(b->rows * n) * sizeof(*b->sum));
	for (int64_t c = 0; c < cols; c += PART)
		add_bytes(k, i, d, c, cols - c < PART ? cols - c : PART, b);
	for (int64_t r = 0; r < b->rows; r++)
		for (int64_t j = 0; j < n; j++) {
			int32_t z = rvl_ld8(zero->data, (z_step ? d * n + j : d),
					    zero->type == RVL_TYPE_U8);
			uint32_t sum = b->sum[r * n + j] - b->total[r] * (uint32_t)z;

			y[r * n + j] += (float)(int32_t)sum * (b->scale * s[j * step]);
		}
}

/*
 * The products of the hidden state of a step by weights of 8 bits: it is quantised to uint8 with its
 * own range. The workspace behind the gates holds the sums.
 */
static void add_hidden(const struct net *k, int d, const float *h, float *y)
{
	struct byte_rows b = { .v = h, .rows = 1, .sum = (uint32_t *)(y + k->kind->gates * k->n) };

	rvl_dynamic_scale(h, k->n, &b.scale, &b.zero);
	add_rows(k, 2, d, &b, y);
}

/* How many steps of a sequence have their inputs multiplied together. */
static int64_t steps_ahead(const struct net *k)
{
	int64_t sequences = k->dirs * k->batch, steps = AHEAD / (sequences ? sequences : 1);

	return rvl_least(rvl_least(steps > 1 ? steps : 1, MOST_STEPS), k->seq);
}

/* No less than of fewer sequences or steps, which a run may have. */
static int64_t most_ahead(const struct net *k)
{
	int64_t sequences = k->dirs * k->batch, most = sequences > AHEAD ? sequences : AHEAD;

	return k->quantised ? rvl_least(sequences * rvl_least(k->seq, MOST_STEPS), most) : 0;
}

/*
 * The products of the inputs of steps [@first, @first + @steps) in time by weights of 8 bits. They do
 * not depend on the state, so each weight is read once for several steps.
 */
static void multiply_inputs(const struct net *k, int d, int64_t b, int64_t first, int64_t steps, float *ahead)
{
	int64_t n = k->kind->gates * k->n;
	struct byte_rows rows = {
		.v = input(k, 0) + first * k->x_time + b * k->x_batch, .v_row = k->x_time, .rows = steps,
		.scale = k->x_scale, .zero = k->x_zero, .sum = (uint32_t *)(ahead + steps_ahead(k) * n),
	};

	memset(ahead, 0, (size_t)(steps * n) * sizeof(*ahead));
	add_rows(k, 1, d, &rows, ahead);
}

/* Adds the bias of gates @first to @past - 1; @half is 0 for that of W and 1 for that of R. */
static void add_bias(const struct net *k, int d, int half, int first, int past, float *y)
{
	const float *b = input(k, 3);
	int64_t gates = k->kind->gates;

	if (!b)
		return;
	b += ((2 * d + half) * gates + first) * k->n;
	for (int64_t r = 0; r < (past - first) * k->n; r++)
		y[r] += b[r];
}

/*
 * The sums of gates 0 to @past - 1 from the input and the hidden state. @x: with weights of 8 bits the
 * products of the input.
 */
static void sum_gates(const struct net *k, int d, int past, const float *x, const float *h, float *y)
{
	memset(y, 0, (size_t)(past * k->n) * sizeof(*y));
	for (int half = 0; half < 2; half++)
		add_bias(k, d, half, 0, past, y);
	if (k->quantised) {
		for (int64_t r = 0; r < past * k->n; r++)
			y[r] += x[r];
		add_hidden(k, d, h, y);
		return;
	}
	add_product(k, 1, d, 0, past, x, y);
	add_product(k, 2, d, 0, past, h, y);
}

/* Activation @i of a direction on a row, in place. */
static void apply(const struct net *k, int d, int i, float *x)
{
	const struct activation *a = &k->act[d][i];

	for (int64_t j = 0; k->clip > 0 && j < k->n; j++)
		x[j] = x[j] < -k->clip ? -k->clip : x[j] > k->clip ? k->clip : x[j];
	if (a->row) {
		a->row(x, k->n);
		return;
	}
	for (int64_t j = 0; j < k->n; j++)
		x[j] = a->fn(x[j], a->alpha, a->beta);
}

static void step_rnn(const struct net *k, int d, const float *x, float *state)
{
	float *h = state + STATE_H * k->n, *gate = state + STATE_GATES * k->n;

	sum_gates(k, d, 1, x, h, gate);
	apply(k, d, 0, gate);
	memcpy(h, gate, (size_t)k->n * sizeof(*h));
}

/* Gates: update, reset, hidden. */
static void step_gru(const struct net *k, int d, const float *x, float *state)
{
	int64_t n = k->n;
	float *h = state + STATE_H * n, *z = state + STATE_GATES * n, *r = z + n, *g = r + n;
	float *masked = state + STATE_SPARE * n, *sum = masked + n;

	sum_gates(k, d, 2, x, h, z);
	memset(g, 0, (size_t)n * sizeof(*g));
	add_bias(k, d, 0, 2, 3, g);
	add_product(k, 1, d, 2, 3, x, g);
	apply(k, d, 0, z);
	apply(k, d, 0, r);
	for (int64_t i = 0; i < n; i++) {
		masked[i] = k->late_reset ? h[i] : r[i] * h[i];
		sum[i] = 0.0f;
	}
	add_bias(k, d, 1, 2, 3, sum);
	add_product(k, 2, d, 2, 3, masked, sum);
	for (int64_t i = 0; i < n; i++)
		g[i] += k->late_reset ? r[i] * sum[i] : sum[i];
	apply(k, d, 1, g);
	for (int64_t i = 0; i < n; i++)
		h[i] = (1.0f - z[i]) * g[i] + z[i] * h[i];
}

/* Adds to a gate what it sees of the cell; @p: its weights, or NULL. */
static void add_peephole(const struct net *k, const float *p, const float *cell, float *gate)
{
	for (int64_t i = 0; p && i < k->n; i++)
		gate[i] += p[i] * cell[i];
}

/* Gates: input, output, forget, cell; peepholes: input, output, forget. */
static void step_lstm(const struct net *k, int d, const float *x, float *state)
{
	int64_t n = k->n;
	float *h = state + STATE_H * n, *cell = state + STATE_C * n, *in = state + STATE_GATES * n;
	float *out = in + n, *forget = out + n, *next = forget + n;
	const float *p = input(k, 7);

	p = p ? p + d * 3 * n : NULL;
	sum_gates(k, d, 4, x, h, in);
	add_peephole(k, p, cell, in);
	apply(k, d, 0, in);
	add_peephole(k, p ? p + 2 * n : NULL, cell, forget);
	apply(k, d, 0, forget);
	apply(k, d, 1, next);
	for (int64_t i = 0; i < n; i++) {
		float keep = k->forget ? 1.0f - in[i] : forget[i];

		cell[i] = keep * cell[i] + in[i] * next[i];
		h[i] = cell[i];
	}
	add_peephole(k, p ? p + n : NULL, cell, out);
	apply(k, d, 0, out);
	apply(k, d, 2, h);
	for (int64_t i = 0; i < n; i++)
		h[i] *= out[i];
}

static const struct kind kinds[] = {
	{ "RNN", 1, 1, { "Tanh" }, step_rnn },
	{ "GRU", 3, 2, { "Sigmoid", "Tanh" }, step_gru },
	{ "LSTM", 4, 3, { "Sigmoid", "Tanh", "Tanh" }, step_lstm },
	{ "DynamicQuantizeLSTM", 4, 3, { "Sigmoid", "Tanh", "Tanh" }, step_lstm },
};

/* ---- attributes and shapes ---- */

static bool knows(const struct rvl_call *c, const char *name)
{
	for (const struct rvl_attr_def *a = c->def->attrs; a->name; a++)
		if (!strcmp(a->name, name))
			return true;
	return false;
}

static bool set_flag(const struct rvl_call *c, const char *name)
{
	return knows(c, name) && rvl_attr_int(c, name);
}

/* Activation @i of the model. The lists of parameters go to those that take one, in order. */
static int read_activation(struct net *k, int i, uint32_t *alphas, uint32_t *betas)
{
	const char *name = rvl_attr_string_at(k->c, "activations", (uint32_t)i);
	uint32_t n_alpha, n_beta, at = 0;
	const float *alpha = rvl_attr_floats(k->c, "activation_alpha", &n_alpha);
	const float *beta = rvl_attr_floats(k->c, "activation_beta", &n_beta);
	struct activation *a = &k->act[i / k->kind->activations][i % k->kind->activations];

	if (!rvl_attr_given(k->c, "activations"))
		name = k->kind->missing[i % k->kind->activations];
	if (!name)
		return rvl_op_fail(k->c, "it names only %d activations", i);
	while (at < ACTIVATIONS && strcmp(activations[at].name, name))
		at++;
	if (at == ACTIVATIONS)
		return rvl_op_fail(k->c, "there is no activation '%.40s'", name);
	*a = activations[at];
	if (a->takes_alpha && *alphas < n_alpha)
		a->alpha = alpha[(*alphas)++];
	if (a->takes_beta && *betas < n_beta)
		a->beta = beta[(*betas)++];
	return 0;
}

static int read_attributes(struct rvl_call *c, struct net *k)
{
	uint32_t alphas = 0, betas = 0;
	int rc = 0;

	*k = (struct net) { .c = c, .kind = kinds, .dirs = 1 };
	while (strcmp(k->kind->name, c->def->name))
		k->kind++;
	if (rvl_attr_is(c, "direction", "bidirectional"))
		k->dirs = 2;
	k->reversed = rvl_attr_is(c, "direction", "reverse");
	k->clip = rvl_attr_float(c, "clip");
	k->forget = set_flag(c, "input_forget");
	k->late_reset = set_flag(c, "linear_before_reset");
	k->quantised = c->def->most_in > 8;
	for (int i = 0; i < k->dirs * k->kind->activations && !rc; i++)
		rc = read_activation(k, i, &alphas, &betas);
	return rc;
}

static void set_strides(struct net *k)
{
	bool batch_first = set_flag(k->c, "layout");

	k->x_time = batch_first ? k->in : k->batch * k->in;
	k->x_batch = batch_first ? k->seq * k->in : k->in;
	k->y_time = (batch_first ? 1 : k->batch) * k->dirs * k->n;
	k->y_batch = batch_first ? k->seq * k->dirs * k->n : k->n;
	k->y_dir = batch_first ? k->n : k->batch * k->n;
	k->h_batch = batch_first ? k->dirs * k->n : k->n;
	k->h_dir = batch_first ? k->n : k->batch * k->n;
}

static int want_shape(struct rvl_call *c, uint32_t i, struct rvl_shape want)
{
	enum rvl_type type = i == 4 ? RVL_TYPE_S32 : RVL_TYPE_F32;

	if (!rvl_has(c, i))
		return 0;
	if (c->in[i].type != type)
		return rvl_op_fail(c, "its input %u is %s, not %s", i, rvl_type_name(c->in[i].type),
				   rvl_type_name(type));
	if (!rvl_shape_equal(&c->in[i].shape, &want))
		return rvl_op_fail(c, "the shape of input %u does not fit inputs 0 and 2", i);
	return 0;
}

#define SHAPE2(a, b) ((struct rvl_shape) { .rank = 2, .dim = { a, b } })
#define SHAPE3(a, b, c) ((struct rvl_shape) { .rank = 3, .dim = { a, b, c } })

/* The shape of a state. */
static struct rvl_shape state_shape(const struct net *k)
{
	return set_flag(k->c, "layout") ? SHAPE3(k->batch, k->dirs, k->n) :
					  SHAPE3(k->dirs, k->batch, k->n);
}

/* Scales or zero points: one for each direction, or one for each row of gates. */
static int check_parameters(struct net *k, uint32_t i, enum rvl_type type)
{
	const struct rvl_value *v = &k->c->in[i];
	int64_t n = rvl_count(v);

	if (v->type != type)
		return rvl_op_fail(k->c, "its input %u is %s, not %s", i, rvl_type_name(v->type),
				   rvl_type_name(type));
	if (v->shape.rank < 1 || v->shape.rank > 2 || v->shape.dim[0] != k->dirs ||
	    (n != k->dirs && n != k->dirs * k->kind->gates * k->n))
		return rvl_op_fail(k->c, "its input %u has %lld values, neither one for each direction nor one for each row",
				   i, (long long)n);
	return 0;
}

/* W and R, as the two forms lay them out. */
static int check_weights(struct net *k)
{
	struct rvl_call *c = k->c;
	int64_t rows = k->kind->gates * k->n;
	int rc = 0;

	if (!k->quantised) {
		rc = want_shape(c, 1, SHAPE3(k->dirs, rows, k->in));
		return rc ? rc : want_shape(c, 2, SHAPE3(k->dirs, rows, k->n));
	}
	for (uint32_t i = 1; i < 3 && !rc; i++) {
		struct rvl_shape want = SHAPE3(k->dirs, i == 1 ? k->in : k->n, rows);

		if (!rvl_shape_equal(&c->in[i].shape, &want))
			return rvl_op_fail(c, "the shape of input %u does not fit inputs 0 and 2", i);
		rc = check_parameters(k, 6 + 2 * i, RVL_TYPE_F32);
		if (!rc)
			rc = check_parameters(k, 7 + 2 * i, c->in[i].type);
	}
	return rc;
}

static int check_shapes(struct net *k)
{
	struct rvl_call *c = k->c;
	int64_t rows = k->kind->gates * k->n;
	int rc = check_weights(k);

	if (!rc)
		rc = want_shape(c, 3, SHAPE2(k->dirs, 2 * rows));
	if (!rc)
		rc = want_shape(c, 4, (struct rvl_shape) { .rank = 1, .dim = { k->batch } });
	if (!rc)
		rc = want_shape(c, 5, state_shape(k));
	if (!rc)
		rc = want_shape(c, 6, state_shape(k));
	return rc ? rc : want_shape(c, 7, SHAPE2(k->dirs, 3 * k->n));
}

static int make_net(struct rvl_call *c, struct net *k)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int rc = read_attributes(c, k);
	bool batch_first;

	if (rc)
		return rc;
	if (x->rank != 3 || c->in[2].shape.rank != 3)
		return rvl_op_fail(c, "its inputs 0 and 2 have %d and %d dimensions, not 3", x->rank,
				   c->in[2].shape.rank);
	batch_first = set_flag(c, "layout");
	k->seq = x->dim[batch_first];
	k->batch = x->dim[!batch_first];
	k->in = x->dim[2];
	k->n = c->in[2].shape.dim[k->quantised ? 1 : 2];
	if (rvl_attr_given(c, "hidden_size") && rvl_attr_int(c, "hidden_size") != k->n)
		return rvl_op_fail(c, "hidden_size is %lld, but its input 2 is for %lld",
				   (long long)rvl_attr_int(c, "hidden_size"), (long long)k->n);
	set_strides(k);
	return check_shapes(k);
}

static int infer_net(struct rvl_call *c)
{
	struct rvl_shape y, h;
	struct net k;
	int rc = make_net(c, &k);

	if (rc)
		return rc;
	h = state_shape(&k);
	if (set_flag(c, "layout"))
		y = (struct rvl_shape) { .rank = 4, .dim = { k.batch, k.seq, k.dirs, k.n } };
	else
		y = (struct rvl_shape) { .rank = 4, .dim = { k.seq, k.dirs, k.batch, k.n } };
	if (rvl_shape_count(&y) < 0 || rvl_shape_count(&h) < 0)
		return rvl_op_fail(c, "its result is too large");
	rvl_set_out(c, 0, RVL_TYPE_F32, &y);
	rvl_set_out(c, 1, RVL_TYPE_F32, &h);
	rvl_set_out(c, 2, RVL_TYPE_F32, &h);
	return 0;
}

static int64_t work_net(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct net k;

	if (make_net(&copy, &k))
		return INT64_MAX;
	return rvl_work(rvl_work(rvl_work(k.seq, k.batch), rvl_work(k.dirs, k.n)),
			rvl_work(k.kind->gates, k.in + k.n + RVL_WORK_EXP));
}

/* Of a sequence: the state, and the products of the inputs of some steps with their sums. */
static int64_t state_floats(const struct net *k)
{
	return (STATES + (k->quantised ? 2 * steps_ahead(k) * k->kind->gates : 0)) * k->n;
}

static int64_t scratch_net(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct net k;

	if (make_net(&copy, &k))
		return 0;
	return (k.dirs * k.batch * STATES + 2 * most_ahead(&k) * k.kind->gates) * k.n * (int64_t)sizeof(float);
}

/* Floats that hold the packed bytes of W and R, where both are constant. */
static int64_t packed_net(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct net k;

	if (!c->in[1].data || !c->in[2].data || make_net(&copy, &k))
		return 0;
	return rvl_ceil_div(k.dirs * (packed_bytes(&k, 1) + packed_bytes(&k, 2)), (int64_t)sizeof(float));
}

static void pack_net(const struct rvl_call *c, float *dst)
{
	struct rvl_call copy = *c;
	uint8_t *to = (uint8_t *)dst;
	struct net k;

	if (make_net(&copy, &k))
		return;
	for (uint32_t i = 1; i < 3; i++)
		for (int d = 0; d < k.dirs; d++, to += packed_bytes(&k, i)) {
			int64_t rows = i == 1 ? k.in : k.n, gates = k.kind->gates * k.n;

			rvl_f32_pack_pairs((const uint8_t *)c->in[i].data + d * rows * gates, rows, gates, to);
		}
}

/* ---- computation ---- */

/* A state of n elements from or to a tensor that may be absent. */
static void load_state(const struct net *k, uint32_t i, int64_t at, float *state)
{
	const float *from = input(k, i);

	if (from)
		memcpy(state, from + at, (size_t)k->n * sizeof(*state));
	else
		memset(state, 0, (size_t)k->n * sizeof(*state));
}

static void store_state(const struct net *k, uint32_t i, int64_t at, const float *state)
{
	float *to = rvl_wants(k->c, i) ? k->c->out[i].data : NULL;

	if (to && state)
		memcpy(to + at, state, (size_t)k->n * sizeof(*to));
	else if (to)
		memset(to + at, 0, (size_t)k->n * sizeof(*to));
}

static int64_t length(const struct net *k, int64_t b)
{
	return rvl_has(k->c, 4) ? ((const int32_t *)k->c->in[4].data)[b] : k->seq;
}

/* The products of the input of step @s of @n, which are computed for some steps at a time. */
static const float *input_products(const struct net *k, int d, int64_t b, int64_t s, int64_t n, bool back,
				   float *ahead)
{
	int64_t most = steps_ahead(k), at = s % most, steps = rvl_least(n - (s - at), most);

	if (!at)
		multiply_inputs(k, d, b, back ? n - s - steps : s, steps, ahead);
	return ahead + (back ? steps - 1 - at : at) * k->kind->gates * k->n;
}

static void run_sequence(const struct net *k, int d, int64_t b, float *state)
{
	int64_t n = length(k, b), place = d * k->h_dir + b * k->h_batch;
	int64_t y = d * k->y_dir + b * k->y_batch;
	bool back = d || k->reversed;

	load_state(k, 5, place, state + STATE_H * k->n);
	load_state(k, 6, place, state + STATE_C * k->n);
	for (int64_t s = 0; s < n; s++) {
		int64_t t = back ? n - 1 - s : s;
		const float *x = k->quantised ? input_products(k, d, b, s, n, back, state + STATES * k->n) :
						input(k, 0) + t * k->x_time + b * k->x_batch;

		k->kind->step(k, d, x, state);
		store_state(k, 0, y + t * k->y_time, state + STATE_H * k->n);
	}
	for (int64_t t = n; t < k->seq; t++)
		store_state(k, 0, y + t * k->y_time, NULL);
	store_state(k, 1, place, state + STATE_H * k->n);
	store_state(k, 2, place, state + STATE_C * k->n);
}

static void run_sequences(void *arg, int64_t first, int64_t past)
{
	const struct net *k = arg;
	float *state = k->c->scratch;

	for (int64_t i = first; i < past; i++)
		run_sequence(k, (int)(i / k->batch), i % k->batch, state + i * state_floats(k));
}

static int run_net(struct rvl_call *c)
{
	struct net k;
	int rc = make_net(c, &k);

	for (int64_t b = 0; !rc && b < k.batch; b++)
		if (length(&k, b) < 0 || length(&k, b) > k.seq)
			return rvl_op_fail(c, "sequence %lld has length %lld, not 0 to %lld", (long long)b,
					   (long long)length(&k, b), (long long)k.seq);
	if (!rc && k.quantised)
		rvl_dynamic_scale(c->in[0].data, rvl_count(&c->in[0]), &k.x_scale, &k.x_zero);
	if (!rc && k.n)
		rvl_for_range(c, k.dirs * k.batch, 1, run_sequences, &k);
	return rc;
}

/* ---- the table ---- */

#define BYTES (RVL_T(U8) | RVL_T(S8))
#define SHARED_ATTRS RVL_STRINGS("activations"), RVL_FLOATS("activation_alpha"), \
	RVL_FLOATS("activation_beta"), RVL_FLOAT("clip", 0.0f), RVL_INT("hidden_size", 0), \
	RVL_STRING("direction", "forward", "forward|reverse|bidirectional")
#define NET(op, opset, inputs, outputs, text, ...) { \
	.name = op, .since = (opset), .work = work_net, \
	.least_in = 3, .most_in = inputs, .most_out = outputs, \
	.types = { RVL_T_FLOAT, RVL_T_FLOAT, RVL_T_FLOAT, RVL_T_FLOAT | RVL_T(S32) }, \
	.attrs = RVL_ATTRS(SHARED_ATTRS, __VA_ARGS__), .infer = infer_net, .run = run_net, \
	.scratch = scratch_net, .doc = text }
#define LSTM(opset, ...) \
	NET("LSTM", opset, 8, 3, "long short-term memory", RVL_INT("input_forget", 0), __VA_ARGS__)
#define GRU(opset, ...) NET("GRU", opset, 6, 2, "gated recurrent units", __VA_ARGS__)
#define RNN(opset, ...) NET("RNN", opset, 6, 2, "a simple recurrent network", __VA_ARGS__)
#define OLD_SEQUENCE RVL_IGNORED_UNTIL("output_sequence", 7)
#define LATE_RESET RVL_INT("linear_before_reset", 0)
#define LAYOUT RVL_INT("layout", 0)

const struct rvl_op_def rvl_ops_recurrent[] = {
	LSTM(1, OLD_SEQUENCE),
	LSTM(14, LAYOUT),
	GRU(1, OLD_SEQUENCE),
	GRU(3, OLD_SEQUENCE, LATE_RESET),
	GRU(14, LATE_RESET, LAYOUT),
	RNN(1, OLD_SEQUENCE),
	RNN(14, LAYOUT),
	{ .name = "DynamicQuantizeLSTM", .domain = "com.microsoft", .since = 1, .work = work_net,
	  .least_in = 3,
	  .most_in = 12, .most_out = 3,
	  .types = { RVL_T_FLOAT, BYTES, BYTES, RVL_T_FLOAT | RVL_T(S32) | BYTES },
	  .attrs = RVL_ATTRS(SHARED_ATTRS, RVL_INT("input_forget", 0)), .infer = infer_net,
	  .run = run_net, .scratch = scratch_net, .packed = packed_net, .pack = pack_net,
	  .doc = "LSTM with weights of 8 bits; its operands are quantised by their range" },
	RVL_OPS_END
};
