// SPDX-License-Identifier: MIT
/*
 * rivulet policy: prints the daemon's power policy, sets its mode, or replays a recorded battery.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "policy.h"
#include "data/array.h"
#include "device/engine.h"
#include "output.h"
#include "verb.h"

#define TRACE_MAX	(64ull << 20)	/* bytes */
#define HEAT_HYSTERESIS	3000		/* millidegrees; the daemon uses the same */

/* ---- the state ---- */

static const char *source_name(uint32_t source)
{
	static const char *const names[] = { "configuration", "rivulet policy set",
					     "power-profiles-daemon" };

	return source < sizeof(names) / sizeof(names[0]) ? names[source] : "?";
}

static void text_source(const struct rivulet_policy_state *p)
{
	printf("  power      %s", p->flags & RIVULET_POLICY_EXTERNAL ? "from outside" : "battery");
	if (p->flags & RIVULET_POLICY_KNOWN)
		printf(", charge %.2f %%", p->charge / 1e4);
	else if (p->flags & RIVULET_POLICY_BATTERY)
		printf(", charge unknown");
	if (p->drain && !(p->flags & RIVULET_POLICY_EXTERNAL))
		printf(", falling %.4g %% a minute", p->drain * 60 / 1e4);
	if (p->temperature != INT32_MIN)
		printf(", %.1f C", p->temperature / 1e3);
	printf("\n");
}

static void text_levels(const struct rivulet_policy_state *p)
{
	static const char *const heads[] = { ">level", ">clock", ">charge above", ">time", ">entered",
					     "" };
	struct rvl_table t;
	char u[32];

	rvl_table_init(&t, 6, heads);
	for (uint32_t i = 0; i < p->used; i++) {
		uint32_t l = p->use[i] % RIVULET_LEVELS;

		rvl_table_cell(&t, "%u", l);
		rvl_table_cell(&t, "%s", rvl_unit(u, (double)p->hz[l], "Hz"));
		rvl_table_cell(&t, "%.2f %%", i + 1 < p->used ? p->threshold[i] / 1e4 : 0.0);
		rvl_table_cell(&t, "%.1f s", (double)p->residency[l] / 1e9);
		rvl_table_cell(&t, "%llu", (unsigned long long)p->entries[l]);
		rvl_table_cell(&t, "%s%s", l == p->level ? "<- now" : "",
			       p->allowed >> l & 1 ? "" : " no variant");
	}
	rvl_table_print(&t, 2);
}

static void text_state(const struct rivulet_policy_state *p)
{
	printf("mode %s", rvl_policy_mode_name(p->mode));
	if (p->mode == RIVULET_POLICY_FIXED)
		printf(" %u", p->fixed);
	printf(" (%s)\n", source_name(p->source));
	text_source(p);
	if (!p->levels) {
		printf("  no device\n");
		return;
	}
	printf("  level      %u by %s%s\n", p->level, rvl_policy_reason_name(p->reason),
	       p->flags & RIVULET_POLICY_YIELDED ? "; another program set the limits: yielded" :
	       p->flags & RIVULET_POLICY_STEERED ? "" : "; not set by the daemon, the governor chooses");
	printf("  rises      %.4g %% above the threshold, %.4g s after a change\n",
	       p->hysteresis / 1e4, (double)p->dwell / 1e9);
	printf("  reserve    %.4g %%%s%s\n", p->reserve / 1e4,
	       p->flags & RIVULET_POLICY_RESERVE ? ", reached: few runs are admitted" : "",
	       p->flags & RIVULET_POLICY_EMERGENCY ? "; TOO HOT: few runs are admitted" : "");
	text_levels(p);
}

static void json_levels(const struct rivulet_policy_state *p)
{
	rvl_json_open("levels", '[');
	for (uint32_t i = 0; i < p->used; i++) {
		uint32_t l = p->use[i] % RIVULET_LEVELS;

		rvl_json_open(NULL, '{');
		rvl_json_u64("level", l);
		rvl_json_u64("hz", p->hz[l]);
		rvl_json_num("charge_above", i + 1 < p->used ? p->threshold[i] / 1e6 : 0);
		rvl_json_num("residency", (double)p->residency[l] / 1e9);
		rvl_json_u64("entries", p->entries[l]);
		rvl_json_bool("allowed", p->allowed >> l & 1);
		rvl_json_close();
	}
	rvl_json_close();
}

static void json_state(const struct rivulet_policy_state *p)
{
	rvl_json_begin("policy");
	rvl_json_str("mode", rvl_policy_mode_name(p->mode));
	if (p->mode == RIVULET_POLICY_FIXED)
		rvl_json_u64("fixed", p->fixed);
	rvl_json_str("mode_from", source_name(p->source));
	rvl_json_bool("device", p->levels);
	rvl_json_bool("external", p->flags & RIVULET_POLICY_EXTERNAL);
	if (p->flags & RIVULET_POLICY_KNOWN)
		rvl_json_num("charge", p->charge / 1e6);
	rvl_json_num("drain", p->drain / 1e6);
	if (p->temperature != INT32_MIN)
		rvl_json_num("temperature", p->temperature / 1e3);
	rvl_json_u64("level", p->level);
	rvl_json_str("reason", p->reason ? rvl_policy_reason_name(p->reason) : "no device");
	rvl_json_bool("reserve", p->flags & RIVULET_POLICY_RESERVE);
	rvl_json_bool("emergency", p->flags & RIVULET_POLICY_EMERGENCY);
	rvl_json_bool("steered", p->flags & RIVULET_POLICY_STEERED);
	rvl_json_bool("yielded", p->flags & RIVULET_POLICY_YIELDED);
	json_levels(p);
	rvl_json_end();
}

static int ask(uint32_t mode, uint32_t level)
{
	struct rivulet_policy_state p = { .size = sizeof(p) };
	struct rivulet_client *c;
	int r = rivulet_open(NULL, &c);

	if (r)
		return rvl_tool_fail(rvl_exit_of(r), "%s", rivulet_last_error());
	r = rivulet_client_policy(c, mode, level, &p);
	if (r)
		r = rvl_tool_fail(r == -EPERM ? RVL_EXIT_ABSENT : r == -ERANGE ? RVL_EXIT_USAGE :
				  rvl_exit_of(r), "%s", rivulet_last_error());
	else
		(rvl_tool_json ? json_state : text_state)(&p);
	rivulet_client_unref(c);
	return r;
}

/* ---- a recorded battery ---- */

struct replay_args {
	const char *trace, *board, *mode, *levels, *thresholds, *hysteresis, *dwell, *reserve, *limit;
	struct rivulet_board b;
	struct rvl_replay r;
	uint64_t first, last;
	uint64_t rows;
};

static int fraction(const char *name, const char *s, double scale, double most, double *out)
{
	char *end;

	*out = strtod(s, &end) * scale;
	if (end == s || *end || !(*out >= 0) || *out > most)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--%s: \"%s\" is out of range", name, s);
	return 0;
}

static int list(const char *name, const char *s, double scale, double most, uint32_t *out, size_t *n)
{
	char copy[256], *save = NULL;
	double v;
	int r = 0;

	*n = 0;
	if (!s)
		return 0;
	snprintf(copy, sizeof(copy), "%s", s);
	for (char *w = strtok_r(copy, " ,", &save); w && !r; w = strtok_r(NULL, " ,", &save)) {
		if (*n == RIVULET_LEVELS)
			return rvl_tool_fail(RVL_EXIT_USAGE, "--%s: more than %u", name, RIVULET_LEVELS);
		r = fraction(name, w, scale, most, &v);
		out[(*n)++] = (uint32_t)(v + 0.5);
	}
	return r;
}

static int set_rules(struct replay_args *d, struct rvl_policy_config *cfg)
{
	double hysteresis, dwell, reserve, limit;
	int r = fraction("hysteresis", d->hysteresis, 1e4, 1e6, &hysteresis);

	r = r ? r : fraction("dwell", d->dwell, 1e9, 3.6e12, &dwell);
	r = r ? r : fraction("reserve", d->reserve, 1e4, 1e6, &reserve);
	r = r ? r : fraction("temperature-limit", d->limit, 1e3, 150e3, &limit);
	if (r)
		return r;
	cfg->hysteresis = (uint32_t)(hysteresis + 0.5);
	cfg->reserve = (uint32_t)(reserve + 0.5);
	cfg->dwell = (uint64_t)dwell;
	cfg->heat_step = 5000000000ull;
	d->r.limit = (int64_t)limit;
	d->r.heat_hysteresis = HEAT_HYSTERESIS;
	if (rvl_policy_mode_parse(d->mode, &d->r.mode, &d->r.fixed))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--mode: \"%s\" is no mode and no level", d->mode);
	if (d->r.fixed >= d->b.levels)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--mode: the board has no level %u", d->r.fixed);
	return 0;
}

static int prepare(struct replay_args *d)
{
	uint32_t levels[RIVULET_LEVELS], thresholds[RIVULET_LEVELS];
	struct rvl_policy_config cfg = { .n = 0 };
	size_t n_levels, n_thresholds;
	char why[200];
	int r = rvl_board_of(d->board, &d->b);

	r = r ? r : list("levels", d->levels, 1, RIVULET_LEVELS, levels, &n_levels);
	r = r ? r : list("thresholds", d->thresholds, 1e4, 1e6, thresholds, &n_thresholds);
	r = r ? r : set_rules(d, &cfg);
	if (r)
		return r;
	if (rvl_policy_configure(&cfg, &d->b, levels, n_levels, thresholds, n_thresholds, why,
				 sizeof(why)))
		return rvl_tool_fail(RVL_EXIT_USAGE, "%s", why);
	rvl_policy_init(&d->r.policy, &cfg);
	return 0;
}

static const char *power_text(const struct rvl_gauge *g, char *buf, size_t size)
{
	if (g->known)
		snprintf(buf, size, "%.2f %%", g->charge / 1e4);
	else
		snprintf(buf, size, g->battery ? "?" : "-");
	return buf;
}

static void report_change(const struct replay_args *d, uint64_t time)
{
	const struct rvl_policy *p = &d->r.policy;
	char charge[32];

	power_text(&d->r.gauge, charge, sizeof(charge));
	if (!rvl_tool_json) {
		printf("%12.3f s  level %u  %-8s %9s%s%s%s\n", (double)time / 1e9, p->level,
		       rvl_policy_reason_name(p->reason), charge,
		       d->r.gauge.external ? "  mains" : "", p->reserve ? "  reserve" : "",
		       p->emergency ? "  too hot" : "");
		return;
	}
	rvl_json_open(NULL, '{');
	rvl_json_num("time", (double)time / 1e9);
	rvl_json_u64("level", p->level);
	rvl_json_str("reason", rvl_policy_reason_name(p->reason));
	if (d->r.gauge.known)
		rvl_json_num("charge", d->r.gauge.charge / 1e6);
	rvl_json_bool("external", d->r.gauge.external);
	rvl_json_bool("reserve", p->reserve);
	rvl_json_bool("emergency", p->emergency);
	rvl_json_close();
}

/* The whole trace is checked before anything is printed. */
static int check_trace(const char *path, const char *text)
{
	struct rvl_trace_row row;
	unsigned int line = 0;
	uint64_t last = 0, rows = 0;
	char why[200];
	int r;

	while ((r = rvl_trace_parse(&text, &line, &row, why, sizeof(why))) > 0) {
		if (row.time < last)
			return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: line %u: time goes back", path,
					     line);
		last = row.time;
		rows++;
	}
	if (r)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, why);
	if (!rows)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: no row in it", path);
	return 0;
}

static void run_trace(struct replay_args *d, const char *text)
{
	struct rvl_trace_row row;
	unsigned int line = 0;
	uint64_t at;
	char why[200];

	while (rvl_trace_parse(&text, &line, &row, why, sizeof(why)) > 0) {
		d->first = d->rows++ ? d->first : row.time;
		d->last = row.time;
		while (rvl_replay_until(&d->r, row.time, &at))
			report_change(d, at);
		if (rvl_replay_row(&d->r, &row))
			report_change(d, row.time);
	}
}

static void text_residency(const struct replay_args *d)
{
	static const char *const heads[] = { ">level", ">clock", ">time", ">share", ">entered" };
	const struct rvl_policy *p = &d->r.policy;
	double total = (double)(d->last - d->first);
	struct rvl_table t;
	char u[32];

	printf("\n%llu rows, %.3f s, %llu implausible readings\n", (unsigned long long)d->rows,
	       total / 1e9, (unsigned long long)d->r.gauge.rejected);
	rvl_table_init(&t, 5, heads);
	for (uint32_t l = d->b.levels; l-- > 0;) {
		rvl_table_cell(&t, "%u", l);
		rvl_table_cell(&t, "%s", rvl_unit(u, (double)d->b.level[l].hz, "Hz"));
		rvl_table_cell(&t, "%.3f s", (double)p->residency[l] / 1e9);
		rvl_table_cell(&t, "%.2f %%", total > 0 ? 100 * (double)p->residency[l] / total : 0);
		rvl_table_cell(&t, "%llu", (unsigned long long)p->entries[l]);
	}
	rvl_table_print(&t, 2);
}

static void json_residency(const struct replay_args *d)
{
	rvl_json_close();
	rvl_json_u64("rows", d->rows);
	rvl_json_num("duration", (double)(d->last - d->first) / 1e9);
	rvl_json_u64("rejected", d->r.gauge.rejected);
	rvl_json_open("residency", '[');
	for (uint32_t l = 0; l < d->b.levels; l++)
		rvl_json_num(NULL, (double)d->r.policy.residency[l] / 1e9);
	rvl_json_close();
	rvl_json_end();
}

static void report_replay(struct replay_args *d, const char *text)
{
	if (rvl_tool_json) {
		rvl_json_begin("replay");
		rvl_json_open("timeline", '[');
	}
	run_trace(d, text);
	(rvl_tool_json ? json_residency : text_residency)(d);
}

static int replay(struct replay_args *d, const char *path)
{
	struct rvl_blob b;
	char *text;
	int r = prepare(d);

	r = r ? r : rvl_read_file(path, TRACE_MAX, &b);
	if (r)
		return r;
	text = calloc(1, b.size + 1);
	if (!text) {
		rvl_blob_clear(&b);
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	}
	memcpy(text, b.data, b.size);
	rvl_blob_clear(&b);
	r = check_trace(path, text);
	if (!r)
		report_replay(d, text);
	free(text);
	return r;
}

/* ---- the verb ---- */

static int set_mode(const char *word)
{
	uint32_t mode, fixed;

	if (rvl_policy_mode_parse(word, &mode, &fixed))
		return rvl_tool_fail(RVL_EXIT_USAGE, "\"%s\" is not auto, performance, balanced, "
				     "powersave or the number of a level", word);
	return ask(mode, fixed);
}

static int run_policy(void *args, int n, char **operand)
{
	struct replay_args *d = args;

	if (d->trace && n)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--replay takes no operand");
	if (d->trace)
		return replay(d, d->trace);
	if (!n)
		return ask(RIVULET_POLICY_KEEP, 0);
	if (n != 2 || strcmp(operand[0], "set"))
		return rvl_tool_fail(RVL_EXIT_USAGE, "rivulet policy takes nothing, or set MODE");
	return set_mode(operand[1]);
}

static const struct rvl_option options[] = {
	{ "replay", 0, "TRACE", "apply the policy to a recorded battery, without daemon or device",
	  RVL_MEMBER(struct replay_args, trace) },
	{ "board", 'b', "BOARD", "of the replay: its levels (zu3eg-64)", RVL_MEMBER(struct replay_args, board) },
	{ "mode", 0, "MODE", "of the replay (auto)", RVL_MEMBER(struct replay_args, mode) },
	{ "levels", 0, "LIST", "of the replay: levels in use, fastest first",
	  RVL_MEMBER(struct replay_args, levels) },
	{ "thresholds", 0, "LIST", "of the replay: percent between two levels",
	  RVL_MEMBER(struct replay_args, thresholds) },
	{ "hysteresis", 0, "PERCENT", "of the replay (2)", RVL_MEMBER(struct replay_args, hysteresis) },
	{ "dwell", 0, "SECONDS", "of the replay (10)", RVL_MEMBER(struct replay_args, dwell) },
	{ "reserve", 0, "PERCENT", "of the replay (5)", RVL_MEMBER(struct replay_args, reserve) },
	{ "temperature-limit", 0, "DEGREES", "of the replay (0: none)", RVL_MEMBER(struct replay_args, limit) },
	{ 0 }
};

const struct rvl_verb rvl_verb_policy = {
	.name = "policy", .summary = "the power policy: its state, another mode, a recorded battery",
	.order = 100, .operands = "[set auto|performance|balanced|powersave|LEVEL]", .most = 2,
	.takes = "nothing, or set MODE", .options = options, .args_size = sizeof(struct replay_args),
	.defaults = &(const struct replay_args) { .board = "zu3eg-64", .mode = "auto", .hysteresis = "2",
					  .dwell = "10", .reserve = "5", .limit = "0" },
	.run = run_policy,
};
