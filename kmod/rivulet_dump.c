// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is left of a job that the device did not finish by itself. Fences wait for the code that
 * finds out, so it only copies, into memory that is there; a worker prints, allocates and tells
 * userspace. The text is described in docs/driver.md.
 */
#include <drm/drm_managed.h>
#include <drm/drm_print.h>
#include <linux/devcoredump.h>
#include <linux/io.h>
#include <linux/kobject.h>
#include <linux/utsname.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "rivulet_dump.h"
#include "rivulet_job.h"

/* A dump has less than 8 KiB. */
#define RVL_DUMP_SIZE	SZ_16K

struct rvl_dump {
	struct rvl_device *rdev;
	struct work_struct work;
	unsigned long events;	/* bit per enum rvl_event, to be sent */

	/* Under rvl_device.lock until @sealed; then the worker's, which clears both at its end. */
	bool taken, sealed;
	const char *reason;
	ktime_t time;		/* of taking */
	s64 age_us;		/* since the job was handed to the device */
	u32 seq, client;
	u64 context, seqno;
	struct rivulet_desc desc;
	struct rivulet_status status;
	u32 reg[RVL_REGS];
};

static const struct {
	const char *name;
	u32 offset;
} rvl_regs[] = {
#define RVL_REG(name, offset, ...) { #name, offset },
	RIVULET_REGS(RVL_REG)
#undef RVL_REG
};

static_assert(ARRAY_SIZE(rvl_regs) == RVL_REGS);

/**
 * rvl_regs_read - all named registers, of tables their first word
 * @rdev: the NPU, powered
 * @value: RVL_REGS words
 */
void rvl_regs_read(struct rvl_device *rdev, u32 *value)
{
	u32 i;

	for (i = 0; i < RVL_REGS; i++)
		value[i] = readl(rdev->win + rvl_regs[i].offset);
}

/**
 * rvl_regs_print - one line for each register
 * @p: where to
 * @value: what rvl_regs_read() read
 */
void rvl_regs_print(struct drm_printer *p, const u32 *value)
{
	u32 i;

	for (i = 0; i < RVL_REGS; i++)
		drm_printf(p, "%03x %s 0x%08x\n", rvl_regs[i].offset, rvl_regs[i].name, value[i]);
}

static void rvl_print_desc(struct drm_printer *p, const struct rivulet_desc *d)
{
	u32 i;

	drm_puts(p, "\n[descriptor]\n");
	drm_printf(p, "flags 0x%x\nmin_level %u\nreport_slot %d\nreport_offset 0x%llx\n",
		   le32_to_cpu(d->flags), le32_to_cpu(d->min_level),
		   (int)le32_to_cpu(d->report_slot), le64_to_cpu(d->report_offset));
	for (i = 0; i < RIVULET_LEVELS; i++) {
		if (d->variant[i].length)
			drm_printf(p, "variant %u slot %u offset 0x%llx length 0x%x\n", i,
				   le32_to_cpu(d->variant[i].slot),
				   le64_to_cpu(d->variant[i].offset),
				   le32_to_cpu(d->variant[i].length));
	}
	for (i = 0; i < RIVULET_SLOTS; i++) {
		if (d->region[i].flags)
			drm_printf(p, "region %u addr 0x%llx limit 0x%llx first 0x%x flags 0x%x\n",
				   i, le64_to_cpu(d->region[i].addr),
				   le64_to_cpu(d->region[i].limit),
				   le32_to_cpu(d->region[i].first),
				   le32_to_cpu(d->region[i].flags));
	}
}

static void rvl_print_status(struct drm_printer *p, const struct rivulet_status *st)
{
	drm_puts(p, "\n[status]\n");
	drm_printf(p, "state %u\nfault %u\nfault_slot %d\nfault_offset 0x%llx\ninsn %u\n",
		   le32_to_cpu(st->state), le32_to_cpu(st->fault),
		   (int)le32_to_cpu(st->fault_slot), le64_to_cpu(st->fault_offset),
		   le32_to_cpu(st->insn));
	drm_printf(p, "level %u\nvariant %u\ncycles %llu\nstart %llu\nend %llu\n",
		   le32_to_cpu(st->level), le32_to_cpu(st->variant), le64_to_cpu(st->cycles),
		   le64_to_cpu(st->start), le64_to_cpu(st->end));
}

static void rvl_print_dump(struct drm_printer *p, const struct rvl_dump *d)
{
	drm_printf(p, "rivulet coredump 1\nreason %s\nmodule %s\nkernel %s\ndevice %s\n",
		   d->reason, RVL_VERSION, init_utsname()->release, d->rdev->info.name);
	drm_printf(p, "time_us %lld\nseq %u\nclient %u\nfence %llu:%llu\nage_us %lld\n",
		   ktime_to_us(d->time), d->seq, d->client, d->context, d->seqno, d->age_us);
	rvl_print_desc(p, &d->desc);
	rvl_print_status(p, &d->status);
	drm_puts(p, "\n[registers]\n");
	rvl_regs_print(p, d->reg);
}

static void rvl_dump_publish(struct rvl_dump *d)
{
	struct drm_print_iterator iter = { .remain = RVL_DUMP_SIZE };
	struct drm_printer p = drm_coredump_printer(&iter);

	iter.data = vzalloc(RVL_DUMP_SIZE);
	if (!iter.data)
		return;
	rvl_print_dump(&p, d);
	dev_coredumpv(d->rdev->drm.dev, iter.data, RVL_DUMP_SIZE - iter.remain, GFP_KERNEL);
}

static void rvl_event_publish(struct rvl_device *rdev, enum rvl_event event)
{
	static const char *const env[][3] = {
		[RVL_EVENT_HANG] = { "RIVULET_EVENT=RESET", "RIVULET_REASON=hang" },
		[RVL_EVENT_FORCED] = { "RIVULET_EVENT=RESET", "RIVULET_REASON=forced" },
		[RVL_EVENT_LOST] = { "RIVULET_EVENT=LOST", "RIVULET_REASON=unresponsive" },
	};

	kobject_uevent_env(&rdev->drm.dev->kobj, KOBJ_CHANGE, (char **)env[event]);
}

static void rvl_dump_work(struct work_struct *work)
{
	struct rvl_dump *d = container_of(work, struct rvl_dump, work);
	unsigned long flags;
	bool sealed;
	u32 i;

	spin_lock_irqsave(&d->rdev->lock, flags);
	sealed = d->sealed;
	spin_unlock_irqrestore(&d->rdev->lock, flags);
	if (sealed) {
		rvl_dump_publish(d);
		spin_lock_irqsave(&d->rdev->lock, flags);
		d->taken = false;
		d->sealed = false;
		spin_unlock_irqrestore(&d->rdev->lock, flags);
	}
	/* A listener finds the dump there. */
	for (i = 0; i < RVL_EVENT_COUNT; i++) {
		if (test_and_clear_bit(i, &d->events))
			rvl_event_publish(d->rdev, i);
	}
}

/**
 * rvl_dump_setup - the memory of a dump, ahead of need
 * @rdev: the NPU
 *
 * Returns 0 or -ENOMEM.
 */
int rvl_dump_setup(struct rvl_device *rdev)
{
	rdev->dump = drmm_kzalloc(&rdev->drm, sizeof(*rdev->dump), GFP_KERNEL);
	if (!rdev->dump)
		return -ENOMEM;
	rdev->dump->rdev = rdev;
	INIT_WORK(&rdev->dump->work, rvl_dump_work);
	return 0;
}

/**
 * rvl_dump_stop - send what there is; nothing is sent any more
 * @rdev: the NPU, whose queue is stopped
 */
void rvl_dump_stop(struct rvl_device *rdev)
{
	flush_work(&rdev->dump->work);
}

/**
 * rvl_dump_take - keep the state of the device and of a job that it has
 * @rdev: the NPU
 * @job: the job
 * @reason: literal
 *
 * Called with rvl_device.lock held; an earlier dump that is not printed yet has precedence.
 */
void rvl_dump_take(struct rvl_device *rdev, struct rvl_job *job, const char *reason)
{
	struct rvl_dump *d = rdev->dump;

	lockdep_assert_held(&rdev->lock);
	if (d->taken)
		return;
	d->taken = true;
	d->reason = reason;
	d->time = ktime_get();
	d->age_us = ktime_us_delta(d->time, job->issued_at);
	d->seq = job->seq;
	d->client = job->client->tag;
	d->context = job->base.s_fence->finished.context;
	d->seqno = job->base.s_fence->finished.seqno;
	d->desc = job->desc;
	rvl_regs_read(rdev, d->reg);
}

/**
 * rvl_dump_seal - a job ends: if it has a dump, add what the device wrote, and publish
 * @rdev: the NPU
 * @job: the job
 *
 * Called with rvl_device.lock held.
 */
void rvl_dump_seal(struct rvl_device *rdev, struct rvl_job *job)
{
	struct rvl_dump *d = rdev->dump;

	lockdep_assert_held(&rdev->lock);
	if (!d->taken || d->sealed || d->seq != job->seq)
		return;
	d->status = job->status;
	d->sealed = true;
	queue_work(system_unbound_wq, &d->work);
}

/**
 * rvl_event_send - tell userspace, soon; may be called in any context
 * @rdev: the NPU
 * @event: what happened
 */
void rvl_event_send(struct rvl_device *rdev, enum rvl_event event)
{
	set_bit(event, &rdev->dump->events);
	queue_work(system_unbound_wq, &rdev->dump->work);
}
