// SPDX-License-Identifier: MIT
/*
 * The battery that the device drains: its arithmetic, its page of memory, and the specifications
 * that it refuses.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "battery.h"
#include "suite.h"

#define PAGE	 0x3000u
#define PJ_JOULE 1000000000000ull

static char path[] = "/tmp/rivulet-drain.XXXXXX";
static struct rvl_memory mem;
static struct rvl_battery b;
static char err[160];

static void setup(void)
{
	int fd;

	strcpy(path + sizeof(path) - 7, "XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 0x10000), 0);
	close(fd);
	mem = (struct rvl_memory){ .path = path };
	ck_assert_msg(!rvl_battery_set(&b, "mwh=1000,at=0x3000,factor=100", err, sizeof(err)), "%s",
		      err);
}

static void teardown(void)
{
	rvl_memory_drop(&mem);
	unlink(path);
}

static const struct rvl_battery_page *page(void)
{
	return rvl_memory_map(&mem, PAGE, sizeof(struct rvl_battery_page), false);
}

START_TEST(drains_what_the_device_used)
{
	/* 1000 mWh are 3600 J. The device used 9 J, and the factor is 100, so a quarter is gone. */
	ck_assert(rvl_battery_follow(&b, &mem, 0));
	ck_assert_uint_eq(page()->magic, RVL_BATTERY_MAGIC);
	ck_assert_uint_eq(page()->left, 1000);
	ck_assert_uint_eq(page()->full, 1000);
	ck_assert_uint_eq(page()->state, 1);
	ck_assert(rvl_battery_follow(&b, &mem, 9 * PJ_JOULE));
	ck_assert_uint_eq(page()->left, 750);
	/* The counter did not increase, so nothing is taken. */
	ck_assert(rvl_battery_follow(&b, &mem, 9 * PJ_JOULE));
	ck_assert_uint_eq(page()->left, 750);
	ck_assert_double_eq_tol(b.taken, 9, 1e-9);
}
END_TEST

START_TEST(ends_at_zero)
{
	/* 1 uWh is left, which is critical but not empty. */
	ck_assert(rvl_battery_follow(&b, &mem, 36 * PJ_JOULE - 36000000));
	ck_assert_uint_eq(page()->left, 1);
	ck_assert_uint_eq(page()->state, 1 | 4);
	ck_assert(rvl_battery_follow(&b, &mem, 72 * PJ_JOULE));
	ck_assert_uint_eq(page()->left, 0);
	ck_assert_double_eq(rvl_battery_left(&b), 0);
}
END_TEST

START_TEST(next_device_drains_further)
{
	ck_assert(rvl_battery_follow(&b, &mem, 9 * PJ_JOULE));
	rvl_battery_restart(&b);
	ck_assert(rvl_battery_follow(&b, &mem, 9 * PJ_JOULE));
	ck_assert_uint_eq(page()->left, 500);
}
END_TEST

START_TEST(is_charged_again)
{
	ck_assert(rvl_battery_follow(&b, &mem, 30 * PJ_JOULE));
	ck_assert_int_eq(rvl_battery_change(&b, "charge=50,factor=10", err, sizeof(err)), 0);
	ck_assert_double_eq(b.taken, 0);
	ck_assert(rvl_battery_follow(&b, &mem, 39 * PJ_JOULE));
	ck_assert_uint_eq(page()->left, 475);
	/* The machine has read capacity and address, so they cannot change. */
	ck_assert_int_eq(rvl_battery_change(&b, "mwh=5,charge=1", err, sizeof(err)), -EINVAL);
	ck_assert_int_eq(rvl_battery_change(&b, "at=0,charge=1", err, sizeof(err)), -EINVAL);
	ck_assert_int_eq(rvl_battery_change(&b, "factor=2", err, sizeof(err)), -EINVAL);
	ck_assert_double_eq(b.factor, 10);
}
END_TEST

START_TEST(needs_its_page)
{
	struct rvl_battery far;

	ck_assert_int_eq(rvl_battery_set(&far, "mwh=10,at=0x10000", err, sizeof(err)), 0);
	ck_assert(!rvl_battery_follow(&far, &mem, 0));
	/* Memory may be missing until the machine boots, so this is no error. */
	rvl_memory_drop(&mem);
	unlink(path);
	ck_assert(rvl_battery_follow(&far, &mem, 0));
}
END_TEST

static const char *const bad[] = {
	"",
	"mwh=10",
	"at=4096",
	"mwh=0,at=4096",
	"mwh=1.5,at=4096",
	"mwh=1000001,at=4096",
	"mwh=10,at=4097",
	"mwh=10,at=-4096",
	"mwh=10,at=1e300",
	"mwh=10,at=4096,factor=nan",
	"mwh=10,at=4096,factor=-1",
	"mwh=10,at=4096,factor=1e13",
	"mwh=10,at=4096,charge=101",
	"mwh=10,at=4096,charge=",
	"mwh=10,at=4096,",
	"mwh=10,at=4096,volt=3",
	"mwh=10x,at=4096",
};

START_TEST(bad_specification)
{
	err[0] = 0;
	ck_assert_int_eq(rvl_battery_set(&b, bad[_i], err, sizeof(err)), -EINVAL);
	ck_assert_str_ne(err, "");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("drain");
	TCase *t = tcase_create("drain");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, drains_what_the_device_used);
	tcase_add_test(t, ends_at_zero);
	tcase_add_test(t, next_device_drains_further);
	tcase_add_test(t, is_charged_again);
	tcase_add_test(t, needs_its_page);
	tcase_add_loop_test(t, bad_specification, 0, sizeof(bad) / sizeof(bad[0]));
	suite_add_tcase(s, t);
	return run_suite(s);
}
