// SPDX-License-Identifier: MIT
/* STATUS: one JSON object. Within schema 1, keys are added but never removed or changed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "accel.h"
#include "cache.h"
#include "compile.h"
#include "connection.h"
#include "instance.h"
#include "manager.h"
#include "policy.h"
#include "power.h"
#include "rivulet_board.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"
#include "rivulet_runtime.h"
#include "status.h"
#include "user.h"
#include "util.h"

static const struct {
	uint32_t flag;
	const char *name;
} flag_names[] = {
	{ RIVULET_POLICY_EXTERNAL, "external" }, { RIVULET_POLICY_BATTERY, "battery" },
	{ RIVULET_POLICY_KNOWN, "charge_known" }, { RIVULET_POLICY_RESERVE, "reserve" },
	{ RIVULET_POLICY_EMERGENCY, "emergency" }, { RIVULET_POLICY_STEERED, "steered" },
	{ RIVULET_POLICY_YIELDED, "yielded" },
};

/* Names were checked when they arrived; the board's name comes from a device or a file. */
static void put_string(FILE *f, const char *s)
{
	char text[256];

	rivulet_proto_name(text, sizeof(text), s);
	fputc('"', f);
	for (const char *p = text; *p; p++) {
		if (*p == '"' || *p == '\\')
			fputc('\\', f);
		fputc(*p, f);
	}
	fputc('"', f);
}

static void put_text(FILE *f, const char *key, const char *value)
{
	fprintf(f, "\"%s\":", key);
	put_string(f, value);
}

static void put_number(FILE *f, const char *key, uint64_t value)
{
	fprintf(f, "\"%s\":%llu", key, (unsigned long long)value);
}

struct item {
	const char *key;
	uint64_t value;
};

static void put_items(FILE *f, const struct item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i)
			fputc(',', f);
		put_number(f, items[i].key, items[i].value);
	}
}

#define PUT(f, ...)                                                                                \
	put_items(f, (const struct item[]){ __VA_ARGS__ },                                         \
		  sizeof((const struct item[]){ __VA_ARGS__ }) / sizeof(struct item))

static void put_totals(FILE *f, const struct rvl_totals *t)
{
	PUT(f, { "runs", t->runs }, { "failed", t->failed }, { "cancelled", t->cancelled },
	    { "late", t->late }, { "refused", t->refused }, { "queue_ns", t->queue_ns },
	    { "run_ns", t->run_ns }, { "npu_ns", t->npu_ns }, { "cpu_ns", t->cpu_ns },
	    { "cycles", t->cycles }, { "energy_pj", t->energy_pj }, { "macs", t->macs });
}

static void add_level(struct rivulet_level_total *sum, const struct rivulet_level_total *t)
{
	sum->jobs += t->jobs;
	sum->cycles += t->cycles;
	sum->device_ns += t->device_ns;
	sum->energy_pj += t->energy_pj;
	sum->macs += t->macs;
	sum->conv_busy += t->conv_busy;
	sum->read_bytes += t->read_bytes;
	sum->write_bytes += t->write_bytes;
}

/* Sums over the present engines, each counted once, and over the released ones. */
struct rivulet_level_total rvl_level_total(const struct rvl_manager *m, uint32_t level)
{
	struct rivulet_level_total sum = m->device.past[level];
	struct rvl_session *s;

	if (m->device.shared) {
		add_level(&sum, &rivulet_runtime_totals(m->device.shared->rt)[level]);
		return sum;
	}
	rvl_list_each(s, &m->sessions, link)
		if (s->engine)
			add_level(&sum, &rivulet_runtime_totals(s->engine->rt)[level]);
	return sum;
}

static void put_level(FILE *f, const struct rvl_manager *m, uint32_t level)
{
	const struct rivulet_board_level *l = &m->device.board.level[level];
	struct rivulet_level_total t = rvl_level_total(m, level);

	fprintf(f, "%s{", level ? "," : "");
	PUT(f, { "hz", l->hz }, { "microvolt", l->microvolt }, { "jobs", t.jobs },
	    { "cycles", t.cycles }, { "device_ns", t.device_ns }, { "energy_pj", t.energy_pj },
	    { "macs", t.macs }, { "conv_busy", t.conv_busy }, { "read_bytes", t.read_bytes },
	    { "write_bytes", t.write_bytes }, { "residency_ns",
	      rvl_policy_residency(&m->power.policy, level, rvl_now()) },
	    { "entries", m->power.policy.entries[level] });
	fputc('}', f);
}

static void put_device(FILE *f, const struct rvl_manager *m)
{
	const struct rvl_device *d = &m->device;

	fprintf(f, "\"device\":{\"present\":%s,", d->present ? "true" : "false");
	put_text(f, "node", d->node);
	fprintf(f, ",\"model\":%s,", d->sim ? "true" : "false");
	put_text(f, "board", d->present ? d->board.name : "");
	if (d->present) {
		fputc(',', f);
		PUT(f, { "tm", d->board.tm }, { "tn", d->board.tn }, { "dn", d->board.dn },
		    { "arrivals", d->epoch });
		fputs(",\"levels\":[", f);
		for (uint32_t i = 0; i < d->board.levels; i++)
			put_level(f, m, i);
		fputc(']', f);
	}
	fputs("},", f);
}

static void put_sessions(FILE *f, const struct rvl_manager *m, uid_t uid)
{
	const char *comma = "";
	struct rvl_session *s;

	fputs("\"sessions\":[", f);
	rvl_list_each(s, &m->sessions, link) {
		uint64_t models = 0, instances = 0;

		if (s->fd < 0 || (uid && s->user->uid != uid))
			continue;
		for (struct rvl_list *l = s->models.next; l != &s->models; l = l->next)
			models++;
		for (struct rvl_list *l = s->instances.next; l != &s->instances; l = l->next)
			instances++;
		fprintf(f, "%s{", comma);
		comma = ",";
		put_text(f, "name", s->name);
		fputc(',', f);
		PUT(f, { "pid", (uint64_t)s->pid }, { "uid", s->user->uid },
		    { "version", s->version }, { "models", models }, { "instances", instances });
		fputc('}', f);
	}
	fputs("],", f);
}

static void put_users(FILE *f, const struct rvl_manager *m, uid_t uid)
{
	const char *comma = "";
	struct rvl_user *u;

	fputs("\"users\":[", f);
	rvl_list_each(u, &m->users, link) {
		if ((uid && u->uid != uid) || !u->refs)
			continue;
		fprintf(f, "%s{", comma);
		comma = ",";
		PUT(f, { "uid", u->uid }, { "sessions", u->sessions }, { "models", u->models },
		    { "instances", u->instances }, { "runs", u->runs },
		    { "compiles", u->compiles }, { "bytes", u->bytes });
		fputc('}', f);
	}
	fputs("],", f);
}

/* Once per answer, since looking it up for each program would take sessions times programs. */
void rvl_status_mark(struct rvl_manager *m, uid_t uid)
{
	struct rvl_program *p;
	struct rvl_session *s;
	struct rvl_model *model;

	rvl_list_each(p, &m->cache.programs, link)
		p->visible = !uid;
	rvl_list_each(s, &m->sessions, link) {
		if (s->user->uid != uid)
			continue;
		rvl_list_each(model, &s->models, link)
			model->program->visible = true;
	}
}

static void put_model(FILE *f, const struct rvl_manager *m, const struct rvl_program *p)
{
	put_text(f, "name", p->name);
	fputs(",\"sha256\":\"", f);
	for (size_t i = 0; i < sizeof(p->key.sha256); i++)
		fprintf(f, "%02x", p->key.sha256[i]);
	fputs("\",", f);
	PUT(f, { "loaded", p->refs }, { "size", p->size }, { "npu_steps", p->npu_steps },
	    { "cpu_steps", p->cpu_steps }, { "model_macs", p->macs },
	    { "estimated_cycles", p->cycles }, { "compile_ns", p->compile_ns },
	    { "expected_ns", rvl_device_expected_ns(&m->device, p) });
	fputc(',', f);
	put_totals(f, &p->totals);
	fputs(",\"levels\":[", f);
	for (uint32_t l = 0; m->device.present && l < m->device.board.levels; l++) {
		const struct rivulet_level_info *i = &p->file->level[l];
		const struct rvl_level_stat *at = &p->at[l];

		fputs(l ? ",{" : "{", f);
		PUT(f, { "level", l }, { "length", i->length }, { "accuracy_ppm", i->accuracy },
		    { "runs", at->runs }, { "late", at->late }, { "run_ns", at->run_ns },
		    { "npu_ns", at->npu_ns }, { "energy_pj", at->energy_pj },
		    { "latency_ns", at->measured_ns });
		fputc('}', f);
	}
	fputc(']', f);
}

static void put_models(FILE *f, const struct rvl_manager *m)
{
	const char *comma = "";
	struct rvl_program *p;

	fputs("\"models\":[", f);
	rvl_list_each(p, &m->cache.programs, link) {
		if (!p->visible)
			continue;
		fprintf(f, "%s{", comma);
		comma = ",";
		put_model(f, m, p);
		fputc('}', f);
	}
	fputs("],", f);
}

static void put_policy(FILE *f, const struct rvl_power *pw)
{
	static const char *const sources[] = { "configuration", "tool", "power-profiles-daemon" };
	uint32_t flags = rvl_power_flags(pw), fixed, source, mode;

	mode = rvl_power_mode(pw, &fixed, &source);
	fputs("\"policy\":{", f);
	put_text(f, "mode", rvl_policy_mode_name(mode));
	fputc(',', f);
	put_text(f, "mode_from", sources[source]);
	fputc(',', f);
	put_text(f, "reason", pw->ready ? rvl_policy_reason_name(pw->policy.reason) : "no device");
	fputc(',', f);
	PUT(f, { "level", pw->policy.level }, { "fixed", fixed },
	    { "charge_ppm", pw->gauge.charge }, { "drain_ppm_s", pw->gauge.drain },
	    { "readings", pw->readings }, { "rejected_readings", pw->gauge.rejected },
	    { "uevents", pw->uevents });
	for (size_t i = 0; i < ARRAY_SIZE(flag_names); i++)
		fprintf(f, ",\"%s\":%s", flag_names[i].name,
			flags & flag_names[i].flag ? "true" : "false");
	if (pw->zones.temp != RVL_NO_VALUE)
		fprintf(f, ",\"temperature_mc\":%lld", (long long)pw->zones.temp);
	fputs("},", f);
}

static void put_parts(FILE *f, const struct rvl_manager *m)
{
	const struct rvl_compiler *c = &m->compiler;
	uint64_t programs = 0;

	for (struct rvl_list *l = m->cache.programs.next; l != &m->cache.programs; l = l->next)
		programs++;
	fputs("\"scheduler\":{", f);
	PUT(f, { "queued", m->sched.queued }, { "running", m->sched.n_running });
	fputc(',', f);
	put_totals(f, &m->sched.totals);
	fputs("},\"cache\":{", f);
	PUT(f, { "programs", programs }, { "idle_programs", m->cache.idle_programs },
	    { "idle_bytes", m->cache.idle_bytes },
	    { "hits", m->cache.hits }, { "misses", m->cache.misses },
	    { "evictions", m->cache.evictions });
	fputs("},\"compiler\":{", f);
	PUT(f, { "working", c->working }, { "compiled", c->compiled }, { "refused", c->refused },
	    { "died", c->died });
	fputs("},\"connections\":{", f);
	PUT(f, { "open", m->n_sessions }, { "refused", m->refused_sessions },
	    { "violations", m->protocol_errors }, { "pauses", m->listen.pauses });
	fputs("},\"loop\":{", f);
	PUT(f, { "stall_max_ns", m->loop.stall_ns }, { "busy_ns", m->loop.busy_ns },
	    { "turns", m->loop.turns });
	fputc('}', f);
}

static void put_all(FILE *f, const struct rvl_manager *m, uid_t uid)
{
	fputs("{\"schema\":1,", f);
	put_text(f, "version", RIVULET_VERSION);
	fputc(',', f);
	PUT(f, { "protocol", RIVULET_PROTO_MAX }, { "uptime_ns", rvl_now() - m->started });
	fputc(',', f);
	put_device(f, m);
	put_policy(f, &m->power);
	put_sessions(f, m, uid);
	put_users(f, m, uid);
	put_models(f, m);
	put_parts(f, m);
	fputs("}\n", f);
}

int rvl_status_fd(struct rvl_manager *m, uid_t uid, int *fd, uint64_t *size)
{
	_cleanup_close_ int mem = memfd_create("rivulet-status", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	_cleanup_fclose_ FILE *f = NULL;
	int copy = mem < 0 ? -1 : fcntl(mem, F_DUPFD_CLOEXEC, 3);

	if (copy < 0)
		return -errno;
	f = fdopen(copy, "w");
	if (!f) {
		close(copy);
		return -ENOMEM;
	}
	rvl_status_mark(m, uid);
	put_all(f, m, uid);
	if (fflush(f) || ferror(f))
		return -ENOSPC;
	*size = (uint64_t)lseek(mem, 0, SEEK_END);
	if (lseek(mem, 0, SEEK_SET) < 0 ||
	    fcntl(mem, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		return -errno;
	*fd = rvl_take_fd(&mem);
	return 0;
}
