// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/* Packing and unpacking of instructions, driven by the tables of rivulet_isa.h. */
#include "rivulet_isa.h"
#include "rivulet_dev.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* A struct of a form has one int64_t per field in table order, so field i is int64_t number i. */
#define FIELD(fname, lsb_, width_, sgn_, doc_)                                                     \
	{ .name = #fname, .lsb = (lsb_), .width = (width_), .sgn = (sgn_), .doc = (doc_) },
#define FIELDS(name, table)                                                                        \
	static const struct rivulet_field fields_##name[] = { RIVULET_ISA_HEADER(FIELD) table(FIELD) };
RIVULET_ISA_FORMS(FIELDS)

#define FORM(name_, table)                                                                         \
	[RIVULET_FORM_##name_] = {                                                                 \
		.name = #name_,                                                                    \
		.field = fields_##name_,                                                           \
		.fields = sizeof(fields_##name_) / sizeof(fields_##name_[0]),                      \
		.op = RIVULET_OP_CFG,                                                              \
		.index = -1,                                                                       \
		.queue = -1,                                                                       \
	},
static struct rivulet_form_info forms[] = { RIVULET_ISA_FORMS(FORM) };

#define CFG_NAME(name_, index_, queue_) { #name_, index_, #queue_ },
static const struct {
	const char *name;
	int index;
	const char *queue;
} cfgs[] = { RIVULET_ISA_CFGS(CFG_NAME) };

static const struct {
	enum rivulet_form form;
	int op;
	int queue;
} engines[] = {
	{ RIVULET_FORM_load, RIVULET_OP_LOAD, RIVULET_Q_LOAD },
	{ RIVULET_FORM_conv, RIVULET_OP_CONV, RIVULET_Q_CONV },
	{ RIVULET_FORM_alu, RIVULET_OP_ALU, RIVULET_Q_ALU },
	{ RIVULET_FORM_store, RIVULET_OP_STORE, RIVULET_Q_STORE },
	{ RIVULET_FORM_sync, RIVULET_OP_SYNC, -1 },
};

static int8_t form_of_cfg[RIVULET_CFG_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int queue_by_name(const char *name)
{
	static const char *const names[] = { "LOAD", "CONV", "ALU", "STORE" };

	for (int q = 0; q < RIVULET_QUEUES; q++)
		if (!strcmp(name, names[q]))
			return q;
	return -1;
}

static void set_mask(uint64_t mask[2], unsigned int lsb, unsigned int width)
{
	for (unsigned int b = lsb; b < lsb + width; b++)
		mask[b / 64] |= UINT64_C(1) << b % 64;
}

/* The CFG forms follow the engines' and SYNC's in the same order as RIVULET_ISA_CFGS. */
static void init_forms(void)
{
	memset(form_of_cfg, -1, sizeof(form_of_cfg));
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		forms[engines[i].form].op = engines[i].op;
		forms[engines[i].form].queue = engines[i].queue;
	}
	for (size_t i = 0; i < sizeof(cfgs) / sizeof(cfgs[0]); i++) {
		int form = RIVULET_FORM_l_src + (int)i;

		forms[form].index = cfgs[i].index;
		forms[form].queue = queue_by_name(cfgs[i].queue);
		form_of_cfg[cfgs[i].index] = form;
	}
	for (int form = 0; form < RIVULET_FORM_COUNT; form++) {
		for (int f = 0; f < forms[form].fields; f++)
			set_mask(forms[form].mask, forms[form].field[f].lsb,
				 forms[form].field[f].width);
		if (forms[form].op == RIVULET_OP_CFG)
			set_mask(forms[form].mask, 16, 6);
	}
}

const struct rivulet_form_info *rivulet_form_table(enum rivulet_form form)
{
	pthread_once(&once, init_forms);
	return (unsigned int)form < RIVULET_FORM_COUNT ? &forms[form] : NULL;
}

int rivulet_cfg_form(unsigned int index)
{
	pthread_once(&once, init_forms);
	return index < RIVULET_CFG_COUNT ? form_of_cfg[index] : -1;
}

static inline uint64_t get_bits(const struct rivulet_insn *in, unsigned int lsb, unsigned int width)
{
	unsigned int word = lsb / 64, shift = lsb % 64;
	uint64_t v = in->w[word] >> shift;

	if (shift + width > 64)
		v |= in->w[word + 1] << (64 - shift);
	return v & ((UINT64_C(1) << width) - 1);
}

static inline void put_bits(struct rivulet_insn *out, unsigned int lsb, unsigned int width, uint64_t v)
{
	unsigned int word = lsb / 64, shift = lsb % 64;

	v &= (UINT64_C(1) << width) - 1;
	out->w[word] |= v << shift;
	if (shift + width > 64)
		out->w[word + 1] |= v >> (64 - shift);
}

static inline bool fits(unsigned int width, bool sgn, int64_t v)
{
	if (sgn)
		return v >= -(INT64_C(1) << (width - 1)) && v < INT64_C(1) << (width - 1);
	return v >= 0 && v < INT64_C(1) << width;
}

/* One function per form, so that position and width of each field are constants in the code. */
#define PUT(fname, lsb_, width_, sgn_, doc_)                                                       \
	if (!fits(width_, sgn_, v->fname))                                                         \
		return #fname;                                                                     \
	put_bits(out, lsb_, width_, v->fname);
#define PACK(name, table)                                                                          \
	static const char *pack_##name(const struct rivulet_insn_##name *v,                        \
				       struct rivulet_insn *out)                                   \
	{                                                                                          \
		RIVULET_ISA_HEADER(PUT)                                                            \
		table(PUT)                                                                         \
		return NULL;                                                                       \
	}
RIVULET_ISA_FORMS(PACK)

/* Returns the first field whose value does not fit, or NULL. */
static const char *pack(const struct rivulet_decoded *d, struct rivulet_insn *out)
{
#define PACK_CASE(name, table)                                                                     \
	case RIVULET_FORM_##name:                                                                  \
		return pack_##name(&d->name, out);
	switch (d->form) {
		RIVULET_ISA_FORMS(PACK_CASE)
	default:
		return "form";
	}
}

int rivulet_encode(const struct rivulet_decoded *d, struct rivulet_insn *out, const char **bad)
{
	const struct rivulet_form_info *info = rivulet_form_table(d->form);
	struct rivulet_decoded copy = *d;
	const char *field;

	memset(out, 0, sizeof(*out));
	copy.h.op = info->op;
	if (info->queue >= 0)
		copy.h.queue = info->queue;
	if (info->index >= 0)
		put_bits(out, 16, 6, info->index);
	field = pack(&copy, out);
	if (field && bad)
		*bad = field;
	return field ? -ERANGE : 0;
}

static int form_of(const struct rivulet_insn *in)
{
	unsigned int op = get_bits(in, 0, 4);

	if (op == RIVULET_OP_CFG)
		return rivulet_cfg_form(get_bits(in, 16, 6));
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		if ((unsigned int)engines[i].op == op)
			return engines[i].form;
	return -1;
}

static inline int64_t get_field(const struct rivulet_insn *in, unsigned int lsb, unsigned int width,
				bool sgn)
{
	uint64_t v = get_bits(in, lsb, width);

	if (sgn && v >> (width - 1))
		v |= ~UINT64_C(0) << width;
	return (int64_t)v;
}

#define GET(fname, lsb_, width_, sgn_, doc_) v->fname = get_field(in, lsb_, width_, sgn_);
#define UNPACK(name, table)                                                                        \
	static void unpack_##name(const struct rivulet_insn *in, struct rivulet_insn_##name *v)    \
	{                                                                                          \
		RIVULET_ISA_HEADER(GET)                                                            \
		table(GET)                                                                         \
	}
RIVULET_ISA_FORMS(UNPACK)

static void unpack(const struct rivulet_insn *in, struct rivulet_decoded *d)
{
#define UNPACK_CASE(name, table)                                                                   \
	case RIVULET_FORM_##name:                                                                  \
		unpack_##name(in, &d->name);                                                       \
		break;
	switch (d->form) {
		RIVULET_ISA_FORMS(UNPACK_CASE)
	default:
		break;
	}
}

int rivulet_decode(const struct rivulet_insn *in, struct rivulet_decoded *d)
{
	int form = form_of(in);
	const struct rivulet_form_info *info;

	if (form < 0)
		return RIVULET_FAULT_OPCODE;
	info = rivulet_form_table(form);
	if (in->w[0] & ~info->mask[0] || in->w[1] & ~info->mask[1])
		return RIVULET_FAULT_RESERVED;
	d->form = form;
	unpack(in, d);
	if (info->queue >= 0 && d->h.queue != info->queue)
		return RIVULET_FAULT_OPCODE;
	if ((d->h.pop | d->h.push) >> d->h.queue & 1)
		return RIVULET_FAULT_RESERVED;
	return 0;
}
