// SPDX-License-Identifier: MIT
/* Queries and buffers. */
#include "vm.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void query_device(void)
{
	struct drm_rivulet_device d;

	vm_info(vm_open(), &d);
	EQ(d.dev_version, RIVULET_DEV_VERSION);
	OK(d.tm && d.tn && d.dn && d.tn % d.dn == 0);
	OK(d.inp_bytes && d.wgt_bytes && d.acc_bytes && d.port_bytes && d.queue_depth);
	OK(d.modes & 1);
	OK(d.level_count >= 1 && d.level_count <= DRM_RIVULET_MAX_LEVELS);
	OK(memchr(d.name, 0, sizeof(d.name)) && d.name[0]);
	for (uint32_t i = 1; i < d.level_count; i++)
		OK(d.level[i].hz > d.level[i - 1].hz && d.level[i].microvolt);
}

/* Read the stochastic lanes from the board's file, in the order of register STREAM. */
static void read_lanes(uint32_t *word)
{
	FILE *f = fopen("/host/build/tests/vm/zu3eg-64.board", "re");
	uint32_t n = 0;
	char line[128];

	OK(f);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "sc_", 3))
			continue;
		OK(n < RIVULET_STREAM_WORDS);
		OK(sscanf(line, "%*s = %u", &word[n++]) == 1);
	}
	fclose(f);
	EQ(n, RIVULET_STREAM_WORDS);
}

/* The words of the port and of the ALU are those of the window. */
static void query_port(void)
{
	struct drm_rivulet_device d;

	vm_info(vm_open(), &d);
	EQ(d.burst_bytes, vm_reg("BURST_BYTES"));
	EQ(d.burst_gap, vm_reg("BURST_GAP"));
	EQ(d.bursts, vm_reg("BURSTS"));
	EQ(d.row_bytes, vm_reg("ROW_BYTES"));
	EQ(d.alu_lanes, vm_reg("ALU_LANES"));
	OK(d.burst_bytes && d.alu_lanes);
}

static void query_stream(void)
{
	struct drm_rivulet_device d;
	uint32_t want[RIVULET_STREAM_WORDS];

	vm_info(vm_open(), &d);
	EQ(d.sc_lanes, vm_reg("STREAM"));
	if (!d.sc_lanes)
		vm_skip("a board without stochastic lanes");
	read_lanes(want);
	EQ(d.sc_lanes, want[0]);
	EQ(d.sc_blocks, want[1]);
	for (int i = 0; i < DRM_RIVULET_MAX_CIRCUITS; i++) {
		EQ(d.circuit[i].millicycles, want[2 + 2 * i]);
		EQ(d.circuit[i].fj, want[3 + 2 * i]);
	}
}

/*
 * A query struct may grow: an older caller gets its first fields, a newer one zeros in the rest.
 * @first is the size of the struct's first version.
 */
static void query_grows(int fd, uint32_t type, uint32_t size, uint32_t first)
{
	uint8_t longer[1024], all[1024];
	struct drm_rivulet_query q = { .type = type };

	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &q));
	EQ(q.size, size);
	memset(longer, 0xee, sizeof(longer));
	q = (struct drm_rivulet_query){ .type = type,
					.size = size + 64,
					.pointer = (uintptr_t)longer };
	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &q));
	EQ(q.size, size);
	for (uint32_t i = size; i < size + 64; i++)
		EQ(longer[i], 0);
	EQ(longer[size + 64], 0xee);
	memset(all, 0xee, sizeof(all));
	q = (struct drm_rivulet_query){ .type = type, .size = size, .pointer = (uintptr_t)all };
	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &q));
	EQ(all[size], 0xee);
	memset(all, 0xee, sizeof(all));
	q = (struct drm_rivulet_query){ .type = type, .size = first, .pointer = (uintptr_t)all };
	OK(!vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &q));
	EQ(all[first], 0xee);
	/* A size below that of the struct's first version is refused. */
	q = (struct drm_rivulet_query){ .type = type,
					.size = first - 8,
					.pointer = (uintptr_t)all };
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &q), EINVAL);
	q = (struct drm_rivulet_query){ .type = type,
					.size = 0xffffffff,
					.pointer = (uintptr_t)all };
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &q), EINVAL);
	q = (struct drm_rivulet_query){ .type = type, .size = size, .pointer = 8 };
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &q), EFAULT);
}

static void query_sizes(void)
{
	struct drm_rivulet_query none = { .type = 4 };
	int fd = vm_open();

	query_grows(fd, DRM_RIVULET_QUERY_DEVICE, sizeof(struct drm_rivulet_device),
		    offsetof(struct drm_rivulet_device, burst_bytes));
	query_grows(fd, DRM_RIVULET_QUERY_CLOCK, sizeof(struct drm_rivulet_clock),
		    sizeof(struct drm_rivulet_clock));
	query_grows(fd, DRM_RIVULET_QUERY_CLIENT, sizeof(struct drm_rivulet_client),
		    sizeof(struct drm_rivulet_client));
	query_grows(fd, DRM_RIVULET_QUERY_COUNTERS, sizeof(struct drm_rivulet_counters),
		    sizeof(struct drm_rivulet_counters));
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &none), EINVAL);
	none.type = 0xffffffff;
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_QUERY, &none), EINVAL);
}

static void version(void)
{
	char name[16] = "";
	struct drm_version v = { .name = name, .name_len = sizeof(name) - 1 };

	OK(!vm_ioctl(vm_open(), DRM_IOCTL_VERSION, &v));
	OK(!strcmp(name, "rivulet"));
	EQ(v.version_major, 2);
}

static void create(void)
{
	static const uint64_t bad[] = { 0, DRM_RIVULET_MAX_BO_SIZE + 1, 1ull << 63, ~0ull,
					~0xfffull };
	struct drm_rivulet_bo_create c;
	int fd = vm_open();
	struct vm_buf b = vm_buf_new(fd, 4097);

	EQ(b.size, 8192);
	EQ(vm_buf_rights(fd, b.handle), 0);
	for (size_t i = 0; i < b.size; i++)
		EQ(b.map[i], 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		c = (struct drm_rivulet_bo_create){ .size = bad[i] };
		FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &c), EINVAL);
	}
	c = (struct drm_rivulet_bo_create){ .size = 4096, .flags = 1 };
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_CREATE, &c), EINVAL);
}

static void zeroed_again(void)
{
	int fd = vm_open();

	for (int round = 0; round < 4; round++) {
		struct vm_buf b = vm_buf_new(fd, 1 << 20);

		for (size_t i = 0; i < b.size; i++)
			OK(b.map[i] == 0);
		memset(b.map, 0xa5, b.size);
		vm_buf_free(&b);
	}
}

static void mapping(void)
{
	int fd = vm_open(), other = vm_open();
	struct vm_buf b = vm_buf_new(fd, 65536);
	uint64_t offset;
	uint8_t *second;

	OK(!vm_map_offset(fd, b.handle, &offset));
	second = mmap(NULL, b.size, PROT_READ, MAP_SHARED, fd, (off_t)offset);
	OK(second != MAP_FAILED);
	vm_noise(b.map, b.size, 1);
	OK(!memcmp(second, b.map, b.size));
	OK(mmap(NULL, b.size + 4096, PROT_READ, MAP_SHARED, fd, (off_t)offset) == MAP_FAILED);
	EQ(errno, EINVAL);
	/* The node maps nothing but buffers, so that nothing is mapped at offset 0. */
	OK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	EQ(errno, EINVAL);
	/* Another file has no handle of the buffer, although it knows the offset. */
	OK(mmap(NULL, b.size, PROT_READ, MAP_SHARED, other, (off_t)offset) == MAP_FAILED);
	EQ(errno, EACCES);
	/* The mapping outlives handle and file. */
	vm_close_handle(fd, b.handle);
	close(fd);
	second[0] == b.map[0] ? (void)0 : vm_fail(__FILE__, __LINE__, "mapping changed");
}

struct guesser {
	int fd;
	_Atomic bool over;
	_Atomic uint32_t hits;
};

/* The lowest free number is the next handle. */
static void *close_first(void *arg)
{
	struct guesser *g = arg;
	struct drm_gem_close c = { .handle = 1 };

	while (!g->over)
		g->hits += !ioctl(g->fd, DRM_IOCTL_GEM_CLOSE, &c);
	return NULL;
}

#define BREAKPOINTS	4	/* number of hardware breakpoints of a processor */

/* A breakpoint on this processor, which records the stack there, until the result is closed. */
static int breakpoint(unsigned long long address)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT, .size = sizeof(attr), .bp_type = HW_BREAKPOINT_X,
		.bp_addr = address, .bp_len = sizeof(long), .sample_period = 1,
		.sample_type = PERF_SAMPLE_CALLCHAIN, .exclude_callchain_user = 1,
	};
	/*
	 * The breakpoint is not one of the thread, because for that the kernel would change the
	 * scheduler's code (tests/vm/README).
	 */
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, sched_getcpu(), -1,
			      PERF_FLAG_FD_CLOEXEC);

	OK(fd >= 0);
	return fd;
}

/*
 * The driver's return address after the core has created a handle, from the stack of a function
 * that the core calls.
 */
static unsigned long long after_handle(void)
{
	unsigned long long start = vm_symbol("rvl_ioctl_bo_create", NULL);
	int fd = breakpoint(vm_symbol("drm_vma_node_allow", NULL));
	struct perf_event_mmap_page *page = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	struct drm_rivulet_bo_create c = { .size = 4096 };
	struct { struct perf_event_header header; uint64_t count, ip[]; } *sample;
	unsigned long long at = 0;

	OK(!vm_ioctl(vm_open(), DRM_IOCTL_RIVULET_BO_CREATE, &c));
	OK(page != MAP_FAILED && page->data_head);
	sample = (void *)((char *)page + page->data_offset);
	for (uint64_t i = 0; i < sample->count && !at; i++)
		if (sample->ip[i] > start && sample->ip[i] < start + 4096)
			at = sample->ip[i];
	OK(at);
	OK(!munmap(page, 8192) && !close(fd));
	return at;
}

/*
 * Make the processor stop between the creation of a handle and the driver's next instruction.
 * Hardware breakpoints do that, because a probe would change running code (tests/vm/README).
 * Returns the descriptor of one, which counts its hits. Returns -1 on kernels without kprobes,
 * which allow no breakpoint in kernel code: a board's, and that of make check-debug. There the race
 * is left to chance.
 */
static int linger(void)
{
	unsigned long long at;
	cpu_set_t here;
	int fd = -1;

	if (access("/sys/kernel/debug/kprobes", F_OK))
		return -1;
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	OK(!sched_setaffinity(0, sizeof(here), &here));
	at = after_handle();
	for (int i = 0; i < BREAKPOINTS; i++)
		fd = breakpoint(at);
	return fd;
}

/*
 * Another thread closes each handle as soon as it exists. The results of BO_CREATE are right
 * nevertheless.
 */
static void guessed(void)
{
	struct guesser g = { .fd = vm_open() };
	struct drm_rivulet_bo_create c;
	uint64_t rounds, stops;
	pthread_t thread;
	int counter;

	/*
	 * The thread is created first, so that it does not inherit the affinity to this processor.
	 */
	OK(!pthread_create(&thread, NULL, close_first, &g));
	counter = linger();
	for (rounds = 0; rounds < 1000 || !g.hits; rounds++) {
		c = (struct drm_rivulet_bo_create){ .size = 1 };
		OK(!vm_ioctl(g.fd, DRM_IOCTL_RIVULET_BO_CREATE, &c));
		EQ(c.size, 4096);
		EQ(c.flags, 0);
		OK(c.handle);
		/* Close what the thread missed, so that handles do not accumulate. */
		if (c.handle > 1)
			vm_close_handle(g.fd, c.handle);
	}
	g.over = true;
	OK(!pthread_join(thread, NULL));
	OK(counter < 0 || (read(counter, &stops, 8) == 8 && stops >= rounds));
}

static void bad_handles(void)
{
	struct drm_rivulet_bo_info i = { .handle = 77 };
	struct drm_rivulet_bo_map m = { .handle = 77 };
	uint64_t offset;
	int fd = vm_open(), dmabuf;

	FAILS(vm_map_offset(fd, 0, &offset), ENOENT);
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_INFO, &i), ENOENT);
	FAILS(vm_export(fd, 77, 0, &dmabuf), ENOENT);
	FAILS(vm_export(fd, 77, DRM_RDWR, &dmabuf), ENOENT);
	m.pad = 1;
	FAILS(vm_ioctl(fd, DRM_IOCTL_RIVULET_BO_MAP, &m), EINVAL);
	FAILS(ioctl(fd, DRM_IOWR(DRM_COMMAND_BASE + 0x1f, struct drm_rivulet_bo_map), &m), EINVAL);
}

/* A handle is valid only in the file that created it. */
static void handles_are_private(void)
{
	int fd = vm_open(), other = vm_open();
	struct vm_buf b = vm_buf_new(fd, 4096);
	struct drm_rivulet_bo_info i = { .handle = b.handle };

	FAILS(vm_ioctl(other, DRM_IOCTL_RIVULET_BO_INFO, &i), ENOENT);
}

const struct vm_test vm_buffer_tests[] = {
	{ "query_device", "geometry and levels are complete and plausible", query_device },
	{ "query_port", "burst, gap, row buffer and ALU lanes are those of the register window",
	  query_port },
	{ "query_stream", "the numbers of the stochastic lanes are those of the board's file",
	  query_stream },
	{ "query_sizes",
	  "a query returns its size and no more bytes than asked; "
	  "bad types and pointers are refused",
	  query_sizes },
	{ "version", "the interface declares its name and version", version },
	{ "bo_create", "sizes are rounded up to pages, zeroed and limited, flags refused", create },
	{ "bo_zeroed", "a new buffer never shows the memory of a freed one", zeroed_again },
	{ "bo_mapping", "mappings share memory, stay inside the buffer, and need a handle",
	  mapping },
	{ "bo_guessed",
	  "a handle may be guessed and closed while the call that creates it still runs",
	  guessed },
	{ "bo_bad_handles",
	  "unknown handles are ENOENT, padding is checked, unknown ioctls refused",
	  bad_handles },
	{ "bo_private", "a handle is valid in its own file only", handles_are_private },
	{ 0 },
};
