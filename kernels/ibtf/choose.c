/* SPDX-License-Identifier: MIT */
/* Counts all forms of a product and takes the one with the fewest adds. */
#include "ibtf/slices.h"

const char *rivulet_ibtf_form_name(enum rivulet_ibtf_form form)
{
	static const char *const names[] = {
#define FORM_NAME(id, name, doc) [RIVULET_IBTF_##id] = name,
		RIVULET_IBTF_FORMS(FORM_NAME)
#undef FORM_NAME
	};

	return names[form];
}

/* @cut is used for all of them and left with the best of them. */
static void count_even(const struct rivulet_ibtf_shape *s, const int16_t *w, void *scratch,
		       struct rivulet_ibtf_slices *cut, struct rivulet_ibtf_choice *out)
{
	out->even = UINT64_MAX;
	for (uint32_t a = 1; a <= RIVULET_IBTF_WIDEST && a <= rvl_ibtf_columns(s); a++) {
		uint64_t adds;

		rivulet_ibtf_cut_evenly(s, a, cut);
		adds = rivulet_ibtf_count(s, w, cut, scratch);
		if (adds < out->even) {
			out->even = adds;
			out->even_a = a;
		}
	}
	rivulet_ibtf_cut_evenly(s, out->even_a, cut);
}

static void count_tables(const struct rivulet_ibtf_shape *s, const int16_t *w,
			 struct rivulet_ibtf_choice *out)
{
	out->tables = UINT64_MAX;
	for (uint32_t g = 1; g <= RIVULET_IBTF_WIDEST && g <= s->n; g++) {
		uint64_t adds = rivulet_ibtf_tables_count(s, w, g);

		if (adds < out->tables) {
			out->tables = adds;
			out->group = g;
		}
	}
}

static void take_least(struct rivulet_ibtf_choice *c)
{
	c->form = RIVULET_IBTF_EVEN;
	c->adds = c->even;
	if (c->fitted < c->adds) {
		c->form = RIVULET_IBTF_FITTED;
		c->adds = c->fitted;
	}
	if (c->tables < c->adds) {
		c->form = RIVULET_IBTF_TABLES;
		c->adds = c->tables;
	}
}

void rivulet_ibtf_choose(const struct rivulet_ibtf_shape *s, const int16_t *w, void *scratch,
			 struct rivulet_ibtf_slices *cut, struct rivulet_ibtf_choice *out)
{
	uint64_t even_storage;
	double rows;

	*out = (struct rivulet_ibtf_choice){ .nonzero = rivulet_ibtf_nonzero(s, w) };
	out->eq_mac = out->nonzero * s->p;
	rows = (double)out->nonzero / s->m;
	out->formula_a = rivulet_ibtf_formula_best(s, rows);
	out->formula = rivulet_ibtf_formula(s, rows, out->formula_a);
	count_even(s, w, scratch, cut, out);
	even_storage = rivulet_ibtf_storage(s, w, cut, scratch);
	count_tables(s, w, out);
	out->fitted = rivulet_ibtf_cut_best(s, w, scratch, cut);
	take_least(out);
	if (out->form == RIVULET_IBTF_EVEN)
		out->storage = even_storage;
	else if (out->form == RIVULET_IBTF_FITTED)
		out->storage = rivulet_ibtf_storage(s, w, cut, scratch);
	else /* Each column has a bit for each input, as in weights. */
		out->storage = (uint64_t)s->n * rvl_ibtf_columns(s);
}
