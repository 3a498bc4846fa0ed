// SPDX-License-Identifier: MIT
/*
 * The life of a run: submitted (admitted and queued), started (ParallelRuns= at a time, so that CPU
 * steps of one run overlap NPU steps of another), ended (by the runtime's callback or given up),
 * answered and freed. Runs are answered and freed by an event source, not in the runtime's
 * callback, because the runtime still uses the run's memory there. fair.h has the order of runs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "accel.h"
#include "cache.h"
#include "config.h"
#include "connection.h"
#include "estimate.h"
#include "fair.h"
#include "instance.h"
#include "log.h"
#include "loop.h"
#include "manager.h"
#include "peak.h"
#include "power.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"
#include "rivulet_runtime.h"
#include "scheduler.h"
#include "user.h"
#include "util.h"

/*
 * Time for which all runs under way hold their slots before a user without one gets a further slot.
 */
#define HOLD_NS (100 * NSEC_PER_MSEC)

static struct rvl_sched *sched_of(const struct rvl_run *run)
{
	return &run->instance->session->m->sched;
}

static void wake(struct rvl_sched *sc)
{
	sd_event_source_set_enabled(sc->kick, SD_EVENT_ONESHOT);
}

/* A run under way ends. */
static void leave_slot(struct rvl_run *run)
{
	struct rvl_user *u = run->user;

	if (!run->overdue) {
		sched_of(run)->n_running--;
		u->under_way--;
		return;
	}
	u->overdue--;
	u->share.barred = u->overdue;
}

static void to_ended(struct rvl_run *run)
{
	struct rvl_sched *sc = sched_of(run);

	if (run->ended)
		return;
	if (run->running) {
		leave_slot(run);
	} else {
		sc->queued--;
		rvl_fair_remove(&sc->fair, &run->slot);
	}
	run->ended = true;
	rvl_list_del(&run->link);
	rvl_list_add_tail(&sc->ended, &run->link);
	wake(sc);
}

static void give_up(struct rvl_run *run, int error, const char *text)
{
	run->error = error;
	rvl_say(&run->text, 0, "%.500s", text);
	to_ended(run);
}

/* Called by the runtime in its dispatch. */
static void on_done(struct rivulet_exec *exec, void *data)
{
	(void)exec;
	to_ended(data);
}

/* ---- the answer ---- */

static void count(struct rvl_totals *t, const struct rivulet_exec_result *res, int error,
		  uint64_t queue_ns, bool late)
{
	t->runs++;
	if (error) {
		t->cancelled += error == -ECANCELED;
		t->refused += error == -ETIME;
		t->failed += error != -ECANCELED && error != -ETIME;
		return;
	}
	t->late += late;
	t->queue_ns += queue_ns;
	t->run_ns += res->end_ns - res->start_ns;
	t->npu_ns += res->device_ns;
	t->cpu_ns += res->cpu_ns;
	t->cycles += res->cycles;
	t->energy_pj += res->energy_pj;
	t->macs += res->macs;
}

/* Length and accuracy are the lowest of the levels at which the run's jobs ran. */
static void fill_worth(const struct rvl_run *run, const struct rivulet_exec_result *res,
		       struct rivulet_msg_run_reply *r)
{
	const struct rivulet_level_info *info = run->instance->model->program->file->level;

	if (run->variant) {
		r->length = info[run->variant - 1].length;
		r->accuracy = info[run->variant - 1].accuracy;
		return;
	}
	r->length = info[res->level_min].length;
	r->accuracy = info[res->level_min].accuracy;
	for (uint32_t l = res->level_min; l <= res->level_max && l < RIVULET_LEVELS; l++) {
		if (!(run->levels >> l & 1))
			continue;
		r->length = info[l].length < r->length ? info[l].length : r->length;
		r->accuracy = info[l].accuracy < r->accuracy ? info[l].accuracy : r->accuracy;
	}
}

static void fill_reply(const struct rvl_run *run, const struct rivulet_exec_result *res, bool late,
		       struct rivulet_msg_run_reply *r)
{
	r->instance = run->instance->id;
	r->flags = (late ? RIVULET_RAN_LATE : 0) | (res->cpu_steps ? RIVULET_RAN_CPU : 0) |
		   (res->npu_steps ? RIVULET_RAN_NPU : 0);
	r->start = res->start_ns;
	r->end = res->end_ns;
	r->queue_ns = run->started - run->slot.arrival;
	r->npu_ns = res->device_ns;
	r->cpu_ns = res->cpu_ns;
	r->expected_ns = run->slot.hard ? run->slot.worst : run->slot.expected;
	r->cycles = res->cycles;
	r->macs = res->macs;
	r->conv_busy = res->conv_busy;
	r->read_bytes = res->read_bytes;
	r->write_bytes = res->write_bytes;
	r->energy = res->energy_pj;
	r->npu_jobs = res->npu_steps;
	r->cpu_steps = res->cpu_steps;
	r->level_min = res->level_min;
	r->level_max = res->level_max;
	fill_worth(run, res, r);
}

static void answer_done(struct rvl_run *run, const struct rivulet_exec_result *res, bool late)
{
	struct rvl_session *s = run->instance->session;
	struct rivulet_msg_run_reply reply;

	rivulet_proto_init(&reply, RIVULET_MSG_RUN | RIVULET_REPLY, s->version, run->serial);
	fill_reply(run, res, late, &reply);
	rvl_send(s, &reply, -1);
}

static void answer_error(struct rvl_run *run, int error, const char *text)
{
	struct rvl_session *s = run->instance->session;
	struct rvl_about a = rvl_session_about(s);

	a.model = run->instance->model->name;
	a.job = run->serial;
	if (error != -ECANCELED && error != -ETIME)
		rvl_log(LOG_WARNING, RVL_LOG_RUN_FAILED, &a, "a run of \"%s\" failed: %s",
			a.model, text);
	rvl_send_error(s, RIVULET_MSG_RUN, run->serial, error, text);
}

/* ---- accounting ---- */

#define PEAK_NS (60 * NSEC_PER_SEC)

/*
 * The time for which a run kept the device busy. Runs under way overlap, so the time before the end
 * of another run counts for that one; but a run counts at least the time that its own steps took.
 */
static uint64_t kept_ns(const struct rvl_sched *sc, const struct rivulet_exec_result *res)
{
	uint64_t began = res->start_ns > sc->last_end ? res->start_ns : sc->last_end;
	uint64_t alone = res->end_ns > began ? res->end_ns - began : 0;
	uint64_t steps = res->device_ns + res->cpu_ns, all = res->end_ns - res->start_ns;

	alone = alone > steps ? alone : steps;
	return alone < all ? alone : all;
}

/* The time that the user is charged. A failed run may lack the reports of the time that it took. */
static uint64_t service_ns(const struct rivulet_exec_result *res, uint64_t kept, int error)
{
	uint64_t ns = res->device_ns > res->cpu_ns ? res->device_ns : res->cpu_ns;

	return error && error != -ECANCELED && kept > ns ? kept : ns;
}

/* @level: the policy's level if Reconfigure= keeps the clock, else the device's. */
static void add_statistics(struct rvl_program *p, const struct rivulet_exec_result *res,
			   uint32_t level, bool late, uint64_t kept)
{
	struct rvl_level_stat *at = &p->at[level % RIVULET_LEVELS];
	uint64_t ns = res->end_ns - res->start_ns;

	rvl_peak_add(&at->longest, at->runs / RVL_PEAK_RUNS, kept);
	at->runs++;
	at->late += late;
	at->run_ns += ns;
	at->npu_ns += res->device_ns;
	at->energy_pj += res->energy_pj;
	at->measured_ns = at->measured_ns ? at->measured_ns - at->measured_ns / 8 + ns / 8 : ns;
}

static uint32_t level_of(const struct rvl_run *run, const struct rivulet_exec_result *res)
{
	struct rvl_override over = rvl_power_override(&run->instance->session->m->power);

	return run->variant && over.clock ? run->variant - 1 : res->level_min;
}

/* The driver reports a removed device by -ENODEV before udev announces the removal. */
static void device_gone(struct rvl_run *run, const char *text)
{
	struct rvl_manager *m = run->instance->session->m;
	struct rvl_text why;

	m->sched.gone_epoch = run->instance->epoch;
	run->error = rvl_say(&why, -ENODEV, "the device %s went away: %.300s", m->device.node, text);
	run->text = why;
}

static void finish(struct rvl_run *run)
{
	struct rvl_instance *x = run->instance;
	struct rvl_session *s = x->session;
	struct rvl_sched *sc = &s->m->sched;
	const struct rivulet_exec_result *res = rivulet_exec_result(x->exec);
	int error = run->error ? run->error : res->error;
	bool late = !error && res->end_ns > run->slot.deadline;
	uint64_t queue_ns = run->started ? run->started - run->slot.arrival : 0;
	uint64_t kept = run->running ? kept_ns(sc, res) : 0;

	if (error == -ENODEV && s->m->device.present && x->epoch == s->m->device.epoch)
		device_gone(run, run->error ? run->text.s : res->text);
	count(&s->m->sched.totals, res, error, queue_ns, late);
	count(&x->model->program->totals, res, error, queue_ns, late);
	if (error) {
		answer_error(run, error, run->error ? run->text.s : res->text);
	} else {
		add_statistics(x->model->program, res, level_of(run, res), late, kept);
		answer_done(run, res, late);
	}
	if (run->running) {
		rvl_fair_end(&sc->fair, &run->slot, rvl_now(), service_ns(res, kept, error));
		rvl_peak_add(&sc->longest, rvl_now() / PEAK_NS, kept);
		sc->last_end = res->end_ns > sc->last_end ? res->end_ns : sc->last_end;
	}
	x->ran = !error;
	run->user->runs--;
	rvl_list_del(&run->link);
	if (run->demands)
		rvl_power_demand(&s->m->power, run->levels, -1);
	if (run->running)
		rvl_power_run(&s->m->power, run->levels, -1);
	free(run);
	rvl_instance_run_ended(x);
	rvl_session_reap(s);
}

/* ---- the limit on a run's time ---- */

static void arm_limit(struct rvl_sched *sc)
{
	uint64_t first = UINT64_MAX;
	struct rvl_run *run;

	rvl_list_each(run, &sc->running, link)
		if (!run->overdue && run->end_by < first)
			first = run->end_by;
	sd_event_source_set_time(sc->limit, first == UINT64_MAX ? first : first / 1000 + 1);
	sd_event_source_set_enabled(sc->limit, first == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

/*
 * The step under way may take much longer than the limit. Meanwhile the slot is free for other
 * users, but this user starts nothing: otherwise such steps would occupy all threads.
 */
static void stop_overdue(struct rvl_run *run)
{
	struct rvl_user *u = run->user;
	struct rvl_text why;

	sched_of(run)->n_running--;
	u->under_way--;
	run->overdue = true;
	u->overdue++;
	u->share.barred = true;
	rvl_say(&why, 0, "took %.3f s and had not ended: MaxRunSec= allows no more",
		(double)(run->end_by - run->started) / (double)NSEC_PER_SEC);
	rvl_sched_cancel(run, -EDQUOT, why.s);
}

static int on_limit(sd_event_source *source, uint64_t usec, void *data)
{
	struct rvl_manager *m = data;
	struct rvl_sched *sc = &m->sched;
	uint64_t now = rvl_now();
	struct rvl_run *run;

	(void)source;
	(void)usec;
	rvl_list_each(run, &sc->running, link)
		if (!run->overdue && run->end_by <= now)
			stop_overdue(run);
	arm_limit(sc);
	wake(sc);
	return 0;
}

/* ---- starting ---- */

static void start(struct rvl_sched *sc, struct rvl_run *run)
{
	struct rivulet_exec_params params = { .done = on_done, .data = run, .owner = run->user,
					      .soft = !run->slot.hard };
	struct rivulet_runtime_error why = { .text = "" };
	uint64_t now = rvl_now();
	int r;

	if (run->slot.hard && (run->slot.worst > run->slot.deadline ||
			       now > run->slot.deadline - run->slot.worst)) {
		give_up(run, -ETIME, "what ran before took too long: no time left");
		return;
	}
	params.min_level = run->min_level;
	params.variant = run->variant = rvl_power_forced(&run->instance->session->m->power,
							 run->min_level);
	if (run->slot.deadline != UINT64_MAX && run->slot.deadline <= INT64_MAX)
		params.deadline = (int64_t)run->slot.deadline;
	r = rivulet_exec_start(run->instance->exec, &params, &why);
	if (r) {
		give_up(run, r, why.text);
		return;
	}
	run->running = true;
	run->started = now;
	run->end_by = now + run->instance->session->m->cfg.run_limit;
	run->user->under_way++;
	rvl_power_run(&run->instance->session->m->power, run->levels, 1);
	rvl_fair_start(&sc->fair, &run->slot, now);
	rvl_list_add_tail(&sc->running, &run->link);
	sc->queued--;
	sc->n_running++;
	arm_limit(sc);
}

static void finish_ended(struct rvl_sched *sc)
{
	while (sc->ended.next != &sc->ended)
		finish(rvl_container(sc->ended.next, struct rvl_run, link));
}

/* The longest time until all runs under way have ended, if they do not overlap. */
static uint64_t work_left(const struct rvl_sched *sc, uint64_t now)
{
	struct rvl_run *run;
	uint64_t sum = 0, left;

	rvl_list_each(run, &sc->running, link) {
		uint64_t spent = now - run->started;

		left = spent < run->slot.worst ? run->slot.worst - spent : 0;
		sum = left < UINT64_MAX - sum ? sum + left : UINT64_MAX;
	}
	return sum;
}

/*
 * Returns false if the run must wait, because the level changes when the runs under way have ended.
 */
static bool start_at_level(struct rvl_manager *m, struct rvl_run *run)
{
	struct rvl_text why;
	int r = rvl_power_can_start(&m->power, run->levels, run->demands, &why);

	if (r == -EAGAIN)
		return false;
	if (r)
		give_up(run, r, why.s);
	else
		start(&m->sched, run);
	return true;
}

/*
 * When a user without a run under way may start one more than ParallelRuns=: after all runs under
 * way have taken HOLD_NS. So a user waits behind long runs of others, whose ends MaxRunSec= alone
 * bounds, no longer than HOLD_NS for each user that is ahead of it in the order of runs.
 */
static uint64_t extra_slot_at(const struct rvl_sched *sc)
{
	struct rvl_run *run;
	uint64_t at = 0;

	rvl_list_each(run, &sc->running, link)
		if (!run->overdue && run->started + HOLD_NS > at)
			at = run->started + HOLD_NS;
	return at;
}

/* Returns the run to start, or NULL. @wake: when to ask again if nothing happens before. */
static struct rvl_run *next_run(struct rvl_manager *m, uint64_t *wake)
{
	struct rvl_sched *sc = &m->sched;
	bool full = sc->n_running >= m->cfg.parallel;
	uint64_t now = rvl_now(), extra = full ? extra_slot_at(sc) : 0;
	struct rvl_slot *slot;
	struct rvl_run *run;

	*wake = extra;
	if (extra > now)
		return NULL;
	slot = rvl_fair_pick(&sc->fair, now, work_left(sc, now), rvl_loop_recent(&m->loop), wake);
	if (!slot)
		return NULL;
	run = rvl_container(slot, struct rvl_run, slot);
	if (!full || !run->user->under_way)
		return run;
	*wake = now + HOLD_NS;
	return NULL;
}

static void start_runs(struct rvl_manager *m)
{
	struct rvl_sched *sc = &m->sched;
	uint64_t wake = UINT64_MAX;
	struct rvl_run *run;

	while (sc->queued) {
		run = next_run(m, &wake);
		if (!run || !start_at_level(m, run))
			break;
		wake = UINT64_MAX;
	}
	sd_event_source_set_time(sc->timer, wake == UINT64_MAX ? wake : wake / 1000 + 1);
	sd_event_source_set_enabled(sc->timer, wake == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

static int on_kick(sd_event_source *source, void *data)
{
	struct rvl_manager *m = data;
	struct rvl_sched *sc = &m->sched;

	(void)source;
	finish_ended(sc);
	if (sc->gone_epoch && sc->gone_epoch == m->device.epoch)
		rvl_device_removed(&m->device);
	sc->gone_epoch = 0;
	start_runs(m);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *data)
{
	(void)source;
	(void)usec;
	start_runs(data);
	return 0;
}

/* ---- submitting ---- */

static int check_bound(const struct rvl_instance *x, struct rvl_text *err)
{
	const struct rivulet_program *prog = x->model->program->file;
	const struct rivulet_tensor *t = rivulet_program_tensors(prog);

	for (uint32_t i = 0; i < x->tensors; i++)
		if (!x->bound[i])
			return rvl_say(err, -EINVAL, "%s \"%.200s\" is not bound",
				       i < prog->inputs ? "input" : "output",
				       rivulet_program_string(prog, t[i].name));
	return 0;
}

static int check_run(const struct rvl_instance *x, const struct rivulet_msg_run *req,
		     struct rvl_text *err)
{
	const struct rvl_manager *m = x->session->m;

	if (req->flags & ~RIVULET_RUN_FLAGS || req->priority >= RIVULET_PRIOS)
		return rvl_say(err, -EINVAL, "unknown flags 0x%x or priority %u", req->flags,
			       req->priority);
	if (req->flags & RIVULET_RUN_HARD && !req->deadline)
		return rvl_say(err, -EINVAL, "a hard run without a deadline");
	if (req->min_accuracy > 1000000)
		return rvl_say(err, -EINVAL, "min_accuracy %u is above 1000000 ppm",
			       req->min_accuracy);
	if (req->priority > RIVULET_PRIO_NORMAL && !rvl_users_have(&m->cfg.high_users, x->session->user->uid))
		return rvl_say(err, -EPERM, "priority %u is for HighPriorityUsers= only",
			       req->priority);
	if (x->run)
		return rvl_say(err, -EBUSY, "instance %u has a run under way", x->id);
	if (!m->device.present || x->epoch != m->device.epoch)
		return rvl_say(err, -ENODEV, "the device of instance %u went away: open it again",
			       x->id);
	return check_bound(x, err);
}

/*
 * Fills in the levels at which the run may be executed. With a least accuracy the device must not
 * fall below the lowest of them while the run's jobs are queued there.
 */
static int choose_levels(const struct rvl_instance *x, const struct rivulet_msg_run *req,
			 struct rvl_run *run, struct rvl_text *err)
{
	const struct rvl_program *p = x->model->program;
	const struct rvl_manager *m = x->session->m;
	int r;

	run->levels = rvl_power_usable(&m->power, p->levels);
	if (req->min_accuracy) {
		run->levels = rvl_power_usable(&m->power, rvl_program_accurate(p, req->min_accuracy));
		if (!run->levels)
			return rvl_say(err, -EOPNOTSUPP,
				       "no level of \"%s\" has an expected accuracy of %.4f %%, or none "
				       "is known (rivulet compile --plan)", p->name,
				       req->min_accuracy / 1e4);
		run->min_level = (uint32_t)__builtin_ctz(run->levels);
	}
	r = rvl_power_admit(&m->power, run->levels, req->priority, run->demands, err);
	if (!r && run->slot.hard && !run->demands)
		r = rvl_power_promise(&m->power, run->levels, run->slot.deadline, err);
	return r;
}

/*
 * Fills in the expected and the worst time at the slowest level that may be in force before the
 * deadline. If Reconfigure= keeps the clock, the fastest level has the longest streams and is the
 * slowest.
 */
static void fill_times(const struct rvl_instance *x, uint32_t levels, struct rvl_slot *slot)
{
	const struct rvl_manager *m = x->session->m;
	const struct rvl_program *p = x->model->program;
	struct rvl_override over = rvl_power_override(&m->power);
	uint32_t level = over.clock ? over.clock - 1 :
				     rvl_power_floor(&m->power, levels, slot->deadline);
	uint64_t any = rvl_peak(&m->sched.longest);

	slot->expected = rvl_program_expected_ns(p, &m->device.board, level, over);
	slot->worst = rvl_program_promised_ns(p, &m->device.board, level, over, any);
}

/* Counts the run against RunsPerUser= and queues it. On failure nothing has changed. */
static int admit(struct rvl_sched *sc, struct rvl_run *run, struct rvl_text *err)
{
	struct rvl_manager *m = run->instance->session->m;
	uint64_t now = run->slot.arrival;
	int r = 0;

	if (run->slot.hard)
		r = rvl_fair_admit(&sc->fair, &run->slot, now, work_left(sc, now),
				   rvl_loop_recent(&m->loop), err);
	sc->totals.refused += r == -ETIME;
	r = r ?: rvl_user_count(&run->user->runs, m->cfg.user_runs, "RunsPerUser", err);
	if (r)
		return r;
	r = rvl_fair_add(&sc->fair, &run->slot, now);
	if (r) {
		run->user->runs--;
		return rvl_say(err, r, "out of memory");
	}
	sc->queued++;
	return 0;
}

int rvl_sched_submit(struct rvl_instance *x, const struct rivulet_msg_run *req,
		     struct rvl_text *err)
{
	struct rvl_manager *m = x->session->m;
	struct rvl_run *run;
	int r = check_run(x, req, err);

	if (r)
		return r;
	run = calloc(1, sizeof(*run));
	if (!run)
		return rvl_say(err, -ENOMEM, "out of memory");
	run->instance = x;
	run->user = x->session->user;
	run->serial = req->h.serial;
	run->demands = rvl_users_have(&m->cfg.policy_users, run->user->uid);
	run->slot = (struct rvl_slot){
		.share = &run->user->share,
		.priority = req->priority,
		.deadline = req->deadline ? req->deadline : UINT64_MAX,
		.arrival = rvl_now(),
		.hard = req->flags & RIVULET_RUN_HARD,
	};
	r = choose_levels(x, req, run, err);
	if (!r) {
		fill_times(x, run->levels, &run->slot);
		r = admit(&m->sched, run, err);
	}
	if (r) {
		free(run);
		return r;
	}
	x->run = run;
	if (run->demands)
		rvl_power_demand(&m->power, run->levels, 1);
	wake(&m->sched);
	return 0;
}

void rvl_sched_cancel(struct rvl_run *run, int why, const char *text)
{
	if (run->ended)
		return;
	if (!run->running) {
		give_up(run, why, text);
		return;
	}
	/*
	 * The run ends by its callback, successfully if its last step has been completed already.
	 */
	if (why != -ECANCELED) {
		run->error = why;
		rvl_say(&run->text, 0, "%.500s", text);
	}
	rivulet_exec_cancel(run->instance->exec);
}

int rvl_sched_start(struct rvl_manager *m)
{
	struct rvl_sched *sc = &m->sched;
	int r;

	rvl_fair_init(&sc->fair);
	rvl_list_init(&sc->running);
	rvl_list_init(&sc->ended);
	r = sd_event_add_time(m->event, &sc->timer, CLOCK_MONOTONIC, UINT64_MAX, 1, on_timer, m);
	r = r < 0 ? r : sd_event_source_set_enabled(sc->timer, SD_EVENT_OFF);
	r = r < 0 ? r : sd_event_add_time(m->event, &sc->limit, CLOCK_MONOTONIC, UINT64_MAX, 1, on_limit, m);
	r = r < 0 ? r : sd_event_source_set_enabled(sc->limit, SD_EVENT_OFF);
	r = r < 0 ? r : sd_event_add_defer(m->event, &sc->kick, on_kick, m);
	return r < 0 ? r : sd_event_source_set_enabled(sc->kick, SD_EVENT_OFF);
}

/* Returns whether the run ended by @deadline. */
static bool await_end(struct rvl_run *run, uint64_t deadline)
{
	uint64_t now = rvl_now();
	int left = now < deadline ? (int)((deadline - now) / NSEC_PER_MSEC) : 0;

	return rivulet_exec_wait(run->instance->exec, left) != -ETIMEDOUT;
}

bool rvl_sched_stop(struct rvl_manager *m, uint64_t deadline)
{
	struct rvl_sched *sc = &m->sched;
	struct rvl_run *run;

	if (!sc->kick)
		return true;
	rvl_list_each(run, &sc->running, link)
		rivulet_exec_cancel(run->instance->exec);
	/* rivulet_exec_wait() may also complete other runs. */
	while (sc->running.next != &sc->running) {
		run = rvl_container(sc->running.next, struct rvl_run, link);
		if (!await_end(run, deadline))
			return false;
	}
	finish_ended(sc);
	sc->timer = sd_event_source_disable_unref(sc->timer);
	sc->limit = sd_event_source_disable_unref(sc->limit);
	sc->kick = sd_event_source_disable_unref(sc->kick);
	return true;
}
