/* SPDX-License-Identifier: MIT */
/*
 * The account as one page, which is both HTML and well-formed XML. It has no script and loads
 * nothing, which its content security policy also forbids.
 */
#include "report/columns.h"
#include "report/draw.h"
#include "rivulet_proto.h"

static const char style[] =
	"body{font:14px/1.45 system-ui,sans-serif;margin:24px;color:#1f2937;background:#fff}"
	"h1{font-size:20px}h2{font-size:16px;margin-top:28px}"
	"div.wide{overflow:auto;max-height:70vh;border:1px solid #e5e7eb}"
	"svg text{font:12px system-ui,sans-serif;fill:#1f2937}svg "
	"text.small{font-size:10px;fill:#4b5563}"
	".edges path{fill:none;stroke:#9ca3af;stroke-width:1.2}"
	".npu rect{fill:#dbeafe;stroke:#1d4ed8}.cpu rect{fill:#ffedd5;stroke:#c2410c}"
	".none rect{fill:#fee2e2;stroke:#b91c1c}"
	".grid line{stroke:#e5e7eb}.roof{fill:none;stroke:#374151;stroke-width:1.6}"
	"svg text.roof{fill:#374151;stroke:none}.roof.dense{stroke-dasharray:6 4}"
	"svg text.roof.dense{fill:#374151}"
	".dot circle{fill:#1d4ed8;fill-opacity:.75;stroke:#1d4ed8}.dot circle.physical{fill:none}"
	".dot.ALU circle{fill:#7c3aed;stroke:#7c3aed}.dot.port circle{fill:#c2410c;stroke:#c2410c}"
	".dot circle.physical,.dot.ALU circle.physical,.dot.port circle.physical{fill:none}"
	".key{padding:0 6px;color:#fff}.key.array{background:#1d4ed8}.key.ALU{background:#7c3aed}"
	".key.port{background:#c2410c}.key.npu{background:#1d4ed8}.key.cpu{background:#c2410c}"
	".key.none{background:#b91c1c}"
	"path.port{fill:#c2410c}line.step{stroke:#9ca3af;stroke-dasharray:2 3}"
	"table{border-collapse:collapse;font-size:12px}td,th{border:1px solid #e5e7eb;padding:2px "
	"6px}"
	"th{background:#f3f4f6;position:sticky;top:0}td.n{text-align:right;font-variant-numeric:"
	"tabular-nums}"
	"td:last-child{min-width:280px}tr.cpu td{background:#fff7ed}tr.none td{background:#fef2f2}";

static void table_row(struct rvl_out *o, const struct rivulet_explain_row *r)
{
	char buf[32];

	rvl_put(o, "<tr class=\"%s\">", rvl_row_class(r));
	for (uint32_t c = 0; c < RVL_N_COLUMNS; c++) {
		rvl_put(o, rvl_column[c].kind == RVL_COLUMN_TEXT ? "<td>" : "<td class=\"n\">");
		rvl_xml_text(o, rvl_cell(r, c, buf), 0);
		rvl_put(o, "</td>");
	}
	rvl_put(o, "</tr>\n");
}

static void table(struct rvl_out *o, const struct rivulet_explain *e)
{
	rvl_put(o, "<div class=\"wide\"><table id=\"layers\">\n<thead><tr>");
	for (uint32_t c = 0; c < RVL_N_COLUMNS; c++)
		rvl_put(o, "<th>%s</th>", rvl_column[c].heading);
	rvl_put(o, "</tr></thead>\n<tbody>\n");
	for (uint32_t i = 0; i < e->n_rows; i++)
		table_row(o, &e->rows[i]);
	rvl_put(o, "</tbody>\n</table></div>\n");
}

static void head(struct rvl_out *o, const char *title)
{
	rvl_put(o, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" "
		   "lang=\"en\">\n<head>\n"
		   "<meta charset=\"utf-8\"/>\n<meta http-equiv=\"Content-Security-Policy\" "
		   "content=\"default-src "
		   "'none'; style-src 'unsafe-inline'\"/>\n<title>");
	rvl_xml_text(o, title, 0);
	rvl_put(o, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>", style);
	rvl_xml_text(o, title, 0);
	rvl_put(o, "</h1>\n");
}

static void summary(struct rvl_out *o, const struct rivulet_explain *e)
{
	char p[16], w[16], a[16];

	rvl_put(o, "<p>Board ");
	rvl_xml_text(o, e->board, 0);
	rvl_put(o, ", peak %u MACs per cycle", e->peak);
	if (e->n_levels)
		rvl_put(o, ", %.0f MHz", 1e-6 * (double)e->level[e->n_levels - 1].hz);
	if (e->program_bytes)
		rvl_put(o, "; program %sB, weights %sB, arena %sB",
			rvl_si(e->program_bytes, p, sizeof(p)),
			rvl_si(e->weight_bytes, w, sizeof(w)),
			rvl_si(e->arena_bytes, a, sizeof(a)));
	rvl_put(o, ".</p>\n");
}

int rivulet_explain_html(const struct rivulet_explain *e, const char *title,
			 struct rivulet_blob *out)
{
	struct rvl_out o = { 0 };
	int rc;

	head(&o, title);
	summary(&o, e);
	rvl_put(&o, "<h2>Graph</h2>\n<p><span class=\"key npu\">NPU</span> <span class=\"key "
		    "cpu\">CPU</span> "
		    "<span class=\"key none\">cannot run</span></p>\n<div class=\"wide\">\n");
	rc = rvl_draw_graph(&o, e);
	rvl_put(&o, "</div>\n<h2>Roofline</h2>\n");
	rvl_draw_roofline(&o, e);
	rvl_put(&o, "<h2>Timeline of the engines</h2>\n<div class=\"wide\">\n");
	rc = rc ? rc : rvl_draw_timeline(&o, e);
	rvl_put(&o, "</div>\n<h2>Layers</h2>\n");
	table(&o, e);
	rvl_put(&o, "</body>\n</html>\n");
	o.rc = o.rc ? o.rc : rc;
	return rvl_out_finish(&o, out);
}
