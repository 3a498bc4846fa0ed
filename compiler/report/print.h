/* SPDX-License-Identifier: MIT */
/* Text that grows as it is printed; the first failure makes all further printing do nothing. */
#ifndef RVL_PRINT_H
#define RVL_PRINT_H

#include "base/bytes.h"
#include "rivulet_compiler.h"

/** struct rvl_out - a text under construction; zeroed at the start, ends in rvl_out_finish() */
struct rvl_out {
	struct rvl_bytes b;
	int rc; /* 0, or the errno of the first failure */
};

void rvl_put(struct rvl_out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/**
 * Prints a quoted cell of comma-separated values. Names come from files of others. A spreadsheet would
 * compute a text that begins like a formula, so an apostrophe goes before it.
 */
void rvl_csv_text(struct rvl_out *o, const char *s);
/** Gives the text to @out, NUL-terminated (size without the NUL), or returns -ENOMEM. */
int rvl_out_finish(struct rvl_out *o, struct rivulet_blob *out);
/** Formats 1234567 as "1.23 M": four characters of value and a unit, aligned. Returns @s. */
const char *rvl_si(uint64_t v, char *s, size_t n);

#endif
