/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "report/columns.h"

const struct rvl_column rvl_column[RVL_N_COLUMNS] = {
#define COLUMN(name, heading, kind, member) { name, heading, RVL_COLUMN_##kind },
	RVL_COLUMNS(COLUMN)
#undef COLUMN
};

static const char *number(char *buf, uint64_t v)
{
	snprintf(buf, 32, "%" PRIu64, v);
	return buf;
}

static const char *decimal(char *buf, int digits, double v)
{
	snprintf(buf, 32, "%.*f", digits, v);
	return buf;
}

#define CELL_TEXT(v)   (v)
#define CELL_NUMBER(v) number(buf, v)
#define CELL_SHARE(v)  decimal(buf, 6, v)
#define CELL_RATE(v)   decimal(buf, 3, v)

const char *rvl_cell(const struct rivulet_explain_row *r, uint32_t column, char *buf)
{
	uint32_t i = 0;

#define CELL(name, heading, kind, member)                                                          \
	if (i++ == column)                                                                         \
		return CELL_##kind(r->member);
	RVL_COLUMNS(CELL)
#undef CELL
	return "";
}
