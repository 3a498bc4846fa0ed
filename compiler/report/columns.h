/* SPDX-License-Identifier: MIT */
/*
 * The columns of the CSV form and of the table in the HTML form, whose cells are therefore the same
 * text. X(name, heading, kind, member): @name is the key in JSON and CSV.
 */
#ifndef RVL_COLUMNS_H
#define RVL_COLUMNS_H

#include "rivulet_compiler.h"

#define RVL_COLUMNS(X)                                                                             \
	X("step", "step", NUMBER, step)                                                            \
	X("node", "layer", TEXT, node)                                                             \
	X("op", "operator", TEXT, op)                                                              \
	X("where", "on", TEXT, where)                                                              \
	X("out", "result", TEXT, out)                                                              \
	X("layout", "layout", TEXT, layout)                                                        \
	X("macs", "MACs", NUMBER, macs)                                                            \
	X("array_macs", "array MACs", NUMBER, array_macs)                                          \
	X("cycles", "cycles", NUMBER, cycles)                                                      \
	X("read_bytes", "bytes read", NUMBER, read_bytes)                                          \
	X("write_bytes", "bytes written", NUMBER, write_bytes)                                     \
	X("utilisation", "utilisation", SHARE, utilisation)                                        \
	X("gops", "physical GOPS", RATE, gops)                                                     \
	X("dense_gops", "dense-equivalent GOPS", RATE, dense_gops)                                 \
	X("bound", "bound", TEXT, bound)                                                           \
	X("fused", "fused", TEXT, fused)                                                           \
	X("reason", "notes", TEXT, reason)

enum rvl_column_kind { RVL_COLUMN_TEXT, RVL_COLUMN_NUMBER, RVL_COLUMN_SHARE, RVL_COLUMN_RATE };

#define RVL_COLUMN_COUNT(name, heading, kind, member) +1
#define RVL_N_COLUMNS				      (0 RVL_COLUMNS(RVL_COLUMN_COUNT))

struct rvl_column {
	const char *name, *heading;
	enum rvl_column_kind kind;
};

extern const struct rvl_column rvl_column[RVL_N_COLUMNS];

/** The text of a cell: that of the row, or a number formatted into @buf of 32 bytes. */
const char *rvl_cell(const struct rivulet_explain_row *r, uint32_t column, char *buf);

#endif
