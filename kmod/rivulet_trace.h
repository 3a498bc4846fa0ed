/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Trace events of a job. "fence" is context:seqno of the scheduler's finished fence, as in the
 * events of gpu_scheduler. Fields that are not known yet are zero.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rivulet

#if !defined(RIVULET_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RIVULET_TRACE_H

#include <linux/tracepoint.h>

#include "rivulet_device.h"

DECLARE_EVENT_CLASS(rivulet_job,
	TP_PROTO(struct rvl_job *job, u32 level, int error),
	TP_ARGS(job, level, error),
	TP_STRUCT__entry(
		__string(dev, dev_name(job->rdev->drm.dev))
		__field(u64, context)
		__field(u64, seqno)
		__field(u64, cycles)
		__field(u64, offset)
		__field(u32, client)
		__field(u32, seq)
		__field(u32, level)
		__field(u32, variant)
		__field(u32, fault)
		__field(u32, slot)
		__field(u32, insn)
		__field(int, error)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->context = job->base.s_fence->finished.context;
		__entry->seqno = job->base.s_fence->finished.seqno;
		__entry->cycles = le64_to_cpu(job->status.cycles);
		__entry->offset = le64_to_cpu(job->status.fault_offset);
		__entry->client = job->client->tag;
		__entry->seq = job->seq;
		__entry->level = level;
		__entry->variant = le32_to_cpu(job->status.variant);
		__entry->fault = le32_to_cpu(job->status.fault);
		__entry->slot = le32_to_cpu(job->status.fault_slot);
		__entry->insn = le32_to_cpu(job->status.insn);
		__entry->error = error;
	),
	TP_printk("dev=%s fence=%llu:%llu client=%u seq=%u level=%u variant=%u cycles=%llu error=%d",
		  __get_str(dev), __entry->context, __entry->seqno, __entry->client,
		  __entry->seq, __entry->level, __entry->variant, __entry->cycles, __entry->error)
);

/* @level: the job's min_level */
DEFINE_EVENT(rivulet_job, rivulet_job_submit,
	     TP_PROTO(struct rvl_job *job, u32 level, int error), TP_ARGS(job, level, error));

/* @level: in force when the job is issued */
DEFINE_EVENT(rivulet_job, rivulet_job_start,
	     TP_PROTO(struct rvl_job *job, u32 level, int error), TP_ARGS(job, level, error));

/* @level: at which the job ran */
DEFINE_EVENT(rivulet_job, rivulet_job_done,
	     TP_PROTO(struct rvl_job *job, u32 level, int error), TP_ARGS(job, level, error));

DEFINE_EVENT_PRINT(rivulet_job, rivulet_job_fault,
		   TP_PROTO(struct rvl_job *job, u32 level, int error), TP_ARGS(job, level, error),
		   TP_printk("dev=%s fence=%llu:%llu client=%u seq=%u level=%u fault=%u slot=%d offset=0x%llx insn=%u",
			     __get_str(dev), __entry->context, __entry->seqno, __entry->client,
			     __entry->seq, __entry->level, __entry->fault, (int)__entry->slot,
			     __entry->offset, __entry->insn));

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE rivulet_trace
#include <trace/define_trace.h>
