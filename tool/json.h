/* SPDX-License-Identifier: MIT */
/* Reading JSON that the daemon wrote. */
#ifndef RVL_TOOL_JSON_H
#define RVL_TOOL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

/* Absent members, and those of another type, read as NULL, 0, false or "". */
/** rvl_json_parse() - the whole of @text, or NULL; released by json_object_put() */
struct json_object *rvl_json_parse(const char *text);
/** rvl_json_member(), rvl_json_item() - borrowed from their container */
struct json_object *rvl_json_member(struct json_object *object, const char *key);
struct json_object *rvl_json_item(struct json_object *array, size_t index);
uint64_t rvl_json_number(struct json_object *object, const char *key);
bool rvl_json_true(struct json_object *object, const char *key);
/** rvl_json_si() - a copy in which ns, pJ and ppm of the daemon are seconds, joules and ratios */
struct json_object *rvl_json_si(struct json_object *value);
/**
 * rvl_json_put() - print a value as a member of the object that output.h is writing, on one line
 */
void rvl_json_put(const char *key, struct json_object *value);
/** rvl_json_text() - a string member without control characters; returns @buf */
const char *rvl_json_text(struct json_object *object, const char *key, char *buf, size_t size);

#endif
