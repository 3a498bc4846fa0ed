// SPDX-License-Identifier: MIT
/* The submit ioctl: every field with a value that must be refused, by the right errno. */
#include "vm.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* A good job: code in slot 0, copy 256 bytes from slot 1 to slot 2. */
struct fixture {
	int fd;
	struct vm_buf code, from, to;
	struct vm_job job;
};

/* The job is not passed by value, because it holds pointers into itself. */
static void open_fixture(struct fixture *f)
{
	f->fd = vm_open();
	f->code = vm_buf_new(f->fd, 4096);
	f->from = vm_buf_new(f->fd, 4096);
	f->to = vm_buf_new(f->fd, 4096);
	vm_copy_job(&f->job, &f->code, &f->from, &f->to, 256);
}

#define M(name_, errno_, code_)                                                                    \
	static void mutate_##name_(struct fixture *f)                                              \
	{                                                                                          \
		struct vm_job *j = &f->job;                                                        \
		code_;                                                                             \
	}
#define MUTATIONS(X)                                                                               \
	X(flags, EINVAL, j->job.flags = 1)                                                         \
	X(deadline, EINVAL, j->job.deadline_ns = -1)                                               \
	X(no_regions, EINVAL, j->job.region_count = 0)                                             \
	X(many_regions, EINVAL, j->job.region_count = 17)                                          \
	X(huge_regions, EINVAL, j->job.region_count = 0xffffffff)                                  \
	X(regions_pointer, EFAULT, j->job.regions = 8)                                             \
	X(no_variants, EINVAL, j->job.variant_count = 0)                                           \
	X(many_variants, EINVAL, j->job.variant_count = 9)                                         \
	X(variants_pointer, EFAULT, j->job.variants = 8)                                           \
	X(variants_all_empty, EINVAL, memset(j->variant, 0, sizeof(j->variant)))                   \
	X(variant_beyond_levels, EINVAL, j->job.variant_count = 8; j->variant[7] = j->variant[0])  \
	X(variant_offset_unaligned, EINVAL, j->variant[0].offset = 8)                              \
	X(variant_length_unaligned, EINVAL, j->variant[0].length = 24)                             \
	X(variant_beyond_slot, EINVAL, j->variant[0].offset = 4096)                                \
	X(variant_wraps, EINVAL, j->variant[0].offset = ~15ull)                                    \
	X(variant_slot_unbound, EINVAL, j->variant[0].slot = 9)                                    \
	X(variant_slot_range, EINVAL, j->variant[0].slot = 16)                                     \
	X(variant_slot_huge, EINVAL, j->variant[0].slot = 0xffffffff)                              \
	X(empty_variant_not_zero, EINVAL, j->variant[0].length = 0; j->variant[0].slot = 1)        \
	X(in_syncs_count, EINVAL, j->job.in_sync_count = 65)                                       \
	X(in_syncs_pointer, EFAULT, j->job.in_sync_count = 1; j->job.in_syncs = 8)                 \
	X(in_sync_handle, ENOENT, vm_job_in(j, 77, 0))                                             \
	X(in_sync_pad, EINVAL, vm_job_in(j, vm_sync_new(f->fd), 0); j->in[0].pad = 1)              \
	X(in_sync_no_fence, EINVAL, vm_job_in(j, vm_sync_new(f->fd), 0))                           \
	X(in_sync_no_point, EINVAL, vm_job_in(j, vm_sync_new(f->fd), 5))                           \
	X(out_syncs_count, EINVAL, j->job.out_sync_count = 65)                                     \
	X(out_syncs_pointer, EFAULT, j->job.out_sync_count = 1; j->job.out_syncs = 8)              \
	X(out_sync_handle, ENOENT, vm_job_out(j, 77, 0))                                           \
	X(out_sync_second, ENOENT, vm_job_out(j, vm_sync_new(f->fd), 3); vm_job_out(j, 77, 0))     \
	X(out_sync_pad, EINVAL, vm_job_out(j, vm_sync_new(f->fd), 0); j->out[0].pad = 1)           \
	X(min_level, EINVAL, j->job.min_level = 8)                                                 \
	X(report_slot_range, EINVAL, j->job.report_slot = 16)                                      \
	X(report_slot_unbound, EINVAL, j->job.report_slot = 5)                                     \
	X(report_slot_readonly, EACCES, j->job.report_slot = 1)                                    \
	X(report_unaligned, EINVAL, j->job.report_slot = 2; j->job.report_offset = 4)              \
	X(report_beyond, EINVAL, j->job.report_slot = 2; j->job.report_offset = 4096 - 152)        \
	X(report_wraps, EINVAL, j->job.report_slot = 2; j->job.report_offset = ~7ull)              \
	X(report_offset_alone, EINVAL, j->job.report_offset = 8)                                   \
	X(perfmon, ENOENT, j->job.perfmon = 1)                                                     \
	X(region_slot_range, EINVAL, j->region[1].slot = 16)                                       \
	X(region_slot_twice, EINVAL, j->region[1].slot = 2)                                        \
	X(region_handle, ENOENT, j->region[1].handle = 77)                                         \
	X(region_handle_zero, ENOENT, j->region[1].handle = 0)                                     \
	X(region_flags, EINVAL, j->region[1].flags = 4)                                            \
	X(region_pad, EINVAL, j->region[1].pad = 1)                                                \
	X(region_empty, EINVAL, j->region[1].size = 0)                                             \
	X(region_too_long, EINVAL, j->region[1].size = 4097)                                       \
	X(region_offset_beyond, EINVAL, j->region[1].offset = 4096; j->region[1].size = 1)         \
	X(region_wraps, EINVAL, j->region[1].offset = ~0ull; j->region[1].size = 2)                \
	X(region_size_wraps, EINVAL, j->region[1].offset = 4096; j->region[1].size = ~0ull - 4095)
MUTATIONS(M)

static void bad_fields(void)
{
	static const struct {
		const char *name;
		int error;
		void (*apply)(struct fixture *f);
	} rows[] = {
#define ROW(name_, errno_, code_) { #name_, errno_, mutate_##name_ },
		MUTATIONS(ROW)
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture f;
		int ret;

		open_fixture(&f);
		rows[i].apply(&f);
		errno = 0;
		ret = vm_submit(f.fd, &f.job);
		if (ret != -1 || errno != rows[i].error)
			vm_fail(__FILE__, __LINE__, "%s: got %s, not %s", rows[i].name,
				ret ? strerror(errno) : "success", strerror(rows[i].error));
		close(f.fd);
	}
}

static void bad_arrays(void)
{
	struct fixture f;
	struct drm_rivulet_submit good = {
		.jobs = (uintptr_t)&f.job.job, .count = 1, .stride = sizeof(f.job.job),
		.queue = VM_QUEUE,
	}, s;

	open_fixture(&f);
#define TRY(error_, ...)                                                                           \
	do {                                                                                       \
		s = good;                                                                          \
		__VA_ARGS__;                                                                       \
		FAILS(vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s), error_);                       \
		EQ(s.refused, s.count);                                                            \
	} while (0)
	TRY(EINVAL, s.flags = 2);
	TRY(ENOENT, s.queue = 77);
	TRY(ENOENT, s.queue = 0);
	TRY(ENOENT, s.queue = 0xffffffff);
	TRY(EINVAL, s.count = 0);
	TRY(EINVAL, s.count = DRM_RIVULET_MAX_JOBS + 1);
	TRY(EINVAL, s.count = 0xffffffff);
	TRY(EINVAL, s.stride = offsetof(struct drm_rivulet_job, perfmon));
	TRY(EINVAL, s.stride = 0);
	TRY(EINVAL, s.stride = 0x80000000);
#undef TRY
	/* These rows concern the first job, and those above concern no particular job. */
	s = good;
	s.jobs = 8;
	FAILS(vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s), EFAULT);
	EQ(s.refused, 0);
	s.jobs = ~0ull - 7;
	FAILS(vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s), EFAULT);
	EQ(s.refused, 0);
}

/* A longer struct of a newer caller is accepted while its unknown part is zero. */
static void longer_struct(void)
{
	struct {
		struct drm_rivulet_job job;
		uint64_t future;
	} longer = {};
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)&longer, .count = 1, .stride = sizeof(longer), .queue = VM_QUEUE,
	};
	struct fixture f;

	open_fixture(&f);
	longer.job = f.job.job;
	OK(!vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
	longer.future = 1;
	FAILS(vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s), E2BIG);
}

/* Jobs of one submit; each pointer of @array leads into @jobs. */
struct batch {
	struct vm_job jobs[8];
	struct drm_rivulet_job array[8];
	struct drm_rivulet_submit submit;
};

/* @count copies that signal the points 1 to @count of @sync. */
static void make_batch(struct batch *b, struct fixture *f, uint32_t sync, uint32_t count)
{
	b->submit = (struct drm_rivulet_submit){
		.jobs = (uintptr_t)b->array, .count = count, .stride = sizeof(b->array[0]),
		.queue = VM_QUEUE,
	};
	for (uint32_t i = 0; i < count; i++) {
		vm_copy_job(&b->jobs[i], &f->code, &f->from, &f->to, 256);
		if (sync)
			vm_job_out(&b->jobs[i], sync, i + 1);
	}
}

static int submit_batch(struct batch *b, int fd)
{
	for (uint32_t i = 0; i < b->submit.count; i++)
		b->array[i] = b->jobs[i].job;
	return vm_ioctl(fd, DRM_IOCTL_RIVULET_SUBMIT, &b->submit);
}

/* When any job of an array is refused, the array leaves no job, no fence and no memory behind. */
static void all_or_none(void)
{
	struct fixture f;
	struct batch b;
	uint32_t sync;

	open_fixture(&f);
	sync = vm_sync_new(f.fd);
	vm_noise(f.from.map, 256, 7);
	for (uint32_t bad = 0; bad < 4; bad++) {
		make_batch(&b, &f, sync, 4);
		b.jobs[bad].job.flags = 1;
		FAILS(submit_batch(&b, f.fd), EINVAL);
		EQ(b.submit.refused, bad);
		/* This is checked after everything else of a job. */
		make_batch(&b, &f, sync, 4);
		vm_job_out(&b.jobs[bad], 77, 0);
		FAILS(submit_batch(&b, f.fd), ENOENT);
		EQ(b.submit.refused, bad);
	}
	EQ(vm_objects("jobs"), 0);
	FAILS(vm_sync_wait(f.fd, sync, 0, 0), EINVAL);
	EQ(f.to.map[0] | f.to.map[255], 0);
	make_batch(&b, &f, sync, 4);
	OK(!submit_batch(&b, f.fd));
	EQ(b.submit.refused, 4);
	OK(!vm_sync_wait(f.fd, sync, 4, VM_WAIT_MS));
	OK(!memcmp(f.from.map, f.to.map, 256));
}

/* A later job may wait for an out-sync of an earlier job of its array, binary or timeline. */
static void in_sync_of_earlier(void)
{
	struct fixture f;
	struct batch b;
	uint32_t binary, line;

	open_fixture(&f);
	binary = vm_sync_new(f.fd);
	line = vm_sync_new(f.fd);
	make_batch(&b, &f, line, 4);
	vm_job_out(&b.jobs[0], binary, 0);
	vm_job_in(&b.jobs[1], binary, 0);
	vm_job_in(&b.jobs[2], line, 2);
	vm_job_in(&b.jobs[3], line, 0);
	OK(!submit_batch(&b, f.fd));
	OK(!vm_sync_wait(f.fd, line, 4, VM_WAIT_MS));
	/* An out-sync of the job itself, or of a later one, is not that of an earlier job. */
	make_batch(&b, &f, vm_sync_new(f.fd), 2);
	vm_job_in(&b.jobs[1], b.jobs[0].out[0].handle, 2);
	FAILS(submit_batch(&b, f.fd), EINVAL);
	EQ(b.submit.refused, 1);
	make_batch(&b, &f, vm_sync_new(f.fd), 2);
	vm_job_in(&b.jobs[0], b.jobs[0].out[0].handle, 0);
	FAILS(submit_batch(&b, f.fd), EINVAL);
	EQ(b.submit.refused, 0);
	/* A binary out-sync removes the points of a timeline. */
	make_batch(&b, &f, line, 1);
	vm_copy_job(&b.jobs[0], &f.code, &f.from, &f.to, 256);
	vm_job_out(&b.jobs[0], line, 0);
	vm_copy_job(&b.jobs[1], &f.code, &f.from, &f.to, 256);
	vm_job_in(&b.jobs[1], line, 4);
	b.submit.count = 2;
	FAILS(submit_batch(&b, f.fd), EINVAL);
	EQ(b.submit.refused, 1);
	b.jobs[1].in[0].point = 0;
	OK(!submit_batch(&b, f.fd));
	EQ(vm_sync_result(f.fd, line), 0);
}

/*
 * A point that an array adds to a timeline includes the points that were there: a job that waits
 * for the new one waits for them too, here for another driver's fence.
 */
static void in_sync_with_past(void)
{
	struct vm_gate g = vm_gate(4096, true);
	struct vm_buf gated = { .size = 4096 };
	struct drm_syncobj_handle h = { .flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE };
	struct drm_syncobj_transfer t = { .dst_point = 1 };
	struct vm_client other = vm_client();
	struct fixture f;
	struct batch b;
	uint32_t line, done;
	struct vm_job j;

	open_fixture(&f);
	line = vm_sync_new(f.fd);
	done = vm_sync_new(f.fd);
	/* Point 1 is a job of another file that the gate holds. */
	OK(!vm_import(other.fd, g.dmabuf, &gated.handle));
	vm_client_job(&other, &j);
	vm_job_region(&j, 9, &gated, 0, 4096, 0);
	OK(!vm_submit(other.fd, &j));
	h.handle = vm_sync_new(f.fd);
	h.fd = vm_sync_file(other.fd, other.sync);
	OK(!vm_ioctl(f.fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &h));
	t.src_handle = h.handle;
	t.dst_handle = line;
	OK(!vm_ioctl(f.fd, DRM_IOCTL_SYNCOBJ_TRANSFER, &t));
	make_batch(&b, &f, 0, 2);
	vm_job_out(&b.jobs[0], line, 2);
	vm_job_in(&b.jobs[1], line, 2);
	vm_job_out(&b.jobs[1], done, 0);
	OK(!submit_batch(&b, f.fd));
	FAILS(vm_sync_wait(f.fd, done, 0, 300), ETIME);
	vm_gate_open(&g);
	EQ(vm_sync_result(f.fd, done), 0);
	EQ(vm_sync_result(other.fd, other.sync), 0);
}

static void fence_fd(void)
{
	struct rlimit limit;
	struct fixture f;
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)&f.job.job,
		.count = 1,
		.stride = sizeof(f.job.job),
		.queue = VM_QUEUE,
		.flags = DRM_RIVULET_SUBMIT_FENCE_FD,
	};

	open_fixture(&f);
	vm_noise(f.from.map, 256, 8);
	OK(!vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
	OK(fcntl(s.fence_fd, F_GETFD) & FD_CLOEXEC);
	EQ(vm_file_result(s.fence_fd), 0);
	OK(!memcmp(f.from.map, f.to.map, 256));
	/* A refused job, or no free number, gives no descriptor. */
	f.job.job.flags = 1;
	s.fence_fd = -1;
	FAILS(vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s), EINVAL);
	EQ(s.fence_fd, -1);
	f.job.job.flags = 0;
	OK(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = dup(f.fd);
	close((int)limit.rlim_cur);
	OK(!setrlimit(RLIMIT_NOFILE, &limit));
	memset(f.to.map, 0, 256);
	FAILS(vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s), EMFILE);
	EQ(s.refused, 1);
	OK(memcmp(f.from.map, f.to.map, 256));
}

const struct vm_test vm_submit_tests[] = {
	{ "submit_fields",
	  "each bad field of job, region, variant and sync has its errno, and nothing leaks",
	  bad_fields },
	{ "submit_arrays", "bad counts, strides and pointers are refused before any job is queued",
	  bad_arrays },
	{ "submit_longer", "a longer struct is accepted if its unknown tail is zero, else E2BIG",
	  longer_struct },
	{ "submit_all_or_none",
	  "one refused job refuses its array and is reported by index; no job is queued",
	  all_or_none },
	{ "submit_in_sync",
	  "a job waits for an out-sync of an earlier job of its array, and of no other",
	  in_sync_of_earlier },
	{ "submit_in_sync_past",
	  "an in-sync on a timeline waits for the timeline's earlier points too",
	  in_sync_with_past },
	{ "submit_fence_fd", "the call returns a sync_file of the last job, or queues no job",
	  fence_fd },
	{ 0 },
};
