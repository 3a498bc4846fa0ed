// SPDX-License-Identifier: MIT
/*
 * usage: eval_ibtf NETWORKS FOLDER [BITS [ZEROS]]
 * Counts the additions of the publication's tables and networks, formula and count side by side,
 * and writes them to FOLDER. Weights are drawn by its equation (6): each is 0 with the declared
 * probability, else any other value. BITS and ZEROS (percent) replace those that NETWORKS declares.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ibtf/cases.h"

#define UNQUANTISED 16 /* bits of a weight that is pruned only */

/* ---- tables of one product ---- */

static FILE *create(const char *folder, const char *name)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	if (!f) {
		perror(path);
		exit(2);
	}
	return f;
}

static struct rivulet_ibtf_choice choose(struct ibtf_product *p)
{
	struct rivulet_ibtf_choice c;

	rivulet_ibtf_choose(&p->shape, p->w, p->scratch, &p->cut, &c);
	return c;
}

static void put_row(FILE *f, const struct rivulet_ibtf_choice *c)
{
	fprintf(f, "%llu,%u,%.0f,%.2f,%u,%llu,%llu,%llu,%s,%.2f\n", (unsigned long long)c->eq_mac,
		c->formula_a, c->formula, (double)c->eq_mac / c->formula, c->even_a,
		(unsigned long long)c->even, (unsigned long long)c->fitted,
		(unsigned long long)c->tables, rivulet_ibtf_form_name(c->form),
		(double)c->eq_mac / (double)c->adds);
}

#define COLUMNS "eq_mac,formula_a,formula,formula_rate,even_a,even,fitted,tables,form,rate\n"

static void table_2(const char *folder, uint64_t *seed)
{
	static const uint32_t inputs[] = { 1024, 32 };
	FILE *f = create(folder, "table2.csv");

	fputs("inputs,bits," COLUMNS, f);
	for (uint32_t p = 1; p <= 8; p++)
		for (uint32_t i = 0; i < 2; i++) {
			struct ibtf_product t;
			struct rivulet_ibtf_choice c;

			ibtf_product_new(&t, (struct rivulet_ibtf_shape){ inputs[i], 4, p, false },
					 0, seed);
			c = choose(&t);
			fprintf(f, "%u,%u,", inputs[i], p);
			put_row(f, &c);
			ibtf_product_free(&t);
		}
	fclose(f);
}

/* Formula (3) beside the publication's: for the declared share of zeros, not for the drawn one. */
static void put_declared(FILE *f, const struct rivulet_ibtf_shape *s, uint32_t zeros)
{
	double rows = s->n * (100 - zeros) / 100.0, eq_mac = rows * s->m * s->p;
	uint32_t a = rivulet_ibtf_formula_best(s, rows);
	double formula = rivulet_ibtf_formula(s, rows, a);

	fprintf(f, "%u,%.0f,%u,%.0f,%.2f,", zeros, eq_mac, a, formula, eq_mac / formula);
}

static void table_3(const char *folder, uint64_t *seed)
{
	static const uint32_t zeros[] = { 0, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 95 };
	FILE *f = create(folder, "table3.csv");

	fputs("zeros_percent,declared_eq_mac,declared_a,declared_formula,declared_rate," COLUMNS,
	      f);
	for (size_t i = 0; i < sizeof(zeros) / sizeof(zeros[0]); i++) {
		struct ibtf_product t;
		struct rivulet_ibtf_choice c;

		ibtf_product_new(&t, (struct rivulet_ibtf_shape){ 1024, 4, 4, false },
				 zeros[i] / 100.0, seed);
		c = choose(&t);
		put_declared(f, &t.shape, zeros[i]);
		put_row(f, &c);
		ibtf_product_free(&t);
	}
	fclose(f);
}

/* The seed's example by the width of its slices. */
static void widths(const char *folder, uint64_t *seed)
{
	FILE *f = create(folder, "widths.csv");
	struct ibtf_product t;

	fputs("a,formula,count\n", f);
	ibtf_product_new(&t, (struct rivulet_ibtf_shape){ 256, 6, 4, false }, 0, seed);
	for (uint32_t a = 1; a <= RIVULET_IBTF_WIDEST; a++) {
		rivulet_ibtf_cut_evenly(&t.shape, a, &t.cut);
		fprintf(f, "%u,%.0f,%llu\n", a, rivulet_ibtf_formula(&t.shape, 256, a),
			(unsigned long long)rivulet_ibtf_count(&t.shape, t.w, &t.cut, t.scratch));
	}
	ibtf_product_free(&t);
	fclose(f);
}

/* ---- networks ---- */

struct layer {
	char network[32], name[32];
	struct rivulet_ibtf_shape shape;
	uint32_t groups, zeros;
	double windows;
};

/* Additions of an inference. */
struct sums {
	double weights, eq_mac, formula, even, buckets, adds;
};

static bool layer_ok(const struct layer *l)
{
	return l->shape.n && l->shape.m && l->groups && l->windows >= 1 && l->shape.p &&
	       l->shape.p <= RIVULET_IBTF_BITS && l->zeros < 100;
}

/* Ends at a line that is no layer, because a layer left out would change the totals. */
static bool read_layer(FILE *f, struct layer *l)
{
	char line[256];

	while (fgets(line, sizeof(line), f)) {
		if (*line == '#' || !strncmp(line, "network,", 8))
			continue;
		if (sscanf(line, "%31[^,],%31[^,],%u,%u,%u,%lf,%u,%u", l->network, l->name,
			   &l->shape.n, &l->shape.m, &l->groups, &l->windows, &l->shape.p,
			   &l->zeros) != 8 ||
		    !layer_ok(l)) {
			fprintf(stderr, "eval_ibtf: no layer: %s", line);
			exit(2);
		}
		l->shape.is_signed = true;
		return true;
	}
	return false;
}

/*
 * Why the publication's own slices, all of the width that is best by formula (3), take other
 * additions than the formula: codes that are not 0 beyond those of one kernel, because a slice
 * spans several; the fold, which is not 2^a but nearly twice that, less the first input of each
 * bucket; and the additions of the columns.
 */
struct why {
	double spans, fold, columns;
};

static void add_why(struct ibtf_product *p, const struct rivulet_ibtf_choice *c, double times,
		    struct why *why)
{
	struct rivulet_ibtf_parts parts;

	rivulet_ibtf_cut_evenly(&p->shape, c->formula_a, &p->cut);
	rivulet_ibtf_parts(&p->shape, p->w, &p->cut, p->scratch, &parts);
	why->spans += times * ((double)parts.rows - (double)c->nonzero / p->shape.m * p->cut.n);
	why->fold += times * ((double)parts.fold - (double)parts.first -
			      (double)((uint64_t)p->cut.n << c->formula_a));
	why->columns += times * (double)parts.columns;
}

static void count_group(const struct layer *l, uint64_t *seed, struct sums *s, struct why *why,
			struct rivulet_ibtf_choice *c)
{
	double times = l->windows * l->groups, buckets;
	struct ibtf_product p;

	/* The groups of a layer differ only by chance. */
	ibtf_product_new(&p, l->shape, l->zeros / 100.0, seed);
	*c = choose(&p);
	add_why(&p, c, times, why);
	ibtf_product_free(&p);
	buckets = (double)(c->fitted < c->even ? c->fitted : c->even);
	s->weights += times * (double)c->nonzero;
	s->eq_mac += times * (double)c->eq_mac;
	s->formula += times * c->formula;
	s->even += times * (double)c->even;
	s->buckets += times * buckets;
	s->adds += times * (double)c->adds;
}

static void put_layer(FILE *f, const struct layer *l, const struct sums *s, const struct why *w,
		      const struct rivulet_ibtf_choice *c)
{
	fprintf(f,
		"%s,%s,%u,%u,%u,%.0f,%u,%u,%.0f,%u,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%s,%.3f,%.3f,"
		"%.3f\n",
		l->network, l->name, l->shape.n, l->shape.m, l->groups, l->windows, l->shape.p,
		l->zeros, s->eq_mac, c->formula_a, s->formula, w->spans, w->fold, w->columns,
		s->even, s->buckets, s->adds, rivulet_ibtf_form_name(c->form),
		s->eq_mac / s->formula, s->eq_mac / s->buckets, s->eq_mac / s->adds);
}

static void add_sums(struct sums *to, const struct sums *s)
{
	to->weights += s->weights;
	to->eq_mac += s->eq_mac;
	to->formula += s->formula;
	to->even += s->even;
	to->buckets += s->buckets;
	to->adds += s->adds;
}

/* Ratios of Eq_MAC over all networks. */
struct means {
	double sparse, formula, even, buckets, adds, vgg11;
	uint32_t n;
};

static void put_network(FILE *f, const char *name, const struct sums *s, struct means *m)
{
	double sparse = s->weights * UNQUANTISED / s->adds, rate = s->eq_mac / s->adds;

	if (!*name)
		return;
	fprintf(f, "%s,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.3f,%.3f\n", name, s->weights * UNQUANTISED,
		s->eq_mac, s->formula, s->even, s->buckets, s->adds, s->eq_mac / s->formula, rate);
	printf("figure ibtf.ops.%s %.3f x\n", name, rate);
	printf("figure ibtf.formula.%s %.3f x\n", name, s->eq_mac / s->formula);
	m->sparse += sparse;
	m->formula += s->eq_mac / s->formula;
	m->even += s->eq_mac / s->even;
	m->buckets += s->eq_mac / s->buckets;
	m->adds += rate;
	if (!strcmp(name, "vgg11"))
		m->vgg11 = rate;
	m->n++;
}

static void networks(FILE *list, const char *folder, int bits, int zeros, uint64_t *seed,
		     struct means *m)
{
	FILE *layers = create(folder, "layers.csv"), *totals = create(folder, "networks.csv");
	char network[32] = "";
	struct sums sum = { 0 };
	struct layer l;

	fputs("network,layer,inputs,kernels,groups,windows,bits,zeros_percent,eq_mac,formula_a,"
	      "formula,spans,fold,"
	      "columns,even,buckets,adds,form,formula_rate,buckets_rate,rate\n",
	      layers);
	fputs("network,sparse,eq_mac,formula,even,buckets,adds,formula_rate,rate\n", totals);
	while (read_layer(list, &l)) {
		struct rivulet_ibtf_choice c;
		struct sums s = { 0 };
		struct why w = { 0 };

		l.shape.p = bits ? (uint32_t)bits : l.shape.p;
		l.zeros = zeros >= 0 ? (uint32_t)zeros : l.zeros;
		if (strcmp(l.network, network)) {
			put_network(totals, network, &sum, m);
			memcpy(network, l.network, sizeof(network));
			sum = (struct sums){ 0 };
		}
		count_group(&l, seed, &s, &w, &c);
		put_layer(layers, &l, &s, &w, &c);
		add_sums(&sum, &s);
	}
	put_network(totals, network, &sum, m);
	fclose(layers);
	fclose(totals);
}

/* The publication's claims; they hold for the declared weights only. */
static int compare(const struct means *m, bool declared)
{
	printf("figure ibtf.ops.mean %.3f x\n", m->adds / m->n);
	printf("figure ibtf.buckets.mean %.3f x\n", m->buckets / m->n);
	printf("figure ibtf.even.mean %.3f x\n", m->even / m->n);
	printf("figure ibtf.formula.mean %.3f x\n", m->formula / m->n);
	printf("figure ibtf.sparse.mean %.3f x\n", m->sparse / m->n);
	if (declared && (m->adds / m->n < 3.32 || m->vgg11 < 5.22)) {
		printf("not ok - the publication has 3.32 on average and 5.22 for VGG-11\n");
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int bits = argc > 3 ? atoi(argv[3]) : 0, zeros = argc > 4 ? atoi(argv[4]) : -1;
	uint64_t seed = 20261123;
	struct means m = { 0 };
	FILE *list;

	if (argc < 3 || bits < 0 || bits > 8 || zeros > 99) {
		fprintf(stderr, "usage: eval_ibtf NETWORKS FOLDER [BITS [ZEROS]]\n");
		return 2;
	}
	list = fopen(argv[1], "r");
	if (!list) {
		perror(argv[1]);
		return 2;
	}
	widths(argv[2], &seed);
	table_2(argv[2], &seed);
	table_3(argv[2], &seed);
	networks(list, argv[2], bits, zeros, &seed, &m);
	fclose(list);
	return compare(&m, argc == 3);
}
