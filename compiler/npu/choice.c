/* SPDX-License-Identifier: MIT */
#include "npu/choice.h"

struct rvl_choice rvl_choice_of(const struct rvl_layer *l)
{
	return (struct rvl_choice){ .mode = l->mode,
				    .p = l->p,
				    .t = l->t,
				    .from = l->from,
				    .b_from = l->b_from,
				    .to = l->to,
				    .inp = { l->inp[0], l->inp[1] },
				    .ahead = l->ahead,
				    .early = l->early,
				    .look = l->look,
				    .too_long = l->too_long,
				    .note = l->note,
				    .contest = l->contest };
}

void rvl_choice_use(struct rvl_layer *l, const struct rvl_choice *c)
{
	l->mode = c->mode;
	l->p = c->p;
	l->t = c->t;
	l->from = c->from;
	l->b_from = c->b_from;
	l->to = c->to;
	l->inp[0] = c->inp[0];
	l->inp[1] = c->inp[1];
	l->ahead = c->ahead;
	l->early = c->early;
	l->look = c->look;
	l->too_long = c->too_long;
	l->note = c->note;
	l->contest = c->contest;
}

void rvl_choices_of(struct rvl_layer *const *l, uint32_t n, struct rvl_choice *c)
{
	for (uint32_t i = 0; i < n; i++)
		c[i] = rvl_choice_of(l[i]);
}

void rvl_choices_use(struct rvl_layer *const *l, uint32_t n, const struct rvl_choice *c)
{
	for (uint32_t i = 0; i < n; i++)
		rvl_choice_use(l[i], &c[i]);
}
