// SPDX-License-Identifier: MIT
/*
 * The life of one run, in the order of this file: start, advance (issue every step whose
 * dependencies are done), done (a step ended), stop (deadline, cancel, error), finish. An NPU step
 * is issued behind an earlier NPU step that is still queued, because the device runs them in order;
 * this keeps its second slot filled.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "rivulet.h"
#include "rivulet_crc32c.h"
#include "rivulet_isa.h"

#define FEW_STEPS 64
#define MAX_IN_FLIGHT 8	/* NPU steps of one run in the kernel's queue */

_Static_assert(sizeof(struct rivulet_status) <= RVL_RT_REPORT, "a report has room for a status");

/* ---- allocation ---- */

static int alloc_memory(struct rivulet_exec *x, struct rivulet_runtime_error *err)
{
	struct rivulet_image *img = x->img;
	struct rivulet_runtime *rt = img->rt;
	int r = 0;

	if (img->prog->arena_size)
		r = rt->backend->mem_alloc(rt, img->prog->arena_size, &x->arena, err);
	if (!r && img->npu_steps)
		r = rt->backend->mem_alloc(rt, (uint64_t)img->npu_steps * RVL_RT_REPORT,
					   &x->reports, err);
	/*
	 * Each step has records of its own: a later step must not overwrite those of an earlier
	 * one.
	 */
	for (uint32_t i = 0; !r && img->prof_size && i < img->prog->steps; i++)
		if (rvl_rt_prof_bytes(img, i))
			r = rt->backend->mem_alloc(rt, rvl_rt_prof_bytes(img, i), &x->task[i].prof, err);
	return r;
}

int rivulet_exec_new(struct rivulet_image *img, struct rivulet_exec **out,
		     struct rivulet_runtime_error *err)
{
	struct rivulet_exec *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return rvl_rt_fail(err, ENOMEM, "out of memory");
	x->refs = 1;
	x->img = rivulet_image_ref(img);
	x->bind = calloc(img->prog->inputs + img->prog->outputs + 1, sizeof(*x->bind));
	x->task = calloc(img->prog->steps + 1, sizeof(*x->task));
	x->shape = calloc(img->prog->tensors + 1, sizeof(*x->shape));
	r = x->bind && x->task && x->shape ? alloc_memory(x, err) : rvl_rt_fail(err, ENOMEM, "out of memory");
	if (r) {
		rivulet_exec_unref(x);
		return r;
	}
	x->copy.x = x;
	for (uint32_t i = 0; i < img->prog->steps; i++) {
		x->task[i].x = x;
		x->task[i].step = i;
		x->task[i].sync_fd = -1;
	}
	*out = x;
	return 0;
}

struct rivulet_exec *rivulet_exec_ref(struct rivulet_exec *x)
{
	if (x)
		x->refs++;
	return x;
}

/* Takes the run off the list of the runtime it is on. */
static void unlink_exec(struct rivulet_exec *x)
{
	if (!x->link)
		return;
	*x->link = x->next;
	if (x->next)
		x->next->link = x->link;
	x->next = NULL;
	x->link = NULL;
}

static void link_exec(struct rivulet_exec *x, struct rivulet_exec **list)
{
	x->next = *list;
	if (x->next)
		x->next->link = &x->next;
	*list = x;
	x->link = list;
}

static void exec_free(struct rivulet_exec *x)
{
	const struct rivulet_program *p = x->img->prog;

	unlink_exec(x);
	for (uint32_t i = 0; x->bind && i < p->inputs + p->outputs; i++)
		rvl_rt_unbind(&x->bind[i]);
	for (uint32_t i = 0; x->task && i < p->steps; i++) {
		rivulet_fence_unref(x->task[i].fence);
		rvl_rt_mem_free(&x->task[i].prof);
	}
	rvl_rt_mem_free(&x->arena);
	rvl_rt_mem_free(&x->reports);
	rivulet_image_unref(x->img);
	free(x->bind);
	free(x->task);
	free(x->shape);
	free(x);
}

struct rivulet_exec *rivulet_exec_unref(struct rivulet_exec *x)
{
	if (!x || --x->refs)
		return NULL;
	if (x->busy)
		rivulet_exec_cancel(x);
	/* Other runs that ended meanwhile are reported by the next dispatch. */
	while (x->running)
		rvl_rt_poll(x->img->rt, -1);
	exec_free(x);
	return NULL;
}

struct rivulet_image *rivulet_exec_image(const struct rivulet_exec *x)
{
	return x->img;
}

/* ---- the end of a run ---- */

static bool succeeded(const struct rivulet_exec *x)
{
	return !x->result.error || x->result.error == -EINPROGRESS;
}

/*
 * Whether bound memory has to be copied, because the back end works in a buffer of its own, or
 * because another process may change the memory during the run.
 */
static bool copies(const struct rivulet_exec *x, bool outputs)
{
	uint32_t first = outputs ? x->img->prog->inputs : 0;
	uint32_t end = x->img->prog->inputs + (outputs ? x->img->prog->outputs : 0);

	for (uint32_t i = first; i < end; i++)
		if (x->bind[i].user)
			return true;
	return false;
}

static void push_copy(struct rivulet_exec *x, void (*work)(struct rvl_rt_task *t))
{
	x->running++;
	x->copy.work = work;
	x->copy.owner = x->params.owner;
	rvl_rt_workers_push(x->img->rt->pool, &x->copy);
}

/* Whether the run has dma-bufs whose fences the CPU must wait for. */
static bool has_fences(const struct rivulet_exec *x)
{
	for (uint32_t i = 0; i < x->img->prog->inputs + x->img->prog->outputs; i++)
		if (x->bind[i].from)
			return true;
	return false;
}

static void end_work(struct rvl_rt_task *t)
{
	rvl_rt_end_bound(t->x, succeeded(t->x));
	rvl_rt_complete(t->x->img->rt, t);
}

static void report_end(struct rivulet_exec *x)
{
	struct rivulet_runtime *rt = x->img->rt;
	uint64_t one = 1;

	if (succeeded(x)) {
		x->result.error = x->copy.error;
		snprintf(x->result.text, sizeof(x->result.text), "%s",
			 x->copy.error ? x->copy.why : "");
	}
	x->result.end_ns = (uint64_t)rvl_rt_now();
	unlink_exec(x);
	link_exec(x, &rt->finished);
	rvl_rt_arm(rt);
	/* The eventfd makes the caller dispatch; it cannot fail below 2^64 - 1 runs. */
	if (write(rt->event, &one, sizeof(one)) < 0)
		return;
}

static void finish(struct rivulet_exec *x)
{
	bool ends = has_fences(x) || (succeeded(x) && copies(x, true));

	/* A run that was stopped before it was prepared has begun no access. */
	if (ends && x->prepared && x->img->rt->offload) {
		push_copy(x, end_work);
		return;
	}
	if (ends && x->prepared)
		rvl_rt_end_bound(x, succeeded(x));
	report_end(x);
}

void rvl_rt_exec_stop(struct rivulet_exec *x, int error, const char *text)
{
	if (x->stopping)
		return;
	x->stopping = true;
	atomic_store(&x->abandoned, true);
	x->result.error = error;
	snprintf(x->result.text, sizeof(x->result.text), "%s", text);
	if (x->held) {
		x->held = NULL;
		x->running--;
	}
	if (x->running)
		rvl_rt_workers_interrupt(x->img->rt->pool);
	else
		finish(x);
}

void rivulet_exec_cancel(struct rivulet_exec *x)
{
	if (x->busy && x->result.error == -EINPROGRESS)
		rvl_rt_exec_stop(x, -ECANCELED, "cancelled");
}

static void step_failed(struct rivulet_exec *x, uint32_t i, int error, const char *why)
{
	const struct rivulet_program *p = x->img->prog;
	const struct rivulet_step *s = &rivulet_program_steps(p)[i];
	char text[RIVULET_RUNTIME_ERROR_SIZE];

	snprintf(text, sizeof(text), "step %u of %u, %s (%s): %s", i, p->steps,
		 rivulet_program_string(p, s->name), s->kind == RIVULET_STEP_NPU ? "NPU" : "CPU", why);
	if (!x->stopping) {
		x->result.step = i;
		x->result.status = x->task[i].report.status;
	}
	rvl_rt_exec_stop(x, error, text);
}

/* ---- status reports ---- */

static const char *fault_text(uint32_t fault)
{
	switch (fault) {
#define FAULT_TEXT(name, value, slot, doc) case value: return #name ": " doc;
	RIVULET_FAULTS(FAULT_TEXT)
#undef FAULT_TEXT
	default:
		return "a fault that this version does not know";
	}
}

static bool fault_has_slot(uint32_t fault)
{
	switch (fault) {
#define FAULT_SLOT(name, value, slot, doc) case value: return slot;
	RIVULET_FAULTS(FAULT_SLOT)
#undef FAULT_SLOT
	default:
		return true;
	}
}

static void describe(const struct rivulet_status *st, int error, char *why, size_t size)
{
	int n;

	if (st->state == RIVULET_STATE_NO_VARIANT) {
		snprintf(why, size, "the program has no command stream for level %u", st->level);
		return;
	}
	if (st->state == RIVULET_STATE_ABORTED) {
		snprintf(why, size, "aborted by the driver: it made no progress");
		return;
	}
	if (st->state != RIVULET_STATE_FAULT) {
		snprintf(why, size, "no report; error of the driver: %s", strerror(-error));
		return;
	}
	n = snprintf(why, size, "fault %u %s", st->fault, fault_text(st->fault));
	if (n > 0 && (size_t)n < size && fault_has_slot(st->fault))
		n += snprintf(why + n, size - (size_t)n, ", slot %u, offset 0x%llx", st->fault_slot,
			      (unsigned long long)st->fault_offset);
	if (n > 0 && (size_t)n < size)
		snprintf(why + n, size - (size_t)n, ", instruction %u", st->insn);
}

/* Little endian to the host's order, field by field, as the device specification lays it out. */
static void status_to_host(struct rivulet_status *s)
{
	uint32_t *w = (uint32_t *)s;

	_Static_assert(sizeof(*s) % 4 == 0, "a status is words");
	if (__BYTE_ORDER == __LITTLE_ENDIAN)
		return;
	for (size_t i = 0; i < sizeof(*s) / 4; i++)
		w[i] = le32toh(w[i]);
}

/*
 * Reads the status of an NPU step from its report, and sets t->error when the status is an error.
 */
static void read_report(struct rvl_rt_task *t)
{
	struct rivulet_exec *x = t->x;
	struct rivulet_status *st = &t->report.status;

	memcpy(st, (char *)x->reports.host + (size_t)x->img->report[t->step] * RVL_RT_REPORT,
	       sizeof(*st));
	if (le32toh(st->crc) != rivulet_crc32c(0, st, offsetof(struct rivulet_status, crc))) {
		memset(st, 0, sizeof(*st));
		t->error = t->error ? t->error : -EIO;
		return;
	}
	status_to_host(st);
	if (st->state != RIVULET_STATE_DONE)
		t->error = -EIO;
}

static void add_totals(struct rivulet_exec *x, const struct rivulet_status *st)
{
	struct rivulet_exec_result *r = &x->result;
	struct rivulet_level_total *t = &x->img->rt->total[st->level % RIVULET_LEVELS];
	uint64_t ns = st->end - st->start;

	r->level_min = !r->npu_steps || st->level < r->level_min ? st->level : r->level_min;
	r->level_max = st->level > r->level_max ? st->level : r->level_max;
	r->npu_steps++;
	r->device_ns += ns;
	r->cycles += st->cycles;
	r->energy_pj += st->energy;
	r->macs += st->macs;
	r->conv_busy += st->conv_busy;
	r->read_bytes += st->read_bytes;
	r->write_bytes += st->write_bytes;
	t->jobs++;
	t->device_ns += ns;
	t->cycles += st->cycles;
	t->energy_pj += st->energy;
	t->macs += st->macs;
	t->conv_busy += st->conv_busy;
	t->read_bytes += st->read_bytes;
	t->write_bytes += st->write_bytes;
}

/* ---- the steps of a run ---- */

static uint32_t npu_in_flight(const struct rivulet_exec *x)
{
	const struct rivulet_step *s = rivulet_program_steps(x->img->prog);
	uint32_t n = 0;

	for (uint32_t i = x->first; i < x->img->prog->steps && i < x->first + RVL_RT_WINDOW; i++)
		n += s[i].kind == RIVULET_STEP_NPU && x->task[i].state == RVL_RT_RUNNING;
	return n;
}

static bool is_ready(const struct rivulet_exec *x, uint32_t i)
{
	const struct rivulet_step *s = rivulet_program_steps(x->img->prog);
	bool npu = s[i].kind == RIVULET_STEP_NPU;

	for (uint32_t j = x->first; j < i; j++) {
		if (x->task[j].state == RVL_RT_DONE || !rvl_rt_depends(x->img, i, j))
			continue;
		if (!(npu && s[j].kind == RIVULET_STEP_NPU && x->task[j].state == RVL_RT_RUNNING))
			return false;
	}
	return !npu || npu_in_flight(x) < MAX_IN_FLIGHT;
}

/* Tasks of adjacent steps are adjacent. */
static void run_chain(struct rvl_rt_task *t)
{
	struct rvl_rt_task *s = t, *last = t + t->chain - 1;

	rvl_rt_cpu_run(s);
	while (s < last && !s->error)
		rvl_rt_cpu_run(++s);
}

static void cpu_work(struct rvl_rt_task *t)
{
	run_chain(t);
	rvl_rt_complete(t->x->img->rt, t);
}

static void step_done(struct rvl_rt_task *t)
{
	struct rivulet_exec *x = t->x;
	char why[300];

	t->state = RVL_RT_DONE;
	t->report.ran = true;
	while (x->first < x->img->prog->steps && x->task[x->first].state == RVL_RT_DONE)
		x->first++;
	if (rivulet_program_steps(x->img->prog)[t->step].kind == RIVULET_STEP_CPU) {
		x->result.cpu_steps++;
		x->result.cpu_ns += t->report.end_ns - t->report.start_ns;
		snprintf(why, sizeof(why), "%s", t->error && *t->why ? t->why :
			 t->error ? strerror(-t->error) : "");
	} else {
		t->report.end_ns = (uint64_t)rvl_rt_now();
		read_report(t);
		describe(&t->report.status, t->error, why, sizeof(why));
		/* These two errors describe the run, so no step is named. */
		if (t->error == -ETIME || t->error == -ECANCELED)
			t->error = -EIO;
		if (t->report.status.state)
			add_totals(x, &t->report.status);
	}
	if (t->error)
		step_failed(x, t->step, t->error, why);
}

/* The steps of a chain behind one that failed did not run. */
static void chain_done(struct rvl_rt_task *t)
{
	uint32_t n = t->x->img->cpu[t->step].kernel ? t->chain : 1;

	for (uint32_t k = 0; k < n; k++) {
		step_done(&t[k]);
		if (t[k].error)
			break;
	}
}

/* Makes the device run the commands of one level at every level. */
static int force_variant(struct rivulet_step *step, uint32_t level, struct rivulet_runtime_error *err)
{
	if (level >= RIVULET_LEVELS || !step->variant[level].length)
		return rvl_rt_fail(err, EOPNOTSUPP, "no command stream for level %u", level);
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		step->variant[l] = step->variant[level];
	step->min_level = 0;
	return 0;
}

static int submit_npu(struct rivulet_exec *x, uint32_t i, struct rivulet_runtime_error *err)
{
	struct rivulet_image *img = x->img;
	struct rivulet_step step = rivulet_program_steps(img->prog)[i];
	struct rvl_rt_npu_job job = { .step = &step,
		.report_offset = (uint64_t)img->report[i] * RVL_RT_REPORT,
		.deadline = x->params.deadline };
	uint32_t io = img->prog->inputs + img->prog->outputs;
	int r = x->params.variant ? force_variant(&step, x->params.variant - 1, err) : 0;

	if (r)
		return r;
	job.min_level = x->params.min_level > step.min_level ? x->params.min_level : step.min_level;
	for (uint32_t s = 0; s < RIVULET_SLOTS; s++) {
		if (!(job.step->slots >> s & 1))
			continue;
		if (s >= RIVULET_SLOT_IO && s - RIVULET_SLOT_IO < io && s < RIVULET_SLOT_PROF)
			job.slot[s] = &x->bind[s - RIVULET_SLOT_IO].mem;
	}
	job.slot[RIVULET_SLOT_PROGRAM] = &img->mem;
	job.slot[RIVULET_SLOT_ARENA] = x->arena.size ? &x->arena : NULL;
	job.slot[RIVULET_SLOT_REPORT] = &x->reports;
	job.slot[RIVULET_SLOT_PROF] = x->task[i].prof.size ? &x->task[i].prof : NULL;
	memset((char *)x->reports.host + job.report_offset, 0, RVL_RT_REPORT);
	return img->rt->backend->submit(img->rt, &job, &x->task[i], err);
}

/*
 * How many steps from @i on one worker runs without a return to the runtime's thread, which takes
 * longer than most steps. When no step on the NPU follows and all steps before @i have ended, their
 * order in the program needs no further check. Steps that were issued earlier, while the NPU ran, are
 * not among them.
 */
static uint32_t chain_of(const struct rivulet_exec *x, uint32_t i)
{
	uint32_t past = i + 1;

	if (i < x->img->tail || i != x->first)
		return 1;
	while (past < x->img->prog->steps && x->task[past].state == RVL_RT_WAITING)
		past++;
	return past - i;
}

/* Whether the caller runs the chain from @i on, which is all that is left: it waits for it anyway. */
static bool may_hold(const struct rivulet_exec *x, uint32_t i)
{
	return x->params.waits && (!x->params.deadline || x->params.soft) && !x->img->rt->offload &&
	       i == x->first && i + x->task[i].chain == x->img->prog->steps;
}

static void push_cpu(struct rivulet_exec *x, uint32_t i)
{
	struct rvl_rt_task *t = &x->task[i];

	t->chain = chain_of(x, i);
	for (uint32_t k = 0; k < t->chain; k++) {
		t[k].state = RVL_RT_RUNNING;
		t[k].error = 0;
	}
	if (may_hold(x, i)) {
		x->held = t;
		return;
	}
	t->work = cpu_work;
	t->owner = x->params.owner;
	rvl_rt_workers_push(x->img->rt->pool, t);
}

/* Issues step @i; a small CPU step is done when this returns. */
static void issue(struct rivulet_exec *x, uint32_t i)
{
	struct rvl_rt_task *t = &x->task[i];
	struct rivulet_runtime_error err = { "" };
	bool npu = rivulet_program_steps(x->img->prog)[i].kind == RIVULET_STEP_NPU;
	int r;

	t->state = RVL_RT_RUNNING;
	t->error = 0;
	if (!npu && x->img->cpu[i].inlined && !x->img->rt->offload) {
		rvl_rt_cpu_run(t);
		step_done(t);
		return;
	}
	x->running++;
	if (!npu) {
		push_cpu(x, i);
		return;
	}
	t->report.start_ns = (uint64_t)rvl_rt_now();
	/* Once it is submitted, the task belongs to the back end. */
	r = submit_npu(x, i, &err);
	if (r) {
		t->state = RVL_RT_WAITING;
		x->running--;
		step_failed(x, i, r, err.text);
	}
}

/* Issues every step that can be issued. An inlined step may make others ready, so this repeats. */
static void advance(struct rivulet_exec *x)
{
	uint32_t n = x->img->prog->steps;
	bool more = true;

	while (more && !x->stopping) {
		more = false;
		for (uint32_t i = x->first; i < n && i < x->first + RVL_RT_WINDOW && !x->stopping; i++)
			if (x->task[i].state == RVL_RT_WAITING && is_ready(x, i)) {
				issue(x, i);
				more = true;
			}
	}
	if (!x->stopping && x->first == n) {
		x->stopping = true;
		finish(x);
	}
}

/* The copy was the only task under way. */
static void copy_done(struct rivulet_exec *x)
{
	bool was_prepared = x->prepared;

	x->prepared = true;
	if (was_prepared)
		report_end(x);
	else if (x->stopping)
		finish(x);
	else if (x->copy.error)
		rvl_rt_exec_stop(x, x->copy.error, x->copy.why);
	else
		advance(x);
}

void rvl_rt_exec_done(struct rvl_rt_task *t)
{
	struct rivulet_exec *x = t->x;
	bool was_stopping = x->stopping;

	x->running--;
	if (t == &x->copy) {
		copy_done(x);
		return;
	}
	chain_done(t);
	if (!x->stopping)
		advance(x);
	else if (was_stopping && !x->running)
		finish(x);
}

static int check_start(const struct rivulet_exec *x, struct rivulet_runtime_error *err)
{
	const struct rivulet_program *p = x->img->prog;

	if (x->busy)
		return rvl_rt_fail(err, EBUSY, "a run is under way");
	for (uint32_t i = 0; i < p->inputs + p->outputs; i++)
		if (!x->bind[i].bound)
			return rvl_rt_fail(err, EINVAL, "%s %s is not bound",
					   i < p->inputs ? "input" : "output",
					   rivulet_program_string(p,
						rivulet_program_tensors(p)[i].name));
	return rvl_rt_check_bound(x, err);
}

static void prepare(struct rivulet_exec *x)
{
	for (uint32_t i = 0; i < x->img->prog->steps; i++) {
		x->task[i].state = RVL_RT_WAITING;
		memset(&x->task[i].report, 0, sizeof(x->task[i].report));
		if (x->task[i].prof.size)
			memset(x->task[i].prof.host, 0, x->task[i].prof.size);
	}
	rvl_rt_begin_bound(x);
}

static void prepare_work(struct rvl_rt_task *t)
{
	prepare(t->x);
	rvl_rt_complete(t->x->img->rt, t);
}

/*
 * Whether starting is less work here than handing it to a worker: few steps, and no bytes to copy.
 */
static bool prepares_fast(const struct rivulet_exec *x)
{
	return x->img->prog->steps <= FEW_STEPS && !x->img->prof_size && !copies(x, false);
}

static void begin(struct rivulet_exec *x)
{
	if (has_fences(x) || (x->img->rt->offload && !prepares_fast(x))) {
		push_copy(x, prepare_work);
		return;
	}
	prepare(x);
	x->prepared = true;
	advance(x);
}

int rivulet_exec_start(struct rivulet_exec *x, const struct rivulet_exec_params *params,
		       struct rivulet_runtime_error *err)
{
	static const struct rivulet_exec_params defaults;
	int r = check_start(x, err);

	if (r)
		return r;
	x->params = params ? *params : defaults;
	x->result = (struct rivulet_exec_result) { .error = -EINPROGRESS, .step = RIVULET_NO_STEP,
						   .start_ns = (uint64_t)rvl_rt_now() };
	x->busy = true;
	x->stopping = false;
	atomic_store(&x->abandoned, false);
	x->prepared = false;
	x->copy.error = 0;
	x->first = 0;
	link_exec(x, &x->img->rt->active);
	if (x->params.deadline && !x->params.soft) {
		if (x->params.deadline <= rvl_rt_now()) {
			rvl_rt_exec_stop(x, -ETIME, "the deadline had passed before the run began");
			return 0;
		}
		rvl_rt_arm(x->img->rt);
	}
	begin(x);
	return 0;
}

static void run_held(struct rivulet_exec *x)
{
	struct rvl_rt_task *t = x->held;

	x->held = NULL;
	run_chain(t);
	rvl_rt_exec_done(t);
}

int rivulet_exec_wait(struct rivulet_exec *x, int timeout_ms)
{
	int64_t end = timeout_ms < 0 ? INT64_MAX : rvl_rt_now() + timeout_ms * 1000000ll;

	while (x->busy) {
		int64_t left = end - rvl_rt_now();
		int ms = end == INT64_MAX ? -1 : left < 0 ? 0 : (int)((left + 999999) / 1000000), r;

		if (x->held)
			run_held(x);
		r = x->link && x->stopping && !x->running ? 0 : rvl_rt_poll(x->img->rt, ms);
		if (r < 0)
			return r;
		rvl_rt_deliver(x->img->rt);
		/* A signal ends the poll early, so the end of the time is taken from the clock. */
		if (x->busy && !r && end != INT64_MAX && rvl_rt_now() >= end)
			return -ETIMEDOUT;
	}
	return x->result.error;
}

const struct rivulet_exec_result *rivulet_exec_result(const struct rivulet_exec *x)
{
	return &x->result;
}

const struct rivulet_step_report *rivulet_exec_step(const struct rivulet_exec *x, uint32_t step)
{
	static const struct rivulet_step_report none;

	if (step >= x->img->prog->steps)
		return NULL;
	return x->prepared ? &x->task[step].report : &none;
}

const void *rivulet_exec_prof(const struct rivulet_exec *x, uint32_t step, size_t *count)
{
	const struct rvl_rt_mem *m = step < x->img->prog->steps ? &x->task[step].prof : NULL;

	*count = m ? m->size / sizeof(struct rivulet_prof) : 0;
	return m ? m->host : NULL;
}
