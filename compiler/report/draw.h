/* SPDX-License-Identifier: MIT */
/* Parts of the HTML form. All coordinates are pixels of an SVG with the origin at its upper left.
 */
#ifndef RVL_DRAW_H
#define RVL_DRAW_H

#include "report/print.h"

/**
 * Text that is safe between tags and in quoted attributes: markup is escaped, and bytes that XML
 * does not allow become '?'. @most: characters, then an ellipsis; 0: all.
 */
void rvl_xml_text(struct rvl_out *o, const char *s, uint32_t most);
/** A <title>, which browsers show as a tooltip: node, operator, cost and note of a row. */
void rvl_xml_row_title(struct rvl_out *o, const struct rivulet_explain_row *r);
/** The CSS class by the place of a row: "npu", "cpu" or "none". */
const char *rvl_row_class(const struct rivulet_explain_row *r);

/** The rows as boxes in layers, each below all rows that it depends on, and the edges. */
int rvl_draw_graph(struct rvl_out *o, const struct rivulet_explain *e);
/** GOPS against MACs per byte, with the roofs of the board. */
void rvl_draw_roofline(struct rvl_out *o, const struct rivulet_explain *e);
/** The engines and the memory port over the cycles of all NPU steps, one behind the other. */
int rvl_draw_timeline(struct rvl_out *o, const struct rivulet_explain *e);

#endif
