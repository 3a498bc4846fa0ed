/* SPDX-License-Identifier: MIT */
/*
 * Users that compete for the device of a daemon under test. Each has real connections under a uid
 * of its own and runs LeNet on a board whose clock is chosen so that a run takes as long as the
 * test wants.
 */
#ifndef RVL_SHARE_RIG_H
#define RVL_SHARE_RIG_H

#include "daemon_rig.h"

#define LENET_CYCLES	15408u
#define ALICE		1001u	/* uids of the competitors */
#define BOB		1002u
#define DEPTH_MAX	60
#define RUNS_KEPT	4096	/* runs of a competitor whose times are recorded */

/** struct ran - when a run's request arrived and when it was started, by the daemon's clock */
struct ran {
	uint64_t arrival, start;
};

/** struct competitor - a connection that keeps @depth runs in flight */
struct competitor {
	int sock;
	uint32_t depth, priority, flags;
	/* deadlines are this many ns after their requests; 0: no deadline */
	uint64_t ahead;
	uint64_t deadline;	/* the same deadline for all requests, if @ahead is 0; 0: none */
	uint32_t instance[DEPTH_MAX], serial[DEPTH_MAX];
	/* results */
	uint64_t runs, npu_ns, refused, late;
	uint64_t turns;		/* successive runs, the last one included, that had been queued */
				/* before the run ahead of them was started */
	char text[512];		/* text of the last refusal */
	struct ran ran[RUNS_KEPT];
};

/* Writes a board with one level, at which a run of LeNet takes @run_us. */
static inline void put_slow_board(uint64_t run_us)
{
	size_t size;
	char *text = read_file("sim/boards/zu3eg-64.board", &size),
		*level = strstr(text, "\nlevel =");
	char board[4096];

	ck_assert_ptr_nonnull(level);
	snprintf(board, sizeof(board), "%.*s\nlevel = %llu 800000\npace = real\n",
		 (int)(level - text), text, (unsigned long long)LENET_CYCLES * 1000000 / run_us);
	put_file(rig.dir, "slow.board", board);
	free(text);
}

/* Starts a daemon with a device on which a run of LeNet takes @run_us. */
static inline void share_start(const char *config, uint64_t run_us)
{
	char node[160];

	rig_dir();
	rig_config(config);
	put_slow_board(run_us);
	snprintf(node, sizeof(node), "sim:%s/slow.board,pace=real", rig.dir);
	rig_spawn(node);
}

/* Connects as @uid with LeNet loaded and @depth instances, whose input and output are bound. */
static inline void competitor_open(struct competitor *c, uid_t uid, uint32_t depth)
{
	uint32_t model;
	int memory;

	memset(c, 0, sizeof(*c));
	rig_as(uid);
	c->sock = raw_open();
	rig_as_self();
	c->priority = RIVULET_PRIO_NORMAL;
	c->depth = depth;
	model = load_lenet(c->sock);
	memory = memfd_of(NULL, 8192, F_SEAL_SHRINK);
	for (uint32_t i = 0; i < depth; i++) {
		c->instance[i] = open_instance(c->sock, model);
		for (uint32_t dir = 0; dir < 2; dir++)
			ck_assert_int_eq(bind_fd(c->sock, c->instance[i], dir, memory, dir * 4096,
						 4096), 0);
	}
	close(memory);
}

/*
 * An assertion where there are thousands in a second: check writes a message to a file for each of its
 * own, also if it holds.
 */
static inline void must(bool holds, const char *what)
{
	if (!holds)
		ck_abort_msg("%s", what);
}

static inline void competitor_send(struct competitor *c, uint32_t i)
{
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_RUN);
	p.run.instance = c->instance[i];
	p.run.priority = c->priority;
	p.run.flags = c->flags;
	p.run.deadline = c->ahead ? rvl_now() + c->ahead : c->deadline;
	c->serial[i] = p.h.serial;
	must(raw_send(c->sock, &p, p.h.length, NULL, 0) == p.h.length, "a request was not sent");
}

static inline void competitor_send_all(struct competitor *c)
{
	for (uint32_t i = 0; i < c->depth; i++)
		competitor_send(c, i);
}

static inline void keep_times(struct competitor *c, const struct rivulet_msg_run_reply *r)
{
	struct ran *at = &c->ran[c->runs];

	if (c->runs >= RUNS_KEPT)
		return;
	at->start = r->start;
	at->arrival = r->start - r->queue_ns;
	c->turns = c->runs && at->arrival <= at[-1].start ? c->turns + 1 : 0;
}

static inline void count_reply(struct competitor *c, const union rivulet_packet *p)
{
	if (p->h.type == RIVULET_MSG_ERROR) {
		must(p->h.error == -ETIME || p->h.error == -ECANCELED, p->error.text);
		c->refused++;
		snprintf(c->text, sizeof(c->text), "%s", p->error.text);
		return;
	}
	keep_times(c, &p->run_reply);
	c->runs++;
	c->npu_ns += p->run_reply.npu_ns;
	c->late += p->run_reply.flags & RIVULET_RAN_LATE;
}

/* Receives one packet. Returns the index of the instance whose run ended, or -1 for an event. */
static inline int competitor_receive(struct competitor *c, union rivulet_packet *p)
{
	must(raw_recv(c->sock, p, NULL) > 0, "no answer");
	for (uint32_t i = 0; i < c->depth; i++)
		if (c->serial[i] == p->h.serial && p->h.serial) {
			count_reply(c, p);
			c->serial[i] = 0;
			return (int)i;
		}
	return -1;
}

static inline bool competitor_waits(const struct competitor *c)
{
	for (uint32_t i = 0; i < c->depth; i++)
		if (c->serial[i])
			return true;
	return false;
}

/* Receives a packet of each connection that has one, and sends a request for each run that ended. */
static inline void compete_once(struct competitor *const *c, uint32_t n)
{
	union rivulet_packet p;
	struct pollfd pfd[8];

	for (uint32_t i = 0; i < n; i++)
		pfd[i] = (struct pollfd){ .fd = c[i]->sock, .events = POLLIN };
	must(poll(pfd, n, WAIT_MS) > 0, "no answer");
	for (uint32_t i = 0; i < n; i++) {
		int place = pfd[i].revents ? competitor_receive(c[i], &p) : -1;

		if (place >= 0)
			competitor_send(c[i], (uint32_t)place);
	}
}

/* All competitors keep their depth for @ns. Runs that end later are not counted. */
static inline void compete(struct competitor *const *c, uint32_t n, uint64_t ns)
{
	uint64_t stop = rvl_now() + ns;

	for (uint32_t i = 0; i < n; i++)
		competitor_send_all(c[i]);
	while (rvl_now() < stop)
		compete_once(c, n);
	for (uint32_t i = 0; i < n; i++)
		close(c[i]->sock);
}

/*
 * All competitors keep their depth until the first one, which has several runs in flight, has had
 * @turns turns in succession.
 */
static inline void compete_turns(struct competitor *const *c, uint32_t n, uint32_t turns)
{
	for (uint32_t i = 0; i < n; i++)
		if (!competitor_waits(c[i]))
			competitor_send_all(c[i]);
	while (c[0]->turns < turns)
		compete_once(c, n);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_uint_le(c[i]->runs, RUNS_KEPT);
}

/* Counts the runs of @c that were started after @from and before @to. */
static inline uint32_t started_between(const struct competitor *c, uint64_t from, uint64_t to)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < c->runs; i++)
		count += c->ran[i].start > from && c->ran[i].start < to;
	return count;
}

/*
 * Percentage of the runs that were those of the first competitor, during its last turns. All runs
 * take the same device time, and a run of the first competitor was queued all the time, so the
 * result is independent of how late a busy machine wakes the clients. The last turn does not count,
 * because answers to the others from before it may be unread.
 */
static inline double share_of_turns(struct competitor *const *c, uint32_t n)
{
	const struct ran *last = &c[0]->ran[c[0]->runs - 2], *first = last + 1 - c[0]->turns;
	uint32_t others = 0;

	for (uint32_t i = 1; i < n; i++)
		others += started_between(c[i], first->start, last->start);
	return 100.0 * (double)(last - first) / (double)(last - first + others);
}

/* Percentage of the device time that all competitors used. */
static inline double device_share(struct competitor *const *c, uint32_t n, uint32_t of)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += c[i]->npu_ns;
	return 100.0 * (double)c[of]->npu_ns / (double)sum;
}

#endif
