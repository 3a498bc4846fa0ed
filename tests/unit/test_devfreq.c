// SPDX-License-Identifier: MIT
/*
 * The sysfs files with a device's frequency limits, and the file that keeps the limits over a
 * restart. Here they are plain files, which keep what is written. test_power simulates the kernel's
 * reaction.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "power.h"
#include "suite.h"

static char dir[SCRATCH_MAX], syspath[100];
static struct rvl_devfreq d;
static struct rvl_text err;

static void setup(void)
{
	make_scratch(dir);
	put_file(dir, "npu/accel/accel0", NULL);
	put_file(dir, "npu/devfreq/npu.0/min_freq", "100000000\n");
	put_file(dir, "npu/devfreq/npu.0/max_freq", "333333333\n");
	snprintf(syspath, sizeof(syspath), "%s/npu/accel/accel0", dir);
}

static void teardown(void)
{
	remove_scratch(dir);
}

static void expect_file(const char *name, const char *want)
{
	char path[160], *text;
	size_t n;

	snprintf(path, sizeof(path), "%s/npu/devfreq/npu.0/%s", dir, name);
	text = read_file(path, &n);
	ck_assert_str_eq(text, want);
	free(text);
}

static void set(const char *name, const char *text)
{
	char path[80];

	snprintf(path, sizeof(path), "npu/devfreq/npu.0/%s", name);
	put_file(dir, path, text);
}

static void remove_file(const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/npu/devfreq/npu.0/%s", dir, name);
	ck_assert(!unlink(path));
}

static void expect_text(const char *want)
{
	ck_assert_msg(strstr(err.s, want) != NULL, "\"%s\" is not in \"%s\"", want, err.s);
}

/* The limits of the device are those below the parent of its node. */
START_TEST(opened)
{
	char want[160];

	memset(&d, 0x55, sizeof(d));
	ck_assert_int_eq(rvl_devfreq_open(&d, syspath, &err), 0);
	snprintf(want, sizeof(want), "%s/npu/devfreq/npu.0", dir);
	ck_assert_str_eq(d.dir, want);
	ck_assert_uint_eq(d.orig_min, 100000000);
	ck_assert_uint_eq(d.orig_max, 333333333);
	ck_assert_uint_eq(d.hz, 0);
	ck_assert_uint_eq(d.seen_min + d.seen_max, 0);
}
END_TEST

START_TEST(not_opened)
{
	ck_assert_int_eq(rvl_devfreq_open(&d, "", &err), -ENOENT);
	ck_assert_int_eq(rvl_devfreq_open(&d, "/accel0", &err), -ENOENT);
	ck_assert_str_eq(d.dir, "");
	put_file(dir, "other/accel/accel1", NULL);
	snprintf(syspath, sizeof(syspath), "%s/other/accel/accel1", dir);
	ck_assert_int_eq(rvl_devfreq_open(&d, syspath, &err), -ENOENT);
	expect_text("other/accel/accel1: its device has no devfreq");
	put_file(dir, "other/devfreq", NULL);
	ck_assert_int_eq(rvl_devfreq_open(&d, syspath, &err), -ENOENT);
	ck_assert_str_eq(d.dir, "");
	snprintf(syspath, sizeof(syspath), "%s/npu/accel/accel0", dir);
	remove_file("max_freq");
	ck_assert_int_eq(rvl_devfreq_open(&d, syspath, &err), -ENOENT);
	expect_text("/npu/devfreq/npu.0/max_freq: No such file or directory");
	ck_assert_str_eq(d.dir, "");
}
END_TEST

/* A file that does not contain a number is an error that quotes the content. */
START_TEST(no_number)
{
	set("min_freq", "unknown\n");
	ck_assert_int_eq(rvl_devfreq_open(&d, syspath, &err), -EIO);
	expect_text("min_freq: \"unknown\n\" is no frequency");
	set("min_freq", "");
	ck_assert_int_eq(rvl_devfreq_open(&d, syspath, &err), -EIO);
	set("min_freq", "99999999999999999999999\n");
	ck_assert_int_eq(rvl_devfreq_open(&d, syspath, &err), -EIO);
	set("min_freq", "0\n");
	ck_assert_int_eq(rvl_devfreq_open(&d, syspath, &err), 0);
}
END_TEST

static void open_it(void)
{
	ck_assert_int_eq(rvl_devfreq_open(&d, syspath, &err), 0);
}

/* Both limits become the level's frequency, and the previous limits are restored at the end. */
START_TEST(pinned_and_restored)
{
	uint64_t min, max;

	open_it();
	ck_assert_int_eq(rvl_devfreq_restore(&d, &err), 0);
	expect_file("min_freq", "100000000\n");
	ck_assert(!rvl_devfreq_changed(&d, &min, &max));
	ck_assert_int_eq(rvl_devfreq_pin(&d, 166666666, &err), 0);
	expect_file("min_freq", "166666666\n");
	expect_file("max_freq", "166666666\n");
	ck_assert_uint_eq(d.hz, 166666666);
	ck_assert(!rvl_devfreq_changed(&d, &min, &max));
	set("min_freq", "166666665\n");
	ck_assert(rvl_devfreq_changed(&d, &min, &max));
	ck_assert(min == 166666665 && max == 166666666);
	set("min_freq", "166666666\n");
	ck_assert(!rvl_devfreq_changed(&d, &min, &max));
	set("max_freq", "166666667\n");
	ck_assert(rvl_devfreq_changed(&d, &min, &max));
	ck_assert_uint_eq(max, 166666667);
	ck_assert_int_eq(rvl_devfreq_restore(&d, &err), 0);
	expect_file("min_freq", "100000000\n");
	expect_file("max_freq", "333333333\n");
	ck_assert_uint_eq(d.hz, 0);
	/* After the restoration, other writers own the limits. */
	set("min_freq", "5\n");
	ck_assert_int_eq(rvl_devfreq_restore(&d, &err), 0);
	expect_file("min_freq", "5\n");
	ck_assert(!rvl_devfreq_changed(&d, &min, &max));
}
END_TEST

/* If the limits cannot be read, they have not been changed. */
START_TEST(unreadable)
{
	uint64_t min, max;

	open_it();
	ck_assert_int_eq(rvl_devfreq_pin(&d, 166666666, &err), 0);
	set("min_freq", "5\n");
	remove_file("max_freq");
	ck_assert(!rvl_devfreq_changed(&d, &min, &max));
	ck_assert_int_eq(rvl_devfreq_pin(&d, 100000000, &err), -ENOENT);
	expect_text("max_freq: No such file or directory");
	ck_assert_int_eq(rvl_devfreq_put(&d, 1, 2, &err), -ENOENT);
	expect_file("min_freq", "5\n");
	ck_assert_uint_eq(d.hz, 100000000);
}
END_TEST

/* A write that fails names the file and the frequency. */
START_TEST(not_written)
{
	open_it();
	remove_file("min_freq");
	/* The range moves down, so the maximum is written first. Then writing the minimum fails. */
	ck_assert_int_eq(rvl_devfreq_pin(&d, 100000000, &err), -ENOENT);
	expect_text("writing 100000000 to ");
	expect_text("/min_freq: No such file or directory");
	expect_file("max_freq", "100000000\n");
	/* The range moves up, so the minimum is written first. It fails, and the maximum stays. */
	ck_assert_int_eq(rvl_devfreq_pin(&d, 333333333, &err), -ENOENT);
	expect_file("max_freq", "100000000\n");
	ck_assert_uint_eq(d.hz, 333333333);
}
END_TEST

/* ---- how the kernel rounds ---- */

static uint64_t granted[2];

static int grant(const char *path, char *buf, size_t size)
{
	snprintf(buf, size, "%llu\n", (unsigned long long)granted[!strstr(path, "min_freq")]);
	return 0;
}

static int ignore(const char *path, const char *text, size_t size)
{
	(void)path;
	ck_assert_uint_eq(size, strlen(text));
	ck_assert_int_eq(text[size - 1], '\n');
	return 0;
}

/* The kernel rounds to kHz, the minimum down and the maximum up: less than 1 kHz either way. */
START_TEST(rounding)
{
	static const struct rvl_devfreq_io io = { grant, ignore };
	static const struct {
		uint64_t min, max;
		int result;
	} row[] = {
		{ 1000000, 1000000, 0 },       { 999001, 1000999, 0 },
		{ 999000, 1000000, -ERANGE },  { 1000000, 1001000, -ERANGE },
		{ 1000001, 1000999, -ERANGE }, { 999999, 999999, -ERANGE },
	};

	open_it();
	rvl_devfreq_io = &io;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		granted[0] = row[i].min;
		granted[1] = row[i].max;
		ck_assert_int_eq(rvl_devfreq_pin(&d, 1000000, &err), row[i].result);
		ck_assert_uint_eq(d.seen_min, row[i].min);
		ck_assert_uint_eq(d.seen_max, row[i].max);
		/* A refused request stays in the kernel, so it must be undone too. */
		ck_assert_uint_eq(d.hz, 1000000);
	}
	expect_text("1000000 Hz asked for, 999999 to 999999 Hz granted");
}
END_TEST

/* ---- the saved state ---- */

static const struct rvl_power_state state = {
	.devfreq = { .dir = "/sys/a b",
		     .orig_min = 1,
		     .orig_max = UINT64_MAX,
		     .hz = 3,
		     .seen_min = 4,
		     .seen_max = 5 },
	.step = 6,
	.cap = 7,
	.level = 5,
	.reserve = 9,
	.changed = 1ull << 40,
	.mode = RIVULET_POLICY_FIXED,
	.fixed = 7,
};

/* The file is one that an administrator can read: a key and a value in each line. */
START_TEST(saved)
{
	struct rvl_power_state back;
	char path[100], *text;
	size_t n;

	setenv("RIVULETD_BOOT_ID", "b00t", 1);
	snprintf(path, sizeof(path), "%s/state", dir);
	ck_assert_int_eq(rvl_power_save(path, &state), 0);
	text = read_file(path, &n);
	ck_assert_str_eq(text, "version 1\nboot b00t\norig_min 1\norig_max 18446744073709551615\n"
			       "hz 3\nseen_min 4\nseen_max 5\nstep 6\ncap 7\nlevel 5\nreserve 9\n"
			       "changed 1099511627776\nmode 5\nfixed 7\ndir /sys/a b\nend 0\n");
	free(text);
	ck_assert_int_eq(rvl_power_load(path, &back), 0);
	ck_assert_mem_eq(&back, &state, sizeof(back));
	/* No other file is left. */
	snprintf(path, sizeof(path), "%s/state.new", dir);
	ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

/* A state without devfreq keeps an empty directory. */
START_TEST(no_directory)
{
	struct rvl_power_state back, st = state;
	char path[100];

	*st.devfreq.dir = 0;
	memset(st.devfreq.dir, 0, sizeof(st.devfreq.dir));
	snprintf(path, sizeof(path), "%s/state", dir);
	ck_assert_int_eq(rvl_power_save(path, &st), 0);
	ck_assert_int_eq(rvl_power_load(path, &back), 0);
	ck_assert_str_eq(back.devfreq.dir, "");
}
END_TEST

/* Saved limits are valid only in the boot in which they were read. */
START_TEST(another_boot)
{
	struct rvl_power_state back;
	char path[100];

	setenv("RIVULETD_BOOT_ID", "one", 1);
	snprintf(path, sizeof(path), "%s/state", dir);
	ck_assert_int_eq(rvl_power_save(path, &state), 0);
	setenv("RIVULETD_BOOT_ID", "two", 1);
	memset(&back, 0x55, sizeof(back));
	ck_assert_int_eq(rvl_power_load(path, &back), -ESTALE);
	ck_assert_uint_eq(back.devfreq.hz + back.mode, 0);
	/* If the id is empty or impossible, the kernel's id is used. */
	setenv("RIVULETD_BOOT_ID", "", 1);
	ck_assert_int_eq(rvl_power_save(path, &state), 0);
	unsetenv("RIVULETD_BOOT_ID");
	ck_assert_int_eq(rvl_power_load(path, &back), 0);
	setenv("RIVULETD_BOOT_ID",
	       "0123456789012345678901234567890123456789012345678901234567890123", 1);
	ck_assert_int_eq(rvl_power_load(path, &back), 0);
}
END_TEST

/* The lines of a good file with one line replaced. */
static int load_with(const char *key, const char *line)
{
	char path[100], text[1000] = "", *good, *save = NULL;
	struct rvl_power_state back;
	size_t n;
	int r;

	snprintf(path, sizeof(path), "%s/state", dir);
	ck_assert_int_eq(rvl_power_save(path, &state), 0);
	good = read_file(path, &n);
	for (char *l = strtok_r(good, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		bool same = !strncmp(l, key, strlen(key)) && l[strlen(key)] == ' ';

		strcat(strcat(text, same ? line : l), "\n");
	}
	free(good);
	write_file(path, text, strlen(text));
	memset(&back, 0x55, sizeof(back));
	r = rvl_power_load(path, &back);
	ck_assert(!r || !back.devfreq.hz);
	return r;
}

/* A file is refused if a value is impossible, or if it was truncated. */
START_TEST(damaged)
{
	char line[400];

	ck_assert_int_eq(load_with("none", ""), 0);
	ck_assert_int_eq(load_with("version", "version 2"), -EINVAL);
	ck_assert_int_eq(load_with("version", "version"), -EINVAL);
	ck_assert_int_eq(load_with("end", ""), -EINVAL);
	ck_assert_int_eq(load_with("boot", "boot another"), -ESTALE);
	ck_assert_int_eq(load_with("level", "level 7"), 0);
	ck_assert_int_eq(load_with("level", "level 8"), -EINVAL);
	ck_assert_int_eq(load_with("step", "step 8"), -EINVAL);
	ck_assert_int_eq(load_with("cap", "cap 8"), -EINVAL);
	ck_assert_int_eq(load_with("fixed", "fixed 8"), -EINVAL);
	snprintf(line, sizeof(line), "mode %d", RIVULET_POLICY_FIXED + 1);
	ck_assert_int_eq(load_with("mode", line), -EINVAL);
	ck_assert_int_eq(load_with("hz", "hz 5x"), -EINVAL);
	ck_assert_int_eq(load_with("hz", "hz x"), -EINVAL);
	ck_assert_int_eq(load_with("hz", "hz 18446744073709551616"), -EINVAL);
	ck_assert_int_eq(load_with("hz", "nonsense"), -EINVAL);
	/* An unknown key, which another version may write, is skipped. */
	ck_assert_int_eq(load_with("reserve", "colour 3"), 0);
	memset(line, 'd', sizeof(line));
	memcpy(line, "dir ", 4);
	line[4 + sizeof(d.dir)] = 0;
	ck_assert_int_eq(load_with("dir", line), -EINVAL);
	line[4 + sizeof(d.dir) - 1] = 0;
	ck_assert_int_eq(load_with("dir", line), 0);
}
END_TEST

/* A failed write leaves the old file unchanged. */
START_TEST(not_saved)
{
	struct rvl_power_state back;
	char path[300];
	size_t n;

	snprintf(path, sizeof(path), "%s/a/state", dir);
	ck_assert_int_eq(rvl_power_save(path, &state), -ENOENT);
	/* The name of the new file has four letters more, and there is room for 199. */
	n = (size_t)snprintf(path, sizeof(path), "%s/", dir);
	memset(path + n, 's', 196 - n);
	path[196] = 0;
	ck_assert_int_eq(rvl_power_save(path, &state), -ENAMETOOLONG);
	path[195] = 0;
	ck_assert_int_eq(rvl_power_save(path, &state), 0);
	/* A directory is in the way. */
	snprintf(path, sizeof(path), "%s/npu", dir);
	ck_assert_int_eq(rvl_power_save(path, &state), -EISDIR);
	strcat(path, ".new");
	ck_assert_int_eq(access(path, F_OK), -1);
	ck_assert_int_eq(rvl_power_load(dir, &back), -EISDIR);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("devfreq");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, opened);
	tcase_add_test(t, not_opened);
	tcase_add_test(t, no_number);
	tcase_add_test(t, pinned_and_restored);
	tcase_add_test(t, unreadable);
	tcase_add_test(t, not_written);
	tcase_add_test(t, rounding);
	tcase_add_test(t, saved);
	tcase_add_test(t, no_directory);
	tcase_add_test(t, another_boot);
	tcase_add_test(t, damaged);
	tcase_add_test(t, not_saved);
	suite_add_tcase(s, t);
	return run_suite(s);
}
