/* SPDX-License-Identifier: MIT */
/* Declarations of the VM tests: checks that print where they failed, and the NPU by raw ioctls. */
#ifndef RIVULET_TEST_VM_H
#define RIVULET_TEST_VM_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "rivulet_accel.h"
#include "rivulet_dev.h"
#include "rivulet_isa.h"

/* Each test runs in a child process, which exits at the first failed check. */
void vm_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
void vm_skip(const char *why) __attribute__((noreturn));
#define VM_SKIPPED	77	/* exit status */

#define OK(cond)                                                                                   \
	do {                                                                                       \
		if (!(cond))                                                                       \
			vm_fail(__FILE__, __LINE__, "%s (errno %s)", #cond, strerror(errno));      \
	} while (0)
/* Two numbers are equal. Both are printed if they are not. */
#define EQ(got, want)                                                                              \
	do {                                                                                       \
		long long g_ = (long long)(got), w_ = (long long)(want);                           \
		if (g_ != w_)                                                                      \
			vm_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #got, g_, w_);         \
	} while (0)
/* A call fails with this errno. */
#define FAILS(call, err)                                                                           \
	do {                                                                                       \
		errno = 0;                                                                         \
		if ((call) != -1 || errno != (err))                                                \
			vm_fail(__FILE__, __LINE__, "%s: got %s, not %s", #call, strerror(errno),  \
				strerror(err));                                                    \
	} while (0)

/** struct vm_test - one row of the list in kmod_test.c */
struct vm_test {
	const char *name;
	const char *proves;
	void (*run)(void);
};

/** struct vm_buf - a buffer and its mapping in this process */
struct vm_buf {
	int fd;			/* file that owns the handle */
	uint32_t handle;
	uint64_t size;
	uint8_t *map;
};

/** struct vm_prog - a program under construction */
struct vm_prog {
	struct rivulet_insn code[512];
	uint32_t count;
};

/** struct vm_job - a submit of one job with its arrays */
struct vm_job {
	struct drm_rivulet_job job;
	struct drm_rivulet_region region[DRM_RIVULET_MAX_REGIONS];
	struct drm_rivulet_variant variant[DRM_RIVULET_MAX_LEVELS];
	struct drm_rivulet_sync in[DRM_RIVULET_MAX_SYNCS];
	struct drm_rivulet_sync out[DRM_RIVULET_MAX_SYNCS];
};

/** struct vm_client - a file and the buffers of a copy of @bytes */
struct vm_client {
	int fd;
	struct vm_buf code, from, to;
	uint32_t sync, bytes;
	uint32_t report;	/* offset of a job's report in @to; 0: no report */
};

/* Open the node again, as a new client with one queue, VM_QUEUE. The exit of the test closes it. */
int vm_open(void);
/* A file's first queue. */
#define VM_QUEUE	1
uint32_t vm_queue_new(int fd, int32_t priority);
/* May the device suspend? Only the tests of runtime PM set this. */
extern bool vm_may_sleep;
const char *vm_node(void);
int vm_ioctl(int fd, unsigned long request, void *arg);
void vm_info(int fd, struct drm_rivulet_device *info);
uint32_t vm_level(int fd);
void vm_counters(int fd, struct drm_rivulet_counters *c);
uint64_t vm_epoch(int fd);
void vm_counters_after(int fd, struct drm_rivulet_counters *c, uint64_t jobs);

struct vm_buf vm_buf_new(int fd, uint64_t size);
void vm_buf_map(struct vm_buf *b);
void vm_buf_free(struct vm_buf *b);
uint32_t vm_buf_flags(int fd, uint32_t handle);
uint32_t vm_buf_rights(int fd, uint32_t handle);
int vm_map_offset(int fd, uint32_t handle, uint64_t *offset);
int vm_export(int fd, uint32_t handle, uint32_t flags, int *out);
int vm_udmabuf(uint64_t size, int *memfd);
int vm_heap(uint64_t size, uint32_t flags);
int vm_import(int fd, int dmabuf, uint32_t *handle);
void vm_close_handle(int fd, uint32_t handle);
void vm_noise(void *p, size_t n, uint64_t seed);

void vm_put(struct vm_prog *p, struct rivulet_decoded d);
#define PUT(p_, form_, ...)                                                                        \
	vm_put(p_, (struct rivulet_decoded){ .form = RIVULET_FORM_##form_,                         \
					     .form_ = { __VA_ARGS__ } })
void vm_put_copy(struct vm_prog *p, uint32_t tn, uint32_t from, uint64_t from_off, uint32_t to,
		 uint64_t to_off, uint32_t words);
void vm_put_end(struct vm_prog *p);

void vm_job_init(struct vm_job *j);
void vm_job_region(struct vm_job *j, uint32_t slot, const struct vm_buf *b, uint64_t offset,
		   uint64_t size, uint32_t flags);
void vm_job_code(struct vm_job *j, const struct vm_buf *b, const struct vm_prog *p);
void vm_job_in(struct vm_job *j, uint32_t sync, uint64_t point);
void vm_job_out(struct vm_job *j, uint32_t sync, uint64_t point);
int vm_submit(int fd, struct vm_job *j);
void vm_copy_job(struct vm_job *j, const struct vm_buf *code, const struct vm_buf *from,
		 const struct vm_buf *to, uint32_t bytes);

struct vm_client vm_client(void);
struct vm_client vm_client_on(int fd, uint32_t bytes);
struct vm_client vm_reporter(void);
void vm_client_job(struct vm_client *c, struct vm_job *j);
int vm_client_try(struct vm_client *c, uint64_t seed);
void vm_client_submit(struct vm_client *c, uint64_t seed);
bool vm_client_copied(const struct vm_client *c);
void vm_client_good(struct vm_client *c);
const struct rivulet_status *vm_report(const struct vm_client *c);

uint32_t vm_sync_new(int fd);
int vm_sync_wait(int fd, uint32_t sync, uint64_t point, unsigned int ms);
int vm_sync_file(int fd, uint32_t sync);
int vm_file_result(int file);
int vm_sync_result(int fd, uint32_t sync);
bool vm_file_waits(int file);
bool vm_file_ends(int file);

#define HARNESS_MODULE	"/host/build/tests/kmod/harness/harness.ko"
/* A copy for the kernel that is running takes precedence (scripts/check-debug). */
#define HARNESS_INSTALLED "/usr/lib/rivulet-tests/harness.ko"
int vm_harness(void);

/* Open vgem, another DRM driver, and load its module when it is not loaded. */
int vm_vgem(void);

/** struct vm_gate - memory of vgem with a fence that the test signals */
struct vm_gate {
	int vgem, dmabuf;
	uint32_t fence;
};
struct vm_gate vm_gate(uint64_t size, bool write);
void vm_gate_open(struct vm_gate *g);

bool vm_on_pci(void);
bool vm_polled(void);
void vm_device_name(char *name);
void vm_driver_file(const char *what, const char *name);
volatile uint32_t *vm_window(const char *device);
void vm_control(const char *command);
long vm_control_stat(const char *name);
void vm_replug(const char *old, const char *fresh);
bool vm_monitor(const char *command);
void vm_sysfs_write(const char *file, const char *text);
unsigned long long vm_symbol(const char *name, unsigned long long *end);
void vm_limit_level(const struct drm_rivulet_device *info, uint32_t lowest, uint32_t highest);
void vm_pin_level(int fd, uint32_t level);
void vm_unpin_level(int fd);
long vm_objects(const char *name);
bool vm_queue_holds(unsigned int jobs);
bool vm_queue_age(int64_t *ms);
uint32_t vm_reg(const char *name);
void vm_await_running(void);
int vm_listen_events(void);
void vm_await_event(int fd, const char *what, const char *reason);
unsigned long long vm_fdinfo(int fd, const char *key);
void vm_param(const char *name, const char *value);

const char *vm_sysfs(const char *name);
const char *vm_glob(const char *pattern);
const char *vm_debugfs(const char *name);
long vm_number(const char *path, const char *key);
int vm_read_all(const char *path);
void vm_await_node(bool there);
void vm_stay_awake(void);
unsigned int vm_slow(void);

#define VM_PERF_VALUES	(DRM_RIVULET_PERF_ENERGY + 1)
#define VM_WAIT_MS	((int)(20000 * vm_slow()))	/* longer than any recovery */

/* Of the kernel's drivers/dma-buf/sw_sync.c, which has no uapi header. */
struct sw_sync_fence {
	uint32_t value;
	char name[32];
	int32_t fence;
};
#define SW_SYNC		"/sys/kernel/debug/sync/sw_sync"
#define SW_SYNC_CREATE	_IOWR('W', 0, struct sw_sync_fence)
#define SW_SYNC_INC	_IOW('W', 1, uint32_t)

/** struct vm_totals - shared memory of all tests, each of which is a process */
struct vm_totals {
	uint32_t kinds, survived, correct;
};

extern struct vm_totals *vm_totals;

extern const struct vm_test vm_buffer_tests[], vm_contig_tests[], vm_submit_tests[],
	vm_prime_tests[], vm_readonly_tests[], vm_job_tests[], vm_access_tests[], vm_sync_tests[],
	vm_swsync_tests[], vm_client_tests[], vm_isolation_tests[], vm_recovery_tests[],
	vm_fault_tests[], vm_observe_tests[], vm_platform_tests[], vm_probe_tests[],
	vm_life_tests[], vm_last_tests[], vm_suspend_tests[];

#endif
