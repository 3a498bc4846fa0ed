// SPDX-License-Identifier: MIT
/*
 * Reads the JSON that the daemon wrote, by json-c. A value of another type than the caller expects
 * reads as if the member were absent, so that a daemon of another version cannot make the tool crash.
 */
#include <json-c/json.h>
#include <string.h>

#include "json.h"
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
