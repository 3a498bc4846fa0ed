/* SPDX-License-Identifier: MIT */
/*
 * Runs the fuzz targets on their corpora, tests/data/fuzz/TARGET. A corpus holds inputs that
 * together cover the code that the target covers, and every input that was a finding. A target
 * aborts if an expectation does not hold; the build with sanitizers detects other errors.
 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>

#include "files.h"
#include "fuzz/change.h"
#include "fuzz/fuzz.h"
#include "rivulet_program.h"
#include "suite.h"

#define SOUND_PROGRAMS 8	/* least number of program files whose structure is sound */

static const struct {
	const char *dir;
	int (*run)(const uint8_t *data, size_t size);
	unsigned int least;	/* files */
} corpora[] = {
	{ "tests/data/fuzz/reader", fuzz_reader, 200 },
	{ "tests/data/fuzz/program", fuzz_program, 40 },
	{ "tests/data/fuzz/examples", fuzz_examples, 60 },
	{ "tests/data/fuzz/shapes", fuzz_shapes, 300 },
};

/* Whether the structure of a program file is sound, its checksum apart. */
static bool is_sound(uint8_t *data, size_t size)
{
	char why[256];

	if (size < sizeof(struct rivulet_program))
		return false;
	fuzz_set_checksum(data, size);
	if (!rivulet_program_check(data, size, why, sizeof(why)))
		return true;
	printf("%s\n", why);
	return false;
}

/*
 * The corpus has files of the present version: some are sound, others only pass the first checks.
 */
START_TEST(programs_are_current)
{
	const char *dir = "tests/data/fuzz/program";
	DIR *d = opendir(dir);
	unsigned int sound = 0;
	struct dirent *e;
	char path[512];

	ck_assert_msg(d, "%s", dir);
	while ((e = readdir(d))) {
		struct rivulet_program h;
		uint8_t *data;
		size_t size;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		data = read_file(path, &size);
		memset(&h, 0, sizeof(h));
		memcpy(&h, data, size < sizeof(h) ? size : sizeof(h));
		ck_assert_msg(size < sizeof(h) || h.version == RIVULET_PROGRAM_VERSION,
			      "%s has version %u", path, h.version);
		sound += is_sound(data, size);
		free(data);
	}
	closedir(d);
	ck_assert_uint_ge(sound, SOUND_PROGRAMS);
}
END_TEST

START_TEST(corpus)
{
	DIR *d = opendir(corpora[_i].dir);
	unsigned int files = 0;
	struct dirent *e;
	char path[512];

	ck_assert_msg(d, "%s", corpora[_i].dir);
	while ((e = readdir(d))) {
		size_t size;
		uint8_t *data;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", corpora[_i].dir, e->d_name);
		data = read_file(path, &size);
		ck_assert_msg(!corpora[_i].run(data, size), "%s", path);
		free(data);
		files++;
	}
	closedir(d);
	ck_assert_uint_ge(files, corpora[_i].least);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("corpus");
	TCase *t = tcase_create("files");

	tcase_add_loop_test(t, corpus, 0, (int)(sizeof(corpora) / sizeof(corpora[0])));
	tcase_add_test(t, programs_are_current);
	suite_add_tcase(s, t);
	return run_suite(s);
}
