// SPDX-License-Identifier: MIT
/*
 * The share of the device of a user who sends one run of 20 ms at a time beside a user who floods
 * it: daemon.bystander.share, the minimum over several floods. Users, socket and daemon are real;
 * the device is the linked model at the pace of the device.
 */
#include "share_rig.h"
#include "suite.h"

#define RUN_US	20000
#define RUNS	360	/* of both users, beside each flood */
#define BAR	45.0	/* percent */

struct flood {
	const char *name;
	uint32_t connections, depth;
	uint64_t deadline, ahead;	/* ns; 0: none */
	uint32_t flags;
};

static const struct flood floods[] = {
	{ "past deadlines", 1, 60, 1, 0, 0 },
	{ "deadlines 1 ms ahead", 1, 60, 0, NSEC_PER_MSEC, 0 },
	{ "connections", 6, 10, 0, 0, 0 },
	{ "hard deadlines", 1, 60, 0, 200 * NSEC_PER_MSEC, RIVULET_RUN_HARD },
};

static double least = 100;
static uint64_t samples;

static void start(void)
{
	share_start("", RUN_US);
}

START_TEST(share)
{
	const struct flood *f = &floods[_i];
	struct competitor c[7], *all[7];
	uint32_t n = 1 + f->connections;
	double percent;

	for (uint32_t i = 0; i < n; i++) {
		all[i] = &c[i];
		competitor_open(&c[i], i ? BOB : ALICE, i ? f->depth : 1);
		c[i].deadline = i ? f->deadline : 0;
		c[i].ahead = i ? f->ahead : 0;
		c[i].flags = i ? f->flags : 0;
	}
	compete(all, n, (uint64_t)RUNS * RUN_US * 1000);
	percent = device_share(all, n, 0);
	for (uint32_t i = 0; i < n; i++)
		samples += c[i].runs;
	least = percent < least ? percent : least;
	ck_assert_msg(percent >= BAR, "beside %s: %.1f %%", f->name, percent);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t;
	SRunner *r;
	int failed;

	rig_main(argc, argv, rvl_worker_main);
	s = suite_create("bystander's share");
	t = tcase_create("floods");
	tcase_add_checked_fixture(t, start, rig_stop);
	tcase_add_loop_test(t, share, 0, (int)ARRAY_SIZE(floods));
	suite_add_tcase(s, t);
	r = srunner_create(s);
	/* One process, so that the samples of all floods are evaluated together. */
	srunner_set_fork_status(r, CK_NOFORK);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	printf("figure daemon.bystander.share %.1f %%\n", least);
	printf("figure daemon.bystander.share.runs %llu runs\n", (unsigned long long)samples);
	return failed || samples < 1000 ? EXIT_FAILURE : EXIT_SUCCESS;
}
