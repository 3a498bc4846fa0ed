// SPDX-License-Identifier: MIT
#include "battery.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MILLIVOLT   3700u /* of one lithium cell; reported only */
#define UNKNOWN	    0xffffffffu
#define JOULE_MWH   3.6
#define FULL_MAX    1000000u /* 1 kWh, which fits the words of ACPI */
#define FACTOR_MAX  1e12
#define WARNING(mwh) ((mwh) / 10)
#define LOW(mwh)    ((mwh) / 20)

enum { DISCHARGING = 1, CRITICAL = 4 };

/* Parses one KEY=VALUE of a specification. Members that are not given are NaN. */
struct spec {
	double mwh, at, factor, charge;
};

static int read_one(struct spec *s, const char *word, size_t n, char *err, size_t errsize)
{
	const struct {
		const char *key;
		double *value, lo, hi;
	} keys[] = {
		{ "mwh=", &s->mwh, 1, FULL_MAX },
		{ "at=", &s->at, 0, 0x1p52 },
		{ "factor=", &s->factor, 0, FACTOR_MAX },
		{ "charge=", &s->charge, 0, 100 },
	};
	char *end;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		size_t k = strlen(keys[i].key);
		double v;

		if (n <= k || strncmp(word, keys[i].key, k))
			continue;
		v = strtod(word + k, &end);
		if (end == word + n && word[k] >= '0' && word[k] <= '9' && v >= keys[i].lo &&
		    v <= keys[i].hi) {
			*keys[i].value = v;
			return 0;
		}
		snprintf(err, errsize, "\"%.*s\" is not within %g to %g", (int)n, word, keys[i].lo,
			 keys[i].hi);
		return -EINVAL;
	}
	snprintf(err, errsize, "\"%.*s\": expected mwh=, at=, factor= or charge= and a number",
		 (int)n, word);
	return -EINVAL;
}

static int read_spec(struct spec *s, const char *text, char *err, size_t errsize)
{
	int r = 0;

	*s = (struct spec){ NAN, NAN, NAN, NAN };
	for (; !r; text++) {
		size_t n = strcspn(text, ",");

		r = read_one(s, text, n, err, errsize);
		text += n;
		if (!*text)
			break;
	}
	return r;
}

static void charge(struct rvl_battery *b, double percent)
{
	b->left = b->full * JOULE_MWH * percent / 100;
	b->taken = 0;
}

int rvl_battery_set(struct rvl_battery *b, const char *spec, char *err, size_t errsize)
{
	struct spec s;
	int r = read_spec(&s, spec, err, errsize);

	if (r)
		return r;
	if (isnan(s.mwh) || isnan(s.at)) {
		snprintf(err, errsize, "\"%.40s\": mwh= and at= are needed", spec);
		return -EINVAL;
	}
	if (s.mwh != floor(s.mwh) || s.at != floor(s.at) || fmod(s.at, 4096) != 0) {
		snprintf(err, errsize, "\"%.40s\": mwh= is whole, at= a multiple of 4096", spec);
		return -EINVAL;
	}
	*b = (struct rvl_battery){ .on = true,
				   .at = (uint64_t)s.at,
				   .full = (uint32_t)s.mwh,
				   .factor = isnan(s.factor) ? 1 : s.factor };
	charge(b, isnan(s.charge) ? 100 : s.charge);
	return 0;
}

int rvl_battery_change(struct rvl_battery *b, const char *spec, char *err, size_t errsize)
{
	struct spec s;
	int r = read_spec(&s, spec, err, errsize);

	if (r)
		return r;
	/* The machine read the capacity and the address at boot, so they cannot change. */
	if (!isnan(s.mwh) || !isnan(s.at) || isnan(s.charge)) {
		snprintf(err, errsize, "\"%.40s\": expected charge=PERCENT[,factor=X]", spec);
		return -EINVAL;
	}
	if (!isnan(s.factor))
		b->factor = s.factor;
	charge(b, s.charge);
	return 0;
}

double rvl_battery_left(const struct rvl_battery *b)
{
	return b->left / JOULE_MWH;
}

static void put(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void publish(const struct rvl_battery *b, struct rvl_battery_page *p)
{
	/* A charge above 0 is rounded up, because 0 means empty. */
	uint32_t left = (uint32_t)ceil(rvl_battery_left(b));

	put(&p->left, left);
	put(&p->state, DISCHARGING | (left <= LOW(b->full) ? CRITICAL : 0));
	/* Time is compressed, so a rate would be meaningless. */
	put(&p->rate, UNKNOWN);
	put(&p->voltage, MILLIVOLT);
	put(&p->design, b->full);
	put(&p->full, b->full);
	put(&p->warning, WARNING(b->full));
	put(&p->low, LOW(b->full));
	put(&p->design_voltage, MILLIVOLT);
	put(&p->magic, RVL_BATTERY_MAGIC);
}

bool rvl_battery_follow(struct rvl_battery *b, struct rvl_memory *mem, uint64_t energy)
{
	struct rvl_battery_page *page;
	double joule = (double)(energy - b->counted) * 1e-12;

	b->counted = energy;
	b->taken += joule;
	b->left = fmax(0, b->left - joule * b->factor);
	page = rvl_memory_map(mem, b->at, sizeof(*page), true);
	if (page)
		publish(b, page);
	return page || !mem->base;
}

void rvl_battery_restart(struct rvl_battery *b)
{
	b->counted = 0;
}
