/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * The Rivulet NPU as driver and device model see it: register window, job descriptor, status, fault
 * codes. docs/device.md is the specification. Its tables and the names that model, driver and tools
 * print are generated from the X-macros here.
 */
#ifndef RIVULET_DEV_H
#define RIVULET_DEV_H

#include <linux/types.h>

#define RIVULET_MAGIC		0x544c5652u	/* "RVLT", little endian */
#define RIVULET_DEV_VERSION	0x00010002u	/* major << 16 | minor */
#define RIVULET_WINDOW_SIZE	4096u
#define RIVULET_SLOTS		16		/* region slots of a job */
#define RIVULET_LEVELS		8		/* V/F levels, and variants of a job */
#define RIVULET_PAGE_SIZE	4096u
#define RIVULET_NO_PEER		0xffffffffu
#define RIVULET_NO_SLOT		0xffffffffu
#define RIVULET_STREAM_WORDS	14u		/* of STREAM */
#define RIVULET_FLAG_REAL	0x1u		/* FLAGS: pace=real */
#define RIVULET_FLAG_SENSOR	0x2u		/* FLAGS: TEMPERATURE is measured */
#define RIVULET_LEVEL_FORCE	0x80000000u	/* LEVEL_VALUE: do not defer for min_level */

/*
 * Registers: 32-bit little-endian words of memory. Each has one writer and no side effect.
 * R(NAME, offset, writer, meaning); writer DEV or DRV.
 */
#define RIVULET_REGS(R)                                                                            \
	R(MAGIC, 0x000, DEV, "RIVULET_MAGIC, \"RVLT\"")                                            \
	R(VERSION, 0x004, DEV, "specification version, major << 16 | minor")                       \
	R(WINDOW_SIZE, 0x008, DEV, "bytes of this window")                                         \
	R(ID_CRC, 0x00c, DEV, "CRC32C of the first 12 bytes of the window")                        \
	R(DOORBELL_PEER, 0x010, DEV,                                                               \
	  "ivshmem: value to write to BAR0 + 12 to ring; 0xffffffff: write DOORBELL instead")      \
	R(EPOCH, 0x014, DEV, "incremented by every acknowledged RESET")                            \
	R(TM, 0x040, DEV, "rows of the array: output channels per ACC word")                       \
	R(TN, 0x044, DEV, "columns of the array: input channels per INP word, bytes")              \
	R(DN, 0x048, DEV, "multipliers per row; peak = tm * dn MACs per cycle")                    \
	R(INP_BYTES, 0x04c, DEV, "input scratchpad, bytes")                                        \
	R(WGT_BYTES, 0x050, DEV, "weight scratchpad, bytes")                                       \
	R(ACC_BYTES, 0x054, DEV, "accumulator scratchpad, bytes")                                  \
	R(PORT_BYTES, 0x058, DEV, "bytes per cycle of the DMA port")                               \
	R(MEM_LATENCY, 0x05c, DEV, "cycles from a DMA request to its first beat")                  \
	R(QUEUE_DEPTH, 0x060, DEV, "instructions held by each of the four queues")                 \
	R(MODES, 0x064, DEV, "bit n: CONV mode n is implemented")                                  \
	R(ISA_VERSION, 0x068, DEV, "RIVULET_ISA_VERSION of the instructions it decodes")           \
	R(LEVEL_COUNT, 0x06c, DEV, "entries of the level table, 1..8; 0 is the slowest")           \
	R(CYCLE_CAP, 0x070, DEV, "cycles / 2^20 after which a program is ENDLESS")                 \
	R(FLAGS, 0x074, DEV, "bit 0: completions wait for real time (pace=real); bit 1: TEMPERATURE") \
	R(DMA_BITS, 0x078, DEV, "width of the bus addresses that the device drives, 32..64")       \
	R(NAME, 0x080, DEV, "board name, 32 bytes, zero padded (8 words)")                         \
	R(STREAM, 0x0a0, DEV, "stochastic lanes, blocks, then per circuit cycles/1000 and fJ of a bit; 14 words") \
	R(BURST_BYTES, 0x0d8, DEV, "longest burst of the DMA port; 0: 256")                        \
	R(BURST_GAP, 0x0dc, DEV, "cycles that a burst holds the port after its beats; 0: 2")       \
	R(BURSTS, 0x0e0, DEV, "bursts outstanding at most; 0: 8")                                  \
	R(ROW_BYTES, 0x0e4, DEV, "row buffer of LOAD, and another of STORE, bytes; 0: 16384")      \
	R(ALU_LANES, 0x0e8, DEV, "values that the ALU takes a cycle; 0: 8")                        \
	R(LEVEL_TABLE, 0x100, DEV, "8 x struct rivulet_level")                                     \
	R(SLOT0_ADDR_LO, 0x400, DRV, "descriptor address of the entry with an even seq, low")      \
	R(SLOT0_ADDR_HI, 0x404, DRV, "high half")                                                  \
	R(SLOT0_SEQ, 0x408, DRV, "its seq; written last")                                          \
	R(SLOT1_ADDR_LO, 0x410, DRV, "descriptor address of the entry with an odd seq, low")       \
	R(SLOT1_ADDR_HI, 0x414, DRV, "high half")                                                  \
	R(SLOT1_SEQ, 0x418, DRV, "its seq; written last")                                          \
	R(RESET_BASE, 0x420, DRV, "DONE_SEQ after the reset; the first job has base + 1")          \
	R(RESET_REQ, 0x424, DRV, "request number; written after RESET_BASE")                       \
	R(ABORT_SEQ, 0x428, DRV, "seq of the entry to abort")                                      \
	R(ABORT_REQ, 0x42c, DRV, "request number; written after ABORT_SEQ")                        \
	R(RESUME_SEQ, 0x430, DRV, "FROZEN_SEQ that the driver has seen")                           \
	R(RESUME_REQ, 0x434, DRV, "request number; written after RESUME_SEQ")                      \
	R(LEVEL_VALUE, 0x438, DRV, "level wanted, | RIVULET_LEVEL_FORCE")                          \
	R(LEVEL_REQ, 0x43c, DRV, "request number; written after LEVEL_VALUE")                      \
	R(HOLD_VALUE, 0x440, DRV, "1: promote nothing; 0: release")                                \
	R(HOLD_REQ, 0x444, DRV, "request number; written after HOLD_VALUE")                        \
	R(IRQ_ENABLE, 0x448, DRV, "1: interrupts wanted; 0: the driver polls")                     \
	R(DOORBELL, 0x44c, DRV, "platform attachment: any change means \"look\"")                  \
	R(DONE_SEQ, 0x800, DEV, "last retired seq, whatever its outcome")                          \
	R(CURRENT_SEQ, 0x804, DEV, "seq of the promoted entry; equals DONE_SEQ when idle")         \
	R(FROZEN, 0x808, DEV, "1: nothing is promoted until RESUME or RESET")                      \
	R(FROZEN_SEQ, 0x80c, DEV, "seq of the entry that froze the queue; valid while FROZEN")     \
	R(RESET_ACK, 0x810, DEV, "last RESET_REQ served")                                          \
	R(ABORT_ACK, 0x814, DEV, "last ABORT_REQ served: the entry's DMA is drained")              \
	R(ABORT_RESULT, 0x818, DEV, "enum rivulet_abort; valid with ABORT_ACK")                    \
	R(RESUME_ACK, 0x81c, DEV, "last RESUME_REQ served")                                        \
	R(LEVEL_ACK, 0x820, DEV, "last LEVEL_REQ served")                                          \
	R(LEVEL_CUR, 0x824, DEV, "level in force")                                                 \
	R(HOLD_ACK, 0x828, DEV, "last HOLD_REQ served")                                            \
	R(HELD, 0x82c, DEV, "1: held, nothing runs")                                               \
	R(PROGRESS, 0x830, DEV, "instructions retired, wraps; for the progress check")             \
	R(FROZEN_FAULT, 0x834, DEV,                                                                \
	  "enum rivulet_fault of that entry, 0 if it was aborted; valid while FROZEN")             \
	R(INSN, 0x838, DEV, "instructions retired of the last entry that was started, as PROGRESS")\
	R(COUNT_SEQ, 0x83c, DEV, "odd while the counters below are being written")                 \
	R(COUNTERS, 0x840, DEV, "struct rivulet_counters")                                         \
	R(TEMPERATURE, 0x8f0, DEV, "of the die, millidegree Celsius, signed; with bit 1 of FLAGS")

#define RIVULET_REG_ENUM(name, off, writer, doc) RIVULET_REG_##name = (off),
enum rivulet_reg { RIVULET_REGS(RIVULET_REG_ENUM) };
#undef RIVULET_REG_ENUM

/** struct rivulet_level - one V/F level, 32 bytes at LEVEL_TABLE + 32 * level */
struct rivulet_level {
	__le32 hz_lo;		/* clock, Hz */
	__le32 hz_hi;
	__le32 microvolt;
	__le32 fj_per_mac;	/* energy of one int8 MAC at this voltage, femtojoule */
	__le32 fj_per_byte;	/* energy of one DMA byte, femtojoule */
	__le32 static_uw;	/* leakage and clock tree, microwatt */
	__le32 rsvd[2];
};

/*
 * Device counters since power on. C(name, unit, meaning); all 64 bits. Read with COUNT_SEQ:
 * even and unchanged before and after means that the set is consistent.
 */
#define RIVULET_COUNTERS(C)                                                                        \
	C(jobs, "jobs", "entries retired")                                                         \
	C(faults, "jobs", "of these, with a fault")                                                \
	C(time, "ns", "device time")                                                               \
	C(busy, "ns", "device time with a job running")                                            \
	C(cycles, "cycles", "cycles of all jobs")                                                  \
	C(load_busy, "cycles", "LOAD engine working")                                              \
	C(conv_busy, "cycles", "CONV engine working")                                              \
	C(alu_busy, "cycles", "ALU engine working")                                                \
	C(store_busy, "cycles", "STORE engine working")                                            \
	C(stalls, "cycles", "engines waiting for a token while a job runs, summed")                \
	C(read_bytes, "bytes", "DMA from memory")                                                  \
	C(write_bytes, "bytes", "DMA to memory")                                                   \
	C(macs, "MACs", "multiplications done, padding included")                                  \
	C(energy, "pJ", "energy, static part included")                                            \
	C(overruns, "jobs", "pace=real: completions that came later than device time")             \
	C(irqs, "interrupts", "interrupts raised")

#define RIVULET_COUNTER_FIELD(name, unit, doc) __le64 name;
struct rivulet_counters { RIVULET_COUNTERS(RIVULET_COUNTER_FIELD) };
#undef RIVULET_COUNTER_FIELD

/* Outcome of an ABORT request. */
enum rivulet_abort {
	RIVULET_ABORT_NONE = 0,		/* already retired, or not in the queue: no effect */
	RIVULET_ABORT_CURRENT = 1,	/* was running: ABORTED, queue frozen at its seq */
	RIVULET_ABORT_NEXT = 2,		/* had not started: retires in order without running */
};

/* Region flags. */
#define RIVULET_REGION_VALID	0x1u
#define RIVULET_REGION_WRITE	0x2u
#define RIVULET_REGION_LIST	0x4u	/* addr names an array of page addresses, else one span */
#define RIVULET_REGION_FLAGS	0x7u

/**
 * struct rivulet_region - one slot of a job: all memory an instruction can name
 * @addr: bus address of the bytes, or with LIST of an array of __le64 page addresses
 * @limit: bytes that may be accessed, from offset 0
 * @first: with LIST, offset of byte 0 in the first page, below RIVULET_PAGE_SIZE; else 0
 * @flags: RIVULET_REGION_*; an entry without VALID must be all zero
 */
struct rivulet_region {
	__le64 addr;
	__le64 limit;
	__le32 first;
	__le32 flags;
};

/**
 * struct rivulet_variant - the command stream for one V/F level
 * @offset: byte offset of the first instruction in @slot, multiple of 16
 * @length: bytes, multiple of 16; 0: this level has no variant
 * @slot: region slot that holds the commands
 */
struct rivulet_variant {
	__le64 offset;
	__le32 length;
	__le32 slot;
};

#define RIVULET_DESC_MAGIC	0x44565652u	/* "RVVD" */
#define RIVULET_DESC_IRQ	0x1u		/* flags: interrupt when the job retires */
#define RIVULET_DESC_FLAGS	0x1u
#define RIVULET_DESC_ALIGN	64

/**
 * struct rivulet_desc - job descriptor, in kernel-owned memory, 64-byte aligned
 * @magic: RIVULET_DESC_MAGIC
 * @size: sizeof(struct rivulet_desc)
 * @seq: the seq written to SLOT, checked
 * @client: client tag; a change makes the device clear scratchpads and accumulators
 * @flags: RIVULET_DESC_*
 * @min_level: a level request below this is deferred until the job has run
 * @report_slot: slot to which a second copy of the status goes, or RIVULET_NO_SLOT
 * @rsvd: zero
 * @report_offset: byte offset of that copy in the slot, multiple of 8
 * @status: bus address of struct rivulet_status, 64-byte aligned
 * @variant: indexed by level
 * @region: indexed by slot
 * @rsvd2: zero
 * @crc: CRC32C of all bytes before it
 */
struct rivulet_desc {
	__le32 magic;
	__le32 size;
	__le32 seq;
	__le32 client;
	__le32 flags;
	__le32 min_level;
	__le32 report_slot;
	__le32 rsvd;
	__le64 report_offset;
	__le64 status;
	struct rivulet_variant variant[RIVULET_LEVELS];
	struct rivulet_region region[RIVULET_SLOTS];
	__le32 rsvd2[3];
	__le32 crc;
};

/* How an entry was retired. */
enum rivulet_state {
	RIVULET_STATE_NONE = 0,		/* not retired yet */
	RIVULET_STATE_DONE = 1,
	RIVULET_STATE_FAULT = 2,
	RIVULET_STATE_ABORTED = 3,
	RIVULET_STATE_NO_VARIANT = 4,	/* no command stream for the level in force; no freeze */
};

/*
 * Fault codes. X(NAME, value, slot, meaning); slot says whether fault_slot and fault_offset
 * are meaningful. Codes are never reused.
 */
#define RIVULET_FAULTS(X)                                                                          \
	X(NONE, 0, 0, "no fault")                                                                  \
	X(DESC_BUS, 1, 0, "the descriptor is outside memory")                                      \
	X(DESC_CRC, 2, 0, "the descriptor's checksum is wrong")                                    \
	X(DESC_FIELD, 3, 0, "a descriptor field is out of range or a reserved one is not zero")    \
	X(SLOT_INVALID, 4, 1, "an access through a slot that is not valid")                        \
	X(SLOT_LIMIT, 5, 1, "an access beyond the slot's byte limit")                              \
	X(SLOT_WRAP, 6, 1, "an address computation that left 64 bits")                             \
	X(SLOT_WRITE, 7, 1, "a write through a read-only slot")                                    \
	X(SLOT_BUS, 8, 1, "the slot's page list or span leads outside memory")                     \
	X(FETCH, 9, 1, "the command stream is outside its slot, or misaligned")                    \
	X(RESERVED, 10, 0, "a reserved instruction bit is set")                                    \
	X(OPCODE, 11, 0, "no such instruction, configuration index, or queue for it")              \
	X(FIELD, 12, 0, "an instruction or configuration field has an illegal value")              \
	X(MODE, 13, 0, "this device does not implement the mode")                                  \
	X(SPAD, 14, 0, "an address outside a scratchpad")                                          \
	X(TOKEN_OVERFLOW, 15, 0, "a token counter passed 255")                                     \
	X(DEADLOCK, 16, 0, "every queue waits for a token that no queue can push")                 \
	X(ENDLESS, 17, 0, "more cycles than CYCLE_CAP")                                            \
	X(NO_END, 18, 0, "the last instruction is not SYNC END, or END stands elsewhere")          \
	X(REPORT, 19, 1, "the status copy could not be written through its slot")                  \
	X(INTERNAL, 20, 0, "the device failed by itself")

#define RIVULET_FAULT_ENUM(name, value, slot, doc) RIVULET_FAULT_##name = (value),
enum rivulet_fault { RIVULET_FAULTS(RIVULET_FAULT_ENUM) };
#undef RIVULET_FAULT_ENUM

/**
 * struct rivulet_status - written back before DONE_SEQ moves past the job
 * @seq: of the job
 * @state: enum rivulet_state
 * @fault: enum rivulet_fault
 * @fault_slot: slot of the access at fault, or RIVULET_NO_SLOT
 * @fault_offset: byte offset of that access in the slot
 * @insn: index in the command stream of the instruction at fault, else instructions retired
 * @level: level that was in force
 * @variant: index of the variant that ran (equals @level)
 * @rsvd: zero
 * @cycles: device cycles of the job
 * @start: device time of promotion, ns
 * @end: device time of the last write, ns
 * @energy: pJ, static part included
 * @load_busy: LOAD cycles
 * @conv_busy: CONV cycles
 * @alu_busy: ALU cycles
 * @store_busy: STORE cycles
 * @stalls: cycles engines waited for tokens, summed
 * @read_bytes: DMA reads
 * @write_bytes: DMA writes
 * @macs: multiplications
 * @rsvd2: zero
 * @crc: CRC32C of all bytes before it
 */
struct rivulet_status {
	__le32 seq;
	__le32 state;
	__le32 fault;
	__le32 fault_slot;
	__le64 fault_offset;
	__le32 insn;
	__le32 level;
	__le32 variant;
	__le32 rsvd;
	__le64 cycles;
	__le64 start;
	__le64 end;
	__le64 energy;
	__le64 load_busy;
	__le64 conv_busy;
	__le64 alu_busy;
	__le64 store_busy;
	__le64 stalls;
	__le64 read_bytes;
	__le64 write_bytes;
	__le64 macs;
	__le32 rsvd2[5];
	__le32 crc;
};

#endif
