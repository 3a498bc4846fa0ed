/* SPDX-License-Identifier: MIT */
/* Weights of two values in each output channel, and their bits; constants of a BinaryConv. */
#include "pass/binary.h"

#include <errno.h>
#include <string.h>

static float weight(const struct rvl_binary_weights *w, int64_t m, int64_t c, int64_t tap)
{
	return w->data[m * w->at_m + c * w->at_c + tap * w->at_tap];
}

/*
 * Difference of magnitudes, relative to their mean, that rounding explains: training code computes
 * (binary - w) + w, whose last bit is that of the larger w.
 */
#define ROUNDING 0x1p-15

static double mean_magnitude(const struct rvl_binary_weights *w, int64_t m)
{
	double sum = 0;

	for (int64_t c = 0; c < w->channels; c++)
		for (int64_t t = 0; t < w->kh * w->kw; t++)
			sum += fabs((double)weight(w, m, c, t));
	return sum / (double)(w->channels * w->kh * w->kw);
}

/* A channel of zeros has the size 0; its bits have no meaning. */
bool rvl_binary_sizes(struct rvl_graph *g, struct rvl_binary_weights *w, const char **why)
{
	bool below = false, above = false;

	w->size = rvl_arena_array(g->arena, (size_t)w->m + 1, sizeof(*w->size));
	for (int64_t m = 0; w->size && m < w->m; m++) {
		double size = mean_magnitude(w, m);

		w->size[m] = (float)size;
		for (int64_t c = 0; c < w->channels; c++)
			for (int64_t t = 0; t < w->kh * w->kw; t++) {
				double v = fabs((double)weight(w, m, c, t));

				below |= weight(w, m, c, t) < 0;
				above |= weight(w, m, c, t) > 0;
				if (fabs(v - size) <= size * ROUNDING) /* false for NaN and infinity */
					continue;
				*why = rvl_graph_printf(g, "not binary: output channel %lld has a weight of %g, its mean magnitude is %g",
							(long long)m, v, size);
				return false;
			}
	}
	w->both = below && above;
	return w->size;
}

int rvl_binary_pack(struct rvl_graph *g, const struct rvl_binary_weights *w, int64_t group,
		    const bool *inverted, struct rvl_tensor **out, struct rvl_err *err)
{
	int64_t words = rvl_b_words(w->channels), taps = w->kh * w->kw;
	struct rvl_shape shape = { .rank = 4, .dim = { w->m, w->kh, w->kw, words } };
	uint64_t *bits = rvl_arena_array(g->arena, (size_t)rvl_shape_count(&shape), sizeof(*bits));

	if (!bits)
		return rvl_fail(err, -ENOMEM, "no memory for weights");
	memset(bits, 0, (size_t)rvl_shape_count(&shape) * sizeof(*bits));
	for (int64_t m = 0; m < w->m; m++) {
		int64_t first = m / (w->m / group) * w->channels;

		for (int64_t t = 0; t < taps; t++)
			for (int64_t c = 0; c < w->channels; c++) {
				bool bit = weight(w, m, c, t) > 0;

				bit ^= inverted && inverted[first + c];
				bits[(m * taps + t) * words + c / 64] |= (uint64_t)bit << c % 64;
			}
	}
	return rvl_tensor_const(g, NULL, RVL_TYPE_U64, &shape, bits, out, err);
}

int rvl_binary_floats(struct rvl_graph *g, struct rvl_node *n, uint32_t i, const float *v, int64_t rows,
		      int64_t cols, struct rvl_err *err)
{
	struct rvl_shape shape = { .rank = 1, .dim = { cols } };
	struct rvl_tensor *t;
	int rc;

	if (rows > 1)
		shape = (struct rvl_shape) { .rank = 2, .dim = { rows, cols } };
	rc = rvl_tensor_const(g, NULL, RVL_TYPE_F32, &shape, v, &t, err);
	return rc ? rc : rvl_node_set_in(g, n, i, t, err);
}

const float *rvl_binary_input(const struct rvl_node *n, uint32_t i)
{
	return i < n->n_in && n->in[i] ? n->in[i]->data : NULL;
}
