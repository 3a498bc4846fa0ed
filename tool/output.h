/* SPDX-License-Identifier: MIT */
/* What the user sees: JSON, tables with aligned columns, values with units. */
#ifndef RVL_TOOL_OUTPUT_H
#define RVL_TOOL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * JSON to standard output, written piece by piece. Keys are literals of this program. Strings are
 * escaped, and a byte that is not UTF-8 becomes U+FFFD, because names come from files.
 */
void rvl_json_open(const char *key, char bracket);	/* '{' or '['; key NULL: in an array or on top */
void rvl_json_close(void);
void rvl_json_str(const char *key, const char *value);
void rvl_json_u64(const char *key, uint64_t value);
void rvl_json_i64(const char *key, int64_t value);
void rvl_json_num(const char *key, double value);	/* null when not finite */
void rvl_json_bool(const char *key, bool value);
/** rvl_json_raw() - @text is JSON already */
void rvl_json_raw(const char *key, const char *text);
/**
 * rvl_json_begin() - the top object with its schema, "rivulet.NAME/1" or, given with a slash,
 * "rivulet.NAME"
 */
void rvl_json_begin(const char *name);
/** rvl_json_end() - close the top object and end the line */
void rvl_json_end(void);
/**
 * rvl_json_written() - whether a whole object was printed: an error then goes to standard error
 * only
 */
bool rvl_json_written(void);
/** rvl_json_reset() - for the next command of the same process */
void rvl_json_reset(void);

#define RVL_TABLE_COLS 12
/** struct rvl_table - rows are kept, then printed aligned; numbers to the right */
struct rvl_table {
	int cols;
	bool right[RVL_TABLE_COLS];
	char **cell;
	size_t cells, room;
};
/** rvl_table_init() - @heads: one a column; a leading '>' aligns the column to the right */
void rvl_table_init(struct rvl_table *t, int cols, const char *const *heads);
/** rvl_table_cell() - the next cell, row by row; control characters become '?' */
void rvl_table_cell(struct rvl_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** rvl_table_print() - with @indent spaces before each line; frees the table */
void rvl_table_print(struct rvl_table *t, int indent);
void rvl_table_clear(struct rvl_table *t);

/** rvl_tool_now() - CLOCK_MONOTONIC in ns; rvl_tool_seconds() - the same in seconds */
uint64_t rvl_tool_now(void);
double rvl_tool_seconds(void);
/** rvl_unit() - a value with an SI prefix: "1.23 MHz"; @buf of 32 bytes is returned */
const char *rvl_unit(char *buf, double value, const char *unit);
/** rvl_bytes() - "96.0 KiB"; @buf of 32 bytes is returned */
const char *rvl_bytes(char *buf, uint64_t n);
/** rvl_figure() - "figure PREFIX.NAME VALUE UNIT" when @prefix is not NULL, nothing with --json */
void rvl_figure(const char *prefix, const char *name, double value, const char *unit);

#endif
