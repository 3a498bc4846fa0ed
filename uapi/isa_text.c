// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/*
 * Instructions as text and back, one line each, from the tables of rivulet_isa.h (docs/isa.md,
 * "Text").
 */
#include "rivulet_isa.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_FIELDS ((int)(sizeof(struct rivulet_header) / sizeof(int64_t)))
#define WORD_MAX      40

static const char *const queue_name[RIVULET_QUEUES] = { "load", "conv", "alu", "store" };

struct out {
	char *text;
	size_t size;
	size_t len;
};

__attribute__((format(printf, 2, 3))) static void emit(struct out *o, const char *fmt, ...)
{
	size_t left = o->len < o->size ? o->size - o->len : 0;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(left ? o->text + o->len : NULL, left, fmt, ap);
	va_end(ap);
	if (n > 0)
		o->len += n;
}

static void emit_queues(struct out *o, const char *what, int64_t mask)
{
	const char *before = "";

	if (!mask)
		return;
	emit(o, " %s=", what);
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		if (!(mask >> q & 1))
			continue;
		emit(o, "%s%s", before, queue_name[q]);
		before = ",";
	}
}

static void emit_decoded(struct out *o, const struct rivulet_decoded *d)
{
	const struct rivulet_form_info *info = rivulet_form_table(d->form);
	const int64_t *value = (const int64_t *)&d->h;

	emit(o, "%s %s", queue_name[d->h.queue], info->name);
	for (int i = HEADER_FIELDS; i < info->fields; i++)
		if (value[i])
			emit(o, " %s=%" PRId64, info->field[i].name, value[i]);
	emit_queues(o, "pop", d->h.pop);
	emit_queues(o, "push", d->h.push);
	if (d->h.prof)
		emit(o, " prof=1");
}

int rivulet_disassemble(const struct rivulet_insn *in, char *text, size_t size)
{
	struct out o = { text, size, 0 };
	struct rivulet_decoded d;

	if (rivulet_decode(in, &d))
		emit(&o, ".insn 0x%016" PRIx64 " 0x%016" PRIx64, in->w[0], in->w[1]);
	else
		emit_decoded(&o, &d);
	return o.len < size ? (int)o.len : -ENOSPC;
}

/* The line that is being assembled. @at is the position in it. */
struct line {
	const char *start;
	const char *at;
	char *err;
	size_t errsize;
};

__attribute__((format(printf, 3, 4))) static int fail(struct line *l, const char *where,
						      const char *fmt, ...)
{
	int n = snprintf(l->err, l->errsize, "column %d: ", (int)(where - l->start) + 1);
	va_list ap;

	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < l->errsize)
		vsnprintf(l->err + n, l->errsize - n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/*
 * Returns the next word, or "" at the end of the line. A word that is too long gets a suffix that
 * no parser accepts.
 */
static const char *next_word(struct line *l, char word[WORD_MAX])
{
	const char *from = l->at + strspn(l->at, " \t\r\n");
	size_t n = strcspn(from, " \t\r\n#");

	l->at = from + n;
	if (n < WORD_MAX)
		snprintf(word, WORD_MAX, "%.*s", (int)n, from);
	else
		snprintf(word, WORD_MAX, "%.*s...", WORD_MAX - 4, from);
	return from;
}

static int find_queue(const char *name)
{
	for (int q = 0; q < RIVULET_QUEUES; q++)
		if (!strcmp(name, queue_name[q]))
			return q;
	return -1;
}

static int find_form(const char *name)
{
	for (int f = 0; f < RIVULET_FORM_COUNT; f++)
		if (!strcmp(name, rivulet_form_table(f)->name))
			return f;
	return -1;
}

static int parse_number(struct line *l, const char *where, const char *text, int64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoll(text, &end, 0);
	if (errno || end == text || *end)
		return fail(l, where, "\"%s\" is not a number", text);
	return 0;
}

static int parse_queues(struct line *l, const char *where, char *text, int64_t *mask)
{
	char *name, *next = text;

	while ((name = strsep(&next, ","))) {
		int q = find_queue(name);

		if (q < 0)
			return fail(l, where, "\"%s\" is not a queue (load, conv, alu, store)",
				    name);
		*mask |= 1 << q;
	}
	return 0;
}

static int parse_field(struct line *l, const char *where, char *word, struct rivulet_decoded *d)
{
	const struct rivulet_form_info *info = rivulet_form_table(d->form);
	char *eq = strchr(word, '=');

	if (!eq)
		return fail(l, where, "expected field=value, found \"%s\"", word);
	*eq = 0;
	if (!strcmp(word, "pop"))
		return parse_queues(l, where, eq + 1, &d->h.pop);
	if (!strcmp(word, "push"))
		return parse_queues(l, where, eq + 1, &d->h.push);
	if (!strcmp(word, "prof"))
		return parse_number(l, where, eq + 1, &d->h.prof);
	for (int i = HEADER_FIELDS; i < info->fields; i++)
		if (!strcmp(word, info->field[i].name))
			return parse_number(l, where, eq + 1, (int64_t *)&d->h + i);
	return fail(l, where, "%s has no field \"%s\"", info->name, word);
}

/* Parses ".insn WORD WORD", the 128 bits of an instruction. */
static int parse_raw(struct line *l, struct rivulet_insn *out)
{
	char word[WORD_MAX];
	const char *where;

	for (int i = 0; i < 2; i++) {
		char *end;

		where = next_word(l, word);
		errno = 0;
		out->w[i] = strtoull(word, &end, 0);
		if (errno || !*word || *end || *word == '-')
			return fail(l, where, "\"%s\" is not a 64-bit word", word);
	}
	where = next_word(l, word);
	return *word ? fail(l, where, "\"%s\" after the second word", word) : 1;
}

static int parse_head(struct line *l, const char *where, const char *queue,
		      struct rivulet_decoded *d)
{
	const struct rivulet_form_info *info;
	char word[WORD_MAX];
	int q = find_queue(queue), form;

	if (q < 0)
		return fail(l, where, "\"%s\" is not a queue (load, conv, alu, store)", queue);
	where = next_word(l, word);
	form = find_form(word);
	if (form < 0)
		return fail(l, where, "\"%s\" is not an instruction", word);
	info = rivulet_form_table(form);
	if (info->queue >= 0 && info->queue != q)
		return fail(l, where, "%s belongs to queue %s", word, queue_name[info->queue]);
	d->form = form;
	d->h.queue = q;
	return 0;
}

static int finish(struct line *l, const struct rivulet_decoded *d, struct rivulet_insn *out)
{
	struct rivulet_decoded back;
	const char *bad = NULL;

	if (rivulet_encode(d, out, &bad))
		return fail(l, l->start, "%s is out of range", bad);
	if (rivulet_decode(out, &back))
		return fail(l, l->start, "a queue cannot pop from or push to itself");
	return 1;
}

int rivulet_assemble(const char *text, struct rivulet_insn *out, char *err, size_t errsize)
{
	struct line l = { text, text, err, errsize };
	struct rivulet_decoded d;
	char word[WORD_MAX];
	const char *where = next_word(&l, word);
	int r;

	memset(&d, 0, sizeof(d));
	memset(out, 0, sizeof(*out));
	if (!*word)
		return 0;
	if (!strcmp(word, ".insn"))
		return parse_raw(&l, out);
	r = parse_head(&l, where, word, &d);
	while (!r) {
		where = next_word(&l, word);
		if (!*word)
			return finish(&l, &d, out);
		r = parse_field(&l, where, word, &d);
	}
	return r;
}
