// SPDX-License-Identifier: MIT
/*
 * Reads the JSON that the daemon wrote, by json-c. A value of another type than the caller expects
 * reads as if the member were absent, so that a daemon of another version cannot make the tool
 * crash.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "output.h"
#include "rivulet_proto.h"

struct json_object *rvl_json_parse(const char *text)
{
	struct json_tokener *t = json_tokener_new_ex(32);
	struct json_object *o;

	if (!t)
		return NULL;
	json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(t, text, (int)strlen(text) + 1);
	json_tokener_free(t);
	return o;
}

struct json_object *rvl_json_member(struct json_object *object, const char *key)
{
	return json_object_is_type(object, json_type_object) ? json_object_object_get(object, key) :
							       NULL;
}

struct json_object *rvl_json_item(struct json_object *array, size_t index)
{
	return json_object_is_type(array, json_type_array) ? json_object_array_get_idx(array, index) :
							     NULL;
}

uint64_t rvl_json_number(struct json_object *object, const char *key)
{
	return json_object_get_uint64(rvl_json_member(object, key));
}

bool rvl_json_true(struct json_object *object, const char *key)
{
	struct json_object *v = rvl_json_member(object, key);

	return json_object_is_type(v, json_type_boolean) && json_object_get_boolean(v);
}

const char *rvl_json_text(struct json_object *object, const char *key, char *buf, size_t size)
{
	struct json_object *v = rvl_json_member(object, key);

	rivulet_proto_name(buf, size, json_object_is_type(v, json_type_string) ?
					      json_object_get_string(v) : "");
	return buf;
}

/* ---- units ---- */

/*
 * The daemon counts in whole ns, pJ and millionths, which its protocol documents. The tool prints
 * seconds, joules and plain ratios: a key loses or changes its suffix as the value is scaled.
 */
static const struct { const char *suffix, *becomes; double scale; } units[] = {
	{ "drain_ppm_s", "drain", 1e-6 }, { "_ns", "_s", 1e-9 }, { "_pj", "_j", 1e-12 },
	{ "_ppm", "", 1e-6 }, { "_mc", "", 1e-3 }, { "microvolt", "volt", 1e-6 },
};

#define UNITS (sizeof(units) / sizeof(units[0]))

static struct json_object *scaled(double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.9g", value);
	return json_object_new_double_s(value, text);
}

static void add_si(struct json_object *to, const char *key, struct json_object *value)
{
	size_t n = strlen(key), i = 0;
	char name[128];

	for (; i < UNITS; i++) {
		size_t m = strlen(units[i].suffix);

		if (n >= m && !strcmp(key + n - m, units[i].suffix))
			break;
	}
	if (i == UNITS || !json_object_is_type(value, json_type_int)) {
		json_object_object_add(to, key, rvl_json_si(value));
		return;
	}
	snprintf(name, sizeof(name), "%.*s%s", (int)(n - strlen(units[i].suffix)), key, units[i].becomes);
	json_object_object_add(to, name, scaled((double)json_object_get_int64(value) * units[i].scale));
}

struct json_object *rvl_json_si(struct json_object *value)
{
	struct json_object *o;

	if (json_object_is_type(value, json_type_object)) {
		o = json_object_new_object();
		json_object_object_foreach(value, key, member)
			add_si(o, key, member);
		return o;
	}
	if (json_object_is_type(value, json_type_array)) {
		o = json_object_new_array();
		for (size_t i = 0; i < json_object_array_length(value); i++)
			json_object_array_add(o, rvl_json_si(json_object_array_get_idx(value, i)));
		return o;
	}
	return json_object_get(value);
}

void rvl_json_put(const char *key, struct json_object *value)
{
	rvl_json_raw(key, json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN |
							 JSON_C_TO_STRING_NOSLASHESCAPE));
}
