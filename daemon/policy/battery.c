// SPDX-License-Identifier: MIT
/*
 * Reads batteries, which give energy, charge or only a percentage, combines several of them, and rejects
 * implausible readings.
 */
#include "policy.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ABSURD_TEMP_LOW		(-40000)
#define ABSURD_TEMP_HIGH	200000
#define CRITICAL_MARGIN		5000	/* millidegrees; at the critical trip the kernel powers off */
#define TRIPS_MAX		12
#define AMOUNT_MAX		1000000000000	/* in micro units: a megawatthour; a million times it fits */
#define NSEC			1000000000ull

/* ---- attributes ---- */

static int64_t number(rvl_attr_fn get, void *ctx, const char *name)
{
	char text[64], *end;
	long long v;

	if (!get(ctx, name, text, sizeof(text)))
		return RVL_NO_VALUE;
	errno = 0;
	v = strtoll(text, &end, 10);
	return end == text || *end || errno ? RVL_NO_VALUE : v;
}

static enum rvl_supply_kind kind_of(rvl_attr_fn get, void *ctx)
{
	static const char *const mains[] = { "Mains", "USB", "Wireless" };
	char type[32], scope[32];

	/* The battery of a mouse does not power this machine. */
	if (get(ctx, "scope", scope, sizeof(scope)) && !strcmp(scope, "Device"))
		return RVL_SUPPLY_IGNORED;
	if (!get(ctx, "type", type, sizeof(type)))
		return RVL_SUPPLY_IGNORED;
	if (!strcmp(type, "Battery") || !strcmp(type, "UPS"))
		return RVL_SUPPLY_BATTERY;
	for (size_t i = 0; i < sizeof(mains) / sizeof(mains[0]); i++)
		if (!strcmp(type, mains[i]))
			return RVL_SUPPLY_MAINS;
	return RVL_SUPPLY_IGNORED;
}

static enum rvl_supply_status status_of(rvl_attr_fn get, void *ctx)
{
	char s[32];

	if (!get(ctx, "status", s, sizeof(s)))
		return RVL_STATUS_UNKNOWN;
	if (!strcmp(s, "Discharging"))
		return RVL_STATUS_DISCHARGING;
	if (!strcmp(s, "Charging"))
		return RVL_STATUS_CHARGING;
	return !strcmp(s, "Full") || !strcmp(s, "Not charging") ? RVL_STATUS_IDLE :
								  RVL_STATUS_UNKNOWN;
}

/* @now / @full in ppm. Some gauges count slightly past full. */
static int64_t ratio_of(int64_t now, int64_t full)
{
	if (now < 0 || full <= 0 || now > full + full / 20)
		return RVL_NO_VALUE;
	return now >= full ? RVL_PPM : now * (int64_t)RVL_PPM / full;
}

static int64_t amount_of(rvl_attr_fn get, void *ctx, const char *name)
{
	int64_t v = number(get, ctx, name);

	return v >= 0 && v <= AMOUNT_MAX ? v : RVL_NO_VALUE;
}

struct names {
	const char *now, *full, *design;
};

static bool amount(rvl_attr_fn get, void *ctx, const struct names *n, struct rvl_supply *out)
{
	int64_t now = amount_of(get, ctx, n->now), full = amount_of(get, ctx, n->full);
	int64_t design = amount_of(get, ctx, n->design);

	if (full <= 0 || (now > full + full / 20 && now <= design))
		full = design;
	out->ratio = ratio_of(now, full);
	out->full = full;
	return out->ratio != RVL_NO_VALUE;
}

static int64_t voltage(rvl_attr_fn get, void *ctx)
{
	static const char *const names[] = { "voltage_min_design", "voltage_now",
					     "voltage_max_design" };
	int64_t v;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		v = number(get, ctx, names[i]);
		if (v >= 500000 && v <= 1000000000)
			return v;
	}
	return RVL_NO_VALUE;
}

static void read_battery(rvl_attr_fn get, void *ctx, struct rvl_supply *out)
{
	static const struct names energy = { "energy_now", "energy_full", "energy_full_design" };
	static const struct names charge = { "charge_now", "charge_full", "charge_full_design" };
	int64_t capacity = number(get, ctx, "capacity"), v, uwh;
	bool sane = capacity >= 0 && capacity <= 100;

	out->status = status_of(get, ctx);
	if (amount(get, ctx, &energy, out) && !(out->ratio == 0 && sane && capacity > 0))
		return;
	if (amount(get, ctx, &charge, out) && !(out->ratio == 0 && sane && capacity > 0)) {
		v = voltage(get, ctx);
		if (v == RVL_NO_VALUE || __builtin_mul_overflow(out->full, v / 1000, &uwh))
			out->full = RVL_NO_VALUE;
		else
			out->full = uwh / 1000;
		return;
	}
	out->full = RVL_NO_VALUE;
	out->ratio = sane ? capacity * 10000 : RVL_NO_VALUE;
}

void rvl_supply_read(rvl_attr_fn get, void *ctx, struct rvl_supply *out)
{
	int64_t online;

	memset(out, 0, sizeof(*out));
	out->ratio = out->full = RVL_NO_VALUE;
	out->kind = kind_of(get, ctx);
	if (out->kind == RVL_SUPPLY_BATTERY && number(get, ctx, "present") == 0)
		out->kind = RVL_SUPPLY_IGNORED;
	if (out->kind == RVL_SUPPLY_BATTERY) {
		read_battery(get, ctx, out);
	} else if (out->kind == RVL_SUPPLY_MAINS) {
		online = number(get, ctx, "online");
		/* 2 is a programmable supply. */
		out->online_known = online >= 0 && online <= 2;
		out->online = out->online_known && online;
	}
}

/* ---- the sum ---- */

/* A battery of unknown size is weighted by the average of the others. */
static double mean_full(const struct rvl_supply *s, size_t n)
{
	double sum = 0;
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (s[i].kind == RVL_SUPPLY_BATTERY && s[i].ratio != RVL_NO_VALUE && s[i].full > 0) {
			sum += (double)s[i].full;
			count++;
		}
	return count ? sum / (double)count : 1;
}

void rvl_reading_sum(const struct rvl_supply *s, size_t n, struct rvl_reading *out)
{
	double mean = mean_full(s, n), now = 0, full = 0;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < n; i++) {
		double weight = s[i].full > 0 ? (double)s[i].full : mean;

		if (s[i].kind == RVL_SUPPLY_MAINS) {
			out->mains_known |= s[i].online_known;
			out->mains |= s[i].online;
		}
		if (s[i].kind != RVL_SUPPLY_BATTERY)
			continue;
		out->batteries++;
		out->charging |= s[i].status == RVL_STATUS_CHARGING;
		out->discharging |= s[i].status == RVL_STATUS_DISCHARGING;
		out->idle |= s[i].status == RVL_STATUS_IDLE;
		if (s[i].ratio == RVL_NO_VALUE)
			continue;
		out->readable++;
		now += weight * (double)s[i].ratio;
		full += weight;
	}
	out->charge = full > 0 ? (uint32_t)(now / full) : 0;
}

/* ---- the filter of readings ---- */

static bool external(const struct rvl_gauge *g, const struct rvl_reading *r, uint64_t now)
{
	if (!r->batteries) {
		if (r->mains_known)
			return r->mains;
		/* A machine without a battery has an external supply; but the battery may come back. */
		return !g->battery || g->external || now - g->absent_since >= RVL_GAUGE_GRACE;
	}
	/* A charger too weak for the load does not count. Some supplies are not listed as mains. */
	if (r->discharging)
		return r->mains && r->charging;
	return r->mains || r->charging || (r->idle && !r->mains_known);
}

static uint32_t distance(uint32_t a, uint32_t b)
{
	return a > b ? a - b : b - a;
}

/*
 * The drain may be far too high, as where a coarse gauge stepped between two uevents, and must not make
 * every reading plausible.
 */
static uint64_t plausible(const struct rvl_gauge *g, uint64_t now)
{
	uint64_t rate = RVL_GAUGE_RATE + 4ull * g->drain;

	if (rate > RVL_GAUGE_RATE_MAX)
		rate = RVL_GAUGE_RATE_MAX;
	return RVL_GAUGE_JUMP + rate * ((now - g->at) / 1000) / (NSEC / 1000);
}

/* A jump is accepted after several readings over some time have confirmed it. */
static bool is_confirmed(struct rvl_gauge *g, uint32_t charge, uint64_t now)
{
	if (!g->jumps || distance(charge, g->jump_charge) > RVL_GAUGE_JUMP) {
		g->jumps = 0;
		g->jump_since = now;
	}
	g->jumps++;
	g->jump_charge = charge;
	return g->jumps >= RVL_GAUGE_CONFIRM && now - g->jump_since >= RVL_GAUGE_CONFIRM_NS;
}

static void accept(struct rvl_gauge *g, uint32_t charge, uint64_t now)
{
	uint64_t dt = now - g->at;
	bool jump = g->jumps;

	if (g->known && dt && !jump) {
		double rate = charge < g->charge ? (double)(g->charge - charge) * 1e9 / (double)dt : 0;

		/* The drain rises at once and falls slowly, because coarse gauges stand still in between. */
		g->drain = rate > g->drain ? (uint32_t)rate : (uint32_t)((g->drain * 7.0 + rate) / 8);
	}
	g->known = true;
	g->charge = charge;
	g->at = now;
	g->jumps = 0;
}

/* Of first readings, only an empty battery in a running machine is implausible. */
static bool is_jump(const struct rvl_gauge *g, uint32_t charge, uint64_t now)
{
	if (!g->known)
		return !charge;
	return distance(charge, g->charge) > plausible(g, now);
}

bool rvl_gauge_update(struct rvl_gauge *g, const struct rvl_reading *r, uint64_t now)
{
	if (r->batteries) {
		g->battery = true;
		g->absent_since = 0;
	} else if (!g->absent_since) {
		g->absent_since = now ? now : 1;
	}
	g->external = external(g, r, now);
	/* Without an external supply the last charge stays valid. */
	if (g->absent_since && g->external && now - g->absent_since >= RVL_GAUGE_GRACE)
		*g = (struct rvl_gauge){ .external = g->external, .absent_since = g->absent_since,
					 .rejected = g->rejected };
	if (!r->readable)
		return false;
	if (is_jump(g, r->charge, now) && !is_confirmed(g, r->charge, now)) {
		g->rejected++;
		return false;
	}
	accept(g, r->charge, now);
	return true;
}

uint64_t rvl_gauge_interval(const struct rvl_gauge *g, uint64_t least, uint64_t most)
{
	uint64_t ns = most;

	if (!g->external && g->drain)
		ns = RVL_PPM / 400 * NSEC / g->drain;
	if (g->jumps && ns > NSEC)
		ns = NSEC;
	if (ns < least)
		ns = least;
	return ns > most ? most : ns;
}

/* ---- heat ---- */

static bool sane_temp(int64_t t)
{
	return t != RVL_NO_VALUE && t > ABSURD_TEMP_LOW && t < ABSURD_TEMP_HIGH;
}

static enum rvl_heat against(int64_t temp, int64_t trip, int64_t hysteresis, enum rvl_heat above)
{
	if (temp >= trip)
		return above;
	return temp >= trip - hysteresis ? RVL_HEAT_WARM : RVL_HEAT_NONE;
}

/* Trips are numbered without gaps. Returns false behind the last one. */
static bool trip_heat(rvl_attr_fn get, void *ctx, int i, int64_t temp, int64_t hysteresis,
		      enum rvl_heat *heat)
{
	*heat = RVL_HEAT_NONE;
	char name[40], type[32];
	int64_t trip;

	snprintf(name, sizeof(name), "trip_point_%d_type", i);
	if (!get(ctx, name, type, sizeof(type)))
		return false;
	snprintf(name, sizeof(name), "trip_point_%d_temp", i);
	trip = number(get, ctx, name);
	/* A disabled trip has a temperature far below zero. */
	if (trip <= 0 || !sane_temp(trip))
		return true;
	if (!strcmp(type, "passive"))
		*heat = against(temp, trip, hysteresis, RVL_HEAT_PASSIVE);
	else if (!strcmp(type, "hot"))
		*heat = against(temp, trip, hysteresis, RVL_HEAT_HOT);
	else if (!strcmp(type, "critical"))
		*heat = against(temp, trip - CRITICAL_MARGIN, hysteresis, RVL_HEAT_HOT);
	return true;
}

enum rvl_heat rvl_zone_heat(rvl_attr_fn get, void *ctx, int64_t limit, int64_t hysteresis,
			    int64_t *temp)
{
	enum rvl_heat heat = RVL_HEAT_NONE, h;

	*temp = number(get, ctx, "temp");
	if (!sane_temp(*temp)) {
		*temp = RVL_NO_VALUE;
		return heat;
	}
	if (limit)
		heat = against(*temp, limit, hysteresis, RVL_HEAT_PASSIVE);
	for (int i = 0; i < TRIPS_MAX && trip_heat(get, ctx, i, *temp, hysteresis, &h); i++)
		heat = h > heat ? h : heat;
	return heat;
}
