// SPDX-License-Identifier: MIT
/*
 * rivuletd's configuration: values, errors with file and line, precedence of files, and random
 * input.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chance.h"
#include "config.h"
#include "files.h"
#include "rivulet_proto.h"
#include "suite.h"

#define CASES 20000

static struct rvl_config c;
static struct rvl_text err;
static char warned[4][256];
static int warnings;
static char root[64];

static int unknown_sections;

static void warn(enum rvl_config_skipped what, const char *text, void *data)
{
	(void)data;
	unknown_sections += what == RVL_SKIPPED_SECTION;
	snprintf(warned[warnings++ % 4], sizeof(warned[0]), "%s", text);
}

static int parse(const char *text)
{
	rvl_config_default(&c);
	warnings = unknown_sections = 0;
	err.s[0] = 0;
	return rvl_config_parse(&c, "a.conf", text, strlen(text), warn, NULL, &err);
}

/* Proves that every type of value is read with its units, and that the last line of a key wins. */
START_TEST(values)
{
	ck_assert_int_eq(parse("# comment\n; another\n\n [Limits] \nSessions = 7\n"
			       "MemoryPerUser=3M\nModelSizeMax=2K\n"
			       "[Compiler]\nTimeMax=9s\nTimeMax=8\n"
			       "[Scheduler]\nHighPriorityUsers=root, 1000 4294967294\n"
			       "[Device]\nNode=sim:zu3eg-64"),
			 0);
	ck_assert_uint_eq(c.sessions, 7);
	ck_assert_uint_eq(c.user_bytes, 3 << 20);
	ck_assert_uint_eq(c.model_size, 2 << 10);
	ck_assert_uint_eq(c.worker_seconds, 8);
	ck_assert_uint_eq(c.high_users.n, 3);
	ck_assert_uint_eq(c.high_users.uid[2], 4294967294u);
	ck_assert_str_eq(c.node.s, "sim:zu3eg-64");
	ck_assert_int_eq(warnings, 0);
	/* An empty value restores the default. */
	ck_assert_int_eq(parse("[Limits]\nSessions=7\nSessions=\n"), 0);
	ck_assert_uint_eq(c.sessions, 64);
}
END_TEST

/*
 * Proves that an unknown key or section gives a warning with file and line and has no other effect.
 */
START_TEST(unknown)
{
	ck_assert_int_eq(parse("[Limits]\nSessions=7\nFuture=1\n[New]\nWhat=2\n"), 0);
	ck_assert_uint_eq(c.sessions, 7);
	ck_assert_int_eq(warnings, 2);
	ck_assert_str_eq(warned[0], "a.conf:3: unknown key \"Future\", ignored");
	ck_assert_str_eq(warned[1], "a.conf:4: unknown section \"New\", ignored with its keys");
	ck_assert_int_eq(unknown_sections, 1);
	ck_assert_int_eq(parse("[POWER]\nMode=auto\n"), 0);
	ck_assert_int_eq(unknown_sections, 1);
	ck_assert_str_eq(warned[0], "a.conf:1: unknown section \"POWER\", ignored with its keys: "
				    "did you mean [Power]?");
}
END_TEST

static const struct {
	const char *text, *says;
} mistakes[] = {
	{ "Sessions=1\n", "a.conf:1: a key before the first [Section]" },
	{ "[Limits]\nSessions\n", "a.conf:2: neither [Section] nor Key=value" },
	{ "[Limits]\n=1\n", "a.conf:2: neither" },
	{ "[Limits\n", "a.conf:1: a section is [Name]" },
	{ "[]\n", "a.conf:1: a section is [Name]" },
	{ "[\n", "a.conf:1: a section is [Name]" },
	{ "[Limits]\nSessions=0\n", "a.conf:2: Sessions=0 is not within 1 to 4096" },
	{ "[Limits]\nSessions=-1\n", "a.conf:2: Sessions=-1 is no number" },
	{ "[Limits]\nSessions=1K\n", "a.conf:2: Sessions=1K: what is \"K\"?" },
	{ "[Limits]\nMemoryPerUser=1KK\n", "what is \"K\"?" },
	{ "[Limits]\nMemoryPerUser=99999999999999999999\n", "is no number" },
	{ "[Limits]\nMemoryPerUser=18014398509481984G\n", "is not within" },
	{ "[Compiler]\nTimeMax=1m\n", "what is \"m\"?" },
	{ "[Device]\nNode=accel0\n", "neither auto, nor a path, nor sim:BOARD" },
	{ "[Scheduler]\nHighPriorityUsers=nobody-of-this-name\n", "no user" },
	{ "[Scheduler]\nHighPriorityUsers=4294967295\n", "no user \"4294967295\"" },
	{ "[Scheduler]\nHighPriorityUsers=5x\n", "no user \"5x\"" },
	{ "[Limits]\nSessions=4097\n", "Sessions=4097 is not within 1 to 4096" },
	{ "[Limits]\nSessions=x\n", "Sessions=x is no number" },
	{ "[Limits]\nMemoryPerUser=4095\n", "not within 4096 to 1099511627776" },
	{ "[Limits]\nMemoryPerUser=1025G\n", "not within 4096 to 1099511627776" },
	{ "[Limits]\nMemoryPerUser=5k\n", "what is \"k\"?" },
	{ "[Compiler]\nTimeMax=9K\n", "what is \"K\"?" },
	{ "[Limits]\nHelloTimeout=.\n", "HelloTimeout=. is no time" },
	{ "[Limits]\nHelloTimeout=s\n", "HelloTimeout=s is no time" },
	{ "[Limits]\nHelloTimeout=0.0000000001\n", "is no time" },
	{ "[Limits]\nHelloTimeout=99999999999\n", "is no time" },
	{ "[Limits]\nHelloTimeout=18446744073709551617\n", "is no time" },
	{ "[Limits]\nHelloTimeout=1m\n", "HelloTimeout=1m: what is \"m\"?" },
	{ "[Limits]\nHelloTimeout=1.5.5\n", "what is \".5\"?" },
	{ "[Limits]\nHelloTimeout=0.999ms\n", "is not within 0.001s to 3600s" },
	{ "[Limits]\nHelloTimeout=3600.000000001\n", "is not within 0.001s to 3600s" },
	{ "[Power]\nHysteresis=x\n", "Hysteresis=x is no percentage" },
	{ "[Power]\nHysteresis=2.55555\n", "is no percentage" },
	{ "[Power]\nHysteresis=2%%\n", "is no percentage" },
	{ "[Power]\nHysteresis=50.0001%\n", "Hysteresis=50.0001% is not within 0 to 50 %" },
	{ "[Power]\nLevels=8\n", "Levels=8 is not within 0 to 7" },
	{ "[Power]\nLevels=3 two\n", "Levels=two is no number" },
	{ "[Power]\nLevels=7 6 5 4 3 2 1 0 0\n", "Levels= has more than 8 numbers" },
	{ "[Power]\nThresholds=75 100.0001\n", "Thresholds=100.0001 is not within 0 to 100 %" },
	{ "[Power]\nHeat=maybe\n", "Heat=maybe is none of: no, yes" },
	{ "[Power]\nForeignWriter=x\n", "is none of: yield, reassert" },
	{ "[Power]\nReserveAdmits=x\n", "is none of: high, none, all" },
	{ "[Power]\nReconfigure=x\n", "is none of: both, hardware, software, none" },
	{ "[Power]\nMode=fast\n",
	  "Mode=fast is not auto, performance, balanced, powersave or a level" },
	{ "[Power]\nStateDirectory=here\n",
	  "StateDirectory=here is neither auto, nor off, nor a path" },
	{ "[Metrics]\nSocket=sim:x\n", "Socket=sim:x is neither auto, nor off, nor a path" },
	{ "[Scheduler]\nHighPriorityUsers=1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n",
	  "more than 16 users" },
};

/* Proves that each error is one line that names the place and the value. */
START_TEST(mistake)
{
	ck_assert_int_eq(parse(mistakes[_i].text), -EINVAL);
	ck_assert_msg(strstr(err.s, mistakes[_i].says), "said: %s", err.s);
	ck_assert_ptr_null(strchr(err.s, '\n'));
}
END_TEST

static const struct {
	const char *key;
	size_t offset;
	const char *value;
	uint64_t want;
} numbers[] = {
#define NUMBER(section, key, member, value, want)                                                  \
	{                                                                                          \
		"[" section "]\n" key, offsetof(struct rvl_config, member), value, want            \
	}
	NUMBER("Limits", "Sessions", sessions, "1", 1),
	NUMBER("Limits", "Sessions", sessions, "4096", 4096),
	NUMBER("Limits", "MemoryPerUser", user_bytes, "4096", 4096),
	NUMBER("Limits", "MemoryPerUser", user_bytes, "4K", 4096),
	NUMBER("Limits", "MemoryPerUser", user_bytes, "1024G", 1ull << 40),
	NUMBER("Compiler", "TimeMax", worker_seconds, "9s", 9),
	NUMBER("Limits", "HelloTimeout", hello_timeout, "2", 2000000000),
	NUMBER("Limits", "HelloTimeout", hello_timeout, "2.5s", 2500000000),
	NUMBER("Limits", "HelloTimeout", hello_timeout, ".5", 500000000),
	NUMBER("Limits", "HelloTimeout", hello_timeout, "250ms", 250000000),
	NUMBER("Limits", "HelloTimeout", hello_timeout, "1.000001ms", 1000001),
	NUMBER("Limits", "HelloTimeout", hello_timeout, "0.001", 1000000),
	NUMBER("Limits", "HelloTimeout", hello_timeout, "1.000000007", 1000000007),
	NUMBER("Limits", "HelloTimeout", hello_timeout, "3600s", 3600000000000),
	NUMBER("Power", "Hysteresis", power_hysteresis, "2", 20000),
	NUMBER("Power", "Hysteresis", power_hysteresis, "12.34%", 123400),
	NUMBER("Power", "Hysteresis", power_hysteresis, "0.0001", 1),
	NUMBER("Power", "Hysteresis", power_hysteresis, "50%", 500000),
	NUMBER("Power", "Heat", power_heat, "no", 0),
	NUMBER("Power", "Heat", power_heat, "yes", 1),
	NUMBER("Power", "ForeignWriter", foreign, "yield", RVL_FOREIGN_YIELD),
	NUMBER("Power", "ForeignWriter", foreign, "reassert", RVL_FOREIGN_REASSERT),
	NUMBER("Power", "ReserveAdmits", power_admits, "high", RVL_ADMITS_HIGH),
	NUMBER("Power", "ReserveAdmits", power_admits, "none", RVL_ADMITS_NONE),
	NUMBER("Power", "ReserveAdmits", power_admits, "all", RVL_ADMITS_ALL),
	NUMBER("Power", "Reconfigure", reconfigure, "both", RVL_RECONFIGURE_BOTH),
	NUMBER("Power", "Reconfigure", reconfigure, "hardware", RVL_RECONFIGURE_HARDWARE),
	NUMBER("Power", "Reconfigure", reconfigure, "software", RVL_RECONFIGURE_SOFTWARE),
	NUMBER("Power", "Reconfigure", reconfigure, "none", RVL_RECONFIGURE_NONE),
};

/* Proves that values and their units mean what the man page says, at both ends of the range. */
START_TEST(units)
{
	char text[200];

	snprintf(text, sizeof(text), "%s=%s\n", numbers[_i].key, numbers[_i].value);
	ck_assert_msg(!parse(text), "%s", err.s);
	ck_assert_uint_eq(*(uint64_t *)((char *)&c + numbers[_i].offset), numbers[_i].want);
}
END_TEST

/* Proves that lists take spaces and commas, that auto is the empty list, and that names are users.
 */
START_TEST(lists)
{
	char text[200];

	ck_assert_int_eq(parse("[Power]\nLevels=7, 6 0\nThresholds=75,40.5%\nMode=3\n"), 0);
	ck_assert_uint_eq(c.power_levels.n, 3);
	ck_assert(c.power_levels.v[0] == 7 && c.power_levels.v[1] == 6 && c.power_levels.v[2] == 0);
	ck_assert_uint_eq(c.power_thresholds.n, 2);
	ck_assert(c.power_thresholds.v[0] == 750000 && c.power_thresholds.v[1] == 405000);
	ck_assert(c.power_mode.mode == RIVULET_POLICY_FIXED && c.power_mode.fixed == 3);
	ck_assert_int_eq(parse("[Power]\nLevels=7 6 5 4 3 2 1 0\nLevels=auto\nMode=powersave\n"),
			 0);
	ck_assert_uint_eq(c.power_levels.n, 0);
	ck_assert_uint_eq(c.power_mode.mode, RIVULET_POLICY_POWERSAVE);
	ck_assert_int_eq(parse("[Power]\nLevels=7 6 5 4 3 2 1 0\n"), 0);
	ck_assert_uint_eq(c.power_levels.n, 8);
	/* A name is looked up; root needs no look-up. */
	snprintf(text, sizeof(text), "[Scheduler]\nHighPriorityUsers=nobody,root\n");
	ck_assert_int_eq(parse(text), 0);
	ck_assert_uint_eq(c.high_users.n, 2);
	ck_assert_uint_eq(c.high_users.uid[0], getpwnam("nobody")->pw_uid);
	ck_assert_uint_eq(c.high_users.uid[1], 0);
	ck_assert(rvl_users_have(&c.high_users, 0));
	ck_assert(!rvl_users_have(&c.high_users, 1));
	ck_assert_int_eq(parse("[Scheduler]\nHighPriorityUsers=1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 "
			       "16\n"),
			 0);
	ck_assert(rvl_users_have(&c.high_users, 16));
	ck_assert(!rvl_users_have(&c.high_users, 0));
	/* No user at all. */
	ck_assert_int_eq(parse("[Scheduler]\nHighPriorityUsers=,\n"), 0);
	ck_assert_uint_eq(c.high_users.n, 0);
}
END_TEST

/* Proves the longest line, section, node and path that are read, and that one byte more is refused.
 */
START_TEST(lengths)
{
	static const char *const keys[] = { "[Device]\nNode=", "[Power]\nStateDirectory=" };
	char text[2000];
	size_t n;

	for (int i = 0; i < 2; i++) {
		n = strlen(strcpy(text, keys[i]));
		memset(text + n, '/', 128);
		text[n + 127] = 0;
		ck_assert_int_eq(parse(text), 0);
		ck_assert_uint_eq(strlen(i ? c.state_dir.s : c.node.s), 127);
		strcat(text, "/");
		ck_assert_int_eq(parse(text), -EINVAL);
		ck_assert_ptr_nonnull(strstr(err.s, "= is longer than 127 bytes"));
	}
	memset(text, '#', sizeof(text));
	text[1023] = 0;
	ck_assert_int_eq(parse(text), 0);
	memset(text, '#', sizeof(text));
	text[1024] = 0;
	ck_assert_int_eq(parse(text), -EINVAL);
	ck_assert_str_eq(err.s, "a.conf:1: the line is longer than 1023 bytes");
	ck_assert_int_eq(rvl_config_parse(&c, "a", "\n#\0", 3, NULL, NULL, &err), -EINVAL);
	ck_assert_str_eq(err.s, "a:2: a NUL byte");
	memset(text, 's', sizeof(text));
	text[0] = '[';
	strcpy(text + 64, "]\n");
	ck_assert_int_eq(parse(text), 0);
	ck_assert_int_eq(unknown_sections, 1);
	memset(text + 1, 's', 64);
	strcpy(text + 65, "]\n");
	ck_assert_int_eq(parse(text), -EINVAL);
	ck_assert_str_eq(err.s, "a.conf:1: a section is [Name]");
	/* A name of one letter is valid, and the warning callback may be NULL. */
	rvl_config_default(&c);
	ck_assert_int_eq(
		rvl_config_parse(&c, "a", "[x]\nA=1\n[Limits]\nB=1\n", 21, NULL, NULL, &err), 0);
}
END_TEST

/*
 * Proves that keys that are read only at start keep their values at a reload, and that they are
 * listed with the file's names.
 */
START_TEST(fixed_keys)
{
	struct rvl_config old, now;
	struct rvl_text names;

	ck_assert_int_eq(parse("[Device]\nNode=sim:a\n[Scheduler]\nThreads=3\n"), 0);
	old = c;
	ck_assert_int_eq(
		parse("[Device]\nNode=sim:b\n[Scheduler]\nThreads=4\n[Limits]\nSessions=9\n"), 0);
	now = c;
	rvl_config_keep_fixed(&now, &old, &names);
	ck_assert_str_eq(names.s, "Node=, Threads=");
	ck_assert_str_eq(now.node.s, "sim:a");
	ck_assert_uint_eq(now.threads, 3);
	ck_assert_uint_eq(now.sessions, 9);
	rvl_config_keep_fixed(&now, &old, &names);
	ck_assert_str_eq(names.s, "");
}
END_TEST

/* Proves the text of each type of value. */
START_TEST(printed)
{
	static const char *const lines[] = {
		"[Device]\n# auto, a device node, or sim:BOARD\nNode=/dev/x\n",
		"\n\n[Limits]\n# connections of all users\nSessions=7\n",
		"\nMemoryPerUser=5242880\n",
		"\nHelloTimeout=2.000000007s\n",
		"\nTimeMax=9\n",
		"\nHighPriorityUsers=5 6\n",
		"\nMode=2\n",
		"\nLevels=7 3 0\n",
		"\nThresholds=75.1234 40\n",
		"\nReconfigure=hardware\n",
		"\nHysteresis=12.3456\n",
		"\nReserveAdmits=none\n",
		"\nHeat=no\n",
		"\nForeignWriter=reassert\n",
		"\nStateDirectory=off\n",
	};
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	ck_assert_msg(!parse("[Device]\nNode=/dev/x\n[Limits]\nSessions=7\nMemoryPerUser=5M\n"
			     "HelloTimeout=2.000000007\n[Compiler]\nTimeMax=9s\n[Scheduler]\n"
			     "HighPriorityUsers=5,6\n[Power]\nMode=2\nLevels=7 3 0\n"
			     "Thresholds=75.1234 40\nReconfigure=hardware\nHysteresis=12.3456\n"
			     "ReserveAdmits=none\nHeat=no\nForeignWriter=reassert\n"
			     "StateDirectory=off\n"),
		      "%s", err.s);
	rvl_config_print(&c, f);
	fclose(f);
	ck_assert_ptr_eq(strstr(text, lines[0]), text);
	for (size_t i = 1; i < sizeof(lines) / sizeof(lines[0]); i++)
		ck_assert_msg(strstr(text, lines[i]) != NULL, "no %s in %s", lines[i], text);
	free(text);
	f = open_memstream(&text, &len);
	ck_assert_int_eq(parse("[Power]\nMode=performance\n"), 0);
	rvl_config_print(&c, f);
	fclose(f);
	ck_assert_ptr_nonnull(strstr(text, "\nMode=performance\n"));
	ck_assert_ptr_nonnull(strstr(text, "\nLevels=auto\n"));
	free(text);
}
END_TEST

/* Proves that overlong lines, NUL bytes and an overlong node are refused. */
START_TEST(hostile)
{
	static char text[4096];

	rvl_config_default(&c);
	memset(text, 'a', 2000);
	ck_assert_int_eq(rvl_config_parse(&c, "a", text, 2000, warn, NULL, &err), -EINVAL);
	ck_assert_int_eq(rvl_config_parse(&c, "a", "[Limits]\nSess\0ions=1", 20, warn, NULL, &err),
			 -EINVAL);
	snprintf(text, sizeof(text), "[Device]\nNode=/%0500d\n", 0);
	ck_assert_int_eq(parse(text), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.s, "longer than"));
}
END_TEST

/* A file, or a directory if @text is NULL. */
static void put(const char *path, const char *text)
{
	put_file(root, path + 1, text);
}

static void make_root(void)
{
	make_scratch(root);
}

static void remove_root(void)
{
	remove_scratch(root);
}

/*
 * Proves the order: vendor file, then /etc, then drop-ins by name. A file in /etc hides the same
 * name in /run, and that one hides /usr/lib; a link to /dev/null masks it.
 */
START_TEST(precedence)
{
	char link[128];

	put("/usr/lib/rivuletd/rivuletd.conf", "[Limits]\nSessions=1\nRunsPerUser=1\n");
	put("/etc/rivuletd/rivuletd.conf", "[Limits]\nSessions=2\n");
	put("/usr/lib/rivuletd/rivuletd.conf.d/10-a.conf", "[Limits]\nModelsPerUser=10\n");
	put("/run/rivuletd/rivuletd.conf.d/10-a.conf", "[Limits]\nModelsPerUser=11\n");
	put("/etc/rivuletd/rivuletd.conf.d/10-a.conf", "[Limits]\nModelsPerUser=12\n");
	put("/usr/lib/rivuletd/rivuletd.conf.d/20-b.conf", "[Limits]\nSessions=3\n");
	put("/etc/rivuletd/rivuletd.conf.d/15-c.conf", "[Limits]\nSessions=4\n");
	put("/etc/rivuletd/rivuletd.conf.d/99-no.txt", "[Limits]\nSessions=5\n");
	put("/usr/lib/rivuletd/rivuletd.conf.d/30-m.conf", "[Limits]\nSessions=6\n");
	snprintf(link, sizeof(link), "%s/etc/rivuletd/rivuletd.conf.d/30-m.conf", root);
	ck_assert_int_eq(symlink("/dev/null", link), 0);
	ck_assert_msg(!rvl_config_load(&c, root, warn, NULL, &err), "%s", err.s);
	ck_assert_uint_eq(c.sessions, 3);
	ck_assert_uint_eq(c.user_runs, 1);
	ck_assert_uint_eq(c.user_models, 12);
	ck_assert_uint_eq(c.user_instances, 64);
}
END_TEST

/*
 * Proves that a failed load changes nothing and names the file, and that without a file the
 * defaults hold.
 */
START_TEST(atomic)
{
	struct rvl_config before;

	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), 0);
	ck_assert_uint_eq(c.sessions, 64);
	before = c;
	put("/etc/rivuletd/rivuletd.conf", "[Limits]\nSessions=9\nRunsPerUser=x\n");
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.s, "/etc/rivuletd/rivuletd.conf:3: RunsPerUser=x"));
	ck_assert_mem_eq(&before, &c, sizeof(c));
}
END_TEST

/* Proves that only a regular file of at most 1 MiB is read, wherever it is. */
START_TEST(no_file)
{
	char path[128], *big = malloc((1 << 20) + 1);

	ck_assert_ptr_nonnull(big);
	memset(big, '\n', (1 << 20) + 1);
	put("/etc/rivuletd/rivuletd.conf", NULL);
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.s, "rivuletd.conf: no regular file, or above 1 MiB"));
	snprintf(path, sizeof(path), "%s/etc/rivuletd/rivuletd.conf", root);
	ck_assert(!rmdir(path));
	write_file(path, big, 1 << 20);
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), 0);
	write_file(path, big, (1 << 20) + 1);
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), -EINVAL);
	ck_assert(!unlink(path) && !mkfifo(path, 0600));
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), -EINVAL);
	ck_assert(!unlink(path) && !symlink("rivuletd.conf", path));
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), -ELOOP);
	ck_assert_ptr_nonnull(strstr(err.s, "rivuletd.conf: Too many levels of symbolic links"));
	ck_assert(!unlink(path));
	put("/run/rivuletd/rivuletd.conf.d", "");
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), -ENOTDIR);
	ck_assert_ptr_nonnull(strstr(err.s, "/run/rivuletd/rivuletd.conf.d: Not a directory"));
	free(big);
}
END_TEST

/* Proves which names are drop-ins, that an empty file hides another, and that there are at most
 * 256. */
START_TEST(dropins)
{
	char path[80];

	put("/etc/rivuletd/rivuletd.conf.d/.conf", "[Limits]\nSessions=1\n");
	put("/etc/rivuletd/rivuletd.conf.d/.a.conf", "[Limits]\nSessions=2\n");
	put("/etc/rivuletd/rivuletd.conf.d/conf", "[Limits]\nSessions=3\n");
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), 0);
	ck_assert_uint_eq(c.sessions, 64);
	put("/usr/lib/rivuletd/rivuletd.conf.d/a.conf", "[Limits]\nSessions=4\n");
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), 0);
	ck_assert_uint_eq(c.sessions, 4);
	put("/etc/rivuletd/rivuletd.conf.d/a.conf", "");
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), 0);
	ck_assert_uint_eq(c.sessions, 64);
	/* An error in one of them changes nothing. */
	put("/run/rivuletd/rivuletd.conf.d/b.conf", "[Limits]\nSessions=5\nRunsPerUser=x\n");
	put("/run/rivuletd/rivuletd.conf.d/c.conf", "[Limits]\nSessions=6\n");
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), -EINVAL);
	ck_assert_ptr_nonnull(
		strstr(err.s, "/run/rivuletd/rivuletd.conf.d/b.conf:3: RunsPerUser=x"));
	ck_assert_uint_eq(c.sessions, 64);
	put("/run/rivuletd/rivuletd.conf.d/b.conf", "");
	for (int i = 3; i < 256; i++) {
		snprintf(path, sizeof(path), "/etc/rivuletd/rivuletd.conf.d/x%d.conf", i);
		put(path, "");
	}
	ck_assert_msg(!rvl_config_load(&c, root, warn, NULL, &err), "%s", err.s);
	ck_assert_uint_eq(c.sessions, 6);
	put("/etc/rivuletd/rivuletd.conf.d/y.conf", "");
	ck_assert_int_eq(rvl_config_load(&c, root, warn, NULL, &err), -E2BIG);
	ck_assert_ptr_nonnull(
		strstr(err.s, "/etc/rivuletd/rivuletd.conf.d: more than 256 drop-ins"));
}
END_TEST

/* Proves that the printed configuration is read back unchanged. */
START_TEST(round_trip)
{
	struct rvl_config first;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	ck_assert_int_eq(parse("[Limits]\nSessions=7\nMemoryPerUser=5M\n[Device]\nNode=/dev/x\n"
			       "[Scheduler]\nHighPriorityUsers=5 6\n"),
			 0);
	first = c;
	rvl_config_print(&c, f);
	fclose(f);
	rvl_config_default(&c);
	ck_assert_msg(!rvl_config_parse(&c, "p", text, len, warn, NULL, &err), "%s", err.s);
	ck_assert_mem_eq(&first, &c, sizeof(c));
	free(text);
}
END_TEST

/* Proves that the installed file has every key of the table, commented out, with its default. */
START_TEST(installed_file)
{
	static char text[8192];
	FILE *f = fopen("daemon/conf/rivuletd.conf", "r");
	struct rvl_config def;
	size_t n;

	ck_assert_ptr_nonnull(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
#define IN_FILE(section, key, member, kind, def, lo, hi, doc)                                      \
	ck_assert_msg(strstr(text, "\n#" #key "=" def "\n"), #key "=" def " is missing");
	RVL_CONFIG_KEYS(IN_FILE)
	/* Without the comment signs, the file must give the same configuration. */
	for (char *p = text; (p = strstr(p, "\n#")); p++)
		if (p[2] != ' ')
			p[1] = ' ';
	rvl_config_default(&def);
	ck_assert_int_eq(parse(text), 0);
	ck_assert_int_eq(warnings, 0);
	ck_assert_mem_eq(&def, &c, sizeof(c));
}
END_TEST

/*
 * Returns whether @word is below the heading of its section in the spelling that the parser reads.
 */
static bool in_section(const char *page, const char *section, const char *word)
{
	const char *at, *end, *hit;
	char heading[64];

	snprintf(heading, sizeof(heading), "\n.SH \"[%s]\"\n", section);
	at = strstr(page, heading);
	end = at ? strstr(at + 1, "\n.SH ") : NULL;
	hit = at ? strstr(at, word) : NULL;
	return hit && (!end || hit < end);
}

/* Proves that the man page has every key below the heading of its section. */
START_TEST(man_page)
{
	static char text[32768];
	FILE *f = fopen("docs/man/rivuletd.conf.5", "r");
	size_t n;

	ck_assert_ptr_nonnull(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
#define IN_PAGE(section, key, member, kind, def, lo, hi, doc)                                      \
	ck_assert_msg(in_section(text, #section, #key "="), "[" #section "] has no " #key "=");
	RVL_CONFIG_KEYS(IN_PAGE)
}
END_TEST

static uint64_t seed = 0x13198a2e03707344ull;

static uint32_t chance(uint32_t below)
{
	return (uint32_t)((xorshift(&seed) >> 16) % below);
}

/* Proves that no text crashes the parser, and that accepted values are within the limits. */
START_TEST(fuzz)
{
	static const char good[] = "[Limits]\nSessions=12\nMemoryPerUser=3M\n[Scheduler]\n"
				   "HighPriorityUsers=1 2\nParallelRuns=3\n[Device]\nNode=auto\n";
	static const char chars[] = "=[]\n#; \t0123456789KMGs/xA\0\xff";
	int accepted = 0;

	for (int i = 0; i < CASES; i++) {
		size_t len = sizeof(good) - 1;
		char *text = malloc(len);

		ck_assert_ptr_nonnull(text);
		memcpy(text, good, len);
		for (uint32_t k = chance(5); k; k--)
			text[chance((uint32_t)len)] = chars[chance(sizeof(chars) - 1)];
		rvl_config_default(&c);
		err.s[0] = 0;
		warnings = 0;
		if (!rvl_config_parse(&c, "f", text, chance(8) ? len : chance((uint32_t)len), warn,
				      NULL, &err)) {
			ck_assert(c.sessions >= 1 && c.sessions <= 4096);
			ck_assert(c.parallel >= 1 && c.parallel <= 64);
			accepted++;
		} else {
			ck_assert_msg(!strncmp(err.s, "f:", 2), "said: %s", err.s);
		}
		free(text);
	}
	ck_assert_int_gt(accepted, CASES / 10);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("config");
	TCase *t = tcase_create("text"), *files = tcase_create("files");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, values);
	tcase_add_test(t, unknown);
	tcase_add_loop_test(t, mistake, 0, (int)(sizeof(mistakes) / sizeof(mistakes[0])));
	tcase_add_loop_test(t, units, 0, (int)(sizeof(numbers) / sizeof(numbers[0])));
	tcase_add_test(t, lists);
	tcase_add_test(t, lengths);
	tcase_add_test(t, fixed_keys);
	tcase_add_test(t, printed);
	tcase_add_test(t, hostile);
	tcase_add_test(t, round_trip);
	tcase_add_test(t, installed_file);
	tcase_add_test(t, man_page);
	tcase_add_test(t, fuzz);
	tcase_add_checked_fixture(files, make_root, remove_root);
	tcase_add_test(files, precedence);
	tcase_add_test(files, atomic);
	tcase_add_test(files, no_file);
	tcase_add_test(files, dropins);
	suite_add_tcase(s, t);
	suite_add_tcase(s, files);
	return run_suite(s);
}
