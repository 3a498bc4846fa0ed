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
#include "fuzz/fuzz.h"
#include "suite.h"

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
	suite_add_tcase(s, t);
	return run_suite(s);
}
