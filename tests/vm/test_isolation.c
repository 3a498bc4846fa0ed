// SPDX-License-Identifier: MIT
/*
 * Hostile programs, submitted through the driver: each ends with its fault and reaches no other
 * memory.
 */
#include "vm.h"

#include <stdlib.h>
#include <unistd.h>

#define SIZE	8192		/* of every buffer */
#define LIMIT	4096 /* of slots 1 (read) and 2 (write): the rest of the buffer is guard */
#define REPORT	14		/* slot of the status copy */
#define STALE	7		/* slot that the job before bound, and the attack does not */

struct attacker {
	int fd;
	struct drm_rivulet_device info;
	struct vm_buf code, from, to, report;
	uint32_t sync;
	struct vm_prog prog;
};

static void attacker_open(struct attacker *a)
{
	memset(a, 0, sizeof(*a));
	a->fd = vm_open();
	vm_info(a->fd, &a->info);
	a->code = vm_buf_new(a->fd, SIZE);
	a->from = vm_buf_new(a->fd, SIZE);
	a->to = vm_buf_new(a->fd, SIZE);
	a->report = vm_buf_new(a->fd, SIZE);
	a->sync = vm_sync_new(a->fd);
	vm_noise(a->from.map, SIZE, 31);
	memset(a->to.map, 0x5a, SIZE);
}

/* A bystander with a client of its own. */
static struct vm_client victim_open(void)
{
	struct vm_client v = vm_client_on(vm_open(), SIZE);

	v.bytes = SIZE / 2;
	vm_noise(v.from.map, SIZE, 32);
	return v;
}

/* vm_client_submit() is not used, because it rewrites the source and would hide damage to it. */
static void victim_submit(struct vm_client *v)
{
	struct vm_job j;

	memset(v->to.map, 0, SIZE);
	vm_client_job(v, &j);
	OK(!vm_submit(v->fd, &j));
}

/* Row and block of a LOAD or STORE of one word, which an attack then changes. */
static void pitches(struct attacker *a, int64_t row, int64_t blk)
{
	PUT(&a->prog, l_src, .row_pitch = row, .blk_pitch = blk);
	PUT(&a->prog, l_dst, .row_pitch = 1, .blk_pitch = 1);
	PUT(&a->prog, s_dst, .row_pitch = row, .blk_pitch = blk);
	PUT(&a->prog, s_src, .row_pitch = 1, .blk_pitch = 1);
}

static void load(struct attacker *a, int64_t slot, int64_t offset, int64_t rows, int64_t blks)
{
	PUT(&a->prog, load, .mem = RIVULET_MEM_INP, .slot = slot, .offset = offset, .rows = rows,
	    .cols = 1, .blks = blks);
}

static void store(struct attacker *a, int64_t slot, int64_t offset, int64_t rows, int64_t blks)
{
	PUT(&a->prog, store, .mem = RIVULET_MEM_INP, .slot = slot, .offset = offset, .rows = rows,
	    .cols = 1, .blks = blks);
}

#define TOP		((1ll << 36) - 16)	/* the largest aligned offset that encodes */
#define PITCH		0xfffffff0ll
#define NONE		RIVULET_NO_SLOT

/* A(name, fault, slot, offset, program) */
#define ATTACKS(A)                                                                                 \
	A(load_at_limit, SLOT_LIMIT, 1, LIMIT, load(a, 1, LIMIT, 1, 1))                            \
	A(load_across_limit, SLOT_LIMIT, 1, LIMIT - 1, load(a, 1, LIMIT - 1, 1, 1))                \
	A(load_far, SLOT_LIMIT, 1, TOP, load(a, 1, TOP, 1, 1))                                     \
	A(load_row_pitch, SLOT_LIMIT, 1, PITCH, load(a, 1, 0, 2, 1))                               \
	A(load_blk_pitch, SLOT_LIMIT, 1, PITCH, load(a, 1, 0, 1, 2))                               \
	A(load_farthest, SLOT_LIMIT, 1, TOP, load(a, 1, TOP, 40, 40))                          \
	A(load_unbound, SLOT_INVALID, 9, 0, load(a, 9, 0, 1, 1))                                   \
	A(load_stale, SLOT_INVALID, STALE, 0, load(a, STALE, 0, 1, 1))                             \
	A(store_at_limit, SLOT_LIMIT, 2, LIMIT, store(a, 2, LIMIT, 1, 1))                          \
	A(store_across_limit, SLOT_LIMIT, 2, LIMIT - 15, store(a, 2, LIMIT - 15, 1, 1))            \
	A(store_far, SLOT_LIMIT, 2, TOP, store(a, 2, TOP, 1, 1))                                   \
	A(store_row_pitch, SLOT_LIMIT, 2, PITCH + 64, store(a, 2, 64, 2, 1))                       \
	A(store_blk_pitch, SLOT_LIMIT, 2, PITCH, store(a, 2, 0, 1, 2))                             \
	A(store_readonly, SLOT_WRITE, 1, 0, store(a, 1, 0, 1, 1))                                  \
	A(store_commands, SLOT_WRITE, 0, 0, store(a, 0, 0, 1, 1))                                  \
	A(store_unbound, SLOT_INVALID, 15, 0, store(a, 15, 0, 1, 1))                               \
	A(store_stale, SLOT_INVALID, STALE, 16, store(a, STALE, 16, 1, 1))                         \
	A(prof_readonly, SLOT_WRITE, 1, 8, prof(a, 1, 8))                                          \
	A(prof_unbound, SLOT_INVALID, 12, 8, prof(a, 12, 8))                                       \
	A(prof_limit, SLOT_LIMIT, 2, LIMIT - 8, prof(a, 2, LIMIT - 8))                             \
	A(scratchpad, SPAD, NONE, 0, PUT(&a->prog, load, .mem = RIVULET_MEM_INP, .slot = 1,        \
					 .addr = 65535, .rows = 1, .cols = 1, .blks = 1))          \
	A(deadlock, DEADLOCK, NONE, 0, PUT(&a->prog, store, .pop = 1 << RIVULET_Q_LOAD,            \
					   .mem = RIVULET_MEM_INP, .slot = 2, .rows = 1, .cols = 1,\
					   .blks = 1))                                             \
	A(reserved, RESERVED, NONE, 0, raw(a, 0x1, 1ull << 63))                                    \
	A(opcode, OPCODE, NONE, 0, raw(a, 0xf, 0))

static void prof(struct attacker *a, int64_t slot, int64_t offset)
{
	PUT(&a->prog, q_prof, .queue = RIVULET_Q_LOAD, .slot = slot, .offset = offset, .limit = 8);
	PUT(&a->prog, load, .mem = RIVULET_MEM_INP, .prof = 1, .slot = 1, .rows = 1, .cols = 1,
	    .blks = 1);
}

static void raw(struct attacker *a, uint64_t low, uint64_t high)
{
	a->prog.code[a->prog.count++] = (struct rivulet_insn){ { low, high } };
}

#define FUNCTION(name_, fault_, slot_, offset_, program_)                                          \
	static void attack_##name_(struct attacker *a)                                             \
	{                                                                                          \
		program_;                                                                          \
	}
ATTACKS(FUNCTION)

static const struct attack {
	const char *name;
	uint32_t fault, slot;
	uint64_t offset;
	void (*build)(struct attacker *a);
} attacks[] = {
#define ROW(name_, fault_, slot_, offset_, program_)                                               \
	{ #name_, RIVULET_FAULT_##fault_, slot_, offset_, attack_##name_ },
	ATTACKS(ROW)
};

/* Run a job that binds slot 7, which the attack then tries to use. */
static void leave_stale_slot(struct attacker *a)
{
	struct vm_prog p = {};
	struct vm_job j;

	vm_put_copy(&p, a->info.tn, 1, 0, STALE, 0, 1);
	vm_put_end(&p);
	vm_job_init(&j);
	vm_job_code(&j, &a->code, &p);
	vm_job_region(&j, 1, &a->from, 0, LIMIT, 0);
	vm_job_region(&j, STALE, &a->report, 4096, LIMIT, DRM_RIVULET_REGION_WRITE);
	vm_job_out(&j, a->sync, 0);
	OK(!vm_submit(a->fd, &j));
	EQ(vm_sync_result(a->fd, a->sync), 0);
}

static void submit_attack(struct attacker *a, const struct attack *t)
{
	struct vm_job j;

	a->prog.count = 0;
	pitches(a, PITCH, PITCH);
	t->build(a);
	vm_put_end(&a->prog);
	vm_job_init(&j);
	vm_job_code(&j, &a->code, &a->prog);
	vm_job_region(&j, 1, &a->from, 0, LIMIT, 0);
	vm_job_region(&j, 2, &a->to, 0, LIMIT, DRM_RIVULET_REGION_WRITE);
	vm_job_region(&j, REPORT, &a->report, 0, 4096, DRM_RIVULET_REGION_WRITE);
	j.job.report_slot = REPORT;
	vm_job_out(&j, a->sync, 0);
	memset(a->report.map, 0, sizeof(struct rivulet_status));
	OK(!vm_submit(a->fd, &j));
}

static bool is_fill(const uint8_t *p, size_t n, uint8_t value)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value)
			return false;
	return true;
}

/* Did the attack end with its fault, without effect on other memory? */
static bool stopped(struct attacker *a, const struct attack *t)
{
	const struct rivulet_status *st = (const void *)a->report.map;
	int result = vm_sync_result(a->fd, a->sync);
	uint8_t clean[SIZE];
	bool reported, untouched;

	reported = result == -EIO && st->state == RIVULET_STATE_FAULT && st->fault == t->fault &&
		   st->fault_slot == t->slot && (t->slot == NONE || st->fault_offset == t->offset);
	if (!reported)
		printf("# %s: result %d state %u fault %u (not %u) slot %d (not %d) offset 0x%llx "
		       "(not 0x%llx)\n",
		       t->name, result, st->state, st->fault, t->fault, (int)st->fault_slot,
		       (int)t->slot, (unsigned long long)st->fault_offset,
		       (unsigned long long)t->offset);
	vm_noise(clean, SIZE, 31);
	untouched = !memcmp(clean, a->from.map, SIZE) &&
		    is_fill(a->to.map + LIMIT, SIZE - LIMIT, 0x5a);
	if (!untouched)
		printf("# %s: read-only memory or guard was written\n", t->name);
	return reported && untouched;
}

static bool victim_well(struct vm_client *v)
{
	uint8_t clean[SIZE];

	vm_noise(clean, SIZE, 32);
	return !vm_sync_result(v->fd, v->sync) && !memcmp(v->to.map, clean, 4096) &&
	       is_fill(v->to.map + 4096, SIZE - 4096, 0) && !memcmp(v->from.map, clean, SIZE);
}

static void hostile_programs(void)
{
	size_t count = sizeof(attacks) / sizeof(attacks[0]), escapes = 0;
	struct attacker a;
	struct vm_client v = victim_open();

	attacker_open(&a);
	for (size_t i = 0; i < count; i++) {
		bool good;

		leave_stale_slot(&a);
		submit_attack(&a, &attacks[i]);
		/* The victim's job is queued behind the attack and must end well. */
		victim_submit(&v);
		good = stopped(&a, &attacks[i]);
		if (!victim_well(&v)) {
			printf("# %s: the victim's job or memory suffered\n", attacks[i].name);
			good = false;
		}
		escapes += !good;
	}
	printf("figure isolation.kernel.attacks %zu attacks\n", count);
	printf("figure isolation.kernel.escapes %zu attacks\n", escapes);
	EQ(escapes, 0);
}

/* A client cannot see the data of another one in the scratchpads, and finds its own data. */
static void scratchpads(void)
{
	struct attacker spy, owner;
	struct attacker *who[] = { &owner, &owner, &spy };

	attacker_open(&spy);
	attacker_open(&owner);
	for (int i = 0; i < 3; i++) {
		struct attacker *a = who[i];
		struct vm_job j;

		a->prog.count = 0;
		pitches(a, 0, 0);
		if (i == 0)
			load(a, 1, 0, 1, 1);
		else
			store(a, 2, 0, 1, 1);
		vm_put_end(&a->prog);
		vm_job_init(&j);
		vm_job_code(&j, &a->code, &a->prog);
		vm_job_region(&j, 1, &a->from, 0, LIMIT, 0);
		vm_job_region(&j, 2, &a->to, 0, LIMIT, DRM_RIVULET_REGION_WRITE);
		vm_job_out(&j, a->sync, 0);
		OK(!vm_submit(a->fd, &j));
		EQ(vm_sync_result(a->fd, a->sync), 0);
	}
	OK(!memcmp(owner.to.map, owner.from.map, owner.info.tn));
	for (uint32_t i = 0; i < spy.info.tn; i++)
		EQ(spy.to.map[i], 0);
}

/* The same commands, of another client and read-only, on buffers of other addresses and sizes. */
static void shared_commands(void)
{
	struct attacker owner, guest;
	struct vm_buf code = { .size = SIZE }, far;
	struct vm_prog p = {};
	struct vm_job j;
	int dmabuf;

	attacker_open(&owner);
	attacker_open(&guest);
	far = vm_buf_new(guest.fd, 16 * SIZE);
	code.fd = guest.fd;
	OK(!vm_export(owner.fd, owner.code.handle, 0, &dmabuf));
	OK(!vm_import(guest.fd, dmabuf, &code.handle));
	vm_put_copy(&p, owner.info.tn, 1, 0, 2, 0, LIMIT / owner.info.tn);
	vm_put_end(&p);
	for (int i = 0; i < 2; i++) {
		struct attacker *a = i ? &guest : &owner;
		struct vm_buf *to = i ? &far : &a->to;
		uint64_t at = i ? 13 * 4096 + 77 : 0;

		vm_job_init(&j);
		vm_job_code(&j, &owner.code, &p);
		j.region[0].handle = i ? code.handle : owner.code.handle;
		vm_job_region(&j, 1, &a->from, LIMIT * i, LIMIT, 0);
		vm_job_region(&j, 2, to, at, LIMIT, DRM_RIVULET_REGION_WRITE);
		vm_job_out(&j, a->sync, 0);
		OK(!vm_submit(a->fd, &j));
		EQ(vm_sync_result(a->fd, a->sync), 0);
		OK(!memcmp(to->map + at, a->from.map + LIMIT * i, LIMIT));
	}
}

/* No END: the device must not run on into what follows the commands. */
static void no_end(void)
{
	struct attacker a;
	struct vm_job j;

	attacker_open(&a);
	memset(a.code.map, 0xff, SIZE);
	load(&a, 1, 0, 1, 1);
	vm_job_init(&j);
	vm_job_code(&j, &a.code, &a.prog);
	vm_job_region(&j, 1, &a.from, 0, LIMIT, 0);
	vm_job_region(&j, REPORT, &a.report, 0, 4096, DRM_RIVULET_REGION_WRITE);
	j.job.report_slot = REPORT;
	vm_job_out(&j, a.sync, 0);
	OK(!vm_submit(a.fd, &j));
	EQ(vm_sync_result(a.fd, a.sync), -EIO);
	EQ(((const struct rivulet_status *)a.report.map)->fault, RIVULET_FAULT_NO_END);
}

/*
 * The core of 6.12 dereferences the file's master in these two ioctls. A file of an accel node has
 * none.
 */
static void no_master(void)
{
	char name[16] = "";
	struct drm_unique u = { .unique_len = sizeof(name), .unique = name };
	struct drm_auth auth = {};
	int fd = vm_open();

	FAILS(vm_ioctl(fd, DRM_IOCTL_GET_UNIQUE, &u), EACCES);
	FAILS(vm_ioctl(fd, DRM_IOCTL_GET_MAGIC, &auth), EACCES);
}

const struct vm_test vm_isolation_tests[] = {
	{ "isolation_attacks",
	  "each hostile program is stopped with slot and offset; guards, read- "
	  "only memory and the other client's job are untouched",
	  hostile_programs },
	{ "isolation_scratchpad", "scratchpads are cleared when the client changes", scratchpads },
	{ "isolation_shared_commands",
	  "one program, shared read-only, runs on the buffers of any client",
	  shared_commands },
	{ "isolation_no_master", "the core's calls that take a DRM master are refused", no_master },
	{ "isolation_no_end", "the device fetches no command beyond the job's length", no_end },
	{ 0 },
};
