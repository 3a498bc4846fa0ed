// SPDX-License-Identifier: MIT
/*
 * libcheck writes the place of every assertion that holds to a file, to name the last one of a test that
 * crashes. A test with a million of them spends most of its time there, and its file has 30 MB, of which
 * the stage fresh has 64 for two tests. So behind the first assertions of a test, the places of those that
 * follow within MARK_NS are left out. All test programs are linked with --wrap=_mark_point.
 */
#include <stdint.h>
#include <time.h>

#define FIRST_MARKS 1000
#define MARK_NS 1000000

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

void __wrap__mark_point(const char *file, int line)
{
	static _Thread_local uint32_t marks;
	static _Thread_local int64_t last;
	struct timespec t;
	int64_t now;

	if (marks < FIRST_MARKS) {
		marks++;
		__real__mark_point(file, line);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	now = t.tv_sec * 1000000000ll + t.tv_nsec;
	if (now - last < MARK_NS)
		return;
	last = now;
	__real__mark_point(file, line);
}
