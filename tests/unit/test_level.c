// SPDX-License-Identifier: MIT
/*
 * How the level affects runs: variants, minimum accuracy, deadlines, and the content of replies,
 * STATUS and metrics. The daemon runs on the linked model, with programs whose levels the test has
 * edited.
 */
#include "daemon_rig.h"

#include "rivulet_crc32c.h"
#include "suite.h"

#define TOP 3	/* highest level of zu3eg-64 */

static void *program;
static size_t program_size;
static float in[784], out[10];

static struct rivulet_client *client(void)
{
	struct rivulet_client *c;

	ck_assert_msg(!rivulet_open(NULL, &c), "%s", rivulet_last_error());
	return c;
}

/* Compiles LeNet as the daemon does, to be edited. */
static void get_program(void)
{
	struct rivulet_load_options o = { .size = sizeof(o), .keep_program = true };
	struct rivulet_client *c = client();
	struct rivulet_model *model;
	struct stat st;
	int fd;

	ck_assert_msg(!rivulet_model_load(c, "models/lenet.onnx", &o, &model), "%s",
		      rivulet_last_error());
	ck_assert_int_eq(rivulet_model_program(model, &fd), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	program_size = (size_t)st.st_size;
	program = malloc(program_size);
	ck_assert_int_eq(pread(fd, program, program_size, 0), program_size);
	close(fd);
	rivulet_model_unref(model);
	rivulet_client_unref(c);
}

static struct rivulet_step *steps(void)
{
	return (struct rivulet_step *)rivulet_program_steps(program);
}

static void no_variant(uint32_t level)
{
	struct rivulet_program *p = program;

	for (uint32_t i = 0; i < p->steps; i++)
		if (steps()[i].kind == RIVULET_STEP_NPU)
			steps()[i].variant[level] = (struct rivulet_step_variant){ .offset = 0 };
}

static void seal(void)
{
	struct rivulet_program *p = program;

	p->crc = 0;
	p->crc = rivulet_crc32c(0, p, program_size);
}

struct job {
	struct rivulet_client *c;
	struct rivulet_model *model;
	struct rivulet_request *r;
};

static struct job load(const char *name)
{
	struct rivulet_load_options o = { .size = sizeof(o), .name = name, .program = true };
	struct job j = { .c = client() };

	seal();
	ck_assert_msg(!rivulet_model_load_memory(j.c, program, program_size, &o, &j.model), "%s",
		      rivulet_last_error());
	ck_assert_msg(!rivulet_request_new(j.model, &j.r) &&
		      !rivulet_bind_memory(j.r, 0, in, sizeof(in)) &&
		      !rivulet_bind_memory(j.r, 1, out, sizeof(out)), "%s", rivulet_last_error());
	return j;
}

static void drop(struct job *j)
{
	rivulet_request_unref(j->r);
	rivulet_model_unref(j->model);
	rivulet_client_unref(j->c);
}

static int run(struct job *j, const struct rivulet_run_options *o, struct rivulet_run_stats *st)
{
	int r = rivulet_request_run(j->r, o);

	if (!r)
		ck_assert_int_eq(rivulet_request_stats(j->r, st), 0);
	return r;
}

static void mode(struct job *j, uint32_t m, uint32_t level)
{
	ck_assert_msg(!rivulet_client_policy(j->c, m, level, NULL), "%s", rivulet_last_error());
}

/* Starts a daemon with @config in [Power] that lets the test's own user change the mode. */
static void start(const char *config)
{
	char text[320];

	snprintf(text, sizeof(text), "[Power]\nPolicyUsers=%u\nPowerProfiles=no\n%s", getuid(),
		 config);
	rig_start(text);
}

static void set_up(void)
{
	start("Dwell=0\n[Limits]\nMemoryPerUser=1G\n");
	get_program();
}

static void tear_down(void)
{
	free(program);
	rig_stop();
}

static int64_t in_seconds(int s)
{
	return (int64_t)rvl_now() + s * (int64_t)NSEC_PER_SEC;
}

/*
 * Proves that a run uses the level of the mode, and that the reply has the stream length and
 * accuracy of that level.
 */
START_TEST(replies)
{
	struct rivulet_program *p = program;
	struct rivulet_run_stats st = { .size = sizeof(st) };
	struct job j;

	for (uint32_t l = 0; l <= TOP; l++)
		p->level[l] = (struct rivulet_level_info){ .length = 16 << l,
							   .accuracy = 800000 + 10000 * l };
	j = load("m");
	for (uint32_t l = 0; l <= TOP; l++) {
		mode(&j, RIVULET_POLICY_FIXED, l);
		ck_assert_int_eq(run(&j, NULL, &st), 0);
		ck_assert(st.level_min == l && st.level_max == l);
		ck_assert_uint_eq(st.length, 16 << l);
		ck_assert_uint_eq(st.accuracy, 800000 + 10000 * l);
	}
	mode(&j, RIVULET_POLICY_POWERSAVE, 0);
	ck_assert_int_eq(run(&j, NULL, &st), 0);
	ck_assert_uint_eq(st.level_max, 0);
	mode(&j, RIVULET_POLICY_PERFORMANCE, 0);
	ck_assert_int_eq(run(&j, NULL, &st), 0);
	ck_assert_uint_eq(st.level_min, TOP);
	ck_assert_uint_eq(status_number("\"m\"", "accuracy_ppm"), 800000);
	drop(&j);
}
END_TEST

/*
 * Runs at the policy's level @wanted with only the variants in @kept. Returns the statistics of the
 * run.
 */
static struct rivulet_run_stats reconfigured(const char *how, uint32_t wanted, uint32_t kept)
{
	struct rivulet_program *p;
	struct rivulet_run_stats st = { .size = sizeof(st) };
	char config[96];
	struct job j;

	snprintf(config, sizeof(config), "Dwell=0\nReconfigure=%s\n", how);
	start(config);
	get_program();
	p = program;
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
		p->level[l].length = l <= TOP ? 16 << l : 0;
		if (!(kept >> l & 1))
			no_variant(l);
	}
	j = load("m");
	mode(&j, RIVULET_POLICY_FIXED, wanted);
	ck_assert_msg(!run(&j, NULL, &st), "%s", rivulet_request_error(j.r));
	drop(&j);
	free(program);
	rig_stop();
	return st;
}

/*
 * Proves that Reconfigure= keeps the clock or the lengths at those of the fastest level, and that
 * commands of that level run at any clock.
 */
START_TEST(in_part)
{
	struct rivulet_run_stats st = reconfigured("both", 1, 15);

	ck_assert(st.level_min == 1 && st.level_max == 1 && st.length == 32);
	st = reconfigured("hardware", 1, 1 << TOP);
	ck_assert(st.level_min == 1 && st.level_max == 1 && st.length == 16 << TOP);
	st = reconfigured("software", 1, 1 << 1);
	ck_assert(st.level_min == TOP && st.level_max == TOP && st.length == 32);
	st = reconfigured("none", 1, 1 << TOP);
	ck_assert(st.level_min == TOP && st.level_max == TOP && st.length == 16 << TOP);
}
END_TEST

/*
 * Proves that a minimum accuracy raises the level for that run only, and that a program without
 * recorded accuracy is refused.
 */
START_TEST(least_accuracy)
{
	struct rivulet_program *p = program;
	struct rivulet_run_options o = { .size = sizeof(o), .min_accuracy = 850000 };
	struct rivulet_run_stats st = { .size = sizeof(st) };
	struct job j, plain;

	plain = load("unknown");
	ck_assert_int_eq(run(&plain, &o, &st), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(rivulet_request_error(plain.r), "85.0000 %"));
	for (uint32_t l = 0; l <= TOP; l++)
		p->level[l].accuracy = 820000 + 20000 * l;
	j = load("known");
	mode(&j, RIVULET_POLICY_FIXED, 0);
	ck_assert_int_eq(run(&j, &o, &st), 0);
	ck_assert_uint_eq(st.level_min, 2);
	ck_assert_uint_eq(st.accuracy, 860000);
	ck_assert_int_eq(run(&j, NULL, &st), 0);
	ck_assert_uint_eq(st.level_max, 0);
	o.min_accuracy = 880001;
	ck_assert_int_eq(run(&j, &o, &st), -EOPNOTSUPP);
	drop(&j);
	drop(&plain);
}
END_TEST

/* Proves that a model without a variant of the requested level runs at a level that has one. */
START_TEST(variants)
{
	struct rivulet_run_stats st = { .size = sizeof(st) };
	struct job j;

	no_variant(TOP);
	no_variant(0);
	j = load("m");
	mode(&j, RIVULET_POLICY_PERFORMANCE, 0);
	ck_assert_int_eq(run(&j, NULL, &st), 0);
	ck_assert_uint_eq(st.level_max, TOP - 1);
	mode(&j, RIVULET_POLICY_POWERSAVE, 0);
	ck_assert_int_eq(run(&j, NULL, &st), 0);
	ck_assert_uint_eq(st.level_min, 1);
	drop(&j);
}
END_TEST

/*
 * Proves that a user outside PolicyUsers= cannot force the level to one that suits its program,
 * that the error names level, mode and rule, and that other users are unaffected.
 */
START_TEST(unprivileged)
{
	struct rivulet_run_options o = { .size = sizeof(o) };
	struct rivulet_run_stats st = { .size = sizeof(st) };
	struct job full, slow, demand;

	full = load("full");
	mode(&full, RIVULET_POLICY_PERFORMANCE, 0);
	for (uint32_t l = 1; l < RIVULET_LEVELS; l++)
		no_variant(l);
	demand = load("demand");
	rig_as(1002);
	slow = load("slow");
	rig_as_self();
	ck_assert_int_eq(run(&slow, NULL, &st), -EOPNOTSUPP);
	ck_assert_str_eq(rivulet_request_error(slow.r),
			 "no variant for level 3, which mode performance (mode) has chosen; the "
			 "level is "
			 "changed only for runs of PolicyUsers=, see [Power] in rivuletd.conf(5)");
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(rivulet_request_start(slow.r, NULL), 0);
		ck_assert_int_eq(run(&full, NULL, &st), 0);
		ck_assert_uint_eq(st.level_min, TOP);
		ck_assert_int_eq(rivulet_request_wait(slow.r, -1), -EOPNOTSUPP);
	}
	ck_assert_uint_eq(status_number("\"policy\"", "level"), TOP);
	/* A user who may change the mode may have the level changed for a run. */
	ck_assert_int_eq(run(&demand, NULL, &st), 0);
	ck_assert_uint_eq(st.level_max, 0);
	/* At that level the other user's program runs. A minimum accuracy also demands a level. */
	mode(&full, RIVULET_POLICY_POWERSAVE, 0);
	ck_assert_int_eq(run(&slow, NULL, &st), 0);
	o.min_accuracy = 1;
	ck_assert_int_eq(run(&slow, &o, &st), -EOPNOTSUPP);
	drop(&full);
	drop(&slow);
	drop(&demand);
}
END_TEST

/*
 * Proves that admission uses the clock of the level: a run that would be late is refused with the
 * reason.
 */
START_TEST(deadlines)
{
	struct rivulet_program *p = program;
	struct rivulet_run_options o = { .size = sizeof(o), .hard = true };
	struct rivulet_run_stats st = { .size = sizeof(st) };
	uint32_t npu = 0;
	struct job j;

	/* The compiler's estimate is 30 s at 333 MHz and 100 s at 100 MHz. */
	for (uint32_t i = 0; i < p->steps; i++)
		npu += steps()[i].kind == RIVULET_STEP_NPU;
	for (uint32_t i = 0; i < p->steps; i++)
		for (uint32_t l = 0; steps()[i].kind == RIVULET_STEP_NPU && l <= TOP; l++)
			steps()[i].variant[l].cycles = 10000000000 / npu;
	j = load("slow");
	mode(&j, RIVULET_POLICY_POWERSAVE, 0);
	o.deadline = in_seconds(60);
	ck_assert_int_eq(run(&j, &o, &st), -ETIME);
	ck_assert_ptr_nonnull(strstr(rivulet_request_error(j.r), "after its deadline"));
	mode(&j, RIVULET_POLICY_PERFORMANCE, 0);
	o.deadline = in_seconds(60);
	ck_assert_msg(!run(&j, &o, &st), "%s", rivulet_request_error(j.r));
	ck_assert(!st.late);
	/* A soft deadline is never refused. */
	mode(&j, RIVULET_POLICY_POWERSAVE, 0);
	o.hard = false;
	o.deadline = 1;
	ck_assert_int_eq(run(&j, &o, &st), 0);
	ck_assert(st.late);
	ck_assert_uint_eq(st.level_max, 0);
	ck_assert_uint_eq(status_number("\"slow\"", "late"), 1);
	drop(&j);
}
END_TEST

/* Proves that only permitted users change the mode, and that an invalid mode is refused. */
START_TEST(modes)
{
	struct rivulet_policy_state p = { .size = sizeof(p) };
	struct rivulet_client *c = client();

	ck_assert_int_eq(rivulet_client_policy(c, RIVULET_POLICY_FIXED, 7, &p), -ERANGE);
	ck_assert_int_eq(rivulet_client_policy(c, 99, 0, &p), -EINVAL);
	ck_assert_int_eq(rivulet_client_policy(c, RIVULET_POLICY_AUTO, 3, &p), -EINVAL);
	ck_assert_int_eq(rivulet_client_policy(c, RIVULET_POLICY_BALANCED, 0, &p), 0);
	ck_assert_uint_eq(p.mode, RIVULET_POLICY_BALANCED);
	ck_assert_uint_eq(p.source, RIVULET_SOURCE_TOOL);
	ck_assert_uint_eq(p.level, 2);
	ck_assert_uint_eq(p.used, 4);
	ck_assert_uint_eq(p.hz[3], 333333333);
	ck_assert_uint_eq(p.threshold[0], 750000);
	rivulet_client_unref(c);
}
END_TEST

START_TEST(not_allowed)
{
	struct rivulet_policy_state p = { .size = sizeof(p) };
	struct rivulet_client *c;

	rig_start("[Power]\nPolicyUsers=4294967000\nPowerProfiles=no\nMode=1\n");
	c = client();
	ck_assert_int_eq(rivulet_client_policy(c, RIVULET_POLICY_AUTO, 0, &p), -EPERM);
	ck_assert_int_eq(rivulet_client_policy(c, RIVULET_POLICY_KEEP, 0, &p), 0);
	ck_assert(p.mode == RIVULET_POLICY_FIXED && p.fixed == 1 && p.level == 1);
	rivulet_client_unref(c);
	rig_stop();
}
END_TEST

/* ---- metrics ---- */

static char text[1 << 20];
static char metrics_dir[SCRATCH_MAX];

static struct sockaddr_un metrics_address(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof(a.sun_path), "%s/metrics", metrics_dir);
	return a;
}

/* As start(), with a metrics socket in a directory of its own. */
static void start_metrics(const char *config)
{
	char lines[200];

	make_scratch(metrics_dir);
	snprintf(lines, sizeof(lines), "%s[Metrics]\nSocket=%s\n", config,
		 metrics_address().sun_path);
	start(lines);
}

static void stop_metrics(void)
{
	rig_stop();
	remove_scratch(metrics_dir);
}

/* Sends @request, shuts down the sending side, and reads to the end. */
static size_t scrape(const char *request, size_t size)
{
	struct sockaddr_un a = metrics_address();
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t at = 0;
	ssize_t n;

	ck_assert(fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)));
	while (at < size && (n = send(fd, request + at, size - at, MSG_NOSIGNAL)) > 0)
		at += (size_t)n;
	shutdown(fd, SHUT_WR);
	for (at = 0; at + 1 < sizeof(text) && (n = recv(fd, text + at, sizeof(text) - 1 - at,
							0)) > 0;)
		at += (size_t)n;
	text[at] = 0;
	close(fd);
	return at;
}

static double metric(const char *line)
{
	char *p = strstr(text, line);

	while (p && p != text && p[-1] != '\n')
		p = strstr(p + 1, line);
	ck_assert_msg(p != NULL, "no %s in\n%.3000s", line, text);
	return atof(p + strlen(line));
}

/* Each family occurs once with its lines together, label values are quoted, and EOF is last. */
static void check_format(char *body)
{
	char family[128] = "", seen[8192] = "", *save = NULL;
	bool eof = false;

	for (char *l = strtok_r(body, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		char name[128];

		ck_assert_msg(!eof, "behind the end: %s", l);
		eof = !strcmp(l, "# EOF");
		if (sscanf(l, "# TYPE %120s", name) == 1) {
			snprintf(family, sizeof(family), "%s", name);
			strcat(name, ";");
			ck_assert_msg(!strstr(seen, name), "twice: %s", name);
			strcat(seen, name);
		} else if (*l == '#') {
			ck_assert_msg(eof || strstr(l, family), "%s in %s", l, family);
		} else {
			char *brace = strchr(l, '{'), *end = strrchr(l, '}'),
				*value = strrchr(l, ' ');

			ck_assert_msg(!strncmp(l, family, strlen(family)), "%s in %s", l, family);
			ck_assert_msg(!brace == !end && value && value > end, "%s", l);
			strtod(value + 1, &value);
			ck_assert_msg(!*value, "%s", l);
		}
	}
	ck_assert(eof);
}

#define GET "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

/* Proves that the socket answers with the counts of what ran, in well-formed OpenMetrics. */
START_TEST(metrics)
{
	char *body, name[] = "od\"d \\name";
	struct rivulet_run_stats st = { .size = sizeof(st) };
	struct job j;

	start_metrics("Mode=2\n");
	get_program();
	((struct rivulet_program *)program)->level[2] =
		(struct rivulet_level_info){ .length = 64, .accuracy = 875000 };
	j = load(name);
	ck_assert_int_eq(run(&j, NULL, &st), 0);
	ck_assert_int_eq(run(&j, NULL, &st), 0);
	scrape("", 0);
	ck_assert_double_eq(metric("rivulet_policy_mode{rivulet_policy_mode=\"fixed\"} "), 1);
	ck_assert_double_eq(metric("rivulet_level_current{level=\"2\"} "), 1);
	ck_assert_double_eq(metric("rivulet_level_current{level=\"3\"} "), 0);
	ck_assert_double_eq(metric("rivulet_device_present "), 1);
	body = strstr(text, "rivulet_model_level_accuracy_ratio{model=\"od\\\"d \\\\name\",");
	ck_assert_ptr_nonnull(body);
	ck_assert_ptr_nonnull(strstr(text, ",level=\"2\"} 0.875000\n"));
	ck_assert_ptr_nonnull(strstr(text, ",level=\"2\"} 64\n"));
	check_format(text);
	/* HTTP gives the same body. */
	scrape(GET, strlen(GET));
	ck_assert(!strncmp(text, "HTTP/1.0 200 OK\r\n", 17));
	ck_assert_ptr_nonnull(strstr(text,
			"\r\nContent-Type: application/openmetrics-text; version=1.0.0"));
	body = strstr(text, "\r\n\r\n");
	ck_assert_ptr_nonnull(body);
	ck_assert_uint_eq(strtoull(strstr(text, "Content-Length: ") + 16, NULL, 10),
			  strlen(body + 4));
	check_format(body + 4);
	drop(&j);
	free(program);
	stop_metrics();
}
END_TEST

/*
 * Proves that arbitrary clients of the socket do not affect the daemon: other methods, garbage,
 * floods, and clients that send nothing.
 */
START_TEST(metrics_hostile_clients)
{
	static char flood[100000];
	int fd[40], before;

	start_metrics("");
	rivulet_client_unref(client());
	ck_assert_uint_gt(scrape(GET, strlen(GET)), 0);
	before = rig_quiet_fds();
	ck_assert_uint_gt(scrape("POST / HTTP/1.1\r\n\r\n", 19), 0);
	ck_assert(!strncmp(text, "HTTP/1.0 405 ", 13));
	memset(flood, 'x', sizeof(flood));
	scrape(flood, sizeof(flood));
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		struct sockaddr_un a = metrics_address();

		fd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ck_assert_int_eq(connect(fd[i], (struct sockaddr *)&a, sizeof(a)), 0);
	}
	scrape(GET, strlen(GET));
	ck_assert(!strncmp(text, "HTTP/1.0 200 OK\r\n", 17));
	ck_assert_int_le(rig_fds(), before + 16);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		close(fd[i]);
	rig_settle(before);
	stop_metrics();
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t, *own;

	rig_main(argc, argv, rvl_worker_main);
	s = suite_create("level");
	t = tcase_create("runs");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, replies);
	tcase_add_test(t, least_accuracy);
	tcase_add_test(t, variants);
	tcase_add_test(t, unprivileged);
	tcase_add_test(t, deadlines);
	tcase_add_test(t, modes);
	suite_add_tcase(s, t);
	own = tcase_create("own");
	tcase_set_timeout(own, 120);
	tcase_add_test(own, in_part);
	tcase_add_test(own, not_allowed);
	tcase_add_test(own, metrics);
	tcase_add_test(own, metrics_hostile_clients);
	suite_add_tcase(s, own);
	return run_suite(s);
}
