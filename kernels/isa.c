/* SPDX-License-Identifier: MIT */
/* Chooses the instruction set of the kernels, once for the process. */
#include "isa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct isa {
	const char *name, *doc;
	const struct rvl_i8_kernels *i8;
	const struct rvl_f32_kernels *f32;
};

static const struct isa isas[] = {
#define ROW(id, name, doc, i8, f32) { name, doc, &(i8), &(f32) },
	RVL_ISAS(ROW)
#undef ROW
};

static enum rvl_isa best(void)
{
	enum rvl_isa isa = RVL_ISA_COUNT - 1;

	while (!rvl_isa_available(isa))
		isa--;
	return isa;
}

static enum rvl_isa chosen, first;
static char problem[RVL_WHY_MAX];
static bool forced;
static enum rvl_tables tables;

/* "; this processor has: ..." */
static const char *names(char text[RVL_WHY_MAX])
{
	int at = snprintf(text, RVL_WHY_MAX, "; this processor has:");

	for (int i = 0; i < RVL_ISA_COUNT && at < RVL_WHY_MAX; i++)
		if (rvl_isa_available((enum rvl_isa)i))
			at += snprintf(text + at, (size_t)(RVL_WHY_MAX - at), " %s", isas[i].name);
	return text;
}

static int find(const char *name, enum rvl_isa *isa, char *why)
{
	char has[RVL_WHY_MAX];

	for (int i = 0; i < RVL_ISA_COUNT; i++) {
		if (strcmp(isas[i].name, name))
			continue;
		if (rvl_isa_available((enum rvl_isa)i)) {
			*isa = (enum rvl_isa)i;
			return 0;
		}
		return rvl_why(why, "this processor does not have the instruction set %s%s", name,
			       names(has));
	}
	return rvl_why(why, "%.30s is no instruction set of this build%s", name, names(has));
}

/* Runs before main(), so that no kernel waits for it. */
static __attribute__((constructor)) void choose(void)
{
	const char *name = getenv("RIVULET_ISA"), *use = getenv("RIVULET_TABLES");
	char why[RVL_WHY_MAX];

	if (use && !strcmp(use, "off"))
		tables = RVL_TABLES_OFF;
	else if (use && *use)
		snprintf(problem, sizeof(problem), "RIVULET_TABLES: %.30s is not \"off\"", use);

	chosen = first = best();
	if (!name || !*name)
		return;
	forced = !find(name, &first, why);
	chosen = first;
	if (!forced)
		snprintf(problem, sizeof(problem), "RIVULET_ISA: %.*s", RVL_WHY_MAX - 16, why);
}

int rvl_cpu_check(char *why)
{
	return problem[0] ? rvl_why(why, "%s", problem) : 0;
}

int rvl_cpu_force(const char *name, char *why)
{
	int rc = rvl_cpu_check(why);

	if (rc)
		return rc;
	if (name)
		return find(name, &chosen, why);
	chosen = first;
	return 0;
}

bool rvl_cpu_set(uint32_t i, struct rvl_cpu_set *set)
{
	if (i >= RVL_ISA_COUNT)
		return false;
	*set = (struct rvl_cpu_set) {
		.name = isas[i].name, .doc = isas[i].doc, .available = rvl_isa_available((enum rvl_isa)i),
		.used = rvl_isa() == (enum rvl_isa)i, .forced = forced,
	};
	return true;
}

enum rvl_tables rvl_tables(void)
{
	return tables;
}

void rvl_tables_force(enum rvl_tables t)
{
	tables = t;
}

enum rvl_isa rvl_isa(void)
{
	return chosen;
}

const struct rvl_i8_kernels *rvl_i8_kernels(void)
{
	return isas[rvl_isa()].i8;
}

const struct rvl_f32_kernels *rvl_f32_kernels(void)
{
	return isas[rvl_isa()].f32;
}
