// SPDX-License-Identifier: MIT
/*
 * Parts of the model that need no device: the battery and its page, the memory of the machine, and
 * the specifications of injected faults.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "battery.h"
#include "files.h"
#include "inject.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct rvl_battery b;
static char err[200];

/* ---- the battery ---- */

static int set(const char *spec)
{
	memset(&b, 0x55, sizeof(b));
	*err = 0;
	return rvl_battery_set(&b, spec, err, sizeof(err));
}

/* By default a battery is full, and its factor is 1. */
START_TEST(battery_set)
{
	ck_assert_int_eq(set("mwh=1,at=0"), 0);
	ck_assert(b.on && b.full == 1 && b.at == 0 && !b.unmapped && !b.counted);
	ck_assert_double_eq(b.factor, 1);
	ck_assert_double_eq(rvl_battery_left(&b), 1);
	ck_assert_double_eq(b.left, 3.6);
	ck_assert_int_eq(set("at=8192,charge=25,factor=0.5,mwh=1000000"), 0);
	ck_assert(b.full == 1000000 && b.at == 8192);
	ck_assert_double_eq(b.factor, 0.5);
	ck_assert_double_eq(rvl_battery_left(&b), 250000);
	ck_assert_double_eq(b.taken, 0);
	ck_assert_int_eq(set("mwh=5,at=4096,charge=0,factor=0"), 0);
	ck_assert_double_eq(rvl_battery_left(&b), 0);
	ck_assert_double_eq(b.factor, 0);
	/* The last of two values counts. */
	ck_assert_int_eq(set("mwh=5,at=4096,mwh=7,charge=100,factor=1e12"), 0);
	ck_assert_uint_eq(b.full, 7);
}
END_TEST

START_TEST(battery_mistakes)
{
	static const struct {
		const char *spec, *says;
	} row[] = {
		{ "mwh=0.5,at=0", "\"mwh=0.5\" is not within 1 to 1e+06" },
		{ "mwh=0,at=0", "\"mwh=0\" is not within 1 to 1e+06" },
		{ "mwh=1000001,at=0", "\"mwh=1000001\" is not within 1 to 1e+06" },
		{ "mwh=1.5,at=0", "\"mwh=1.5,at=0\": mwh= is whole, at= a multiple of 4096" },
		{ "mwh=1,at=4095", "\"mwh=1,at=4095\": mwh= is whole, at= a multiple of 4096" },
		{ "mwh=1,at=0.5", "\"mwh=1,at=0.5\": mwh= is whole, at= a multiple of 4096" },
		{ "mwh=1,at=-1", "\"at=-1\" is not within 0 to 4.5036e+15" },
		{ "mwh=1,at=1e16", "\"at=1e16\" is not within 0 to 4.5036e+15" },
		{ "mwh=1,at=0,factor=2e12", "\"factor=2e12\" is not within 0 to 1e+12" },
		{ "mwh=1,at=0,charge=101", "\"charge=101\" is not within 0 to 100" },
		{ "mwh=1,at=0,charge=5%", "\"charge=5%\" is not within 0 to 100" },
		{ "mwh=1,at=0,charge=inf", "\"charge=inf\" is not within 0 to 100" },
		{ "mwh=1", "\"mwh=1\": mwh= and at= are needed" },
		{ "at=0,charge=5", "\"at=0,charge=5\": mwh= and at= are needed" },
		{ "", "\"\": expected mwh=, at=, factor= or charge= and a number" },
		{ "mwh=", "\"mwh=\": expected mwh=, at=, factor= or charge= and a number" },
		{ "mwh=1,at=0,", "\"\": expected mwh=, at=, factor= or charge= and a number" },
		{ "volt=1", "\"volt=1\": expected mwh=, at=, factor= or charge= and a number" },
	};

	for (size_t i = 0; i < COUNT(row); i++) {
		ck_assert_int_eq(set(row[i].spec), -EINVAL);
		ck_assert_str_eq(err, row[i].says);
	}
}
END_TEST

/* At run time only charge and factor can change. A new charge starts the count of energy anew. */
START_TEST(battery_change)
{
	ck_assert_int_eq(set("mwh=100,at=4096,factor=3"), 0);
	b.taken = 5;
	ck_assert_int_eq(rvl_battery_change(&b, "charge=40", err, sizeof(err)), 0);
	ck_assert_double_eq_tol(rvl_battery_left(&b), 40, 1e-9);
	ck_assert_double_eq(b.taken, 0);
	ck_assert_double_eq(b.factor, 3);
	ck_assert_int_eq(rvl_battery_change(&b, "factor=2,charge=50", err, sizeof(err)), 0);
	ck_assert_double_eq(b.factor, 2);
	ck_assert_int_eq(rvl_battery_change(&b, "factor=9", err, sizeof(err)), -EINVAL);
	ck_assert_str_eq(err, "\"factor=9\": expected charge=PERCENT[,factor=X]");
	ck_assert_int_eq(rvl_battery_change(&b, "charge=1,mwh=5", err, sizeof(err)), -EINVAL);
	ck_assert_int_eq(rvl_battery_change(&b, "charge=1,at=0", err, sizeof(err)), -EINVAL);
	ck_assert_int_eq(rvl_battery_change(&b, "charge=x", err, sizeof(err)), -EINVAL);
	ck_assert_double_eq(b.factor, 2);
	ck_assert_double_eq_tol(rvl_battery_left(&b), 50, 1e-9);
}
END_TEST

static struct rvl_memory machine_memory(char *path)
{
	strcpy(path, "/tmp/rivulet-memory.XXXXXX");
	close(mkstemp(path));
	ck_assert(!truncate(path, 65536));
	return (struct rvl_memory){ .path = path };
}

/* The page has the values that an ACPI battery reports, in mWh and mV. */
START_TEST(battery_page)
{
	char path[40];
	struct rvl_memory mem = machine_memory(path);
	struct rvl_battery_page *p;

	ck_assert_int_eq(set("mwh=1000,at=8192,factor=2"), 0);
	/* 100 mWh are 360 J or 3.6e14 pJ. */
	ck_assert(rvl_battery_follow(&b, &mem, 360000000000000));
	p = rvl_memory_map(&mem, 8192, sizeof(*p), false);
	ck_assert_uint_eq(p->magic, 0x54414252);
	ck_assert_uint_eq(p->state, 1);
	ck_assert_uint_eq(p->rate, UINT32_MAX);
	ck_assert_uint_eq(p->left, 800);
	ck_assert_uint_eq(p->voltage, 3700);
	ck_assert_uint_eq(p->design, 1000);
	ck_assert_uint_eq(p->full, 1000);
	ck_assert_uint_eq(p->warning, 100);
	ck_assert_uint_eq(p->low, 50);
	ck_assert_uint_eq(p->design_voltage, 3700);
	ck_assert_double_eq_tol(b.taken, 360, 1e-6);
	/* Only the increase counts, and a new device begins at 0. */
	ck_assert(rvl_battery_follow(&b, &mem, 360000000000000));
	ck_assert_uint_eq(p->left, 800);
	rvl_battery_restart(&b);
	ck_assert(rvl_battery_follow(&b, &mem, 360000000000000));
	ck_assert_uint_eq(p->left, 600);
	ck_assert_double_eq_tol(b.taken, 720, 1e-6);
	/* A fraction of a milliwatthour is rounded up; at a twentieth the state is critical. */
	ck_assert_int_eq(rvl_battery_change(&b, "charge=5.1,factor=1", err, sizeof(err)), 0);
	rvl_battery_follow(&b, &mem, 360000000000000);
	ck_assert(p->left == 51 && p->state == 1);
	rvl_battery_follow(&b, &mem, 360000000000000 + 3600000000000);
	ck_assert(p->left <= 51 && p->left >= 50);
	ck_assert_int_eq(rvl_battery_change(&b, "charge=5", err, sizeof(err)), 0);
	rvl_battery_follow(&b, &mem, b.counted);
	ck_assert(p->left == 50 && p->state == 5);
	ck_assert_int_eq(rvl_battery_change(&b, "charge=0.01", err, sizeof(err)), 0);
	rvl_battery_follow(&b, &mem, b.counted);
	ck_assert_uint_eq(p->left, 1);
	/* An empty battery stays empty. */
	rvl_battery_follow(&b, &mem, b.counted + 3600000000000000);
	ck_assert_uint_eq(p->left, 0);
	ck_assert_double_eq(b.left, 0);
	rvl_memory_drop(&mem);
	unlink(path);
}
END_TEST

/* A page outside the memory is reported. Memory that does not exist yet is not. */
START_TEST(battery_elsewhere)
{
	char path[40];
	struct rvl_memory mem = machine_memory(path), none = { .path = "/nonexistent/memory" };

	ck_assert_int_eq(set("mwh=1000,at=65536"), 0);
	ck_assert(!rvl_battery_follow(&b, &mem, 0));
	ck_assert(rvl_battery_follow(&b, &none, 0));
	ck_assert_int_eq(set("mwh=1000,at=61440"), 0);
	ck_assert(rvl_battery_follow(&b, &mem, 0));
	rvl_memory_drop(&mem);
	ck_assert_ptr_null(mem.base);
	ck_assert_uint_eq(mem.size, 0);
	rvl_memory_drop(&mem);
	unlink(path);
}
END_TEST

/* ---- memory ---- */

/*
 * Only a regular file that is not empty is the machine's memory. Until there is one, each access
 * looks for it again.
 */
START_TEST(memory)
{
	char path[40], link[60];
	struct rvl_memory mem = machine_memory(path), other;
	uint8_t *p;

	p = rvl_memory_map(&mem, 65535, 1, true);
	ck_assert_ptr_eq(p, mem.base + 65535);
	ck_assert_ptr_null(rvl_memory_map(&mem, 65535, 2, true));
	*p = 7;
	rvl_memory_drop(&mem);
	p = rvl_memory_map(&mem, 65535, 1, false);
	ck_assert_int_eq(*p, 7);
	rvl_memory_drop(&mem);
	snprintf(link, sizeof(link), "%s.link", path);
	ck_assert(!symlink(path, link));
	other = (struct rvl_memory){ .path = link };
	ck_assert_ptr_null(rvl_memory_map(&other, 0, 1, false));
	other.path = "/tmp";
	ck_assert_ptr_null(rvl_memory_map(&other, 0, 1, false));
	ck_assert(!truncate(path, 0));
	ck_assert_ptr_null(rvl_memory_map(&mem, 0, 1, false));
	ck_assert(!truncate(path, 1));
	ck_assert_ptr_nonnull(rvl_memory_map(&mem, 0, 1, false));
	rvl_memory_drop(&mem);
	unlink(link);
	unlink(path);
}
END_TEST

/* ---- injected faults ---- */

static struct rvl_inject in;

static int add(const char *spec, uint64_t started)
{
	return rvl_inject_add(&in, spec, started, err, sizeof(err));
}

/*
 * Each injection is for one job: a job number, a number relative to now, or the next job of a
 * client.
 */
START_TEST(injections)
{
	uint64_t arg = 0;

	ck_assert_int_eq(add("slow@5:20,slow@+3:30", 10), 0);
	ck_assert_uint_eq(in.count, 2);
	ck_assert(!rvl_inject_hit(&in, RVL_INJECT_slow, 4, &arg));
	ck_assert(!rvl_inject_hit(&in, RVL_INJECT_flip_desc, 5, &arg));
	ck_assert(rvl_inject_hit(&in, RVL_INJECT_slow, 5, &arg));
	ck_assert_uint_eq(arg, 20);
	ck_assert(rvl_inject_hit(&in, RVL_INJECT_slow, 13, &arg));
	ck_assert_uint_eq(arg, 30);
	ck_assert(rvl_inject_hit(&in, RVL_INJECT_slow, 13, NULL));
	/* A second query is the same hit. */
	ck_assert_uint_eq(in.hits[RVL_INJECT_slow], 2);
	/* Injections for jobs before the last one are dropped with the next specification. */
	ck_assert_int_eq(add("slow@20:1", 14), 0);
	ck_assert_uint_eq(in.count, 2);
	ck_assert(rvl_inject_hit(&in, RVL_INJECT_slow, 13, NULL));
	ck_assert_int_eq(add("slow@21:1", 15), 0);
	ck_assert_uint_eq(in.count, 2);
	ck_assert(!rvl_inject_hit(&in, RVL_INJECT_slow, 13, NULL));
	/* A kind without an argument has the argument 0. */
	ck_assert_int_eq(add("lost-irq@30", 15), 0);
	arg = 7;
	ck_assert(rvl_inject_hit(&in, RVL_INJECT_lost_irq, 30, &arg));
	ck_assert_uint_eq(arg, 0);
}
END_TEST

/* One for a client becomes one for the client's next job, one of each kind. */
START_TEST(injections_by_client)
{
	uint64_t arg = 0;

	ck_assert_int_eq(add("slow@=7:1,slow@=7:2,slow@=0:3", 0), 0);
	ck_assert(!rvl_inject_hit(&in, RVL_INJECT_slow, 0, NULL));
	rvl_inject_bind(&in, 6, 1);
	ck_assert(!rvl_inject_hit(&in, RVL_INJECT_slow, 1, NULL));
	rvl_inject_bind(&in, 7, 2);
	ck_assert(rvl_inject_hit(&in, RVL_INJECT_slow, 2, &arg));
	ck_assert_uint_eq(arg, 1);
	rvl_inject_bind(&in, 7, 3);
	ck_assert(rvl_inject_hit(&in, RVL_INJECT_slow, 3, &arg));
	ck_assert_uint_eq(arg, 2);
	rvl_inject_bind(&in, 7, 4);
	ck_assert(!rvl_inject_hit(&in, RVL_INJECT_slow, 4, NULL));
	rvl_inject_bind(&in, 0, 5);
	ck_assert(rvl_inject_hit(&in, RVL_INJECT_slow, 5, &arg));
	ck_assert_uint_eq(arg, 3);
}
END_TEST

/* A flipped bit of a descriptor, once. */
START_TEST(injections_flip)
{
	uint8_t desc[64] = { 0 }, zero[64] = { 0 };

	ck_assert_int_eq(add("flip-desc@3:9,flip_desc@=5:511", 0), 0);
	rvl_inject_flip(&in, 4, 2, desc);
	ck_assert_mem_eq(desc, zero, sizeof(desc));
	rvl_inject_flip(&in, 4, 3, desc);
	ck_assert_uint_eq(desc[1], 2);
	rvl_inject_flip(&in, 4, 3, desc);
	ck_assert_uint_eq(desc[1], 2);
	rvl_inject_flip(&in, 5, 3, desc);
	ck_assert_uint_eq(desc[63], 128);
	ck_assert_uint_eq(in.count, 0);
	ck_assert_uint_eq(in.hits[RVL_INJECT_flip_desc], 2);
}
END_TEST

START_TEST(injection_mistakes)
{
	static const char *const bad[] = { "",
					   "slow",
					   "slow@",
					   "slow@0:1",
					   "slow@+0:1",
					   "slow@1",
					   "slow@1:",
					   "slow@1:x",
					   "slow@1:1,",
					   "slow@1:1x",
					   "slow@-1:1",
					   "slo@1:1",
					   "slowly@1:1",
					   "slow@=x:1",
					   "slow@4294967296:1",
					   "slow@1:4294967296",
					   "flip-desc@1:99999999",
					   "@1:1",
					   "slow,@1" };
	char many[2000] = "";

	for (size_t i = 0; i < COUNT(bad); i++) {
		ck_assert_msg(add(bad[i], 1) == -EINVAL, "%s", bad[i]);
		ck_assert_ptr_nonnull(
			strstr(err, "\": expected KIND@[+]JOB or KIND@=CLIENT, with :MS for "
				    "slow, :BIT for flip_desc"));
		ck_assert_uint_eq(in.count, 0);
	}
	/* One invalid item, or one item too many, makes the whole specification invalid. */
	ck_assert_int_eq(add("slow@5:1,slow@6:1,x@7", 1), -EINVAL);
	ck_assert_uint_eq(in.count, 0);
	ck_assert_ptr_eq(strstr(err, "injection \"x@7\""), err);
	for (int i = 0; i < RVL_INJECT_MAX; i++)
		sprintf(many + strlen(many), "%sslow@%d:1", i ? "," : "", i + 5);
	ck_assert_int_eq(add(many, 1), 0);
	ck_assert_uint_eq(in.count, RVL_INJECT_MAX);
	ck_assert_int_eq(add("slow@500:1", 1), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err, "more than "));
	ck_assert_uint_eq(in.count, RVL_INJECT_MAX);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sim_parts");
	TCase *t = tcase_create("all");

	tcase_add_test(t, battery_set);
	tcase_add_test(t, battery_mistakes);
	tcase_add_test(t, battery_change);
	tcase_add_test(t, battery_page);
	tcase_add_test(t, battery_elsewhere);
	tcase_add_test(t, memory);
	tcase_add_test(t, injections);
	tcase_add_test(t, injections_by_client);
	tcase_add_test(t, injections_flip);
	tcase_add_test(t, injection_mistakes);
	suite_add_tcase(s, t);
	return run_suite(s);
}
