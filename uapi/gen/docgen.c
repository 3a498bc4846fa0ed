// SPDX-License-Identifier: MIT
/*
 * Writes the tables of the documentation: replaces the text between "<!-- table NAME -->" and "<!--
 * end -->" by a table that is generated from the headers. "docgen FILE..." rewrites files. "docgen
 * --check FILE..." fails if a file would change.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boundary.h"
#include "rivulet_board.h"
#include "rivulet_cost.h"
#include "rivulet_dev.h"
#include "rivulet_isa.h"

#define HEADER_FIELDS ((int)(sizeof(struct rivulet_header) / sizeof(int64_t)))

/* Writes the text of a cell with '|' escaped, because '|' would end the cell. */
static void cell(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			fputc('\\', f);
		fputc(*text, f);
	}
}

/* One row; cells are strings, closed by NULL. */
static void row(FILE *f, ...)
{
	va_list ap;
	const char *text;

	va_start(ap, f);
	fputc('|', f);
	while ((text = va_arg(ap, const char *))) {
		fputc(' ', f);
		cell(f, text);
		fputs(" |", f);
	}
	fputc('\n', f);
	va_end(ap);
}

static char *text_of(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static char *text_of(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, size, fmt, ap);
	va_end(ap);
	return buf;
}

#define TEXT(...) text_of((char[96]){ 0 }, 96, __VA_ARGS__)

/* ---- rivulet_dev.h ---- */

static void table_regs(FILE *f)
{
	row(f, "offset", "name", "writer", "meaning", NULL);
	row(f, "---", "---", "---", "---", NULL);
#define REG(name, off, writer, doc) row(f, TEXT("0x%03x", off), #name, #writer, doc, NULL);
	RIVULET_REGS(REG)
#undef REG
}

static void table_counters(FILE *f)
{
	row(f, "offset", "name", "unit", "meaning", NULL);
	row(f, "---", "---", "---", "---", NULL);
#define COUNTER(name, unit, doc)                                                                   \
	row(f, TEXT("0x%03zx", RIVULET_REG_COUNTERS + offsetof(struct rivulet_counters, name)),    \
	    #name, unit, doc, NULL);
	RIVULET_COUNTERS(COUNTER)
#undef COUNTER
}

static void table_faults(FILE *f)
{
	row(f, "code", "name", "slot and offset", "meaning", NULL);
	row(f, "---", "---", "---", "---", NULL);
#define FAULT(name, value, slot, doc)                                                              \
	row(f, TEXT("%d", value), #name, slot ? "yes" : "", doc, NULL);
	RIVULET_FAULTS(FAULT)
#undef FAULT
}

/* M(struct, field): fields of the structures in memory. */
/* clang-format off */
#define DESC_FIELDS(M)                                                                             \
	M(desc, magic) M(desc, size) M(desc, seq) M(desc, client) M(desc, flags) M(desc, min_level) \
	M(desc, report_slot) M(desc, rsvd) M(desc, report_offset) M(desc, status) M(desc, variant)  \
	M(desc, region) M(desc, rsvd2) M(desc, crc)
#define REGION_FIELDS(M) M(region, addr) M(region, limit) M(region, first) M(region, flags)
#define VARIANT_FIELDS(M) M(variant, offset) M(variant, length) M(variant, slot)
#define STATUS_FIELDS(M)                                                                           \
	M(status, seq) M(status, state) M(status, fault) M(status, fault_slot)                     \
	M(status, fault_offset) M(status, insn) M(status, level) M(status, variant)                \
	M(status, rsvd) M(status, cycles) M(status, start) M(status, end) M(status, energy)        \
	M(status, load_busy) M(status, conv_busy) M(status, alu_busy) M(status, store_busy)        \
	M(status, stalls) M(status, read_bytes) M(status, write_bytes) M(status, macs)             \
	M(status, rsvd2) M(status, crc)
/* clang-format on */

/* The kernel-doc text "@member: ..." of a structure in rivulet_dev.h. */
static const char *member_doc(const char *header, const char *type, const char *member, char *out,
			      size_t size)
{
	char start[64], name[64];
	const char *at, *end;
	size_t n = 0;

	at = strstr(header, text_of(start, sizeof(start), "* struct rivulet_%s -", type));
	end = at ? strstr(at, "*/") : NULL;
	at = at ? strstr(at, text_of(name, sizeof(name), "@%s: ", member)) : NULL;
	if (!at || at > end)
		return "";
	for (at += strlen(name); at < end && n + 1 < size; at++) {
		if (*at == '\n') {
			at += strspn(at, "\n *");
			if (*at == '@' || *at == '/')
				break;
			out[n++] = ' ';
		}
		out[n++] = *at;
	}
	out[n] = 0;
	return out;
}

static void members_head(FILE *f)
{
	row(f, "offset", "bytes", "field", "meaning", NULL);
	row(f, "---", "---", "---", "---", NULL);
}

static char *dev_header;

#define MEMBER(type, member)                                                                       \
	row(f, TEXT("%zu", offsetof(struct rivulet_##type, member)),                               \
	    TEXT("%zu", sizeof(((struct rivulet_##type *)0)->member)), #member,                    \
	    member_doc(dev_header, #type, #member, (char[1024]){ 0 }, 1024), NULL);

static void table_descriptor(FILE *f)
{
	members_head(f);
	DESC_FIELDS(MEMBER)
}

static void table_region(FILE *f)
{
	members_head(f);
	REGION_FIELDS(MEMBER)
}

static void table_variant(FILE *f)
{
	members_head(f);
	VARIANT_FIELDS(MEMBER)
}

static void table_status(FILE *f)
{
	members_head(f);
	STATUS_FIELDS(MEMBER)
}

static void table_boundary(FILE *f)
{
	row(f, "row", "other slot", "before", "events", "then", "why", NULL);
	row(f, "---", "---", "---", "---", "---", "---", NULL);
#define BOUNDARY(id, other, before, events, then, why)                                             \
	row(f, #id, #other, before, events, then, why, NULL);
	RVL_BOUNDARY(BOUNDARY)
#undef BOUNDARY
}

/* ---- rivulet_board.h ---- */

static void table_board(FILE *f)
{
	row(f, "key", "lowest", "highest", "unit", "meaning", NULL);
	row(f, "---", "---", "---", "---", "---", NULL);
#define KEY(key, lo, hi, unit, doc) row(f, #key, #lo, #hi, unit, doc, NULL);
	RIVULET_BOARD_KEYS(KEY)
}

static void table_board_stream(FILE *f)
{
	row(f, "key", "lowest", "highest", "unit", "meaning", NULL);
	row(f, "---", "---", "---", "---", "---", NULL);
	RIVULET_BOARD_STREAM_KEYS(KEY)
#undef KEY
}

static void table_board_cost(FILE *f)
{
	row(f, "key", "default", "lowest", "highest", "unit", "meaning", NULL);
	row(f, "---", "---", "---", "---", "---", "---", NULL);
#define KEY(key, value, lo, hi, unit, doc) row(f, #key, #value, #lo, #hi, unit, doc, NULL);
	RIVULET_BOARD_COST_KEYS(KEY)
#undef KEY
}

/* All profiles of the source tree, in a fixed order; docgen runs at its root. */
static void each_profile(FILE *f, void (*write)(FILE *f, const struct rivulet_board *b))
{
	static const char *const names[] = { "zu3eg-64",    "zu3eg-128",   "zu3eg-256",
					     "zu3eg-64-planes", "dense-16x16", "zcu102-binary", "cyclonev-64",
					     "cyclonev-64-nodsp", "sc-edge" };
	struct rivulet_board b;
	char path[64], err[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "sim/boards/%s.board", names[i]);
		if (rivulet_board_load(&b, path, err, sizeof(err))) {
			fprintf(stderr, "docgen: %s\n", err);
			exit(1);
		}
		write(f, &b);
	}
}

static void profile(FILE *f, const struct rivulet_board *b)
{
	row(f, b->name, TEXT("%u, %u, %u", b->tm, b->tn, b->dn), TEXT("%u", rivulet_board_peak(b)),
	    TEXT("%u / %u / %u", b->inp_bytes >> 10, b->wgt_bytes >> 10, b->acc_bytes >> 10),
	    TEXT("%u, %u", b->port_bytes, b->mem_latency), NULL);
}

static void table_profiles(FILE *f)
{
	row(f, "board", "tm, tn, dn", "MACs a cycle", "INP / WGT / ACC, KiB",
	    "port bytes a cycle, latency", NULL);
	row(f, "---", "---", "---", "---", "---", NULL);
	each_profile(f, profile);
}

static void profile_resources(FILE *f, const struct rivulet_board *b)
{
	struct rivulet_resources r = rivulet_board_resources(b);

	row(f, b->name, TEXT("%u", r.dsp), TEXT("%u", r.bram36), TEXT("%u", r.m10k),
	    TEXT("%.1f", r.lut / 1e3), TEXT("%.1f", r.ff / 1e3), NULL);
}

static void table_resources(FILE *f)
{
	row(f, "board", "DSP", "BRAM36", "M10K", "kLUT", "kFF", NULL);
	row(f, "---", "---", "---", "---", "---", "---", NULL);
	each_profile(f, profile_resources);
}

/* Power of the array at its peak, or of bucket engines that all add where there is no array. */
static double array_milliwatt(const struct rivulet_board *b, uint32_t level)
{
	const struct rivulet_board_level *l = &b->level[level];
	uint64_t peak = rivulet_board_peak(b);
	struct rivulet_work w = { .macs = peak };

	if (b->modes == 1 << RIVULET_MODE_BITPLANE) {
		w.plane_macs = peak;
		w.plane_adds = peak;
	}
	return (rivulet_dense_fj(b, level, &w) + rivulet_planes_fj(b, level, &w)) * l->hz * 1e-12;
}

static void profile_levels(FILE *f, const struct rivulet_board *b)
{
	for (uint32_t i = 0; i < b->levels; i++) {
		const struct rivulet_board_level *l = &b->level[i];
		double mac = array_milliwatt(b, i);
		double port = (double)b->port_bytes * l->hz * l->fj_per_byte * 1e-12;

		row(f, i ? "" : b->name, TEXT("%u", i), TEXT("%.1f", l->hz / 1e6),
		    TEXT("%u", l->microvolt / 1000), TEXT("%.2f", l->fj_per_mac / 1e3),
		    TEXT("%.2f", l->fj_per_byte / 1e3), TEXT("%.0f", mac), TEXT("%.0f", port),
		    TEXT("%.0f", l->static_uw / 1e3), TEXT("%.0f", mac + port + l->static_uw / 1e3),
		    NULL);
	}
}

static void table_levels(FILE *f)
{
	row(f, "board", "level", "MHz", "mV", "pJ per MAC", "pJ per byte", "array, mW", "port, mW",
	    "static, mW", "at most, mW", NULL);
	row(f, "---", "---", "---", "---", "---", "---", "---", "---", "---", "---", NULL);
	each_profile(f, profile_levels);
}

/* ---- rivulet_isa.h ---- */

static void table_ops(FILE *f)
{
	row(f, "op", "name", "meaning", NULL);
	row(f, "---", "---", "---", NULL);
#define OP(name, value, doc) row(f, #value, #name, doc, NULL);
	RIVULET_ISA_OPS(OP)
#undef OP
}

static void table_cfgs(FILE *f)
{
	row(f, "index", "name", "queue", NULL);
	row(f, "---", "---", "---", NULL);
#define CFG(name, index, queue) row(f, #index, #name, #queue, NULL);
	RIVULET_ISA_CFGS(CFG)
#undef CFG
}

static void fields(FILE *f, const struct rivulet_form_info *info, int first, int last)
{
	row(f, "bits", "field", "signed", "meaning", NULL);
	row(f, "---", "---", "---", "---", NULL);
	for (int i = first; i < last; i++) {
		const struct rivulet_field *d = &info->field[i];

		row(f,
		    d->width == 1 ? TEXT("%d", d->lsb) :
				    TEXT("%d..%d", d->lsb, d->lsb + d->width - 1),
		    d->name, d->sgn ? "yes" : "", d->doc, NULL);
	}
}

static void table_header(FILE *f)
{
	fields(f, rivulet_form_table(RIVULET_FORM_sync), 0, HEADER_FIELDS);
}

static const struct {
	const char *name;
	void (*write)(FILE *f);
} tables[] = {
	{ "regs", table_regs },	    { "counters", table_counters },
	{ "faults", table_faults }, { "descriptor", table_descriptor },
	{ "region", table_region }, { "variant", table_variant },
	{ "status", table_status }, { "boundary", table_boundary },
	{ "board", table_board },
	{ "board_stream", table_board_stream },   { "profiles", table_profiles },
	{ "board_cost", table_board_cost },	  { "resources", table_resources },
	{ "levels", table_levels }, { "ops", table_ops },
	{ "cfgs", table_cfgs },	    { "header", table_header },
};

/* A table by name; "insn FORM" is the fields of a form. */
static int write_table(FILE *f, const char *name)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (!strcmp(name, tables[i].name)) {
			tables[i].write(f);
			return 0;
		}
	}
	for (int form = 0; form < RIVULET_FORM_COUNT; form++) {
		const struct rivulet_form_info *info = rivulet_form_table(form);

		if (!strncmp(name, "insn ", 5) && !strcmp(name + 5, info->name)) {
			fields(f, info, HEADER_FIELDS, info->fields);
			return 0;
		}
	}
	return -ENOENT;
}

/* ---- files ---- */

static char *read_file(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;

	if (!f || getdelim(&text, &size, 0, f) < 0) {
		fprintf(stderr, "docgen: %s: %s\n", path, f ? "empty" : strerror(errno));
		exit(1);
	}
	fclose(f);
	return text;
}

/* Whether the line is "<!-- table NAME -->"; @name gets the name. */
static bool table_mark(const char *line, char name[64])
{
	char close[8] = "";

	return sscanf(line, "<!-- table %63[a-z0-9_ ]%7s", name, close) == 2 &&
	       !strcmp(close, "-->");
}

static void trim(char *name)
{
	size_t n = strlen(name);

	while (n && name[n - 1] == ' ')
		name[--n] = 0;
}

/* Returns a copy of @text with new tables, which the caller frees. */
static char *refresh(const char *path, char *text)
{
	char *out = NULL, *next = text, *line, name[64];
	size_t size = 0;
	FILE *f = open_memstream(&out, &size);
	bool inside = false;
	int number = 0;

	while ((line = strsep(&next, "\n"))) {
		number++;
		if (!strcmp(line, "<!-- end -->"))
			inside = false;
		if (!inside)
			fprintf(f, next ? "%s\n" : "%s", line);
		if (inside || !table_mark(line, name))
			continue;
		trim(name);
		if (write_table(f, name)) {
			fprintf(stderr, "docgen: %s:%d: no table \"%s\"\n", path, number, name);
			exit(1);
		}
		inside = true;
	}
	fclose(f);
	if (inside) {
		fprintf(stderr, "docgen: %s: table \"%s\" has no <!-- end -->\n", path, name);
		exit(1);
	}
	return out;
}

static int update(const char *path, bool check)
{
	char *old = read_file(path), *copy = strdup(old), *fresh = refresh(path, copy);
	int changed = strcmp(old, fresh) != 0;
	FILE *f;

	if (changed && check) {
		fprintf(stderr, "%s: tables are stale: make docs\n", path);
	} else if (changed) {
		f = fopen(path, "we");
		if (!f || fputs(fresh, f) < 0 || fclose(f)) {
			fprintf(stderr, "docgen: %s: %s\n", path, strerror(errno));
			exit(1);
		}
		changed = 0;
	}
	free(old);
	free(copy);
	free(fresh);
	return changed;
}

int main(int argc, char **argv)
{
	bool check = argc > 1 && !strcmp(argv[1], "--check");
	int stale = 0;

	if (argc < 3 + check) {
		fprintf(stderr, "usage: docgen [--check] rivulet_dev.h FILE.md...\n");
		return 2;
	}
	dev_header = read_file(argv[1 + check]);
	for (int i = 2 + check; i < argc; i++)
		stale |= update(argv[i], check);
	free(dev_header);
	return stale;
}
