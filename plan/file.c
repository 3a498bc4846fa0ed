/* SPDX-License-Identifier: MIT */
/*
 * The plan file (docs/plan.md): text lines in a fixed order with hashes of what the plan depends on
 * and a checksum.
 */
#include "rivulet_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_crc32c.h"
#include "rivulet_sha256.h"

#define LINE_MAX_ 1024 /* of a line of the file */
#define NAME_MAX_ 512  /* of an input or a dimension, whose line has numbers too */

void rivulet_plan_clear(struct rivulet_plan *p)
{
	for (uint32_t i = 0; i < p->n_keep; i++)
		free(p->keep[i]);
	for (uint32_t i = 0; i < p->n_shapes; i++)
		free((char *)(uintptr_t)p->shape[i].name);
	for (uint32_t i = 0; i < p->n_dimensions; i++)
		free((char *)(uintptr_t)p->dimension[i].name);
	*p = (struct rivulet_plan){ 0 };
}

/* ---- what a plan depends on ---- */

static void hash_levels(const struct rivulet_board *b, uint8_t out[32])
{
	char text[RIVULET_LEVELS * 40];
	size_t n = 0;

	for (uint32_t l = 0; l < b->levels; l++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "level=%" PRIu64 " %u\n",
				      b->level[l].hz, b->level[l].microvolt);
	rivulet_sha256(text, n, out);
}

static void hash_profile(const struct rivulet_board *b, uint8_t out[32])
{
#define ADD(key, lo, hi, unit, doc)                                                                \
	n += (size_t)snprintf(text + n, sizeof(text) - n, #key "=%u\n", b->key);
	char text[4096];
	size_t n = 0;

	RIVULET_BOARD_KEYS(ADD)
	RIVULET_BOARD_STREAM_KEYS(ADD)
	rivulet_sha256(text, n, out);
#undef ADD
}

static bool printable(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			return false;
	return n && n < LINE_MAX_ - 8;
}

static int add_keep(struct rivulet_plan *p, const char *name, struct rvl_err *err)
{
	if (p->n_keep == RIVULET_PLAN_KEEP || !printable(name))
		return rvl_fail(err, -E2BIG, "a plan file cannot name the int8 node \"%.80s\"",
				name);
	p->keep[p->n_keep] = strdup(name);
	if (!p->keep[p->n_keep])
		return rvl_fail(err, -ENOMEM, "out of memory");
	p->n_keep++;
	return 0;
}

/* A copy of the name of an input or of a dimension. */
static int copy_name(const char *name, uint32_t n, char **out, struct rvl_err *err)
{
	if (n == RIVULET_PLAN_DIMS || !printable(name) || strlen(name) > NAME_MAX_)
		return rvl_fail(err, -E2BIG, "a plan file cannot name the input or dimension \"%.80s\"", name);
	*out = strdup(name);
	return *out ? 0 : rvl_fail(err, -ENOMEM, "out of memory");
}

static int add_shape(struct rivulet_plan *p, const struct rivulet_input_shape *s, struct rvl_err *err)
{
	char *name;
	int rc = copy_name(s->name, p->n_shapes, &name, err);

	if (rc)
		return rc;
	p->shape[p->n_shapes] = *s;
	p->shape[p->n_shapes++].name = name;
	return 0;
}

static int add_dimension(struct rivulet_plan *p, const struct rivulet_dimension *d, struct rvl_err *err)
{
	char *name;
	int rc = copy_name(d->name, p->n_dimensions, &name, err);

	if (!rc)
		p->dimension[p->n_dimensions++] = (struct rivulet_dimension) { name, d->value };
	return rc;
}

int rivulet_plan_bind(struct rivulet_plan *p, const void *onnx, size_t size,
		      const struct rivulet_board *b, const struct rivulet_compile_options *opt,
		      struct rvl_err *err)
{
	int rc = rivulet_model_hash(onnx, size, opt, p->model, err);

	snprintf(p->board, sizeof(p->board), "%s", b->name);
	hash_levels(b, p->opp);
	hash_profile(b, p->profile);
	rivulet_quantise_hash(&opt->quantise, p->calibration);
	p->batch = (uint64_t)opt->batch;
	p->symbol = (uint64_t)opt->symbol;
	for (uint32_t i = 0; i < opt->n_shapes && !rc; i++)
		rc = add_shape(p, &opt->shapes[i], err);
	for (uint32_t i = 0; i < opt->n_dimensions && !rc; i++)
		rc = add_dimension(p, &opt->dimensions[i], err);
	for (uint32_t i = 0; i < opt->n_keep_int8 && !rc; i++)
		rc = add_keep(p, opt->keep_int8[i], err);
	return rc;
}

/* Reports that levels differ, and names a planned level that does. */
static int levels_differ(const struct rivulet_plan *p, const struct rivulet_board *b,
			 struct rvl_err *err)
{
	for (uint32_t i = 0; i < p->n_levels; i++) {
		const struct rivulet_plan_entry *e = &p->level[i];

		if (e->level >= b->levels)
			return rvl_fail(err, -ESTALE, "the plan is stale: it has level %u, the "
					"board %u levels", e->level, b->levels);
		if (e->hz != b->level[e->level].hz || e->microvolt != b->level[e->level].microvolt)
			return rvl_fail(err, -ESTALE,
					"the plan is stale: level %u was %" PRIu64 " Hz at %u uV, "
										   "the board has "
										   "%" PRIu64
					" Hz at %u uV", e->level, e->hz, e->microvolt,
					b->level[e->level].hz, b->level[e->level].microvolt);
	}
	return rvl_fail(err, -ESTALE, "the plan is stale: levels that it does not use differ from "
			"board %s's", b->name);
}

static int check_binding(const struct rivulet_plan *p, const struct rivulet_plan *now,
			 const struct rivulet_board *b, struct rvl_err *err)
{
	if (memcmp(p->model, now->model, 32))
		return rvl_fail(err, -ESTALE,
				"the plan is of another model: SHA-256 %02x%02x%02x%02x..., this "
				"one has %02x%02x%02x%02x...",
				p->model[0], p->model[1], p->model[2], p->model[3], now->model[0],
				now->model[1], now->model[2], now->model[3]);
	if (memcmp(p->opp, now->opp, 32))
		return levels_differ(p, b, err);
	if (memcmp(p->profile, now->profile, 32))
		return rvl_fail(err, -ESTALE,
				"the plan is stale: it was made for %s, and the profile of %s has "
				"other geometry, cycles or energies",
				p->board, b->name);
	if (memcmp(p->calibration, now->calibration, 32))
		return rvl_fail(err, -ESTALE, "the plan was made with %s calibration examples",
				memcmp(p->calibration, (uint8_t[32]){ 0 }, 32) ? "other" : "no");
	return 0;
}

int rivulet_plan_apply(const struct rivulet_plan *p, const void *onnx, size_t size,
		       const struct rivulet_board *b, struct rivulet_compile_options *opt,
		       struct rvl_err *err)
{
	const struct rivulet_compile_options only = { .quantise = opt->quantise, .files = opt->files,
		.batch = (int64_t)p->batch, .symbol = (int64_t)p->symbol,
		.shapes = p->shape, .n_shapes = p->n_shapes,
		.dimensions = p->dimension, .n_dimensions = p->n_dimensions };
	struct rivulet_plan now = { 0 };
	int rc = rivulet_plan_bind(&now, onnx, size, b, &only, err);

	if (!rc)
		rc = check_binding(p, &now, b, err);
	rivulet_plan_clear(&now);
	if (rc)
		return rc;
	opt->batch = (int64_t)p->batch;
	opt->symbol = (int64_t)p->symbol;
	opt->shapes = p->shape;
	opt->n_shapes = p->n_shapes;
	opt->dimensions = p->dimension;
	opt->n_dimensions = p->n_dimensions;
	opt->keep_int8 = (const char *const *)p->keep;
	opt->n_keep_int8 = p->n_keep;
	opt->stochastic = false; /* a program with only int8 runs at every level */
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		opt->length[l] = RIVULET_NO_VARIANT;
	for (uint32_t i = 0; i < p->n_levels; i++) {
		opt->length[p->level[i].level] = p->level[i].length;
		opt->accuracy[p->level[i].level] = p->level[i].accuracy;
		opt->stochastic |= p->level[i].length != 0;
	}
	return 0;
}

/* ---- writing ---- */

struct text {
	char *s;
	size_t n, room;
	bool failed;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...)
{
	char line[LINE_MAX_];
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	n = (size_t)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (t->n + n + 1 > t->room) {
		char *s = realloc(t->s, t->room * 2 + n + 1);

		t->failed |= !s;
		if (!s)
			return;
		t->s = s;
		t->room = t->room * 2 + n + 1;
	}
	memcpy(t->s + t->n, line, n + 1);
	t->n += n;
}

static void put_hash(struct text *t, const char *key, const uint8_t h[32])
{
	char hex[65];

	for (int i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", h[i]);
	put(t, "%s %s\n", key, hex);
}

static void put_dims(struct text *t, const struct rivulet_plan *p)
{
	for (uint32_t i = 0; i < p->n_shapes; i++) {
		const struct rivulet_input_shape *s = &p->shape[i];
		char dims[RIVULET_MAX_DIMS * 21 + 1];
		size_t n = 0;

		for (uint32_t k = 0; k < s->rank; k++)
			n += (size_t)snprintf(dims + n, sizeof(dims) - n, " %" PRId64, s->dim[k]);
		dims[n] = 0;
		put(t, "shape %u%s %s\n", s->rank, dims, s->name);
	}
	for (uint32_t i = 0; i < p->n_dimensions; i++)
		put(t, "dimension %" PRId64 " %s\n", p->dimension[i].value, p->dimension[i].name);
}

static void put_entry(struct text *t, const struct rivulet_plan_entry *e)
{
	put(t, "level %u hz %" PRIu64 " microvolt %u length %u accuracy %u chosen %u held %u "
				      "least %u "
	    "time_ns %" PRIu64 " energy_pj %" PRIu64 "\n", e->level, e->hz, e->microvolt, e->length,
	    e->accuracy, e->chosen, e->held, e->least, e->time_ns, e->energy_pj);
}

int rivulet_plan_text(const struct rivulet_plan *p, struct rivulet_blob *out)
{
	struct text t = { 0 };

	put(&t, "rivulet-plan %d\n", RIVULET_PLAN_VERSION);
	put_hash(&t, "model", p->model);
	put(&t, "board %s\n", p->board);
	put_hash(&t, "opp", p->opp);
	put_hash(&t, "profile", p->profile);
	put_hash(&t, "calibration", p->calibration);
	put_hash(&t, "data", p->data);
	put(&t, "examples %u %u\n", p->examples_chosen, p->examples_held);
	put(&t, "batch %" PRIu64 "\nsymbol %" PRIu64 "\n", p->batch, p->symbol);
	put_dims(&t, p);
	for (uint32_t i = 0; i < p->n_keep; i++)
		put(&t, "keep %s\n", p->keep[i]);
	put(&t, "objective %s\n", rivulet_plan_objective_name(p->objective));
	put(&t, "constraint_ns %" PRIu64 "\n", p->constraint_ns);
	for (uint32_t i = 0; i < p->n_levels; i++)
		put_entry(&t, &p->level[i]);
	if (!t.failed)
		put(&t, "crc32c %08x\n", rivulet_crc32c(0, t.s, t.n));
	if (t.failed) {
		free(t.s);
		return -ENOMEM;
	}
	out->data = t.s;
	out->size = t.n;
	return 0;
}

/* ---- reading ---- */

struct reader {
	const char *at, *end; /* of the lines that the checksum covers */
	uint32_t line;
	char buf[LINE_MAX_]; /* the present line */
	struct rvl_err *err;
};

static int bad(const struct reader *r, const char *why)
{
	return rvl_fail(r->err, -EBADMSG, "the plan file is damaged: line %u: %s", r->line, why);
}

/* Copies the next line without its newline into r->buf; "" at the end. */
static int next_line(struct reader *r)
{
	const char *nl = r->at < r->end ? memchr(r->at, '\n', (size_t)(r->end - r->at)) : NULL;
	size_t n = nl ? (size_t)(nl - r->at) : 0;

	r->line++;
	r->buf[0] = 0;
	if (r->at == r->end)
		return 0;
	if (!nl || n >= sizeof(r->buf) || memchr(r->at, 0, n))
		return bad(r, "no line of text");
	memcpy(r->buf, r->at, n);
	r->buf[n] = 0;
	r->at = nl + 1;
	return 0;
}

/* The value of the present line "KEY VALUE", or NULL if its key is another one. */
static const char *value_of(const struct reader *r, const char *key)
{
	size_t n = strlen(key);

	return !strncmp(r->buf, key, n) && r->buf[n] == ' ' ? r->buf + n + 1 : NULL;
}

/* Parses a whole number that one blank or the end follows. Returns what follows, or NULL. */
static const char *take(const char *s, uint64_t most, uint64_t *out)
{
	char *end;

	if (!s || *s < '0' || *s > '9')
		return NULL;
	errno = 0;
	*out = strtoull(s, &end, 10);
	if (errno || *out > most || (*end && *end != ' '))
		return NULL;
	return *end ? end + 1 : end;
}

static int read_number(struct reader *r, const char *key, uint64_t most, uint64_t *out)
{
	const char *rest;
	int rc = next_line(r);

	if (rc)
		return rc;
	rest = take(value_of(r, key), most, out);
	return rest && !*rest ? 0 : bad(r, key);
}

static int read_hash(struct reader *r, const char *key, uint8_t h[32])
{
	int rc = next_line(r);
	const char *v = rc ? NULL : value_of(r, key);

	if (rc)
		return rc;
	if (!v || strlen(v) != 64 || strspn(v, "0123456789abcdef") != 64)
		return bad(r, key);
	for (int i = 0; i < 32; i++) {
		char byte[3] = { v[2 * i], v[2 * i + 1], 0 };

		h[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return 0;
}

static int read_board(struct reader *r, struct rivulet_plan *p)
{
	int rc = next_line(r);
	const char *v = rc ? NULL : value_of(r, "board");

	if (rc)
		return rc;
	if (!v || !printable(v) || strlen(v) >= sizeof(p->board))
		return bad(r, "board");
	strcpy(p->board, v);
	return 0;
}

static int read_examples(struct reader *r, struct rivulet_plan *p)
{
	uint64_t chosen = 0, held = 0;
	int rc = next_line(r);
	const char *s;

	if (rc)
		return rc;
	s = take(take(value_of(r, "examples"), UINT32_MAX, &chosen), UINT32_MAX, &held);
	if (!s || *s)
		return bad(r, "examples");
	p->examples_chosen = (uint32_t)chosen;
	p->examples_held = (uint32_t)held;
	return 0;
}

/* The present line "shape RANK D0 D1 ... NAME". */
static int parse_shape(struct reader *r, struct rivulet_plan *p)
{
	struct rivulet_input_shape s = { 0 };
	uint64_t rank = 0, dim;
	const char *at = take(value_of(r, "shape"), RIVULET_MAX_DIMS, &rank);

	for (; at && s.rank < rank; s.rank++) {
		at = take(at, INT32_MAX, &dim);
		s.dim[s.rank] = (int64_t)dim;
	}
	s.name = at;
	return at && *at ? add_shape(p, &s, r->err) : bad(r, "shape");
}

/* The present line "dimension N NAME". */
static int parse_dimension(struct reader *r, struct rivulet_plan *p)
{
	uint64_t value;
	const char *name = take(value_of(r, "dimension"), INT32_MAX, &value);

	if (!name || !*name)
		return bad(r, "dimension");
	return add_dimension(p, &(struct rivulet_dimension) { name, (int64_t)value }, r->err);
}

static int parse_keep(struct reader *r, struct rivulet_plan *p)
{
	return add_keep(p, value_of(r, "keep"), r->err);
}

/* Reads lines of this key up to the first line of another one, which is the present line before and after. */
static int read_some(struct reader *r, struct rivulet_plan *p, const char *key,
		     int (*parse)(struct reader *r, struct rivulet_plan *p))
{
	int rc = 0;

	while (!rc && value_of(r, key)) {
		rc = parse(r, p);
		if (!rc)
			rc = next_line(r);
	}
	return rc;
}

static int read_objective(struct reader *r, struct rivulet_plan *p)
{
	const char *v = value_of(r, "objective");
	int o = v ? rivulet_plan_objective_find(v) : -1;

	if (o < 0)
		return bad(r, "objective");
	p->objective = (enum rivulet_plan_objective)o;
	return 0;
}

/* Parses "KEY NUMBER " of a level's line. */
static const char *pair(const char *s, const char *key, uint64_t most, uint64_t *out)
{
	size_t n = strlen(key);

	if (!s || strncmp(s, key, n) || s[n] != ' ')
		return NULL;
	return take(s + n + 1, most, out);
}

static bool good_entry(const struct rivulet_plan *p, const struct rivulet_plan_entry *e)
{
	for (uint32_t i = 0; i < p->n_levels; i++)
		if (p->level[i].level == e->level)
			return false;
	return !e->length || (e->length >= RIVULET_SC_MIN && e->length <= RIVULET_SC_MAX);
}

static int parse_entry(struct reader *r, struct rivulet_plan *p)
{
	enum { LEVEL, HZ, UV, LENGTH, ACCURACY, CHOSEN, HELD, LEAST, TIME, ENERGY, FIELDS };
	static const struct {
		const char *key;
		uint64_t most;
	} field[FIELDS] = { { "level", RIVULET_LEVELS - 1 }, { "hz", UINT64_MAX },
			    { "microvolt", UINT32_MAX },     { "length", RIVULET_SC_MAX },
			    { "accuracy", 1000000 },	     { "chosen", 1000000 },
			    { "held", 1000000 },	     { "least", 1000000 },
			    { "time_ns", UINT64_MAX },	     { "energy_pj", UINT64_MAX } };
	const char *s = r->buf;
	uint64_t v[FIELDS];
	struct rivulet_plan_entry e;

	for (int i = 0; i < FIELDS; i++) {
		s = pair(s, field[i].key, field[i].most, &v[i]);
		if (!s)
			return bad(r, field[i].key);
	}
	e = (struct rivulet_plan_entry){ (uint32_t)v[LEVEL], v[HZ], (uint32_t)v[UV],
					 (uint32_t)v[LENGTH], (uint32_t)v[ACCURACY],
					 (uint32_t)v[CHOSEN], (uint32_t)v[HELD],
					 (uint32_t)v[LEAST], v[TIME], v[ENERGY] };
	if (*s || p->n_levels == RIVULET_LEVELS || !good_entry(p, &e))
		return bad(r, "a level's length is 0 or 8 to 256, and each level has one line");
	p->level[p->n_levels++] = e;
	return 0;
}

static int read_levels(struct reader *r, struct rivulet_plan *p)
{
	int rc = next_line(r);

	while (!rc && r->buf[0]) {
		rc = parse_entry(r, p);
		if (!rc)
			rc = next_line(r);
	}
	return rc || p->n_levels ? rc : bad(r, "no level");
}

/* The last line is the checksum of those before it. */
static int check_sum(struct reader *r, const char *text, size_t size)
{
	static const char head[] = "rivulet-plan ";
	char want[20];
	const size_t tail = strlen("crc32c 00000000\n");

	if (size < sizeof(head) || memcmp(text, head, sizeof(head) - 1))
		return rvl_fail(r->err, -EBADMSG, "not a plan file");
	if (size < 16 + tail)
		return rvl_fail(r->err, -EBADMSG, "the plan file is damaged: it ends early");
	snprintf(want, sizeof(want), "crc32c %08x\n", rivulet_crc32c(0, text, size - tail));
	if (memcmp(text + size - tail, want, tail))
		return rvl_fail(r->err, -EBADMSG,
				"the plan file is damaged: its checksum is wrong (plans are "
				"made by rivulet plan, not by hand)");
	r->at = text;
	r->end = text + size - tail;
	return 0;
}

static int read_version(struct reader *r)
{
	uint64_t version;
	int rc = read_number(r, "rivulet-plan", UINT32_MAX, &version);

	if (!rc && version != RIVULET_PLAN_VERSION)
		rc = rvl_fail(r->err, -EBADMSG,
			      "a plan file of version %" PRIu64 ", this is for version %d",
			      version, RIVULET_PLAN_VERSION);
	return rc;
}

static int read_plan(struct reader *r, struct rivulet_plan *p)
{
	int rc = read_version(r);

	rc = rc ? rc : read_hash(r, "model", p->model);
	rc = rc ? rc : read_board(r, p);
	rc = rc ? rc : read_hash(r, "opp", p->opp);
	rc = rc ? rc : read_hash(r, "profile", p->profile);
	rc = rc ? rc : read_hash(r, "calibration", p->calibration);
	rc = rc ? rc : read_hash(r, "data", p->data);
	rc = rc ? rc : read_examples(r, p);
	rc = rc ? rc : read_number(r, "batch", INT32_MAX, &p->batch);
	rc = rc ? rc : read_number(r, "symbol", INT32_MAX, &p->symbol);
	rc = rc ? rc : next_line(r);
	rc = rc ? rc : read_some(r, p, "shape", parse_shape);
	rc = rc ? rc : read_some(r, p, "dimension", parse_dimension);
	rc = rc ? rc : read_some(r, p, "keep", parse_keep);
	rc = rc ? rc : read_objective(r, p);
	rc = rc ? rc : read_number(r, "constraint_ns", UINT64_MAX, &p->constraint_ns);
	return rc ? rc : read_levels(r, p);
}

int rivulet_plan_parse(struct rivulet_plan *p, const void *text, size_t size, struct rvl_err *err)
{
	struct reader r = { .err = err };
	int rc;

	*p = (struct rivulet_plan){ 0 };
	if (size > RIVULET_PLAN_FILE_MAX)
		return rvl_fail(err, -EBADMSG, "not a plan file: %zu bytes", size);
	rc = check_sum(&r, text, size);
	if (!rc)
		rc = read_plan(&r, p);
	if (rc)
		rivulet_plan_clear(p);
	return rc;
}
