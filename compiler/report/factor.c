/* SPDX-License-Identifier: MIT */
/* The additions of a model's products as comma-separated values. */
#include "report/print.h"
#include "rivulet_factor.h"

int rivulet_factor_csv(const struct rivulet_factor *f, struct rivulet_blob *out)
{
	struct rvl_out o = { 0 };

	rvl_put(&o, "node,groups,inputs,kernels,bits,windows,nonzero,eq_mac,formula,formula_a,even,"
		    "even_a,fitted,"
		    "narrowest,widest,tables,group,form,adds,storage_bits\r\n");
	for (uint32_t i = 0; i < f->n_rows; i++) {
		const struct rivulet_factor_row *r = &f->rows[i];
		const struct rivulet_ibtf_choice *c = &r->of;

		rvl_csv_text(&o, r->node);
		rvl_put(&o, ",%u,%u,%u,%u,%llu,%llu,%llu,%.0f,%u", r->groups, r->n, r->m, r->p,
			(unsigned long long)r->windows, (unsigned long long)c->nonzero,
			(unsigned long long)c->eq_mac, c->formula, c->formula_a);
		rvl_put(&o, ",%llu,%u,%llu,%u,%u,%llu,%u,\"%s\",%llu,%llu\r\n",
			(unsigned long long)c->even, c->even_a, (unsigned long long)c->fitted,
			r->narrowest, r->widest, (unsigned long long)c->tables, c->group,
			rivulet_ibtf_form_name(c->form), (unsigned long long)c->adds,
			(unsigned long long)c->storage);
	}
	return rvl_out_finish(&o, out);
}
