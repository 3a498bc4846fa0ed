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

/* Not by value: the job holds pointers into itself. */
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
	X(deadline, EINVAL, j->job.deadline = -1)                                                  \
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
	X(pad, EINVAL, j->job.pad = 1)                                                             \
	X(region_slot_range, EINVAL, j->region[1].slot = 16)                                       \
	X(region_slot_twice, EINVAL, j->region[1].slot = 2)                                        \
	X(region_handle, ENOENT, j->region[1].handle = 77)                                         \
	X(region_handle_zero, ENOENT, j->region[1].handle = 0)                                     \
	X(region_flags, EINVAL, j->region[1].flags = 2)                                            \
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
	}, s;

	open_fixture(&f);
#define TRY(error_, ...)                                                                           \
	do {                                                                                       \
		s = good;                                                                          \
		__VA_ARGS__;                                                                       \
		FAILS(vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s), error_);                       \
		EQ(s.queued, 0);                                                                   \
	} while (0)
	TRY(EINVAL, s.flags = 2);
	TRY(EINVAL, s.priority = 77);
	TRY(EINVAL, s.count = 0);
	TRY(EINVAL, s.count = DRM_RIVULET_MAX_JOBS + 1);
	TRY(EINVAL, s.count = 0xffffffff);
	TRY(EINVAL, s.stride = offsetof(struct drm_rivulet_job, error));
	TRY(EINVAL, s.stride = 0);
	TRY(EINVAL, s.stride = 0x80000000);
	TRY(EFAULT, s.jobs = 8);
	TRY(EFAULT, s.jobs = ~0ull - 7);
}

/* A newer caller's longer struct is welcome while what we do not know of is zero. */
static void longer_struct(void)
{
	struct {
		struct drm_rivulet_job job;
		uint64_t future;
	} longer = {};
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)&longer, .count = 1, .stride = sizeof(longer),
	};
	struct fixture f;

	open_fixture(&f);
	longer.job = f.job.job;
	OK(!vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
	longer.future = 1;
	FAILS(vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s), E2BIG);
	/* An older caller's ends before the fields of 1.1, which are then not looked at. */
	s.stride = offsetof(struct drm_rivulet_job, perfmon);
	longer.job.perfmon = 77;
	OK(!vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
}

/* Of an array, the jobs before the bad one run and the ones after it do not. */
static void refused_in_the_middle(void)
{
	struct fixture f;
	uint32_t sync;
	struct vm_job jobs[4];
	struct drm_rivulet_job array[4];
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)array, .count = 4, .stride = sizeof(array[0]),
	};

	open_fixture(&f);
	sync = vm_sync_new(f.fd);
	vm_noise(f.from.map, 256, 7);
	for (int i = 0; i < 4; i++) {
		vm_copy_job(&jobs[i], &f.code, &f.from, &f.to, 256);
		vm_job_out(&jobs[i], sync, i + 1);
		array[i] = jobs[i].job;
		array[i].error = 99;
	}
	array[2].flags = 1;
	FAILS(vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s), EINVAL);
	EQ(s.queued, 2);
	EQ(array[0].error, 0);
	EQ(array[1].error, 0);
	EQ(array[2].error, -EINVAL);
	EQ(array[3].error, 99);
	OK(!vm_sync_wait(f.fd, sync, 2, VM_WAIT_MS));
	OK(!memcmp(f.from.map, f.to.map, 256));
	FAILS(vm_sync_wait(f.fd, sync, 3, 10), EINVAL);
}

static void fence_fd(void)
{
	struct rlimit limit;
	struct fixture f;
	struct drm_rivulet_submit s = {
		.jobs = (uintptr_t)&f.job.job, .count = 1, .stride = sizeof(f.job.job),
		.flags = DRM_RIVULET_SUBMIT_FENCE_FD,
	};

	open_fixture(&f);
	vm_noise(f.from.map, 256, 8);
	OK(!vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s));
	OK(fcntl(s.fence_fd, F_GETFD) & FD_CLOEXEC);
	EQ(vm_file_result(s.fence_fd), 0);
	OK(!memcmp(f.from.map, f.to.map, 256));
	/* Not ours to use is not ours to get: a refused job, or no number left, gives none. */
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
	s.queued = 77;
	FAILS(vm_ioctl(f.fd, DRM_IOCTL_RIVULET_SUBMIT, &s), EMFILE);
	EQ(s.queued, 0);
	OK(memcmp(f.from.map, f.to.map, 256));
}

const struct vm_test vm_submit_tests[] = {
	{ "submit_fields", "each bad field of job, region, variant and sync has its errno; nothing leaks",
	  bad_fields },
	{ "submit_arrays", "bad counts, strides and pointers are refused before anything is queued",
	  bad_arrays },
	{ "submit_longer", "a longer struct is taken if its unknown tail is zero, else E2BIG", longer_struct },
	{ "submit_partial", "the first refused job stops the array and is named; those before it run",
	  refused_in_the_middle },
	{ "submit_fence_fd", "a sync_file of the last job comes with the call, or nothing is queued",
	  fence_fd },
	{ 0 },
};
