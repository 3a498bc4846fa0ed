/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * The socket between librivulet and rivuletd: SOCK_SEQPACKET, one message per packet, file
 * descriptors by SCM_RIGHTS in the same packet. docs/protocol.md specifies the order of messages;
 * its tables are generated from the X-macros here, as are the structs, the checks of both ends and
 * the fuzzers.
 *
 * Both ends live on one machine: native byte order, no padding (asserted in proto.c), the same
 * layout for 32- and 64-bit processes. Times are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef RIVULET_PROTO_H
#define RIVULET_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rivulet_program.h"
#include "rivulet_types.h"

#define RIVULET_SOCKET_PATH	"/run/rivuletd/rivuletd.sock"
#define RIVULET_SOCKET_ENV	"RIVULETD_SOCKET"	/* environment variable that overrides the path */
#define RIVULET_PROTO_MIN	1u	/* versions of the protocol that this header defines */
#define RIVULET_PROTO_MAX	1u
#define RIVULET_MSG_MAX		4096u	/* bytes of a packet, header included */
#define RIVULET_MSG_FDS		1	/* file descriptors of a packet */
#define RIVULET_NAME_MAX	64	/* bytes of a name, NUL included */
#define RIVULET_MODEL_MAX	(1u << 30)	/* bytes of a model file */
#define RIVULET_REPLY		0x8000u	/* type of the answer to request T: T | RIVULET_REPLY */

/** enum rivulet_load_flag - LOAD */
enum rivulet_load_flag {
	RIVULET_LOAD_PROGRAM = 1u << 0,		/* the file is a compiled program, not ONNX */
	RIVULET_LOAD_REQUIRE_NPU = 1u << 1,	/* refuse a model with steps on the CPU */
	RIVULET_LOAD_WANT_FD = 1u << 2,		/* the reply carries the program, read only */
};
#define RIVULET_LOAD_FLAGS	0x7u

/** enum rivulet_tensor_dir - in TENSOR and BIND */
enum rivulet_tensor_dir { RIVULET_DIR_INPUT = 0, RIVULET_DIR_OUTPUT = 1 };

/** enum rivulet_open_flag - OPEN */
enum rivulet_open_flag {
	RIVULET_OPEN_SHAPES = 1u << 0,	/* the client asks by TENSOR for the shapes of each run */
};
#define RIVULET_OPEN_FLAGS	0x1u

/** enum rivulet_run_flag - RUN */
enum rivulet_run_flag {
	RIVULET_RUN_HARD = 1u << 0,	/* refuse with -ETIME now rather than miss the deadline */
};
#define RIVULET_RUN_FLAGS	0x1u

/** enum rivulet_priority - RUN; above NORMAL needs uid 0 or HighPriorityUsers= */
enum rivulet_priority { RIVULET_PRIO_LOW = 0, RIVULET_PRIO_NORMAL = 1, RIVULET_PRIO_HIGH = 2 };
#define RIVULET_PRIOS		3

/** enum rivulet_run_result - RUN reply: flags */
enum rivulet_run_result {
	RIVULET_RAN_LATE = 1u << 0,	/* finished after its deadline */
	RIVULET_RAN_CPU = 1u << 1,	/* some steps ran on the CPU */
	RIVULET_RAN_NPU = 1u << 2,	/* some steps ran on the NPU */
};

/** enum rivulet_device_state - DEVICE event and HELLO reply */
enum rivulet_device_state { RIVULET_DEVICE_ABSENT = 0, RIVULET_DEVICE_PRESENT = 1 };

/**
 * struct rivulet_msg - header of every message
 * @type: enum rivulet_msg_type, | RIVULET_REPLY in answers
 * @version: agreed by HELLO; 0 in HELLO and its reply
 * @length: bytes of the packet, this header included
 * @serial: chosen by the client, repeated in the answer; 0 in events, not allowed in requests
 * @error: 0, or in ERROR a negative errno
 */
struct rivulet_msg {
	uint16_t type;
	uint16_t version;
	uint32_t length;
	uint32_t serial;
	int32_t error;
};

/*
 * Bodies. S(type, name, meaning) is a scalar, A(type, name, count, meaning) an array, T(name, size,
 * meaning) text in a field of @size bytes: UTF-8 without control characters (C0, DEL, C1), NUL
 * terminated and NUL padded. Fields called rsvd are zero; a receiver refuses others with -EINVAL,
 * so that they can get a meaning. The size of a body is fixed within a version.
 */
#define RIVULET_BODY_EMPTY(S, A, T)

#define RIVULET_BODY_HELLO(S, A, T)                                                                \
	S(uint32_t, min_version, "lowest version the client speaks")                               \
	S(uint32_t, max_version, "highest")                                                        \
	S(uint64_t, features, "enum rivulet_feature the client knows, informative")                \
	T(name, RIVULET_NAME_MAX, "of the program, for status and journal")                        \
	A(uint32_t, rsvd, 4, "")

#define RIVULET_BODY_HELLO_REPLY(S, A, T)                                                          \
	S(uint32_t, version, "agreed: the highest that both speak")                                \
	S(uint32_t, device_state, "enum rivulet_device_state")                                     \
	S(uint64_t, features, "enum rivulet_feature")                                              \
	S(uint64_t, max_model, "bytes of one model file")                                          \
	S(uint64_t, max_bytes, "bytes of bound memory of this user")                               \
	S(uint32_t, max_models, "models of this user")                                             \
	S(uint32_t, max_instances, "instances of this user")                                       \
	S(uint32_t, max_runs, "queued and running runs of this user")                              \
	S(uint32_t, levels, "voltage/frequency levels of the device; 0: no device")                \
	T(daemon, RIVULET_NAME_MAX, "version of rivuletd")                                         \
	T(device, RIVULET_NAME_MAX, "node or sim:BOARD; empty: no device")                         \
	T(board, RIVULET_NAME_MAX, "name of the board; empty: no device")                          \
	A(uint32_t, rsvd, 8, "")

#define RIVULET_BODY_LOAD(S, A, T)                                                                 \
	S(uint64_t, size, "bytes of the file, from its start")                                     \
	S(uint64_t, batch, "value of a symbolic first dimension; 0: 1")                            \
	S(uint64_t, symbol, "value of other symbolic dimensions; 0: refuse them")                  \
	S(uint32_t, flags, "enum rivulet_load_flag")                                               \
	T(name, RIVULET_NAME_MAX, "for status, journal and explain")                               \
	A(uint32_t, rsvd, 9, "")

#define RIVULET_BODY_LOAD_REPLY(S, A, T)                                                           \
	S(uint32_t, model, "id, of this connection")                                               \
	S(uint32_t, inputs, "count")                                                               \
	S(uint32_t, outputs, "count")                                                              \
	S(uint32_t, cached, "1: the program was there already")                                    \
	S(uint32_t, npu_steps, "segments on the NPU")                                              \
	S(uint32_t, cpu_steps, "steps on the CPU")                                                 \
	S(uint64_t, program_size, "bytes")                                                         \
	S(uint64_t, arena_size, "bytes an instance needs besides inputs and outputs")              \
	S(uint64_t, compile_ns, "that compiling took; 0 when cached")                              \
	S(uint64_t, macs, "multiplications of one run")                                            \
	S(uint64_t, cycles, "device cycles of one run at the highest level, estimated")            \
	S(uint64_t, expected_ns, "of one run at the highest level, estimated; 0: no device")       \
	A(uint8_t, hash, 32, "SHA-256 of the file")                                                \
	A(uint32_t, rsvd, 8, "")

#define RIVULET_BODY_MODEL(S, A, T)                                                                \
	S(uint32_t, model, "id")                                                                   \
	A(uint32_t, rsvd, 1, "")

#define RIVULET_BODY_TENSOR(S, A, T)                                                               \
	S(uint32_t, model, "id")                                                                   \
	S(uint32_t, dir, "enum rivulet_tensor_dir")                                                \
	S(uint32_t, index, "among the inputs or outputs")                                          \
	S(uint32_t, instance, "0: as the model has it; an id: as the instance's last run left it")

#define RIVULET_BODY_TENSOR_REPLY(S, A, T)                                                         \
	S(uint64_t, size, "bytes")                                                                 \
	A(uint64_t, dim, RIVULET_MAX_DIMS, "shape, in ONNX's order")                               \
	S(uint32_t, ndim, "dimensions")                                                            \
	S(uint32_t, dtype, "enum rivulet_dtype")                                                   \
	S(float, scale, "real = scale * (stored - zero_point); 0: not quantised")                  \
	S(int32_t, zero_point, "")                                                                 \
	T(name, 256, "in the model, cut when longer")                                              \
	S(uint32_t, flags, "enum rivulet_tensor_flag")                                             \
	A(uint32_t, rsvd, 3, "")

#define RIVULET_BODY_OPEN(S, A, T)                                                                 \
	S(uint32_t, model, "id")                                                                   \
	S(uint32_t, flags, "enum rivulet_open_flag")

#define RIVULET_BODY_INSTANCE(S, A, T)                                                             \
	S(uint32_t, instance, "id, of this connection")                                            \
	A(uint32_t, rsvd, 1, "")

#define RIVULET_BODY_BIND(S, A, T)                                                                 \
	S(uint32_t, instance, "id")                                                                \
	S(uint32_t, dir, "enum rivulet_tensor_dir")                                                \
	S(uint32_t, index, "among the inputs or outputs")                                          \
	A(uint32_t, rsvd, 1, "")                                                                   \
	S(uint64_t, offset, "byte of the memory where the tensor starts, multiple of 64")          \
	S(uint64_t, size, "bytes, at least the tensor's")

#define RIVULET_BODY_RUN(S, A, T)                                                                  \
	S(uint32_t, instance, "id; every input and output is bound")                               \
	S(uint32_t, flags, "enum rivulet_run_flag")                                                \
	S(uint32_t, priority, "enum rivulet_priority")                                             \
	S(uint32_t, min_accuracy, "least expected accuracy, parts per million; 0: any")            \
	S(uint64_t, deadline, "when it must have finished; 0: none")                               \
	A(uint32_t, rsvd, 6, "")

#define RIVULET_BODY_RUN_REPLY(S, A, T)                                                            \
	S(uint32_t, instance, "id")                                                                \
	S(uint32_t, flags, "enum rivulet_run_result")                                              \
	S(uint64_t, start, "when the first step started")                                          \
	S(uint64_t, end, "when the last step had finished")                                        \
	S(uint64_t, queue_ns, "from the request's arrival to @start")                              \
	S(uint64_t, npu_ns, "device time, summed over its jobs")                                   \
	S(uint64_t, cpu_ns, "CPU steps, summed")                                                   \
	S(uint64_t, expected_ns, "time from start to end that admission estimated")                       \
	S(uint64_t, cycles, "device cycles")                                                       \
	S(uint64_t, macs, "multiplications on the device, padding included")                       \
	S(uint64_t, conv_busy, "cycles in which the array worked")                                 \
	S(uint64_t, read_bytes, "by the device")                                                   \
	S(uint64_t, write_bytes, "by the device")                                                  \
	S(uint64_t, energy, "picojoule of the device, static part included")                       \
	S(uint32_t, npu_jobs, "jobs of the device")                                                \
	S(uint32_t, cpu_steps, "steps on the CPU")                                                 \
	S(uint32_t, level_min, "lowest voltage/frequency level of its jobs")                       \
	S(uint32_t, level_max, "highest")                                                          \
	S(uint32_t, length, "stochastic bitstream length, bits; 0: none in this model")            \
	S(uint32_t, accuracy, "parts per million expected of this variant; 0: unknown")            \
	A(uint32_t, rsvd, 8, "")

#define RIVULET_BODY_CANCEL(S, A, T)                                                               \
	S(uint32_t, run, "serial of the RUN; it is answered with -ECANCELED")                      \
	A(uint32_t, rsvd, 1, "")

#define RIVULET_BODY_STATUS_REPLY(S, A, T)                                                         \
	S(uint64_t, size, "bytes of JSON in the file descriptor")                                  \
	A(uint32_t, rsvd, 4, "")

#define RIVULET_BODY_DEVICE(S, A, T)                                                               \
	S(uint32_t, device_state, "enum rivulet_device_state")                                     \
	S(uint32_t, levels, "voltage/frequency levels; 0: no device")                              \
	T(device, RIVULET_NAME_MAX, "node or sim:BOARD; empty: no device")                         \
	T(board, RIVULET_NAME_MAX, "empty: no device")                                             \
	A(uint32_t, rsvd, 4, "")

#define RIVULET_BODY_POLICY(S, A, T)                                                               \
	S(uint32_t, mode, "enum rivulet_policy_mode to change to; 0: only report")                   \
	S(uint32_t, level, "of mode FIXED, else 0")                                                \
	A(uint32_t, rsvd, 2, "")

#define RIVULET_BODY_POLICY_REPLY(S, A, T)                                                         \
	S(uint32_t, mode, "enum rivulet_policy_mode")                                              \
	S(uint32_t, fixed, "level of mode FIXED")                                                  \
	S(uint32_t, source, "enum rivulet_policy_source")                                          \
	S(uint32_t, flags, "enum rivulet_policy_flag")                                             \
	S(uint32_t, level, "that the policy chose")                                                \
	S(uint32_t, levels, "of the device; 0: no device, what follows is of no meaning")          \
	S(uint32_t, reason, "enum rivulet_policy_reason")                                          \
	S(uint32_t, allowed, "bit n: no run under way or of PolicyUsers= lacks a variant of level n") \
	S(uint32_t, charge, "parts per million, over all batteries by energy")                     \
	S(uint32_t, drain, "parts per million a second")                                           \
	S(int32_t, temperature, "millidegrees Celsius of the hottest zone; INT32_MIN: none")       \
	S(uint32_t, hysteresis, "parts per million, upward")                                       \
	S(uint32_t, reserve, "parts per million; 0: none")                                         \
	S(uint32_t, used, "count of levels in use")                                                \
	S(uint64_t, dwell, "ns after a change before the level may rise")                          \
	S(uint64_t, changed, "when the level changed; 0: never")                                   \
	A(uint32_t, use, RIVULET_LEVELS, "levels in use, fastest first")                           \
	A(uint32_t, threshold, RIVULET_LEVELS, "ppm; at or below [i] level use[i + 1]")            \
	A(uint64_t, hz, RIVULET_LEVELS, "clock by level")                                          \
	A(uint64_t, residency, RIVULET_LEVELS, "ns by level")                                      \
	A(uint64_t, entries, RIVULET_LEVELS, "changes to each level")                              \
	A(uint32_t, rsvd, 8, "")

#define RIVULET_BODY_LEVEL(S, A, T)                                                                \
	S(uint32_t, level, "that jobs run at from now on")                                         \
	S(uint32_t, reason, "enum rivulet_policy_reason")                                          \
	S(uint32_t, flags, "enum rivulet_policy_flag")                                             \
	S(uint32_t, charge, "parts per million; 0 unless KNOWN")                                   \
	S(uint64_t, hz, "clock of the level")                                                      \
	A(uint32_t, rsvd, 4, "")

#define RIVULET_BODY_ERROR(S, A, T)                                                                \
	S(uint32_t, request, "type of the request it answers")                                     \
	A(uint32_t, rsvd, 1, "")                                                                   \
	T(text, 512, "what failed, which object, which limit, what to do")

/*
 * Messages. M(NAME, type, body of the request, file descriptors of the request, body of the reply,
 * lowest and highest number of file descriptors of the reply, meaning). A request is answered once,
 * by type | RIVULET_REPLY or by ERROR. LOAD and RUN are answered when they are done, possibly after
 * later requests. All other requests are answered in order.
 */
#define RIVULET_REQUESTS(M)                                                                        \
	M(HELLO, 1, HELLO, 0, HELLO_REPLY, 0, 0, "first message: agree on a version")              \
	M(PING, 2, EMPTY, 0, EMPTY, 0, 0, "is the daemon alive")                                   \
	M(LOAD, 3, LOAD, 1, LOAD_REPLY, 0, 1, "compile a model: a memfd sealed SHRINK|GROW|WRITE") \
	M(TENSOR, 4, TENSOR, 0, TENSOR_REPLY, 0, 0, "describe an input or output")                 \
	M(OPEN, 5, OPEN, 0, INSTANCE, 0, 0, "make an instance: bindings and working memory")      \
	M(BIND, 6, BIND, 1, EMPTY, 0, 0, "bind a tensor to a dma-buf or a memfd sealed SHRINK")    \
	M(RUN, 7, RUN, 0, RUN_REPLY, 0, 0, "queue one inference")                                  \
	M(CANCEL, 8, CANCEL, 0, EMPTY, 0, 0, "end a queued or running inference")              \
	M(CLOSE, 9, INSTANCE, 0, EMPTY, 0, 0, "drop an instance; its runs are cancelled first")    \
	M(UNLOAD, 10, MODEL, 0, EMPTY, 0, 0, "drop a model and its instances")                     \
	M(STATUS, 11, EMPTY, 0, STATUS_REPLY, 1, 1, "state of daemon, device, models: memfd of JSON") \
	M(POLICY, 12, POLICY, 0, POLICY_REPLY, 0, 0, "power policy: state, and another mode")

/* Messages that only the daemon sends. E(NAME, type, body, meaning) */
#define RIVULET_EVENTS(E)                                                                          \
	E(DEVICE, 0x4001, DEVICE, "the device came or went; runs fail with -ENODEV without it")    \
	E(LEVEL, 0x4002, LEVEL, "level, reserve or emergency changed; to clients with FEATURE_POLICY") \
	E(ERROR, 0xffff, ERROR, "a request failed, by header.error; serial 0: the connection ends")

#define RIVULET_PROTO_TYPE(name, type, ...) RIVULET_MSG_##name = (type),
enum rivulet_msg_type {
	RIVULET_REQUESTS(RIVULET_PROTO_TYPE)
	RIVULET_EVENTS(RIVULET_PROTO_TYPE)
};

/* Every body once: B(name, BODY). Makes struct rivulet_msg_NAME: header, then the fields. */
#define RIVULET_BODIES(B)                                                                          \
	B(empty, EMPTY) B(hello, HELLO) B(hello_reply, HELLO_REPLY) B(load, LOAD)                  \
	B(load_reply, LOAD_REPLY) B(model, MODEL) B(tensor, TENSOR)                                \
	B(tensor_reply, TENSOR_REPLY) B(open, OPEN) B(instance, INSTANCE) B(bind, BIND) B(run, RUN)              \
	B(run_reply, RUN_REPLY) B(cancel, CANCEL) B(status_reply, STATUS_REPLY)                    \
	B(device, DEVICE) B(error, ERROR) B(policy, POLICY) B(policy_reply, POLICY_REPLY)          \
	B(level, LEVEL)

#define RIVULET_PROTO_SCALAR(type, name, doc) type name;
#define RIVULET_PROTO_ARRAY(type, name, count, doc) type name[count];
#define RIVULET_PROTO_TEXT(name, size, doc) char name[size];
#define RIVULET_PROTO_STRUCT(name, BODY)                                                           \
	struct rivulet_msg_##name {                                                                \
		struct rivulet_msg h;                                                              \
		RIVULET_BODY_##BODY(RIVULET_PROTO_SCALAR, RIVULET_PROTO_ARRAY,                     \
				    RIVULET_PROTO_TEXT)                                    \
	};
RIVULET_BODIES(RIVULET_PROTO_STRUCT)

#define RIVULET_PROTO_UNION(name, BODY) struct rivulet_msg_##name name;
/** union rivulet_packet - room for any message; RIVULET_MSG_MAX bounds it */
union rivulet_packet {
	struct rivulet_msg h;
	RIVULET_BODIES(RIVULET_PROTO_UNION)
};

enum rivulet_field_type {
	RIVULET_PROTO_text, RIVULET_PROTO_uint8_t, RIVULET_PROTO_uint32_t, RIVULET_PROTO_int32_t,
	RIVULET_PROTO_uint64_t, RIVULET_PROTO_float,
};

/** struct rivulet_proto_field - one field of a message; without gaps, the first after the header */
struct rivulet_proto_field {
	const char *name;
	const char *doc;
	enum rivulet_field_type type;
	uint16_t width;		/* bytes of one element */
	uint16_t count;		/* elements; 0: scalar */
};

/** struct rivulet_proto_info - one message as it travels in one direction */
struct rivulet_proto_info {
	const char *name;
	const char *doc;
	uint16_t type;		/* on the wire */
	uint16_t size;		/* bytes of the packet, header included */
	uint8_t min_fds;
	uint8_t max_fds;
	const struct rivulet_proto_field *field;
	int fields;
};

/** rivulet_proto_info() - description of the type in a message's header, or NULL */
const struct rivulet_proto_info *rivulet_proto_info(uint16_t type);
/**
 * rivulet_proto_list() - the n-th message: requests, each with its reply, then events, then NULL
 */
const struct rivulet_proto_info *rivulet_proto_list(int n);

/**
 * rivulet_proto_check() - whether a packet is well formed
 * @packet: bytes received; @size: how many; @nfds: file descriptors received with it
 * @from_client: true: only requests are allowed; false: only replies and events
 * @version: agreed, or 0 before HELLO was answered
 *
 * Checks length, type, version, serial, number of descriptors, and text fields. Returns 0; -EPROTO
 * if the packet must end the connection; -EINVAL if it is only answered with an error (a reserved
 * field is not zero, or a text has invalid UTF-8 or a control character). @err names the fault and
 * the field.
 */
int rivulet_proto_check(const void *packet, size_t size, int nfds, bool from_client,
			uint16_t version, char *err, size_t errsize);

/** rivulet_proto_init() - zero a message, fill its header, return its size; @packet has the room */
size_t rivulet_proto_init(void *packet, uint16_t type, uint16_t version, uint32_t serial);

/**
 * rivulet_proto_text() - length of @text up to its first character that a text field may not hold
 * @len: bytes of @text. Returns @len when all of it is UTF-8 without control characters.
 */
size_t rivulet_proto_text(const char *text, size_t len);
/**
 * rivulet_proto_name() - fill a text field of @size bytes: cut between characters, NUL padded,
 * bytes that a text field may not hold replaced by '?'
 */
void rivulet_proto_name(char *field, size_t size, const char *text);

/*
 * Sends one packet with a file descriptor, or without one if @fd is negative. @flags are those of
 * sendmsg(2); SIGPIPE is never raised. The caller keeps @fd. Returns 0 or a negative errno; -EINTR
 * is not returned.
 */
int rivulet_proto_send(int sock, const void *packet, size_t size, int fd, int flags);

#endif
