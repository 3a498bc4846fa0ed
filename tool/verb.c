// SPDX-License-Identifier: MIT
/* The table of verbs, which part.mk makes of the files in verbs/, and main() of the command. */
#include "verb.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "progress.h"
#include "rivulet_kernels.h"
#include "rivulet_proto.h"

#define VERB_EXTERN(name) extern const struct rvl_verb rvl_verb_##name;
#define VERB_ENTRY(name)  &rvl_verb_##name,
RVL_VERBS(VERB_EXTERN)
static const struct rvl_verb *verbs[] = { RVL_VERBS(VERB_ENTRY) };

#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static const struct rvl_verb *running;

const struct rvl_verb *rvl_verb_find(const char *name)
{
	for (size_t i = 0; i < VERBS; i++)
		if (!strcmp(name, verbs[i]->name))
			return verbs[i];
	return NULL;
}

bool rvl_verb_has(const struct rvl_verb *v, const char *option)
{
	for (const struct rvl_option *o = v ? v->options : NULL; o && o->name; o++)
		if (!strcmp(o->name, option))
			return true;
	return false;
}

/* ---- errors ---- */

char rvl_tool_error[1200];

int rvl_tool_fail(enum rvl_exit code, const char *fmt, ...)
{
	char raw[sizeof(rvl_tool_error)];
	va_list ap;

	if (!*rvl_tool_error) {
		va_start(ap, fmt);
		vsnprintf(raw, sizeof(raw), fmt, ap);
		va_end(ap);
		/* Text from files and daemons reaches a terminal here. */
		rivulet_proto_name(rvl_tool_error, sizeof(rvl_tool_error), raw);
	}
	return code;
}

void rvl_tool_advise(const char *option, const char *fmt, ...)
{
	size_t n = strlen(rvl_tool_error);
	va_list ap;

	if (!n || !rvl_verb_has(running, option))
		return;
	n += (size_t)snprintf(rvl_tool_error + n, sizeof(rvl_tool_error) - n, "; ");
	if (n >= sizeof(rvl_tool_error))
		return;
	va_start(ap, fmt);
	vsnprintf(rvl_tool_error + n, sizeof(rvl_tool_error) - n, fmt, ap);
	va_end(ap);
}

void rvl_tool_error_clear(void)
{
	*rvl_tool_error = 0;
}

/* ---- main ---- */

static int by_order(const void *a, const void *b)
{
	return (*(const struct rvl_verb *const *)a)->order - (*(const struct rvl_verb *const *)b)->order;
}

static void usage(FILE *f)
{
	qsort(verbs, VERBS, sizeof(verbs[0]), by_order);
	fprintf(f, "rivulet %s: models on the Rivulet NPU\n\nusage: rivulet VERB [options]\n\n",
		RIVULET_VERSION);
	for (size_t i = 0; i < VERBS; i++)
		fprintf(f, "  %-9s %s\n", verbs[i]->name, verbs[i]->summary);
	fprintf(f, "\n  rivulet VERB --help lists the options of a verb; every verb has --json\n\n"
		   "exit status:\n");
#define EXIT_HELP(name, value, doc) fprintf(f, "  %d  %s\n", value, doc);
	RVL_EXITS(EXIT_HELP)
#undef EXIT_HELP
	fputs("  130, 143  ended by SIGINT, SIGTERM: run, bench, eval and plan print first what they have\n", f);
}

static void advise_absent(void)
{
	size_t n;

	rvl_tool_advise("device", "--device sim:zu3eg-64 needs no device");
	n = strlen(rvl_tool_error);
	if (n < sizeof(rvl_tool_error))
		snprintf(rvl_tool_error + n, sizeof(rvl_tool_error) - n,
			 "; rivulet doctor finds the cause");
}

static int finish(int code)
{
	if (*rvl_tool_error && code == RVL_EXIT_ABSENT)
		advise_absent();
	if (*rvl_tool_error && rvl_tool_json && !rvl_json_written()) {
		rvl_json_begin("error");
		rvl_json_str("error", rvl_tool_error);
		rvl_json_i64("exit", code);
		rvl_json_end();
	}
	if (*rvl_tool_error)
		fprintf(stderr, "rivulet: %s\n", rvl_tool_error);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "rivulet: cannot write the output: %s\n", strerror(errno));
		return code ? code : RVL_EXIT_FAILED;
	}
	return code;
}

static int run_verb(const struct rvl_verb *v, int argc, char **argv)
{
	void *args = calloc(1, v->args_size + 1);
	int n, r;

	if (!args)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	if (v->defaults)
		memcpy(args, v->defaults, v->args_size);
	n = rvl_options_parse(v, argc, argv, args);
	r = n < 0 ? -1 - n : RVL_EXIT_OK;
	if (n >= 0 && (n < v->least || n > v->most))
		r = rvl_tool_fail(RVL_EXIT_USAGE, "rivulet %s takes %s", v->name, v->takes);
	if (n >= 0 && !r)
		r = v->run(args, n, argv + 1);
	if (v->clear)
		v->clear(args);
	free(args);
	return r;
}

int rvl_tool_main(int argc, char **argv)
{
	const char *verb = argc < 2 ? "" : argv[1];
	char why[RVL_WHY_MAX];
	int code;

	rvl_tool_error_clear();
	rvl_tool_json = false;
	rvl_json_reset();
	if (!*verb) {
		usage(stderr);
		return RVL_EXIT_USAGE;
	}
	if (!strcmp(verb, "--help") || !strcmp(verb, "-h") || !strcmp(verb, "help")) {
		usage(stdout);
		return finish(RVL_EXIT_OK);
	}
	if (!strcmp(verb, "--version")) {
		printf("rivulet %s\n", RIVULET_VERSION);
		return finish(RVL_EXIT_OK);
	}
	running = rvl_verb_find(verb);
	if (!running)
		return finish(rvl_tool_fail(RVL_EXIT_USAGE, "there is no verb \"%s\"; rivulet --help lists "
					    "them", verb));
	if (rvl_cpu_check(why))
		return finish(rvl_tool_fail(RVL_EXIT_USAGE, "%s", why));
	code = finish(run_verb(running, argc - 1, argv + 1));
	if (rvl_interrupted())
		code = 128 + rvl_interrupted();
	rvl_interrupt_reset();
	return code;
}
