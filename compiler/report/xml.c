/* SPDX-License-Identifier: MIT */
/* Texts and rows as XML, for all parts of the page. */
#include <string.h>

#include "report/columns.h"
#include "report/draw.h"
#include "rivulet_proto.h"

static void put_escaped(struct rvl_out *o, char c)
{
	switch (c) {
	case '&':
		rvl_put(o, "&amp;");
		break;
	case '<':
		rvl_put(o, "&lt;");
		break;
	case '>':
		rvl_put(o, "&gt;");
		break;
	case '"':
		rvl_put(o, "&quot;");
		break;
	case '\'':
		rvl_put(o, "&#39;");
		break;
	default:
		rvl_put(o, "%c", c);
	}
}

/* U+FFFE and U+FFFF are UTF-8, but no characters of XML. */
static bool is_noncharacter(const char *s, size_t n)
{
	return n >= 3 && !memcmp(s, "\xef\xbf", 2) && ((unsigned char)s[2] | 1) == 0xbf;
}

void rvl_xml_text(struct rvl_out *o, const char *s, uint32_t most)
{
	uint32_t characters = 0;

	while (*s) {
		size_t good = rivulet_proto_text(s, strlen(s));

		for (; good && *s; s++, good--) {
			bool begins = ((unsigned char)*s & 0xc0) != 0x80;

			if (begins && most && characters == most) {
				rvl_put(o, "\xe2\x80\xa6");
				return;
			}
			characters += begins;
			if (is_noncharacter(s, good)) {
				rvl_put(o, "?");
				s += 2;
				good -= 2;
			} else {
				put_escaped(o, *s);
			}
		}
		if (*s) {
			rvl_put(o, "?");
			characters++;
			s++;
		}
	}
}

const char *rvl_row_class(const struct rivulet_explain_row *r)
{
	return !strcmp(r->where, "npu") ? "npu" : !strcmp(r->where, "cpu") ? "cpu" : "none";
}

void rvl_xml_row_title(struct rvl_out *o, const struct rivulet_explain_row *r)
{
	char buf[32];

	rvl_put(o, "<title>");
	for (uint32_t c = 0; c < RVL_N_COLUMNS; c++) {
		const char *cell = rvl_cell(r, c, buf);

		if (!*cell)
			continue;
		rvl_put(o, "%s: ", rvl_column[c].heading);
		rvl_xml_text(o, cell, 0);
		rvl_put(o, "\n");
	}
	rvl_put(o, "</title>");
}
