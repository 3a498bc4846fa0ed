// SPDX-License-Identifier: MIT
/* Recorded batteries: parsing and replaying a trace. */
#include "policy.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS		5
#define TIME_MAX	1e9	/* seconds */

__attribute__((format(printf, 4, 5)))
static int bad(char *err, size_t errsize, unsigned int line, const char *fmt, ...)
{
	int n = snprintf(err, errsize, "line %u: ", line);
	va_list ap;

	va_start(ap, fmt);
	if (n > 0 && (size_t)n < errsize)
		vsnprintf(err + n, errsize - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static bool real(const char *s, double lo, double hi, double *out)
{
	char *end;

	*out = strtod(s, &end);
	return end != s && !*end && isfinite(*out) && *out >= lo && *out <= hi;
}

/* "73.5" (percent), "1200/4000" in any unit of energy, "?" (unreadable), "-" (no battery) */
static bool set_charge(const char *s, struct rvl_reading *r)
{
	const char *slash = strchr(s, '/');
	char now_text[32];
	double now, full;

	if (!strcmp(s, "-"))
		return true;
	r->batteries = 1;
	if (!strcmp(s, "?"))
		return true;
	r->readable = 1;
	if (!slash) {
		if (!real(s, 0, 100, &now))
			return false;
		r->charge = (uint32_t)lround(now * 10000);
		return true;
	}
	if ((size_t)(slash - s) >= sizeof(now_text))
		return false;
	memcpy(now_text, s, (size_t)(slash - s));
	now_text[slash - s] = 0;
	if (!real(slash + 1, 1e-9, 1e15, &full) || !real(now_text, 0, full, &now))
		return false;
	r->charge = (uint32_t)(now / full * RVL_PPM);
	return true;
}

static bool set_status(const char *s, struct rvl_reading *r)
{
	r->discharging = !strcmp(s, "discharging");
	r->charging = !strcmp(s, "charging");
	r->idle = !strcmp(s, "full") || !strcmp(s, "idle");
	return r->discharging || r->charging || r->idle || !strcmp(s, "unknown");
}

static bool set_mains(const char *s, struct rvl_reading *r)
{
	r->mains_known = strcmp(s, "-");
	r->mains = !strcmp(s, "1");
	return r->mains || !r->mains_known || !strcmp(s, "0");
}

static int parse_row(char *const *col, unsigned int line, struct rvl_trace_row *row, char *err,
		     size_t errsize)
{
	double v;

	memset(row, 0, sizeof(*row));
	row->temp = RVL_NO_VALUE;
	if (!real(col[0], 0, TIME_MAX, &v))
		return bad(err, errsize, line, "time \"%.32s\" is no number of seconds", col[0]);
	row->time = (uint64_t)(v * 1e9);
	if (!set_charge(col[1], &row->reading))
		return bad(err, errsize, line, "charge \"%.32s\" is no percentage, NOW/FULL, ? or -",
			   col[1]);
	if (!set_status(col[2], &row->reading))
		return bad(err, errsize, line, "status \"%.32s\" is not discharging, charging, full, "
			   "idle or unknown", col[2]);
	if (!set_mains(col[3], &row->reading))
		return bad(err, errsize, line, "mains \"%.32s\" is not 0, 1 or -", col[3]);
	if (strcmp(col[4], "-")) {
		if (!real(col[4], -273, 1000, &v))
			return bad(err, errsize, line, "temperature \"%.32s\" is no number", col[4]);
		row->temp = lround(v * 1000);
	}
	return 1;
}

/* Splits a line into words. Returns their number, at most one more than the number of columns. */
static int split(char *text, char **col)
{
	char *save = NULL;
	int n = 0;

	text[strcspn(text, "#")] = 0;
	for (char *w = strtok_r(text, " \t\r,", &save); w && n <= COLUMNS;
	     w = strtok_r(NULL, " \t\r,", &save)) {
		if (n < COLUMNS)
			col[n] = w;
		n++;
	}
	return n;
}

int rvl_trace_parse(const char **at, unsigned int *line, struct rvl_trace_row *row, char *err,
		    size_t errsize)
{
	char text[256], *col[COLUMNS];

	while (**at) {
		size_t len = strcspn(*at, "\n");
		int n;

		++*line;
		if (len >= sizeof(text))
			return bad(err, errsize, *line, "longer than %zu bytes", sizeof(text) - 1);
		memcpy(text, *at, len);
		text[len] = 0;
		*at += len + ((*at)[len] == '\n');
		n = split(text, col);
		if (!n)
			continue;
		if (n != COLUMNS)
			return bad(err, errsize, *line, "%s than %d columns: time charge status mains "
				   "temperature", n < COLUMNS ? "fewer" : "more", COLUMNS);
		return parse_row(col, *line, row, err, errsize);
	}
	return 0;
}

/* ---- replay ---- */

static bool temp_attr(void *ctx, const char *name, char *buf, size_t size)
{
	const struct rvl_trace_row *row = ctx;

	if (strcmp(name, "temp") || row->temp == RVL_NO_VALUE)
		return false;
	return snprintf(buf, size, "%lld", (long long)row->temp) > 0;
}

/* Time 0 means never to the policy, so its clock is 1 ns ahead of the trace's. */
bool rvl_replay_until(struct rvl_replay *r, uint64_t time, uint64_t *at)
{
	uint64_t wake;

	while (r->in.now) {
		wake = rvl_policy_wake(&r->policy, &r->in);
		if (wake > time || wake <= r->in.now)
			return false;
		r->in.now = wake;
		*at = wake - 1;
		if (rvl_policy_step(&r->policy, &r->in))
			return true;
	}
	return false;
}

bool rvl_replay_row(struct rvl_replay *r, const struct rvl_trace_row *row)
{
	struct rvl_policy_input *in = &r->in;
	int64_t temp;

	*in = (struct rvl_policy_input){ .now = row->time + 1, .mode = r->mode, .fixed = r->fixed };
	rvl_gauge_update(&r->gauge, &row->reading, in->now);
	in->external = r->gauge.external;
	in->battery = r->gauge.battery;
	in->known = r->gauge.known;
	in->charge = r->gauge.charge;
	in->heat = rvl_zone_heat(temp_attr, (void *)row, r->limit, r->heat_hysteresis, &temp);
	return rvl_policy_step(&r->policy, in);
}
