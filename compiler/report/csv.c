/* SPDX-License-Identifier: MIT */
/* The rows of the account as comma-separated values, RFC 4180. */
#include <string.h>

#include "report/columns.h"
#include "report/print.h"

void rvl_csv_text(struct rvl_out *o, const char *s)
{
	rvl_put(o, "\"%s", *s && strchr("=+-@", *s) ? "'" : "");
	for (; *s; s++)
		if (*s == '"')
			rvl_put(o, "\"\"");
		else
			rvl_put(o, "%c", (unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s);
	rvl_put(o, "\"");
}

static void csv_row(struct rvl_out *o, const struct rivulet_explain_row *r)
{
	char buf[32];

	for (uint32_t c = 0; c < RVL_N_COLUMNS; c++) {
		const char *text = rvl_cell(r, c, buf);

		rvl_put(o, "%s", c ? "," : "");
		if (rvl_column[c].kind == RVL_COLUMN_TEXT)
			rvl_csv_text(o, text);
		else
			rvl_put(o, "%s", text);
	}
	rvl_put(o, "\r\n");
}

int rivulet_explain_csv(const struct rivulet_explain *e, struct rivulet_blob *out)
{
	struct rvl_out o = { 0 };

	for (uint32_t c = 0; c < RVL_N_COLUMNS; c++)
		rvl_put(&o, "%s%s", c ? "," : "", rvl_column[c].name);
	rvl_put(&o, "\r\n");
	for (uint32_t i = 0; i < e->n_rows; i++)
		csv_row(&o, &e->rows[i]);
	return rvl_out_finish(&o, out);
}
