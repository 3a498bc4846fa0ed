// SPDX-License-Identifier: MIT
/* protocol FILE: prints FILE with tables generated from the protocol between its two marks. */
#include <stdio.h>
#include <string.h>

#include "rivulet_proto.h"

#define BEGIN "<!-- tables: made by daemon/gen/protocol.c from uapi/rivulet_proto.h -->\n"
#define END "<!-- end of tables -->\n"

static const char *type_name(enum rivulet_field_type t)
{
	static const char *const names[] = {
		[RIVULET_PROTO_text] = "text", [RIVULET_PROTO_uint8_t] = "u8",
		[RIVULET_PROTO_uint32_t] = "u32", [RIVULET_PROTO_int32_t] = "s32",
		[RIVULET_PROTO_uint64_t] = "u64", [RIVULET_PROTO_float] = "f32",
	};

	return names[t];
}

static void print_fields(const struct rivulet_proto_info *info)
{
	size_t at = sizeof(struct rivulet_msg);

	for (int i = 0; i < info->fields; i++) {
		const struct rivulet_proto_field *f = &info->field[i];
		unsigned int n = f->count ? f->count : 1;

		printf("| %zu | %s", at, type_name(f->type));
		if (f->count)
			printf(" × %u", f->count);
		printf(" | `%s` | %s |\n", f->name,
		       *f->doc ? f->doc : strcmp(f->name, "rsvd") ? "" : "zero");
		at += (size_t)f->width * n;
	}
}

static void print_tables(void)
{
	const struct rivulet_proto_info *info;

	for (int n = 0; (info = rivulet_proto_list(n)); n++) {
		printf("\n### %s (0x%04x, %u bytes", info->name, info->type, info->size);
		if (info->max_fds)
			printf(", %s%u file descriptor", info->min_fds ? "" : "0 or ",
			       info->max_fds);
		printf(")\n");
		if (*info->doc)
			printf("%s%s.\n", "\n", info->doc);
		if (info->fields) {
			printf("\n| offset | type | field | meaning |\n|---:|---|---|---|\n");
			print_fields(info);
		}
	}
	putchar('\n');
}

int main(int argc, char **argv)
{
	char line[4096];
	int inside = 0, seen = 0;
	FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;

	if (!f) {
		fprintf(stderr, "usage: protocol docs/protocol.md\n");
		return 1;
	}
	while (fgets(line, sizeof(line), f)) {
		if (!strcmp(line, END))
			inside = 0;
		if (!inside)
			fputs(line, stdout);
		if (!strcmp(line, BEGIN)) {
			print_tables();
			inside = seen = 1;
		}
	}
	fclose(f);
	if (!seen || inside)
		fprintf(stderr, "%s: the marks of the tables are missing\n", argv[1]);
	return !seen || inside;
}
