/* SPDX-License-Identifier: MIT */
/* docs/operators.md from the tables of operators and of the NPU. */
#include "npu/constraint.h"
#include "onnx/model.h"
#include "onnx/onnx.h"
#include "program/operators_doc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *summary_of(enum rvl_op op)
{
	switch (op) {
#define OP_DOC(id, num, name, inputs, kernel, rule, form, traits, doc) \
	case RVL_OP_##id: return doc;
	RVL_OPS(OP_DOC)
#undef OP_DOC
	default:
		return "";
	}
}

static void write_attrs(FILE *f, const struct rvl_op_def *d)
{
	const char *comma = "";

	for (uint32_t k = 0; k < rvl_op_attrs(d); k++) {
		const struct rvl_attr_def *a = &d->attrs[k];

		if (a->fixed)
			continue;
		fprintf(f, "%s`%s`", comma, a->name);
		if (a->from > d->since)
			fprintf(f, " (from %d)", a->from);
		if (a->until)
			fprintf(f, " (to %d)", a->until - 1);
		comma = ", ";
	}
	fprintf(f, "%s | ", *comma ? "" : "none");
}

/* Whether the row of an operator for an opset has an attribute that models can give. */
static bool has_attr(const struct rvl_op_def *d, int32_t opset, const char *name)
{
	const struct rvl_op_def *row = rvl_op_find(d->domain, d->name, opset);

	for (uint32_t k = 0; row && k < rvl_op_attrs(row); k++)
		if (!strcmp(row->attrs[k].name, name))
			return rvl_attr_defined(&row->attrs[k], opset);
	return false;
}

/* Attribute @name, and its opsets, from @from on, where they are not all of the operator's. */
static void write_range(FILE *f, const struct rvl_op_def *d, int32_t from, const char *name)
{
	int32_t to = from;

	while (to < RVL_ONNX_MAX_OPSET && has_attr(d, to + 1, name))
		to++;
	fprintf(f, "`%s`", name);
	if (from > d->since && to < RVL_ONNX_MAX_OPSET)
		fprintf(f, " (%d to %d)", from, to);
	else if (from > d->since)
		fprintf(f, " (from %d)", from);
	else if (to < RVL_ONNX_MAX_OPSET)
		fprintf(f, " (to %d)", to);
}

/* The attributes of the rows from @d on, each once unless a row between lacks it. */
static void write_all_attrs(FILE *f, const struct rvl_op_def *d)
{
	const char *comma = "";

	for (int32_t opset = d->since; opset <= RVL_ONNX_MAX_OPSET; opset++) {
		const struct rvl_op_def *row = rvl_op_find(d->domain, d->name, opset);

		for (uint32_t k = 0; row && row->since == opset && k < rvl_op_attrs(row); k++) {
			const char *name = row->attrs[k].name;

			if (!has_attr(d, opset, name) ||
			    (opset > d->since && has_attr(d, opset - 1, name)))
				continue;
			fprintf(f, "%s", comma);
			write_range(f, d, opset, name);
			comma = ", ";
		}
	}
	fprintf(f, "%s | ", *comma ? "" : "none");
}

/* Conditions of the quantised form, or that it never runs on the NPU. */
static void write_conditions(FILE *f, enum rvl_op op)
{
	const struct rvl_condition *c = rvl_npu_op(op)->condition;
	size_t shown = 0;

	for (int i = 0; i < RVL_NPU_CONDITIONS && c[i].check; i++)
		if (c[i].doc)
			fprintf(f, "%s%s", shown++ ? "; " : "", c[i].doc);
	fprintf(f, "%s |\n", shown ? "" : "CPU only");
}

/* Whether an older row of the same operator has a kernel, too. */
static bool is_repeated(uint32_t i)
{
	const struct rvl_op_def *d = rvl_op_at(i);
	const struct rvl_op_def *older = rvl_op_find(d->domain, d->name, d->since - 1);

	return older && older->kernel;
}

static void write_kernel_row(FILE *f, const struct rvl_op_def *d)
{
	enum rvl_op fused = rvl_op_quantised(d->kernel);

	fprintf(f, "| %s | %s | %d | ", d->name, d->domain ? d->domain : "ai.onnx", d->since);
	write_all_attrs(f, d);
	fprintf(f, "%s | ", fused != d->kernel ? rvl_op_name(fused) : "itself");
	if (d->kernel == RVL_OP_BATCH_NORM)
		fprintf(f, "fused into the Conv or Gemm before it; alone CPU only |\n");
	else
		write_conditions(f, fused);
}

static void write_kernel_table(FILE *f)
{
	const struct rvl_op_def *d;

	fprintf(f, "| operator | domain | from opset | attributes | becomes | on the NPU if |\n");
	fprintf(f, "|---|---|---|---|---|---|\n");
	for (uint32_t i = 0; (d = rvl_op_at(i)); i++)
		if (d->kernel && !is_repeated(i))
			write_kernel_row(f, d);
	fprintf(f, "\nA Constant becomes an initializer, which takes no time. Its value is one of the attributes\n");
	for (size_t i = 0; rvl_onnx_constant_attr(i); i++)
		fprintf(f, "%s`%s`", i ? ", " : "", rvl_onnx_constant_attr(i));
	fprintf(f, ".\n");
}

static void write_internal_table(FILE *f)
{
	static const enum rvl_op ops[] = {
#define OP_ID(id, ...) RVL_OP_##id,
		RVL_OPS(OP_ID)
#undef OP_ID
	};

	fprintf(f, "| operator | what it computes |\n|---|---|\n");
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (ops[i] >= RVL_OP_Q_CONV)
			fprintf(f, "| %s | %s |\n", rvl_op_name(ops[i]), summary_of(ops[i]));
}

static void write_compositions(FILE *f)
{
	const char *op, *domain;

	for (size_t i = 0; (op = rvl_onnx_body_op(i, &domain)); i++)
		fprintf(f, "- %s (%s)\n", op, domain);
}

static void write_types(FILE *f, uint32_t set)
{
	static const struct { uint32_t set; const char *name; } names[] = {
		{ RVL_T_STORED, "any stored type" }, { RVL_T_ANY, "any" }, { RVL_T_NUMBER, "numbers" },
		{ RVL_T_INT, "integers" }, { RVL_T_UNSIGNED, "unsigned integers" },
		{ RVL_T_SIGNED, "signed integers" }, { RVL_T_INDEX, "int32, int64" },
	};
	const char *comma = "";

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].set == set) {
			fprintf(f, "%s | ", names[i].name);
			return;
		}
	}
	for (int t = 1; t < RVL_TYPE_COUNT; t++) {
		if (!(set >> t & 1))
			continue;
		fprintf(f, "%s%s", comma, rvl_type_name((enum rvl_type)t));
		comma = ", ";
	}
	fprintf(f, " | ");
}

static void write_general_table(FILE *f)
{
	const struct rvl_op_def *d;

	fprintf(f, "| operator | domain | from opset | types of the first input | attributes | what it computes |\n");
	fprintf(f, "|---|---|---|---|---|---|\n");
	for (uint32_t i = 0; (d = rvl_op_at(i)); i++) {
		fprintf(f, "| %s | %s | %d | ", d->name, d->domain ? d->domain : "ai.onnx", d->since);
		write_types(f, d->types[0]);
		write_attrs(f, d);
		fprintf(f, "%s |\n", d->doc);
	}
}

char *rvl_operators_doc(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fprintf(f, "# Operators\n\n"
		"Made from the compiler's tables by `make docs/operators.md`; do not edit.\n\n"
		"Models of ONNX IR %d to %d and opset up to %d. A node outside these tables, or with an\n"
		"attribute outside its row, is refused by name with a reason; `rivulet explain` lists\n"
		"all of them. Values are float32, bool and integers of 8 to 64 bits. float16, bfloat16\n"
		"and float64 are converted to float32 where they enter a model, and back where they\n"
		"leave it. A model all of whose operators take float64 computes it as such. The data of\n"
		"a tensor may be in a file beside the model.\n\n"
		"## Operators with kernels of their own\n\n"
		"These operators have fast kernels for the types and shapes that they take, 2-D images\n"
		"among them, and quantised forms. A node that they refuse is left to the second table. The\n"
		"opsets of an attribute are given where they are not all of the operator's.\n\n"
		"An operator runs on the NPU in its quantised form: with DequantizeLinear before and\n"
		"QuantizeLinear behind it, or as the QLinear operator itself, with constant scales and\n"
		"zero points. BatchNormalization, Relu and Clip between them are fused, with any zero\n"
		"point. All other operators run on the CPU, and `rivulet explain` gives the reason.\n\n",
		RVL_ONNX_MIN_IR, RVL_ONNX_MAX_IR, RVL_ONNX_MAX_OPSET);
	write_kernel_table(f);
	fprintf(f, "\n## Operators on the CPU\n\n");
	write_general_table(f);
	fprintf(f, "\n## Control flow and functions\n\n"
		"A node that calls a function of the model is replaced by the nodes of the function's\n"
		"body. A function of the model precedes an operator of the same name.\n\n"
		"If, Loop and Scan are replaced by the nodes of their subgraphs when the model is\n"
		"compiled:\n\n"
		"- If takes one branch where its condition is a constant or follows from shapes. Where\n"
		"  the condition is known at run time only, both branches are computed and the run\n"
		"  selects their results, which must have equal types and shapes.\n"
		"- Loop is unrolled. Its trip count, and its condition in each iteration, must be known\n"
		"  when the model is compiled.\n"
		"- Scan is unrolled. The length of a sequence (input sequence_lens of opset 8) is not\n"
		"  supported.\n\n"
		"All subgraphs and functions together may have %d nodes after that, %d inside one\n"
		"another. A node beyond these limits is refused by name.\n",
		RVL_MAX_NODES, RVL_ONNX_MAX_DEPTH);
	fprintf(f, "\n## Compositions\n\n"
		"These operators, which the tools of onnxruntime make, become nodes of the operators above\n"
		"when the model is read.\n\n");
	write_compositions(f);
	fprintf(f, "\n## Operators of the compiler\n\n"
		"Arithmetic: [numerics.md](numerics.md).\n\n");
	write_internal_table(f);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}
