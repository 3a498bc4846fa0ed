// SPDX-License-Identifier: GPL-2.0-only
/*
 * Dumps of jobs that the device did not finish, and uevents. A dump is taken in the
 * fence-signalling path, where no memory can be allocated, so that it is printed into memory that
 * was allocated before. A work publishes the dump and allocates memory for the next one.
 * docs/driver.md describes the text.
 */
#include <linux/devcoredump.h>
#include <linux/utsname.h>

#include "rivulet_device.h"

/* A dump has less than 8 KiB of text. */
#define RVL_DUMP_SIZE	SZ_16K

struct rvl_dump {
	struct rvl_device *rdev;
	struct work_struct work;
	unsigned long events;	/* bit per enum rvl_event that must be sent */

	/* Guarded by rvl_device.lock. While @sealed they belong to the work. */
	bool taken, sealed;
	u32 seq;		/* of the job in it */
	struct drm_print_iterator iter;	/* without data if the allocation failed */
	struct drm_printer p;	/* into @iter, from taking to sealing */
};

static const struct {
	const char *name;
	u32 offset;
} rvl_regs[] = {
#define RVL_REG(name, offset, ...) { #name, offset },
	RIVULET_REGS(RVL_REG)
#undef RVL_REG
};

/* Print each named register, and of each table the first word. The NPU must be awake. */
void rvl_regs_print(struct rvl_device *rdev, struct drm_printer *p)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(rvl_regs); i++)
		drm_printf(p, "%03x %s 0x%08x\n", rvl_regs[i].offset, rvl_regs[i].name,
			   rvl_rd(rdev, rvl_regs[i].offset));
}

static void rvl_print_desc(struct drm_printer *p, const struct rivulet_desc *d)
{
	const struct rivulet_variant *v = d->variant;
	const struct rivulet_region *r = d->region;
	u32 i;

	drm_printf(p, "\n[descriptor]\nmin_level %u\nreport_slot %d\nreport_offset 0x%llx\n",
		   le32_to_cpu(d->min_level), (int)le32_to_cpu(d->report_slot),
		   le64_to_cpu(d->report_offset));
	for (i = 0; i < RIVULET_LEVELS; i++, v++)
		if (v->length)
			drm_printf(p, "variant %u slot %u offset 0x%llx length 0x%x\n", i,
				   le32_to_cpu(v->slot), le64_to_cpu(v->offset),
				   le32_to_cpu(v->length));
	for (i = 0; i < RIVULET_SLOTS; i++, r++)
		if (r->flags)
			drm_printf(p, "region %u addr 0x%llx limit 0x%llx first 0x%x flags 0x%x\n",
				   i, le64_to_cpu(r->addr), le64_to_cpu(r->limit),
				   le32_to_cpu(r->first), le32_to_cpu(r->flags));
}

static void rvl_dump_publish(struct rvl_dump *d)
{
	void *next = vmalloc(RVL_DUMP_SIZE);

	if (d->iter.data)
		dev_coredumpv(d->rdev->drm.dev, d->iter.data, RVL_DUMP_SIZE - d->iter.remain,
			      GFP_KERNEL);
	guard(rvl_lock)(d->rdev);
	d->iter = (struct drm_print_iterator){ .data = next };
	d->taken = false;
	d->sealed = false;
}

static void rvl_dump_work(struct work_struct *work)
{
	static const char *const env[RVL_EVENT_COUNT][3] = {
		[RVL_EVENT_HANG] = { "RIVULET_EVENT=RESET", "RIVULET_REASON=hang" },
		[RVL_EVENT_FORCED] = { "RIVULET_EVENT=RESET", "RIVULET_REASON=forced" },
		[RVL_EVENT_LOST] = { "RIVULET_EVENT=LOST", "RIVULET_REASON=unresponsive" },
	};
	struct rvl_dump *d = container_of(work, struct rvl_dump, work);
	u32 i;

	/*
	 * The dump is published before the event is sent, because a listener to the event reads it.
	 */
	if (READ_ONCE(d->sealed))
		rvl_dump_publish(d);
	for (i = 0; i < RVL_EVENT_COUNT; i++)
		if (test_and_clear_bit(i, &d->events))
			kobject_uevent_env(&d->rdev->drm.dev->kobj, KOBJ_CHANGE, (char **)env[i]);
}

static void rvl_dump_release(struct drm_device *drm, void *arg)
{
	struct rvl_dump *d = arg;

	cancel_work_sync(&d->work);
	vfree(d->iter.data);
}

/* Allocate the memory of the first dump; freed with the device. Returns 0 or -ENOMEM. */
int rvl_dump_setup(struct rvl_device *rdev)
{
	struct rvl_dump *d = drmm_kzalloc(&rdev->drm, sizeof(*d), GFP_KERNEL);

	if (!d)
		return -ENOMEM;
	d->rdev = rdev;
	d->iter.data = vmalloc(RVL_DUMP_SIZE);
	INIT_WORK(&d->work, rvl_dump_work);
	rdev->dump = d;
	return drmm_add_action_or_reset(&rdev->drm, rvl_dump_release, d);
}

/*
 * Record the state of device and job, unless another dump is being taken. rvl_dump_seal() must
 * follow when the job ends. Called with rvl_device.lock held.
 */
void rvl_dump_take(struct rvl_device *rdev, struct rvl_job *job, const char *reason)
{
	const struct dma_fence *fence = &job->base.s_fence->finished;
	struct rvl_dump *d = rdev->dump;
	struct drm_printer *p = &d->p;
	ktime_t now = ktime_get();

	if (d->taken)
		return;
	d->taken = true;
	d->seq = job->seq;
	d->iter.remain = RVL_DUMP_SIZE;
	*p = drm_coredump_printer(&d->iter);
	drm_printf(p, "rivulet coredump 1\nreason %s\nmodule %s\nkernel %s\ndevice %s\n", reason,
		   RVL_VERSION, init_utsname()->release, rdev->info.name);
	drm_printf(p, "time_us %lld\nage_us %lld\nseq %u\nclient %u\nfence %llu:%llu\n",
		   ktime_to_us(now), ktime_us_delta(now, job->issued_at), job->seq,
		   job->client->tag, fence->context, fence->seqno);
	rvl_print_desc(p, &job->desc);
	drm_puts(p, "\n[registers]\n");
	rvl_regs_print(rdev, p);
}

/*
 * A job ends with @error. If the job has a dump, the status completes it and it is published. The
 * dump is discarded if the job succeeded. Called with rvl_device.lock held.
 */
void rvl_dump_seal(struct rvl_device *rdev, struct rvl_job *job, int error)
{
	const struct rivulet_status *st = &job->status;
	struct rvl_dump *d = rdev->dump;
	struct drm_printer *p = &d->p;

	if (!d->taken || d->sealed || d->seq != job->seq)
		return;
	if (!error) {
		d->taken = false;
		return;
	}
	drm_printf(p, "\n[status]\nstate %u\nfault %u\nfault_slot %d\nfault_offset 0x%llx\n",
		   le32_to_cpu(st->state), le32_to_cpu(st->fault),
		   (int)le32_to_cpu(st->fault_slot), le64_to_cpu(st->fault_offset));
	drm_printf(p, "insn %u\nlevel %u\nvariant %u\ncycles %llu\nstart %llu\nend %llu\n",
		   le32_to_cpu(st->insn), le32_to_cpu(st->level), le32_to_cpu(st->variant),
		   le64_to_cpu(st->cycles), le64_to_cpu(st->start), le64_to_cpu(st->end));
	d->sealed = true;
	queue_work(system_unbound_wq, &d->work);
}

/* Have the work send a uevent. May be called in any context. */
void rvl_event_send(struct rvl_device *rdev, enum rvl_event event)
{
	set_bit(event, &rdev->dump->events);
	queue_work(system_unbound_wq, &rdev->dump->work);
}
