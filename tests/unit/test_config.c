// SPDX-License-Identifier: MIT
/*
 * rivuletd's configuration: values, errors with file and line, precedence of files, and random
 * input.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chance.h"
#include "config.h"
#include "files.h"
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
			       "[Device]\nNode=sim:zu3eg-64"), 0);
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

/* Proves that the printed configuration is read back unchanged. */
START_TEST(round_trip)
{
	struct rvl_config first;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	ck_assert_int_eq(parse("[Limits]\nSessions=7\nMemoryPerUser=5M\n[Device]\nNode=/dev/x\n"
			       "[Scheduler]\nHighPriorityUsers=5 6\n"), 0);
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
	tcase_add_test(t, hostile);
	tcase_add_test(t, round_trip);
	tcase_add_test(t, installed_file);
	tcase_add_test(t, man_page);
	tcase_add_test(t, fuzz);
	tcase_add_checked_fixture(files, make_root, remove_root);
	tcase_add_test(files, precedence);
	tcase_add_test(files, atomic);
	suite_add_tcase(s, t);
	suite_add_tcase(s, files);
	return run_suite(s);
}
