// SPDX-License-Identifier: GPL-2.0-only
/*
 * Register access. Each word of the window has one writer and no side effect (docs/device.md). A
 * queue slot or a request is complete when its sequence word is written, which is written last.
 * The doorbell tells the device to look.
 */
#include <linux/crc32c.h>
#include <linux/iopoll.h>

#include "rivulet_device.h"

#define IVSHMEM_DOORBELL	12

/* Limits for an acknowledge. An ABORT drains the job's DMA; a RESET ends everything that runs. */
#define RVL_ABORT_MS		2000
#define RVL_RESET_MS		5000
/* The device keeps COUNT_SEQ odd for some microseconds while it writes the counters. */
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
	u32 i;

	for (i = 0; i < count; i++)
		to[i] = rvl_rd(rdev, reg + 4 * i);
}

/*
 * On ivshmem the doorbell is a register of QEMU. Elsewhere it is a word that the device polls for a
 * change, so that two concurrent rings must write two different values.
 */
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

/* Is this a Rivulet NPU of a known major version? Writes nothing. Returns 0 or -ENODEV. */
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

/* The frequencies must rise, because each level becomes one operating point. */
static int rvl_read_levels(struct rvl_device *rdev)
{
	struct drm_rivulet_device *d = &rdev->info;
	u64 before = 0;
	u32 i;

	d->level_count = rvl_rd(rdev, RIVULET_REG_LEVEL_COUNT);
	if (!d->level_count || d->level_count > RIVULET_LEVELS) {
		drm_err(&rdev->drm, "device reports %u levels, 1 to %u are possible\n",
			d->level_count, RIVULET_LEVELS);
		return -EPROTO;
	}
	for (i = 0; i < d->level_count; i++) {
		rvl_read_level(rdev, i);
		if (d->level[i].hz <= before || d->level[i].hz > ULONG_MAX) {
			drm_err(&rdev->drm, "level %u: %llu Hz is out of order\n", i,
				d->level[i].hz);
			return -EPROTO;
		}
		before = d->level[i].hz;
	}
	return 0;
}

static u32 rvl_device_flags(u32 flags)
{
	u32 out = 0;

	if (flags & RIVULET_FLAG_REAL)
		out |= DRM_RIVULET_DEVICE_PACED;
	if (flags & RIVULET_FLAG_SENSOR)
		out |= DRM_RIVULET_DEVICE_SENSOR;
	return out;
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

/* Read geometry, levels and name. Returns 0, or -EPROTO when they break the specification. */
int rvl_hw_read_info(struct rvl_device *rdev)
{
	struct drm_rivulet_device *d = &rdev->info;

	d->dev_version = rvl_rd(rdev, RIVULET_REG_VERSION);
	d->isa_version = rvl_rd(rdev, RIVULET_REG_ISA_VERSION);
	d->cycle_cap = rvl_rd(rdev, RIVULET_REG_CYCLE_CAP);
	d->flags = rvl_device_flags(rvl_rd(rdev, RIVULET_REG_FLAGS));
	/* Both structures have these words in the same order. */
	BUILD_BUG_ON(offsetof(typeof(*d), modes) - offsetof(typeof(*d), tm) !=
		     RIVULET_REG_MODES - RIVULET_REG_TM);
	rvl_rd_words(rdev, RIVULET_REG_TM, &d->tm, (RIVULET_REG_MODES - RIVULET_REG_TM) / 4 + 1);
	BUILD_BUG_ON(offsetof(typeof(*d), alu_lanes) - offsetof(typeof(*d), burst_bytes) !=
		     RIVULET_REG_ALU_LANES - RIVULET_REG_BURST_BYTES);
	rvl_rd_words(rdev, RIVULET_REG_BURST_BYTES, &d->burst_bytes,
		     (RIVULET_REG_ALU_LANES - RIVULET_REG_BURST_BYTES) / 4 + 1);
	rvl_read_stream(rdev);
	/* A bus bridge may not support the wide accesses of memcpy_fromio(). */
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
#define RVL_SAME_COUNTER(name, ...)						\
	{									\
		static_assert(offsetof(struct rivulet_counters, name) ==	\
			      offsetof(struct drm_rivulet_counters, name));	\
	}
#define RVL_SAME_FAULT(name, ...)						\
	{									\
		static_assert((int)RIVULET_FAULT_##name ==			\
			      (int)DRM_RIVULET_FAULT_##name);			\
	}
#define RVL_SAME_STATUS(name)							\
	static_assert(offsetof(struct rivulet_status, name) ==			\
		      offsetof(struct drm_rivulet_report, name))

static void __maybe_unused rvl_check_layouts(void)
{
	RIVULET_COUNTERS(RVL_SAME_COUNTER)
	RIVULET_FAULTS(RVL_SAME_FAULT)
	RVL_SAME_STATUS(fault_offset);
	RVL_SAME_STATUS(variant);
	RVL_SAME_STATUS(cycles);
	RVL_SAME_STATUS(energy);
	RVL_SAME_STATUS(macs);
	RVL_SAME_STATUS(crc);
	static_assert(sizeof(struct rivulet_status) == sizeof(struct drm_rivulet_report));
	static_assert((int)RIVULET_STATE_NO_VARIANT == (int)DRM_RIVULET_STATE_NO_VARIANT);
}

/* Read a consistent set of counters. Returns 0, or -EIO if the device never stops writing them. */
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

/* The level in force. A device that reports more is taken to be at its highest level. */
u32 rvl_hw_level(struct rvl_device *rdev)
{
	return min(rvl_rd(rdev, RIVULET_REG_LEVEL_CUR), rdev->info.level_count - 1);
}

/* Was the device removed? Its window then reads all ones. */
bool rvl_hw_gone(struct rvl_device *rdev)
{
	return rvl_rd(rdev, RIVULET_REG_MAGIC) == ~0u;
}

/* The seq that was retired last. What the device wrote before is visible afterwards. */
u32 rvl_hw_done(struct rvl_device *rdev)
{
	u32 done = rvl_rd(rdev, RIVULET_REG_DONE_SEQ);

	dma_rmb();
	return done;
}

/*
 * Put a job into its queue slot, seq & 1, which must be free, and ring the doorbell. seq, status
 * and crc of @desc are set in the copy that the device reads. Called with rdev->lock held;
 * allocates nothing.
 */
void rvl_hw_issue(struct rvl_device *rdev, u32 seq, const struct rivulet_desc *desc)
{
	u32 regs = seq & 1 ? RIVULET_REG_SLOT1_ADDR_LO : RIVULET_REG_SLOT0_ADDR_LO;
	dma_addr_t dma = rdev->mem_dma + (seq & 1) * sizeof(struct rvl_slot_mem);
	struct rvl_slot_mem *mem = &rdev->mem[seq & 1];

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
 * Did the device retire a job before it was reset? The RESET changed DONE_SEQ. The status was
 * zeroed when the job was issued, so that a valid one is the job's.
 */
bool rvl_hw_retired(struct rvl_device *rdev, u32 seq)
{
	struct rivulet_status st = rdev->mem[seq & 1].status;

	return rvl_status_valid(&st, seq) && le32_to_cpu(st.state) != RIVULET_STATE_NONE;
}

/*
 * Read the status of a retired job. @st: what the device wrote, or zero if that is not valid. @ns:
 * how long the job ran. A status that is another job's or fails its checksum is a fault of the
 * device. Called with rdev->lock held. Returns the job's error.
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

/* Is the queue frozen by this entry? The answer is valid after the entry has retired. */
bool rvl_hw_frozen_at(struct rvl_device *rdev, u32 seq)
{
	return rvl_rd(rdev, RIVULET_REG_FROZEN) && rvl_rd(rdev, RIVULET_REG_FROZEN_SEQ) == seq;
}

/* Make a request, whose values were written before. Returns its number. */
static u32 rvl_request(struct rvl_device *rdev, u32 reg)
{
	u32 number = rvl_rd(rdev, reg) + 1;

	rvl_wr(rdev, reg, number);
	rvl_ring(rdev);
	return number;
}

/* Unfreeze the queue after the fault or abort of @seq. The acknowledge is not waited for. */
void rvl_hw_resume(struct rvl_device *rdev, u32 seq)
{
	rvl_wr(rdev, RIVULET_REG_RESUME_SEQ, seq);
	rvl_request(rdev, RIVULET_REG_RESUME_REQ);
}

static int rvl_wait_ack(struct rvl_device *rdev, u32 reg, u32 number, unsigned int ms)
{
	u32 ack;
	int ret;

	/*
	 * A thread that slept too long reads the register once more before it returns -ETIMEDOUT.
	 */
	ret = read_poll_timeout(rvl_rd, ack, ack == number || rvl_hw_gone(rdev), 200,
				ms * USEC_PER_MSEC, false, rdev, reg);
	if (ret)
		return ret;
	if (ack != number)
		return -ENODEV;
	/* What the device wrote before the acknowledge is visible from here on. */
	dma_rmb();
	return 0;
}

/*
 * Make a request and wait until it is served. Returns 0, -ETIMEDOUT when the device does not
 * answer, or -ENODEV when it is gone; so do the functions below that wait. May sleep.
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

/*
 * End everything that runs and empty the queue. DONE_SEQ becomes @base; the next job has base + 1.
 */
int rvl_hw_reset(struct rvl_device *rdev, u32 base)
{
	/* A slot may hold an old job whose seq is base + 1, which the device would take. */
	rvl_wr(rdev, RIVULET_REG_SLOT0_SEQ, base);
	rvl_wr(rdev, RIVULET_REG_SLOT1_SEQ, base);
	rvl_wr(rdev, RIVULET_REG_RESET_BASE, base);
	return rvl_request_wait(rdev, RIVULET_REG_RESET_REQ, RIVULET_REG_RESET_ACK, RVL_RESET_MS);
}

/*
 * Make the device promote no job, and wait until the running one has ended. A RESET does not end
 * the hold. rvl_hw_release() ends it, and must follow a failure as well. Returns as
 * rvl_request_wait().
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
 * Request a V/F level. The device changes to it between two jobs, and not while a queued job has a
 * higher minimum. Called with rdev->lock held. Returns the number of the request.
 */
u32 rvl_hw_set_level(struct rvl_device *rdev, u32 level)
{
	lockdep_assert_held(&rdev->lock);
	rvl_wr(rdev, RIVULET_REG_LEVEL_VALUE, level);
	return rvl_request(rdev, RIVULET_REG_LEVEL_REQ);
}

/* Wait until the level of a request is in force. The device must have no running job. */
int rvl_hw_wait_level(struct rvl_device *rdev, u32 request, unsigned int ms)
{
	return rvl_wait_ack(rdev, RIVULET_REG_LEVEL_ACK, request, ms);
}

/* Enable or disable the interrupts of the device. */
void rvl_hw_irq_enable(struct rvl_device *rdev, bool on)
{
	rvl_wr(rdev, RIVULET_REG_IRQ_ENABLE, on);
	rvl_ring(rdev);
}
