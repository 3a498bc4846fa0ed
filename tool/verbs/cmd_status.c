// SPDX-License-Identifier: MIT
/*
 * rivulet status: the daemon's STATUS as tables, or as JSON in SI units; once or again and again.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/engine.h"
#include "json.h"
#include "output.h"
#include "verb.h"

static void text_head(struct json_object *s)
{
	struct json_object *d = rvl_json_member(s, "device"), *p = rvl_json_member(s, "policy");
	char a[64], b[64], c[64];

	printf("rivuletd %s, up %llu s\n", rvl_json_text(s, "version", a, sizeof(a)),
	       (unsigned long long)rvl_json_number(s, "uptime_ns") / 1000000000);
	if (!rvl_json_true(d, "present")) {
		printf("  no device\n");
		return;
	}
	printf("  device     %s, board %s\n", rvl_json_text(d, "node", a, sizeof(a)),
	       rvl_json_text(d, "board", b, sizeof(b)));
	printf("  policy     mode %s (%s), level %llu by %s", rvl_json_text(p, "mode", a, sizeof(a)),
	       rvl_json_text(p, "mode_from", b, sizeof(b)),
	       (unsigned long long)rvl_json_number(p, "level"),
	       rvl_json_text(p, "reason", c, sizeof(c)));
	if (rvl_json_true(p, "charge_known"))
		printf(", battery %.1f %%", (double)rvl_json_number(p, "charge_ppm") / 1e4);
	printf("%s%s%s\n", rvl_json_true(p, "reserve") ? ", IN THE RESERVE" : "",
	       rvl_json_true(p, "emergency") ? ", TOO HOT" : "",
	       rvl_json_true(p, "steered") ? "" : ", LEVEL NOT STEERED");
}

static void text_levels(struct json_object *d)
{
	static const char *const heads[] = { ">level", ">clock", ">supply", ">time", ">jobs", ">busy",
					     ">energy" };
	struct json_object *l;
	struct rvl_table t;
	char u[4][32];

	printf("\n");
	rvl_table_init(&t, 7, heads);
	for (size_t i = 0; (l = rvl_json_item(rvl_json_member(d, "levels"), i)); i++) {
		rvl_table_cell(&t, "%zu", i);
		rvl_table_cell(&t, "%s", rvl_unit(u[0], (double)rvl_json_number(l, "hz"), "Hz"));
		rvl_table_cell(&t, "%llu mV",
			       (unsigned long long)rvl_json_number(l, "microvolt") / 1000);
		rvl_table_cell(&t, "%.1f s", (double)rvl_json_number(l, "residency_ns") / 1e9);
		rvl_table_cell(&t, "%llu", (unsigned long long)rvl_json_number(l, "jobs"));
		rvl_table_cell(&t, "%s",
			       rvl_unit(u[2], (double)rvl_json_number(l, "device_ns") * 1e-9, "s"));
		rvl_table_cell(&t, "%s",
			       rvl_unit(u[3], (double)rvl_json_number(l, "energy_pj") * 1e-12, "J"));
	}
	rvl_table_print(&t, 2);
}

static void model_row(struct rvl_table *t, const char *name, struct json_object *l)
{
	uint64_t runs = rvl_json_number(l, "runs"), length = rvl_json_number(l, "length");
	uint64_t accuracy = rvl_json_number(l, "accuracy_ppm");
	char u[2][32];

	rvl_table_cell(t, "%s", name);
	rvl_table_cell(t, "%llu", (unsigned long long)rvl_json_number(l, "level"));
	rvl_table_cell(t, length ? "%llu" : "int8", (unsigned long long)length);
	rvl_table_cell(t, accuracy ? "%.2f %%" : "?", (double)accuracy / 1e4);
	rvl_table_cell(t, "%llu", (unsigned long long)runs);
	rvl_table_cell(t, "%llu", (unsigned long long)rvl_json_number(l, "late"));
	rvl_table_cell(t, "%s", rvl_unit(u[0], runs ? (double)rvl_json_number(l, "npu_ns") * 1e-9 /
					 (double)runs : 0, "s"));
	rvl_table_cell(t, "%s", rvl_unit(u[1], runs ? (double)rvl_json_number(l, "energy_pj") * 1e-12 /
					 (double)runs : 0, "J"));
}

static void text_models(struct json_object *s)
{
	static const char *const heads[] = { "model", ">level", ">length", ">accuracy", ">runs",
					     ">missed", ">NPU time", ">energy" };
	struct json_object *m, *l;
	struct rvl_table t;
	char name[80];

	printf("\n");
	rvl_table_init(&t, 8, heads);
	for (size_t i = 0; (m = rvl_json_item(rvl_json_member(s, "models"), i)); i++)
		for (size_t k = 0; (l = rvl_json_item(rvl_json_member(m, "levels"), k)); k++)
			model_row(&t, k ? "" : rvl_json_text(m, "name", name, sizeof(name)), l);
	rvl_table_print(&t, 2);
}

static void text_sums(struct json_object *s)
{
	struct json_object *q = rvl_json_member(s, "scheduler");
	struct json_object *c = rvl_json_member(s, "connections");

	printf("\n  %llu connections; %llu runs queued, %llu under way; %llu ended: %llu failed, %llu "
	       "cancelled, %llu late; %llu refused\n",
	       (unsigned long long)rvl_json_number(c, "open"),
	       (unsigned long long)rvl_json_number(q, "queued"),
	       (unsigned long long)rvl_json_number(q, "running"),
	       (unsigned long long)rvl_json_number(q, "runs"),
	       (unsigned long long)rvl_json_number(q, "failed"),
	       (unsigned long long)rvl_json_number(q, "cancelled"),
	       (unsigned long long)rvl_json_number(q, "late"),
	       (unsigned long long)rvl_json_number(q, "refused"));
}

static void print_text(struct json_object *s)
{
	text_head(s);
	if (rvl_json_true(rvl_json_member(s, "device"), "present"))
		text_levels(rvl_json_member(s, "device"));
	text_models(s);
	text_sums(s);
}

static void print_json(struct json_object *s)
{
	struct json_object *si = rvl_json_si(s);

	rvl_json_begin("status/2");
	rvl_json_put("status", si);
	rvl_json_end();
	json_object_put(si);
}

static int print_once(struct rivulet_client *c)
{
	struct json_object *s;
	int r = rvl_daemon_status(c, &s);

	if (r)
		return r;
	(rvl_tool_json ? print_json : print_text)(s);
	json_object_put(s);
	return 0;
}

struct status_args {
	bool watch;
	struct rvl_time interval;
};

static void pause_for(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };

	nanosleep(&t, NULL);
}

/* Connects again to a daemon that was restarted. Only the first connection must succeed. */
static int watch(struct rivulet_client *c, uint64_t interval)
{
	bool terminal = isatty(STDOUT_FILENO), said = false;

	for (;;) {
		if (terminal)
			fputs("\x1b[H\x1b[2J", stdout);
		if (c && print_once(c))
			c = rivulet_client_unref(c);
		if (!c && !said)
			fprintf(stderr, "rivulet: %s; waiting for the daemon\n", rvl_tool_error);
		said = !c;
		if (c && !terminal && !rvl_tool_json)
			putchar('\n');
		if (fflush(stdout))
			break;
		pause_for(interval);
		rvl_tool_error_clear();
		if (!c)
			rivulet_open(NULL, &c);
	}
	rivulet_client_unref(c);
	return RVL_EXIT_FAILED;
}

static int run_status(void *args, int n, char **operand)
{
	const struct status_args *a = args;
	struct rivulet_client *c;
	int r = rivulet_open(NULL, &c);

	(void)n;
	(void)operand;
	if (r)
		return rvl_tool_fail(rvl_exit_of(r), "%s", rivulet_last_error());
	if (a->watch)
		return watch(c, a->interval.ns);
	r = print_once(c);
	rivulet_client_unref(c);
	return r;
}

static const struct rvl_option options[] = {
	{ "watch", 0, NULL, "print it again and again, until interrupted",
	  RVL_MEMBER(struct status_args, watch) },
	{ "interval", 0, "TIME", "with --watch: the time between two (1s)",
	  RVL_MEMBER(struct status_args, interval) },
	{ 0 }
};

const struct rvl_verb rvl_verb_status = {
	.name = "status", .summary = "what the daemon serves, model by model, level by level", .order = 90,
	.operands = "[--watch]", .takes = "no operand", .options = options,
	.args_size = sizeof(struct status_args),
	.defaults = &(const struct status_args) { .interval = { 1000000000 } }, .run = run_status,
};
