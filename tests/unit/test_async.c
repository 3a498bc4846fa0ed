// SPDX-License-Identifier: MIT
/*
 * The client library in a program with an event loop. Only the calls that are documented to block
 * do so, one descriptor becomes readable when dispatch has work, and every call connects again
 * after a restart of the daemon.
 */
#include "../../libclient/request.h"
#include "fake_daemon.h"
#include "suite.h"

#include <time.h>

/*
 * Upper limit in seconds of a call that must not block, on a busy machine. A call that waited for the
 * fake daemon would wait for ever.
 */
#define PROMPT 15.0

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* One iteration of the program's loop, which waits for the client's descriptor only. */
static int turn(struct rivulet_client *c)
{
	struct pollfd p = { .fd = rivulet_client_fd(c), .events = POLLIN };
	double start;
	int r;

	ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
	start = now();
	r = rivulet_client_dispatch(c);
	ck_assert_double_lt(now() - start, PROMPT);
	return r;
}

/* Runs one iteration of the loop if the descriptor becomes readable within 5 ms. */
static void turn_soon(struct rivulet_client *c)
{
	struct pollfd p = { .fd = rivulet_client_fd(c), .events = POLLIN };

	if (poll(&p, 1, 5) == 1)
		turn(c);
}

static void count(struct rivulet_request *r, void *data)
{
	(void)r;
	++*(int *)data;
}

static void loaded(struct rivulet_model *m, void *data)
{
	(void)m;
	++*(int *)data;
}

static void changed(struct rivulet_client *c, void *data)
{
	(void)c;
	++*(int *)data;
}

/* ---- every public call after the daemon was restarted ---- */

struct parts {
	struct rivulet_client *c;
	struct rivulet_request *q;
};

static int call_ping(struct parts *p)
{
	return rivulet_client_ping(p->c, WAIT_MS);
}

static int call_status(struct parts *p)
{
	uint64_t size;
	int fd = -1, r = rivulet_client_status(p->c, &fd, &size);

	ck_assert(r || (fd >= 0 && size == 4));
	if (!r)
		close(fd);
	return r;
}

static int call_policy(struct parts *p)
{
	struct rivulet_policy_state s = { .size = sizeof(s) };
	int r = rivulet_client_policy(p->c, RIVULET_POLICY_BALANCED, 0, &s);

	ck_assert(r || s.mode == RIVULET_POLICY_BALANCED);
	return r;
}

/* What the callback of a query received. */
struct asked {
	int calls, result;
	uint64_t size;
	uint32_t mode;
	int again;		/* queries to start from the callback */
	char error[200];
};

static void take_end(struct asked *a, int result)
{
	a->calls++;
	a->result = result;
	snprintf(a->error, sizeof(a->error), "%s", result ? rivulet_last_error() : "");
}

static void pinged(struct rivulet_client *c, int result, void *data)
{
	struct asked *a = data;

	take_end(a, result);
	if (a->again) {
		a->again--;
		ck_assert_int_eq(rivulet_client_ping_start(c, WAIT_MS, pinged, a), 0);
	}
}

static void got_status(struct rivulet_client *c, int result, int fd, uint64_t size, void *data)
{
	struct asked *a = data;

	(void)c;
	take_end(a, result);
	a->size = size;
	ck_assert_int_eq(fd >= 0, !result);
	if (fd >= 0)
		close(fd);
}

static void got_policy(struct rivulet_client *c, int result, const struct rivulet_policy_state *s,
		       void *data)
{
	struct asked *a = data;

	(void)c;
	take_end(a, result);
	ck_assert_int_eq(!s, result != 0);
	a->mode = s ? s->mode : 0;
}

/* Runs the loop until the query that @r started has ended, and restores the error of the thread. */
static int end_of(struct parts *p, const struct asked *a, int r)
{
	if (r)
		return r;
	while (!a->calls)
		turn(p->c);
	ck_assert_int_eq(a->calls, 1);
	return a->result ? rvl_lib_fail(-a->result, "%s", a->error) : 0;
}

static int call_ping_start(struct parts *p)
{
	struct asked a = { 0 };

	return end_of(p, &a, rivulet_client_ping_start(p->c, WAIT_MS, pinged, &a));
}

static int call_status_start(struct parts *p)
{
	struct asked a = { 0 };
	int r = end_of(p, &a, rivulet_client_status_start(p->c, got_status, &a));

	ck_assert(r || a.size == 4);
	return r;
}

static int call_policy_start(struct parts *p)
{
	struct asked a = { 0 };
	int r = rivulet_client_policy_start(p->c, RIVULET_POLICY_BALANCED, 0, got_policy, &a);

	r = end_of(p, &a, r);
	ck_assert(r || a.mode == RIVULET_POLICY_BALANCED);
	return r;
}

static int call_wait_device(struct parts *p)
{
	return rivulet_client_wait_device(p->c, WAIT_MS);
}

static int call_load(struct parts *p)
{
	struct rivulet_model *m = NULL;
	int r = rivulet_model_load(p->c, "models/README", NULL, &m);

	rivulet_model_unref(m);
	return r;
}

static int call_load_memory(struct parts *p)
{
	struct rivulet_model *m = NULL;
	int r = rivulet_model_load_memory(p->c, "onnx", 4, NULL, &m);

	rivulet_model_unref(m);
	return r;
}

static int call_load_start(struct parts *p)
{
	struct rivulet_model *m = NULL;
	int r = rivulet_model_load_start(p->c, "models/README", NULL, &m);

	r = r ? r : rivulet_model_wait(m, WAIT_MS);
	rivulet_model_unref(m);
	return r;
}

static int call_prepare(struct parts *p)
{
	return rivulet_request_prepare(p->q);
}

static int call_run(struct parts *p)
{
	return rivulet_request_run(p->q, NULL);
}

static int call_start_any(struct parts *p)
{
	int r = rivulet_request_start(p->q, NULL);

	r = r ? r : rivulet_request_wait_any(&p->q, 1, WAIT_MS);
	return r ? r : rivulet_request_result(p->q);
}

static int call_connect(struct parts *p)
{
	int r = rivulet_client_connect_start(p->c, WAIT_MS);

	while (!r && rivulet_client_result(p->c) == -EINPROGRESS)
		turn(p->c);
	return r ? r : rivulet_client_result(p->c);
}

static const struct {
	const char *name;
	int (*call)(struct parts *p);
	uint16_t asks;		/* type of the last request that the call sends */
} calls[] = {
	{ "ping", call_ping, RIVULET_MSG_PING },
	{ "status", call_status, RIVULET_MSG_STATUS },
	{ "policy", call_policy, RIVULET_MSG_POLICY },
	{ "ping_start", call_ping_start, RIVULET_MSG_PING },
	{ "status_start", call_status_start, RIVULET_MSG_STATUS },
	{ "policy_start", call_policy_start, RIVULET_MSG_POLICY },
	{ "wait_device", call_wait_device, 0 },
	{ "load", call_load, RIVULET_MSG_LOAD },
	{ "load_memory", call_load_memory, RIVULET_MSG_LOAD },
	{ "load_start", call_load_start, RIVULET_MSG_TENSOR },
	{ "prepare", call_prepare, RIVULET_MSG_BIND },
	{ "run", call_run, RIVULET_MSG_RUN },
	{ "start_any", call_start_any, RIVULET_MSG_OPEN },
	{ "connect", call_connect, 0 },
};
#define CALLS ((int)(sizeof(calls) / sizeof(calls[0])))

static void parts_new(struct parts *p, uint8_t *in, uint8_t *out)
{
	daemon_start_for(NONE, -1);
	dm.extra_fd = memfd_create("given", MFD_CLOEXEC);
	p->q = request(&p->c, in, out);
	ck_assert_int_eq(rivulet_request_run(p->q, NULL), 0);
}

static void parts_free(struct parts *p)
{
	rivulet_request_unref(p->q);
	rivulet_client_unref(p->c);
	daemon_stop();
	close(dm.extra_fd);
}

/*
 * After a restart of the daemon while no request is in flight, every call succeeds, and none leaks
 * a descriptor.
 */
START_TEST(restarted_while_idle)
{
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	int before = count_fds();
	struct parts p;

	parts_new(&p, in, out);
	for (int i = 0; i < 3; i++) {
		daemon_restart();
		ck_assert_msg(!calls[_i].call(&p), "%s: %s", calls[_i].name, rivulet_last_error());
	}
	in[0] = 50;
	ck_assert_int_eq(rivulet_request_run(p.q, NULL), 0);
	ck_assert_uint_eq(out[0], 51);
	parts_free(&p);
	ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* An error in the daemon's answer reaches the caller unchanged, and the next call succeeds. */
START_TEST(refused)
{
	static const int errors[] = { EDQUOT, EPERM, EACCES, EINVAL, ENODEV, EOPNOTSUPP, EAGAIN,
				      ETIME, EIO, E2BIG, EFAULT };
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	struct parts p;

	parts_new(&p, in, out);
	for (size_t i = 0; calls[_i].asks && i < sizeof(errors) / sizeof(errors[0]); i++) {
		/* A new connection makes the client load the model and bind memory again. */
		daemon_restart();
		dm.refuse_with = -errors[i];
		dm.refuse = calls[_i].asks;
		ck_assert_msg(calls[_i].call(&p) == -errors[i], "%s, errno %d: %s", calls[_i].name,
			      errors[i], rivulet_last_error());
		ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "Loop_7"));
		/*
		 * The daemon answers in order, so after this ping no packet of the call is
		 * outstanding.
		 */
		rivulet_client_ping(p.c, WAIT_MS);
		dm.refuse = 0;
		ck_assert_msg(!calls[_i].call(&p), "%s: %s", calls[_i].name, rivulet_last_error());
	}
	parts_free(&p);
}
END_TEST

/*
 * Without a daemon every call returns an error at once. When the daemon is back, the call succeeds.
 */
START_TEST(absent)
{
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	char moved[120];
	struct parts p;

	parts_new(&p, in, out);
	snprintf(moved, sizeof(moved), "%s-moved", dm.path);
	daemon_restart();
	ck_assert(!rename(dm.path, moved));
	if (calls[_i].call == call_connect) {
		ck_assert_int_eq(rivulet_client_connect_start(p.c, 0), 0);
		ck_assert_int_eq(rivulet_client_result(p.c), -ENOENT);
	} else if (calls[_i].call != call_wait_device) {
		ck_assert_int_eq(calls[_i].call(&p), -ENOENT);
		ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "no daemon listens"));
	}
	ck_assert(!rename(moved, dm.path));
	ck_assert_int_eq(calls[_i].call(&p), 0);
	parts_free(&p);
}
END_TEST

/* ---- calls that do not block ---- */

/* The loop alone connects, loads and runs. */
START_TEST(whole_loop)
{
	uint8_t in[BYTES] = { 7 }, out[BYTES] = { 0 };
	int before = count_fds(), loads = 0, runs = 0, changes = 0;
	struct rivulet_client *c;
	struct rivulet_model *m;
	struct rivulet_request *q;

	daemon_start(NONE);
	ck_assert_int_eq(rivulet_open_start(dm.path, &c), 0);
	rivulet_client_on_change(c, changed, &changes);
	ck_assert_int_eq(rivulet_client_result(c), -EINPROGRESS);
	/* The load starts before the connection exists. */
	ck_assert_int_eq(rivulet_model_load_start(c, "models/README", NULL, &m), 0);
	ck_assert_int_eq(rivulet_model_result(m), -EINPROGRESS);
	ck_assert_uint_eq(rivulet_model_inputs(m), 0);
	ck_assert_int_eq(rivulet_request_new(m, &q), -EINPROGRESS);
	rivulet_model_on_loaded(m, loaded, &loads);
	while (!loads)
		ck_assert_int_ge(turn(c), 0);
	ck_assert_int_eq(rivulet_client_result(c), 0);
	ck_assert_int_ge(changes, 1);
	ck_assert_int_eq(rivulet_model_result(m), 0);
	ck_assert_uint_eq(rivulet_model_inputs(m) + rivulet_model_outputs(m), 2);
	ck_assert_int_eq(rivulet_request_new(m, &q), 0);
	ck_assert_int_eq(rivulet_bind_memory(q, 0, in, BYTES), 0);
	ck_assert_int_eq(rivulet_bind_memory(q, 1, out, BYTES), 0);
	rivulet_request_on_done(q, count, &runs);
	ck_assert_int_eq(rivulet_request_start(q, NULL), 0);
	/*
	 * The input was copied, so the caller may change it even before the daemon has an instance.
	 */
	in[0] = 99;
	while (!runs)
		ck_assert_int_ge(turn(c), 0);
	ck_assert_int_eq(rivulet_request_result(q), 0);
	ck_assert_uint_eq(out[0], 8);
	ck_assert_int_eq(loads, 1);
	rivulet_request_unref(q);
	rivulet_model_unref(m);
	rivulet_client_unref(c);
	daemon_stop();
	ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* When the daemon never answers, no call blocks, and the timeout makes the descriptor readable. */
START_TEST(silent_daemon)
{
	struct rivulet_load_options o = { .size = sizeof(o), .timeout_ms = WAIT_MS };
	struct rivulet_client *c;
	struct rivulet_model *m;
	double start;
	int loads = 0;

	daemon_start(SILENT);
	ck_assert_int_eq(rivulet_open(dm.path, &c), 0);
	ck_assert_int_eq(rivulet_model_load_memory_start(c, "onnx", 4, &o, &m), 0);
	ck_assert_int_eq(rivulet_client_dispatch(c), 0);
	ck_assert_int_eq(rivulet_model_wait(m, 10), -ETIMEDOUT);
	ck_assert_int_eq(rivulet_model_result(m), -EINPROGRESS);
	rivulet_model_unref(m);
	o.timeout_ms = 500;
	start = now();
	ck_assert_int_eq(rivulet_model_load_memory_start(c, "onnx", 4, &o, &m), 0);
	rivulet_model_on_loaded(m, loaded, &loads);
	while (!loads)
		turn(c);
	ck_assert_double_ge(now() - start, 0.5);
	ck_assert_int_eq(rivulet_model_result(m), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(rivulet_model_error(m), "in time"));
	rivulet_model_unref(m);
	/* A load that is released before it ends calls no callback and leaks nothing. */
	o.timeout_ms = 0;
	ck_assert_int_eq(rivulet_model_load_memory_start(c, "onnx", 4, &o, &m), 0);
	rivulet_model_on_loaded(m, loaded, &loads);
	rivulet_model_unref(m);
	ck_assert_int_eq(rivulet_client_dispatch(c), 0);
	ck_assert_int_eq(loads, 1);
	rivulet_client_unref(c);
	daemon_stop();
}
END_TEST

/* Queries wait for the connection, end once, and may be started from a callback. None blocks. */
START_TEST(questions)
{
	struct asked ping = { .again = 2 }, status = { 0 }, policy = { 0 };
	int before = count_fds();
	struct rivulet_client *c;

	daemon_start(NONE);
	dm.extra_fd = memfd_create("given", MFD_CLOEXEC);
	dm.paused = true;
	ck_assert_int_eq(rivulet_open_start(dm.path, &c), 0);
	ck_assert_int_eq(rivulet_client_ping_start(c, WAIT_MS, pinged, &ping), 0);
	ck_assert_int_eq(rivulet_client_status_start(c, got_status, &status), 0);
	ck_assert_int_eq(rivulet_client_policy_start(c, RIVULET_POLICY_KEEP, 0, got_policy, &policy), 0);
	/* A query without a callback: the library closes the descriptor of its answer. */
	ck_assert_int_eq(rivulet_client_status_start(c, NULL, NULL), 0);
	ck_assert_int_eq(rivulet_client_result(c), -EINPROGRESS);
	turn_soon(c);
	ck_assert_int_eq(ping.calls + status.calls + policy.calls, 0);
	dm.paused = false;
	while (ping.calls < 3 || !status.calls || !policy.calls)
		turn(c);
	ck_assert(!ping.result && !status.result && !policy.result);
	ck_assert(status.size == 4 && policy.mode == 1);
	ck_assert(ping.calls == 3 && status.calls == 1 && policy.calls == 1);
	rivulet_client_unref(c);
	daemon_stop();
	close(dm.extra_fd);
	ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* A query ends at its time limit, also when there is no connection yet. */
START_TEST(unanswered_questions)
{
	struct asked early = { 0 }, late = { 0 }, cut = { 0 }, policy = { 0 }, forgotten = { 0 };
	struct rivulet_client *c;
	double start;

	daemon_start_for(NONE, -1);
	dm.paused = true;
	ck_assert_int_eq(rivulet_open_start(dm.path, &c), 0);
	start = now();
	ck_assert_int_eq(rivulet_client_ping_start(c, 100, pinged, &early), 0);
	while (!early.calls)
		turn(c);
	ck_assert_double_ge(now() - start, 0.1);
	ck_assert_int_eq(early.result, -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(early.error, "in time"));
	dm.paused = false;
	while (rivulet_client_result(c))
		turn(c);
	dm.paused = true;
	ck_assert_int_eq(rivulet_client_ping_start(c, 100, pinged, &late), 0);
	while (!late.calls)
		turn(c);
	ck_assert_int_eq(late.result, -ETIMEDOUT);
	ck_assert_int_eq(rivulet_client_ping_start(c, WAIT_MS, pinged, &cut), 0);
	daemon_restart();
	while (!cut.calls)
		turn(c);
	ck_assert_int_eq(cut.result, -ECONNRESET);
	/* A query connects again, this time to a daemon without the feature. */
	dm.hello = (struct rivulet_msg_hello_reply) { .version = 1, .max_model = 4096 };
	dm.paused = false;
	ck_assert_int_eq(rivulet_client_policy_start(c, 0, 0, got_policy, &policy), 0);
	while (!policy.calls)
		turn(c);
	ck_assert_int_eq(policy.result, -EOPNOTSUPP);
	ck_assert_int_eq(rivulet_client_policy_start(c, 0, 0, got_policy, &policy), -EOPNOTSUPP);
	/* A query that is pending when the client is freed calls no callback. */
	dm.paused = true;
	ck_assert_int_eq(rivulet_client_ping_start(c, WAIT_MS, pinged, &forgotten), 0);
	rivulet_client_unref(c);
	dm.paused = false;
	daemon_stop();
	ck_assert(policy.calls == 1 && !forgotten.calls);
}
END_TEST

/* When the answer to a released load arrives, the library sends UNLOAD for the model. */
START_TEST(late_answer)
{
	struct rivulet_client *c;
	struct rivulet_model *m;

	daemon_start(NONE);
	ck_assert_int_eq(rivulet_open(dm.path, &c), 0);
	dm.paused = true;
	ck_assert_int_eq(rivulet_model_load_memory_start(c, "onnx", 4, NULL, &m), 0);
	rivulet_model_unref(m);
	dm.paused = false;
	ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), 0);
	ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), 0);
	rivulet_client_unref(c);
	daemon_stop();
	ck_assert_uint_eq(dm.loads, 1);
	ck_assert_uint_eq(dm.unloads, 1);
}
END_TEST

/* When the socket is full, packets stay in order in a queue of the library, and calls return. */
START_TEST(full_socket)
{
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	struct rivulet_client *c;
	struct rivulet_request *q;
	int fd, runs = 0;
	double start;

	daemon_start(NONE);
	dm.hold = true;
	q = request(&c, in, out);
	ck_assert_int_eq(rivulet_request_start(q, NULL), 0);
	/*
	 * The run is not answered, so the descriptor need not become readable after the daemon
	 * received it.
	 */
	while (!dm.runs)
		turn_soon(c);
	dm.paused = true;
	start = now();
	for (int i = 0; i < 3000; i++)
		ck_assert_int_eq(rivulet_request_cancel(q), 0);
	ck_assert_double_lt(now() - start, PROMPT);
	/* Sending the queued packets must not leak a descriptor. */
	fd = count_fds();
	rivulet_request_on_done(q, count, &runs);
	dm.paused = false;
	while (!runs)
		turn(c);
	ck_assert_int_eq(rivulet_request_result(q), -ECANCELED);
	ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), 0);
	ck_assert_int_le(count_fds(), fd);
	rivulet_request_unref(q);
	rivulet_client_unref(c);
	daemon_stop();
}
END_TEST

/*
 * While the daemon is absent, the library retries in the background, and the descriptor becomes
 * readable for every attempt.
 */
START_TEST(reconnects_in_background)
{
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	int changes = 0, turns = 0;
	char moved[120];
	struct parts p;

	parts_new(&p, in, out);
	rivulet_client_on_change(p.c, changed, &changes);
	snprintf(moved, sizeof(moved), "%s-moved", dm.path);
	ck_assert(!rename(dm.path, moved));
	daemon_restart();
	while (!changes)
		turn(p.c);
	ck_assert_int_eq(rivulet_client_result(p.c), -ECONNRESET);
	ck_assert_int_eq(rivulet_client_dispatch(p.c), -ECONNRESET);
	/* This timeout ends before the daemon is back. */
	changes = 0;
	ck_assert_int_eq(rivulet_client_connect_start(p.c, 250), 0);
	while (!changes)
		turn(p.c);
	ck_assert_int_eq(rivulet_client_result(p.c), -ENOENT);
	ck_assert_int_eq(rivulet_client_connect_start(p.c, -1), 0);
	for (changes = 0; rivulet_client_result(p.c); turns++) {
		ck_assert_int_eq(rivulet_client_result(p.c), -EINPROGRESS);
		if (turns == 3)
			ck_assert(!rename(moved, dm.path));
		turn(p.c);
	}
	ck_assert_int_ge(changes, 1);
	ck_assert_int_eq(rivulet_client_connect_start(p.c, -1), 0);
	ck_assert_int_eq(rivulet_request_run(p.q, NULL), 0);
	parts_free(&p);
}
END_TEST

/* When a listener's backlog is full, connect() would block, so the library retries by its timer. */
START_TEST(full_backlog)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct rivulet_client *c, *first[8];
	int n = 0, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	double start = now();

	snprintf(a.sun_path, sizeof(a.sun_path), "/tmp/rvl-backlog-%d", getpid());
	unlink(a.sun_path);
	ck_assert(!bind(fd, (struct sockaddr *)&a, sizeof(a)) && !listen(fd, 0));
	while (n < 8) {
		ck_assert_int_eq(rivulet_open_start(a.sun_path, &first[n]), 0);
		n++;
	}
	ck_assert_double_lt(now() - start, PROMPT);
	c = first[n - 1];
	ck_assert_int_eq(rivulet_client_result(c), -EINPROGRESS);
	/* Accepts all connections. Each client waits for the answer to HELLO. */
	for (int i = 0; i < n; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		while (poll(&p, 1, 5) == 0)
			for (int k = 0; k < n; k++)
				rivulet_client_dispatch(first[k]);
		close(accept(fd, NULL, NULL));
	}
	while (rivulet_client_result(c) == -EINPROGRESS)
		turn(c);
	ck_assert_int_eq(rivulet_client_result(c), -ECONNRESET);
	for (int i = 0; i < n; i++)
		rivulet_client_unref(first[i]);
	close(fd);
	unlink(a.sun_path);
}
END_TEST

/* ---- several requests ---- */

/*
 * wait_any() returns requests in the order in which they ended, across all requests, and each one
 * once.
 */
START_TEST(any_of_several)
{
	uint8_t in[3][BYTES] = { { 10 }, { 20 }, { 30 } }, out[3][BYTES] = { { 0 } };
	struct rivulet_request *q[4] = { NULL };
	struct rivulet_client *c;
	struct rivulet_model *m;
	bool seen[4] = { false };
	int called = 0;

	daemon_start(NONE);
	ck_assert(!rivulet_open(dm.path, &c) && !rivulet_model_load_memory(c, "onnx", 4, NULL, &m));
	for (int i = 0; i < 3; i++) {
		struct rivulet_request **r = &q[i + (i > 0)];	/* q[1] stays NULL */

		ck_assert(!rivulet_request_new(m, r));
		ck_assert(!rivulet_bind_memory(*r, 0, in[i], BYTES) &&
			  !rivulet_bind_memory(*r, 1, out[i], BYTES));
		rivulet_request_on_done(*r, count, &called);
	}
	ck_assert_int_eq(rivulet_request_wait_any(q, 4, WAIT_MS), -ENODATA);
	ck_assert_int_eq(rivulet_request_start(q[3], NULL), 0);
	ck_assert_int_eq(rivulet_request_wait_any(q, 4, WAIT_MS), 3);
	ck_assert_int_eq(called, 1);
	ck_assert_int_eq(rivulet_request_start(q[2], NULL), 0);
	/* A request that ended in run() is not returned by wait_any(). */
	ck_assert_int_eq(rivulet_request_run(q[0], NULL), 0);
	ck_assert_int_eq(rivulet_request_start(q[3], NULL), 0);
	ck_assert_int_eq(rivulet_request_wait_any(q, 4, WAIT_MS), 2);
	ck_assert_int_eq(rivulet_request_wait_any(q, 4, WAIT_MS), 3);
	ck_assert_int_eq(rivulet_request_wait_any(q, 4, 0), -ENODATA);
	for (int i = 0; i < 4; i++)
		ck_assert(!q[i] || !rivulet_request_start(q[i], NULL));
	for (int i = 0; i < 3; i++) {
		int k = rivulet_request_wait_any(q, 4, WAIT_MS);

		ck_assert(k >= 0 && k < 4 && q[k] && !seen[k]);
		seen[k] = true;
		ck_assert_int_eq(rivulet_request_result(q[k]), 0);
	}
	dm.hold = true;
	ck_assert_int_eq(rivulet_request_start(q[0], NULL), 0);
	ck_assert_int_eq(rivulet_request_wait_any(q, 4, 50), -ETIMEDOUT);
	ck_assert_int_eq(rivulet_request_cancel(q[0]), 0);
	ck_assert_int_eq(rivulet_request_wait_any(q, 4, WAIT_MS), 0);
	ck_assert_int_eq(rivulet_request_result(q[0]), -ECANCELED);
	for (int i = 0; i < 4; i++)
		rivulet_request_unref(q[i]);
	rivulet_model_unref(m);
	rivulet_client_unref(c);
	daemon_stop();
}
END_TEST

/*
 * A prepared request sends only RUN for its first run. A request that is cancelled while it is
 * being prepared does not run.
 */
START_TEST(prepared)
{
	uint8_t in[BYTES] = { 4 }, out[BYTES] = { 0 };
	struct rivulet_client *c;
	struct rivulet_request *q;

	daemon_start(NONE);
	q = request(&c, in, out);
	ck_assert_int_eq(rivulet_request_prepare(q), 0);
	ck_assert_uint_eq(dm.opens, 1);
	ck_assert_uint_eq(dm.binds, 2);
	ck_assert_uint_eq(dm.runs, 0);
	ck_assert_int_eq(rivulet_request_prepare(q), 0);
	ck_assert_uint_eq(dm.opens, 1);
	dm.paused = true;
	ck_assert_int_eq(rivulet_bind_memory(q, 0, in, BYTES), 0);
	rivulet_request_unref(q);
	dm.paused = false;
	/* A new request, cancelled while its instance is being opened. */
	rivulet_client_unref(c);
	daemon_stop();
	daemon_start(NONE);
	q = request(&c, in, out);
	dm.paused = true;
	ck_assert_int_eq(rivulet_request_start(q, NULL), 0);
	ck_assert_int_eq(rivulet_request_start(q, NULL), -EBUSY);
	ck_assert_int_eq(rivulet_request_prepare_start(q), -EBUSY);
	ck_assert_int_eq(rivulet_request_cancel(q), 0);
	ck_assert_int_eq(rivulet_request_wait(q, WAIT_MS), -ECANCELED);
	ck_assert_int_eq(rivulet_request_start(q, NULL), 0);
	dm.paused = false;
	ck_assert_int_eq(rivulet_request_wait(q, WAIT_MS), 0);
	ck_assert_uint_eq(dm.runs, 1);
	ck_assert_uint_eq(dm.opens, 1);
	ck_assert_uint_eq(out[0], 5);
	rivulet_request_unref(q);
	rivulet_client_unref(c);
	daemon_stop();
}
END_TEST

static void release(struct rivulet_model *m, void *data)
{
	++*(int *)data;
	rivulet_model_unref(m);
}

/* The callback releases the program's only reference while the program waits for the model. */
START_TEST(released_by_callback)
{
	struct rivulet_client *c;
	struct rivulet_model *m;
	int releases = 0;

	daemon_start(NONE);
	ck_assert_int_eq(rivulet_open(dm.path, &c), 0);
	ck_assert_int_eq(rivulet_model_load_memory_start(c, "onnx", 4, NULL, &m), 0);
	rivulet_model_on_loaded(m, release, &releases);
	ck_assert_int_eq(rivulet_model_wait(m, WAIT_MS), 0);
	ck_assert_int_eq(releases, 1);
	ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), 0);
	ck_assert_uint_eq(dm.unloads, 1);
	rivulet_client_unref(c);
	daemon_stop();
}
END_TEST

/*
 * A request is released after the daemon ended while its BIND was unanswered. The client then
 * serves the next request.
 */
START_TEST(released_while_preparing)
{
	uint8_t in[BYTES] = { 4 }, out[BYTES] = { 0 };
	struct rivulet_request *q, *next;
	struct rivulet_client *c;
	struct rivulet_model *m;

	daemon_start_for(NONE, -1);
	ck_assert(!rivulet_open(dm.path, &c) && !rivulet_model_load_memory(c, "onnx", 4, NULL, &m));
	ck_assert(!rivulet_request_new(m, &q) && !rivulet_request_new(m, &next));
	ck_assert(!rivulet_bind_memory(q, 0, in, BYTES) && !rivulet_bind_memory(q, 1, out, BYTES));
	ck_assert(!rivulet_bind_memory(next, 0, in, BYTES) && !rivulet_bind_memory(next, 1, out,
										   BYTES));
	ck_assert_int_eq(rivulet_request_prepare(q), 0);
	dm.paused = true;
	/* The memory differs from the one bound before, so the next run sends BIND. */
	ck_assert_int_eq(rivulet_bind_dmabuf(q, 0, dm.listener, 0), 0);
	ck_assert_int_eq(rivulet_request_start(q, NULL), 0);
	daemon_restart();
	rivulet_request_unref(q);
	dm.paused = false;
	ck_assert_int_eq(rivulet_request_start(next, NULL), 0);
	ck_assert_int_eq(rivulet_request_wait(next, WAIT_MS), 0);
	ck_assert_uint_eq(out[0], 5);
	rivulet_request_unref(next);
	rivulet_model_unref(m);
	rivulet_client_unref(c);
	daemon_stop();
}
END_TEST

/* ---- shapes that a run finds ---- */

/* Runs, in the program's loop, a request whose output has a shape that the daemon must report. */
static int run_bounded(struct rivulet_request *q, uint64_t rows)
{
	struct rivulet_client *c = q->model->client;
	int ended = 0;

	dm.rows = rows;
	rivulet_request_on_done(q, count, &ended);
	ck_assert_int_eq(rivulet_request_start(q, NULL), 0);
	while (rivulet_request_result(q) == -EINPROGRESS)
		turn(c);
	turn_soon(c);
	rivulet_request_on_done(q, NULL, NULL);
	ck_assert_int_eq(ended, 1);
	return rivulet_request_result(q);
}

/*
 * Proves that a run ends once, after its shapes were reported, that only the bytes of the result
 * are copied, that a connection lost or a refusal between the run and its shape is the run's error,
 * and that an impossible shape is an error of the daemon.
 */
START_TEST(shapes_of_runs)
{
	struct rivulet_tensor_info t = { .size = sizeof(t) };
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	struct rivulet_client *c;
	struct rivulet_request *q;

	daemon_start_for(NONE, -1);
	dm.bounded = true;
	q = request(&c, in, out);
	ck_assert_int_eq(run_bounded(q, 2), 0);
	ck_assert_int_eq(rivulet_request_tensor(q, 1, &t), 0);
	ck_assert(t.bounded && t.dim[0] == 2 && t.bytes == 128);
	ck_assert(out[0] == 2 && out[127] == 1 && out[128] == 0);
	ck_assert_int_eq(run_bounded(q, 4), 0);
	ck_assert_uint_eq(out[255], 1);
	ck_assert_int_eq(run_bounded(q, 0), 0);
	ck_assert_int_eq(rivulet_request_tensor(q, 1, &t), 0);
	ck_assert_uint_eq(t.bytes, 0);
	dm.refuse = RIVULET_MSG_TENSOR;
	dm.refuse_with = -ENODEV;
	ck_assert_int_eq(run_bounded(q, 2), -ENODEV);
	ck_assert_int_eq(rivulet_request_tensor(q, 1, &t), -ENODATA);
	dm.refuse = 0;
	/* A cancellation after the end of the run comes too late. */
	ck_assert_int_eq(rivulet_request_start(q, NULL), 0);
	while (q->phase != RVL_MEASURING)
		turn(c);
	ck_assert_int_eq(rivulet_request_cancel(q), 0);
	ck_assert_int_eq(rivulet_request_wait(q, WAIT_MS), 0);
	ck_assert_int_eq(run_bounded(q, 5), -EBADMSG);
	rivulet_request_unref(q);
	rivulet_client_unref(c);
	daemon_stop();
}
END_TEST

/* ---- errno ---- */

START_TEST(errors_of_arguments)
{
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	struct rivulet_run_options o = { .size = sizeof(o), .deadline = -1 };
	struct rivulet_client *c, *d;
	struct rivulet_request *q;
	struct rivulet_model *m;
	char fifo[80];

	daemon_start_for(NONE, -1);
	q = request(&c, in, out);
	ck_assert_int_eq(rivulet_request_result(q), -ENODATA);
	ck_assert_int_eq(rivulet_request_wait(q, 0), -ENODATA);
	ck_assert_int_eq(rivulet_bind_memory(q, 0, in, BYTES), 0);
	ck_assert_int_eq(rivulet_bind_dmabuf(q, 0, -1, 0), -EBADF);
	ck_assert_int_eq(rivulet_bind_dmabuf(q, 0, dm.listener, 32), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(), "multiple of 64"));
	ck_assert_int_eq(rivulet_bind_memory(q, 0, NULL, BYTES), -EINVAL);
	ck_assert_int_eq(rivulet_request_run(q, &o), -EINVAL);
	ck_assert_int_eq(rivulet_model_load(c, "models", NULL, &m), -EINVAL);
	ck_assert_int_eq(rivulet_client_level(c, &(struct rivulet_level_state){ .size = 8 }),
			 -ENODATA);
	/* A FIFO without a writer must not block the call. */
	snprintf(fifo, sizeof(fifo), "/tmp/rvl-fifo-%d", getpid());
	ck_assert(!mkfifo(fifo, 0600));
	ck_assert_int_eq(rivulet_model_load(c, fifo, NULL, &m), -EINVAL);
	unlink(fifo);
	daemon_restart();
	dm.refuse = RIVULET_MSG_HELLO;
	dm.refuse_with = -EDQUOT;
	ck_assert_int_eq(rivulet_open(dm.path, &d), -EDQUOT);
	ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), -EDQUOT);
	ck_assert_int_eq(rivulet_client_wait_device(c, WAIT_MS), -EDQUOT);
	ck_assert_int_eq(rivulet_request_run(q, NULL), -EDQUOT);
	ck_assert_int_eq(rivulet_client_connect_start(c, -1), 0);
	while (rivulet_client_result(c) == -EINPROGRESS)
		turn(c);
	ck_assert_int_eq(rivulet_client_result(c), -EDQUOT);
	dm.refuse_with = -EPROTONOSUPPORT;
	ck_assert_int_eq(rivulet_open(dm.path, &d), -EPROTO);
	dm.refuse = 0;
	/* a later daemon may have a higher limit */
	ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), 0);
	chmod(dm.path, 0);
	if (geteuid())
		ck_assert_int_eq(rivulet_open(dm.path, &d), -EACCES);
	rivulet_request_unref(q);
	rivulet_client_unref(c);
	daemon_stop();
	daemon_start(NONE);
	daemon_stop_listening();
	ck_assert_int_eq(rivulet_open(dm.path, &d), -ECONNREFUSED);
	unlink(dm.path);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("async");
	TCase *t = tcase_create("async");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, restarted_while_idle, 0, CALLS);
	tcase_add_test(t, shapes_of_runs);
	tcase_add_loop_test(t, refused, 0, CALLS);
	tcase_add_loop_test(t, absent, 0, CALLS);
	tcase_add_test(t, whole_loop);
	tcase_add_test(t, silent_daemon);
	tcase_add_test(t, questions);
	tcase_add_test(t, unanswered_questions);
	tcase_add_test(t, late_answer);
	tcase_add_test(t, full_socket);
	tcase_add_test(t, reconnects_in_background);
	tcase_add_test(t, full_backlog);
	tcase_add_test(t, any_of_several);
	tcase_add_test(t, prepared);
	tcase_add_test(t, released_by_callback);
	tcase_add_test(t, released_while_preparing);
	tcase_add_test(t, errors_of_arguments);
	suite_add_tcase(s, t);
	return run_library_suite(s);
}
