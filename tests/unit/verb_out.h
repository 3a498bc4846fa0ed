/* SPDX-License-Identifier: MIT */
/* What a verb printed: its lines, and its JSON. Included after verb.h by one file of a program. */
#ifndef RIVULET_TEST_VERB_OUT_H
#define RIVULET_TEST_VERB_OUT_H

#include <json-c/json.h>

#include "../../tool/json.h"

/* The line of the last output whose first words are @name, with single blanks. */
static inline const char *line_of(const char *name)
{
	static char line[256];
	const char *p = out;
	size_t n = 0;

	while (p && (p += strspn(p, " "), strncmp(p, name, strlen(name))))
		p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL;
	ck_assert_msg(p != NULL, "no line \"%s\" in:\n%s", name, out);
	for (; *p && *p != '\n' && n + 2 < sizeof(line); p++)
		if (*p != ' ' || (n && line[n - 1] != ' '))
			line[n++] = *p;
	line[n] = 0;
	return line;
}

/* Parses the last output. The result is valid until the next call after another verb. */
static inline struct json_object *json_out(void)
{
	static struct json_object *doc;
	static char *text;

	if (text && !strcmp(text, out))
		return doc;
	free(text);
	text = strdup(out);
	json_object_put(doc);
	doc = rvl_json_parse(out);
	ck_assert_msg(doc != NULL, "no JSON: %.300s", out);
	return doc;
}

static inline double number(struct json_object *o, const char *key)
{
	ck_assert_msg(rvl_json_member(o, key) != NULL, "no %s in %.500s", key, out);
	return json_object_get_double(rvl_json_member(o, key));
}

#endif
