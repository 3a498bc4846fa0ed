// SPDX-License-Identifier: GPL-2.0-only
/*
 * Register access. The window is words of memory with one writer each (docs/device.md): a slot
 * or request is complete when its sequence word, written last, is, and the doorbell says "look".
 */
#include <linux/crc32c.h>
#include <linux/iopoll.h>

#include "rivulet_device.h"

#define IVSHMEM_DOORBELL	12

/* An ABORT waits for DMA in flight and a RESET for whatever runs; beyond this the device hangs. */
#define RVL_ABORT_MS		2000
#define RVL_RESET_MS		5000
/* A writer holds COUNT_SEQ odd for some microseconds. */
#define RVL_COUNT_TRIES		100

static void rvl_wr(struct rvl_device *rdev, u32 reg, u32 value)
{
	writel(value, rdev->win + reg);
}

static u64 rvl_rd64(struct rvl_device *rdev, u32 reg)
{
	return rvl_rd(rdev, reg) | (u64)rvl_rd(rdev, reg + 4) << 32;
}

static void rvl_rd_words(struct rvl_device *rdev, u32 reg, u32 *to, u32 count)
{
	for (; count; count--, reg += 4)
		*to++ = rvl_rd(rdev, reg);
}

/* On ivshmem a register of QEMU's, else a word that must change, with two rings at once too. */
static void rvl_ring(struct rvl_device *rdev)
{
	u32 peer = rvl_rd(rdev, RIVULET_REG_DOORBELL_PEER);

	if (rdev->bell && peer != RIVULET_NO_PEER)
		writel(peer, rdev->bell + IVSHMEM_DOORBELL);
	else
		rvl_wr(rdev, RIVULET_REG_DOORBELL, atomic_inc_return(&rdev->rings));
}

static u32 rvl_crc(const void *data, size_t len)
{
	return ~crc32c(~0u, data, len);
}

/* Is this our device? Touches nothing. -ENODEV for anything else and for other major versions. */
int rvl_hw_identify(void __iomem *win, size_t size)
{
	__le32 head[3];

	if (size < RIVULET_WINDOW_SIZE)
		return -ENODEV;
	__ioread32_copy(head, win, ARRAY_SIZE(head));
	if (le32_to_cpu(head[0]) != RIVULET_MAGIC ||
	    le32_to_cpu(head[1]) >> 16 != RIVULET_DEV_VERSION >> 16 ||
	    le32_to_cpu(head[2]) != RIVULET_WINDOW_SIZE ||
	    readl(win + RIVULET_REG_ID_CRC) != rvl_crc(head, sizeof(head)))
		return -ENODEV;
	return 0;
}

static void rvl_read_level(struct rvl_device *rdev, u32 index)
{
	u32 at = RIVULET_REG_LEVEL_TABLE + index * sizeof(struct rivulet_level);
	struct drm_rivulet_level *l = &rdev->info.level[index];

	l->hz = rvl_rd64(rdev, at + offsetof(struct rivulet_level, hz_lo));
	l->microvolt = rvl_rd(rdev, at + offsetof(struct rivulet_level, microvolt));
	l->fj_per_mac = rvl_rd(rdev, at + offsetof(struct rivulet_level, fj_per_mac));
	l->fj_per_byte = rvl_rd(rdev, at + offsetof(struct rivulet_level, fj_per_byte));
	l->static_uw = rvl_rd(rdev, at + offsetof(struct rivulet_level, static_uw));
}

/* Every level is an operating point of its own, so frequencies must rise. */
static int rvl_read_levels(struct rvl_device *rdev)
{
	struct drm_rivulet_device *d = &rdev->info;
	u32 i;

	d->level_count = rvl_rd(rdev, RIVULET_REG_LEVEL_COUNT);
	if (!d->level_count || d->level_count > RIVULET_LEVELS) {
		drm_err(&rdev->drm, "device reports %u levels, 1 to %u are possible\n",
			d->level_count, RIVULET_LEVELS);
		return -EPROTO;
	}
	for (i = 0; i < d->level_count; i++) {
		rvl_read_level(rdev, i);
		if (d->level[i].hz <= (i ? d->level[i - 1].hz : 0) ||
		    d->level[i].hz > ULONG_MAX) {
			drm_err(&rdev->drm, "level %u: %llu Hz is out of order\n", i,
				d->level[i].hz);
			return -EPROTO;
		}
	}
	return 0;
}

static u32 rvl_device_flags(u32 flags)
{
	return (flags & RIVULET_FLAG_REAL ? DRM_RIVULET_DEVICE_PACED : 0) |
	       (flags & RIVULET_FLAG_SENSOR ? DRM_RIVULET_DEVICE_SENSOR : 0);
}

/* STREAM: lanes, blocks, then millicycles and femtojoule of each circuit. */
static void rvl_read_stream(struct rvl_device *rdev)
{
	struct drm_rivulet_device *d = &rdev->info;

	d->sc_lanes = rvl_rd(rdev, RIVULET_REG_STREAM);
	d->sc_blocks = rvl_rd(rdev, RIVULET_REG_STREAM + 4);
	BUILD_BUG_ON(sizeof(d->circuit) != 4 * (RIVULET_STREAM_WORDS - 2));
	rvl_rd_words(rdev, RIVULET_REG_STREAM + 8, &d->circuit[0].millicycles,
		     RIVULET_STREAM_WORDS - 2);
}

/* Read geometry, levels and name. 0, or -EPROTO when the device contradicts its specification. */
int rvl_hw_read_info(struct rvl_device *rdev)
{
	struct drm_rivulet_device *d = &rdev->info;

	d->dev_version = rvl_rd(rdev, RIVULET_REG_VERSION);
	d->isa_version = rvl_rd(rdev, RIVULET_REG_ISA_VERSION);
	d->cycle_cap = rvl_rd(rdev, RIVULET_REG_CYCLE_CAP);
	d->flags = rvl_device_flags(rvl_rd(rdev, RIVULET_REG_FLAGS));
	/* In both from here to there in the same order. */
	BUILD_BUG_ON(offsetof(typeof(*d), modes) - offsetof(typeof(*d), tm) !=
		     RIVULET_REG_MODES - RIVULET_REG_TM);
	rvl_rd_words(rdev, RIVULET_REG_TM, &d->tm, (RIVULET_REG_MODES - RIVULET_REG_TM) / 4 + 1);
	rvl_read_stream(rdev);
	/* Word by word: a bridge may not take the wider accesses of memcpy_fromio(). */
	__ioread32_copy(d->name, rdev->win + RIVULET_REG_NAME, sizeof(d->name) / 4);
	d->name[sizeof(d->name) - 1] = '\0';
	atomic_set(&rdev->rings, rvl_rd(rdev, RIVULET_REG_DOORBELL));
	return rvl_read_levels(rdev);
}

/* Width of the bus addresses that the device drives, as it reports it: not checked here. */
u32 rvl_hw_dma_bits(struct rvl_device *rdev)
{
	return rvl_rd(rdev, RIVULET_REG_DMA_BITS);
}

/* The uapi header has the device's layouts of counters, status and numbers under its own names. */
#define RVL_ASSERT_COUNTER(name, unit, doc)					\
	static_assert(offsetof(struct rivulet_counters, name) ==		\
		      offsetof(struct drm_rivulet_counters, name));
RIVULET_COUNTERS(RVL_ASSERT_COUNTER)
#define RVL_ASSERT_FAULT(name, value, slot, doc)				\
	static_assert((int)RIVULET_FAULT_##name == (int)DRM_RIVULET_FAULT_##name);
RIVULET_FAULTS(RVL_ASSERT_FAULT)
#define RVL_ASSERT_REPORT(name)							\
	static_assert(offsetof(struct rivulet_status, name) ==			\
		      offsetof(struct drm_rivulet_report, name))
RVL_ASSERT_REPORT(fault_offset);
RVL_ASSERT_REPORT(variant);
RVL_ASSERT_REPORT(cycles);
RVL_ASSERT_REPORT(energy);
RVL_ASSERT_REPORT(macs);
RVL_ASSERT_REPORT(crc);
static_assert(sizeof(struct rivulet_status) == sizeof(struct drm_rivulet_report));
static_assert((int)RIVULET_STATE_NO_VARIANT == (int)DRM_RIVULET_STATE_NO_VARIANT);

/* A consistent set of the device's counters. 0, or -EIO when it never leaves them in peace. */
int rvl_hw_read_counters(struct rvl_device *rdev, struct drm_rivulet_counters *out)
{
	u32 before, tries, i;
	u64 *value = &out->jobs;

	for (tries = 0; tries < RVL_COUNT_TRIES; tries++) {
		before = rvl_rd(rdev, RIVULET_REG_COUNT_SEQ);
		if (!(before & 1)) {
			for (i = 0; i < sizeof(struct rivulet_counters) / 8; i++)
				value[i] = rvl_rd64(rdev, RIVULET_REG_COUNTERS + 8 * i);
			out->resets = rvl_rd(rdev, RIVULET_REG_EPOCH);
			if (rvl_rd(rdev, RIVULET_REG_COUNT_SEQ) == before)
				return 0;
		}
		usleep_range(10, 50);
	}
	return -EIO;
}

/* Level in force, always below the number of levels. */
u32 rvl_hw_level(struct rvl_device *rdev)
{
	return min(rvl_rd(rdev, RIVULET_REG_LEVEL_CUR), rdev->info.level_count - 1);
}

/* Was the device pulled? Its window then reads all ones. */
bool rvl_hw_gone(struct rvl_device *rdev)
{
	return rvl_rd(rdev, RIVULET_REG_MAGIC) == ~0u;
}

/* Last retired seq; what the device wrote before it is visible after this. */
u32 rvl_hw_done(struct rvl_device *rdev)
{
	u32 done = rvl_rd(rdev, RIVULET_REG_DONE_SEQ);

	dma_rmb();
	return done;
}

/*
 * Put a job into its queue slot, seq & 1, which must be free, and ring. @desc: all but seq, status
 * and crc, set in the copy that the device reads. Called with rdev->lock held; allocates nothing.
 */
void rvl_hw_issue(struct rvl_device *rdev, u32 seq, const struct rivulet_desc *desc)
{
	u32 n = seq & 1, regs = n ? RIVULET_REG_SLOT1_ADDR_LO : RIVULET_REG_SLOT0_ADDR_LO;
	dma_addr_t dma = rdev->mem_dma + n * sizeof(struct rvl_slot_mem);
	struct rvl_slot_mem *mem = &rdev->mem[n];

	memset(&mem->status, 0, sizeof(mem->status));
	mem->desc = *desc;
	mem->desc.seq = cpu_to_le32(seq);
	mem->desc.status = cpu_to_le64(dma + offsetof(struct rvl_slot_mem, status));
	mem->desc.crc = cpu_to_le32(rvl_crc(&mem->desc, offsetof(struct rivulet_desc, crc)));
	dma_wmb();
	rvl_wr(rdev, regs, lower_32_bits(dma));
	rvl_wr(rdev, regs + 4, upper_32_bits(dma));
	rvl_wr(rdev, regs + 8, seq);
	rvl_ring(rdev);
}

static int rvl_state_error(u32 state)
{
	switch (state) {
	case RIVULET_STATE_DONE:
		return 0;
	case RIVULET_STATE_ABORTED:
		return -ECANCELED;
	case RIVULET_STATE_NO_VARIANT:
		return -ENOEXEC;
	default:
		return -EIO;
	}
}

static bool rvl_status_valid(const struct rivulet_status *st, u32 seq)
{
	return le32_to_cpu(st->seq) == seq &&
	       le32_to_cpu(st->crc) == rvl_crc(st, offsetof(struct rivulet_status, crc));
}

/*
 * Did the device retire a job before it was reset? Of a reset that was acknowledged, DONE_SEQ says
 * nothing any more, but a status does: it was zeroed when the job was issued.
 */
bool rvl_hw_retired(struct rvl_device *rdev, u32 seq)
{
	struct rivulet_status st = rdev->mem[seq & 1].status;

	return rvl_status_valid(&st, seq) && le32_to_cpu(st.state) != RIVULET_STATE_NONE;
}

/*
 * Read the status of a retired job. @st: what the device wrote; zero if that is not to be
 * believed. @ns: how long it ran. The device is not trusted more than a wire: a status that is not
 * the job's or fails its checksum is the device's fault. Called with rdev->lock held. Returns the
 * job's error.
 */
int rvl_hw_outcome(struct rvl_device *rdev, u32 seq, struct rivulet_status *st, u64 *ns)
{
	*st = rdev->mem[seq & 1].status;
	if (!rvl_status_valid(st, seq)) {
		memset(st, 0, sizeof(*st));
		drm_err_ratelimited(&rdev->drm, "job %u: no valid status (frozen %u, fault %u)\n",
				    seq, rvl_rd(rdev, RIVULET_REG_FROZEN),
				    rvl_rd(rdev, RIVULET_REG_FROZEN_FAULT));
	}
	*ns = max_t(s64, le64_to_cpu(st->end) - le64_to_cpu(st->start), 0);
	return rvl_state_error(le32_to_cpu(st->state));
}

/* Does the queue stand still at this entry? Meaningful after DONE_SEQ was seen to pass it. */
bool rvl_hw_frozen_at(struct rvl_device *rdev, u32 seq)
{
	return rvl_rd(rdev, RIVULET_REG_FROZEN) && rvl_rd(rdev, RIVULET_REG_FROZEN_SEQ) == seq;
}

/* The next number of a request pair; what it is about was written before. */
static u32 rvl_request(struct rvl_device *rdev, u32 reg)
{
	u32 number = rvl_rd(rdev, reg) + 1;

	rvl_wr(rdev, reg, number);
	rvl_ring(rdev);
	return number;
}

/* Let the queue go on after the fault of @seq; not waited for. */
void rvl_hw_resume(struct rvl_device *rdev, u32 seq)
{
	rvl_wr(rdev, RIVULET_REG_RESUME_SEQ, seq);
	rvl_request(rdev, RIVULET_REG_RESUME_REQ);
}

static int rvl_wait_ack(struct rvl_device *rdev, u32 reg, u32 number, unsigned int ms)
{
	u32 ack;
	/* It looks once more after the time is over, however late we are to notice. */
	int ret = read_poll_timeout(rvl_rd, ack, ack == number || rvl_hw_gone(rdev), 200,
				    ms * USEC_PER_MSEC, false, rdev, reg);

	if (ret || ack != number)
		return ret ?: -ENODEV;
	/* What the device did before it acknowledged is visible from here on. */
	dma_rmb();
	return 0;
}

/*
 * A request whose matter was written before, until it is served. Returns 0, -ETIMEDOUT when the
 * device does not answer, -ENODEV when it is gone; so do those that follow. May sleep.
 */
static int rvl_request_wait(struct rvl_device *rdev, u32 req, u32 ack, unsigned int ms)
{
	lockdep_assert_held(&rdev->request_lock);
	return rvl_wait_ack(rdev, ack, rvl_request(rdev, req), ms);
}

/* Take one entry out of the queue and wait until its DMA has drained. */
int rvl_hw_abort(struct rvl_device *rdev, u32 seq)
{
	rvl_wr(rdev, RIVULET_REG_ABORT_SEQ, seq);
	return rvl_request_wait(rdev, RIVULET_REG_ABORT_REQ, RIVULET_REG_ABORT_ACK, RVL_ABORT_MS);
}

/* Stop the device, forget its queue; DONE_SEQ becomes @base, the next job has base + 1. */
int rvl_hw_reset(struct rvl_device *rdev, u32 base)
{
	/* No seq but the next one may stand in a slot when the device starts to look again. */
	rvl_wr(rdev, RIVULET_REG_SLOT0_SEQ, base);
	rvl_wr(rdev, RIVULET_REG_SLOT1_SEQ, base);
	rvl_wr(rdev, RIVULET_REG_RESET_BASE, base);
	return rvl_request_wait(rdev, RIVULET_REG_RESET_REQ, RIVULET_REG_RESET_ACK, RVL_RESET_MS);
}

/*
 * Have the device promote no job, and wait until the running one has ended. A RESET does not end
 * the hold; rvl_hw_release() does, also after this failed. Returns as rvl_request_wait().
 */
int rvl_hw_hold(struct rvl_device *rdev, unsigned int ms)
{
	rvl_wr(rdev, RIVULET_REG_HOLD_VALUE, 1);
	return rvl_request_wait(rdev, RIVULET_REG_HOLD_REQ, RIVULET_REG_HOLD_ACK, ms);
}

/*
 * End a hold. The acknowledge is not waited for: the device serves HOLD before it promotes a job,
 * so a job that is issued afterwards runs.
 */
void rvl_hw_release(struct rvl_device *rdev)
{
	lockdep_assert_held(&rdev->request_lock);
	if (!rvl_rd(rdev, RIVULET_REG_HELD) && !rvl_rd(rdev, RIVULET_REG_HOLD_VALUE))
		return;
	rvl_wr(rdev, RIVULET_REG_HOLD_VALUE, 0);
	rvl_request(rdev, RIVULET_REG_HOLD_REQ);
}

/*
 * Ask for a V/F level, which the device takes at a job boundary, and not while a queued job could
 * not run at it. Called with rdev->lock held. Returns the number of the request.
 */
u32 rvl_hw_set_level(struct rvl_device *rdev, u32 level)
{
	lockdep_assert_held(&rdev->lock);
	rvl_wr(rdev, RIVULET_REG_LEVEL_VALUE, level);
	return rvl_request(rdev, RIVULET_REG_LEVEL_REQ);
}

/* Wait until the level of a request is in force, of a device that has no jobs. */
int rvl_hw_wait_level(struct rvl_device *rdev, u32 request, unsigned int ms)
{
	return rvl_wait_ack(rdev, RIVULET_REG_LEVEL_ACK, request, ms);
}

/* Interrupts wanted, or not. */
void rvl_hw_irq_enable(struct rvl_device *rdev, bool on)
{
	rvl_wr(rdev, RIVULET_REG_IRQ_ENABLE, on);
	rvl_ring(rdev);
}
