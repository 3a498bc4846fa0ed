/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Values that program files, the daemon's socket and programs with librivulet share. This header is
 * installed, so it includes nothing and compiles as C99 and as C++.
 */
#ifndef RIVULET_TYPES_H
#define RIVULET_TYPES_H

#define RIVULET_MAX_DIMS	8	/* dimensions of a tensor */
#define RIVULET_MAX_LEVELS	8	/* voltage/frequency levels of a device */

/*
 * Element types. X(NAME, value, text, bytes of one element, type string of .npy, number in ONNX's
 * TensorProto). Integers are little endian; a bool is one byte, 0 or 1.
 */
#define RIVULET_DTYPES(X)                                                                          \
	X(F32, 1, "float32", 4, "<f4", 1)                                                          \
	X(U8, 2, "uint8", 1, "|u1", 2)                                                             \
	X(S8, 3, "int8", 1, "|i1", 3)                                                              \
	X(S32, 4, "int32", 4, "<i4", 6)                                                            \
	X(S64, 5, "int64", 8, "<i8", 7)                                                            \
	X(BOOL, 6, "bool", 1, "|b1", 9)                                                            \
	X(U16, 7, "uint16", 2, "<u2", 4)                                                           \
	X(S16, 8, "int16", 2, "<i2", 5)                                                            \
	X(U32, 9, "uint32", 4, "<u4", 12)                                                          \
	X(U64, 10, "uint64", 8, "<u8", 13)                                                         \
	X(F16, 11, "float16", 2, "<f2", 10)                                                        \
	X(BF16, 12, "bfloat16", 2, "", 16)                                                         \
	X(F64, 13, "float64", 8, "<f8", 11)

#define RIVULET_DTYPE_ENUM(name, value, text, bytes, npy, onnx) RIVULET_##name = (value),
/** enum rivulet_dtype - type of a tensor's elements */
enum rivulet_dtype { RIVULET_DTYPES(RIVULET_DTYPE_ENUM) RIVULET_DTYPE_END };
#undef RIVULET_DTYPE_ENUM

/* Order of a tensor's elements in memory. X(NAME, value, text, meaning) */
#define RIVULET_LAYOUTS(X)                                                                         \
	X(PLAIN, 0, "plain", "row major in ONNX's order; of an image NCHW")                        \
	X(BLOCKED, 1, "blocked", "(ceil(C / tn), H, W, tn) int8; uint8 elements are stored XOR 0x80") \
	X(NHWC, 2, "nhwc", "of an image (N, C, H, W): the channels of a pixel are adjacent")

#define RIVULET_LAYOUT_ENUM(name, value, text, doc) RIVULET_LAYOUT_##name = (value),
/** enum rivulet_layout - order of a tensor's elements in memory */
enum rivulet_layout { RIVULET_LAYOUTS(RIVULET_LAYOUT_ENUM) RIVULET_LAYOUT_END };
#undef RIVULET_LAYOUT_ENUM

/** enum rivulet_feature - what a daemon can do; a client ignores bits that it does not know */
enum rivulet_feature {
	RIVULET_FEATURE_MEMFD = 1 << 0,		/* BIND takes memfds sealed against shrinking */
	RIVULET_FEATURE_DMABUF = 1 << 1,	/* BIND takes dma-bufs */
	RIVULET_FEATURE_PROGRAM = 1 << 2,	/* LOAD takes compiled programs, and returns them */
	RIVULET_FEATURE_DEADLINE = 1 << 3,	/* RUN takes deadlines, see docs/protocol.md */
	RIVULET_FEATURE_NPU = 1 << 4,		/* a device is present */
	RIVULET_FEATURE_SIM = 1 << 5,		/* that device is the model linked into the daemon */
	RIVULET_FEATURE_POLICY = 1 << 6		/* POLICY; LEVEL events to clients that set it too */
};

/* What chooses the level. X(NAME, value, text, meaning) */
#define RIVULET_POLICY_MODES(X)                                                                    \
	X(AUTO, 1, "auto", "battery, mains and temperature choose")                                \
	X(PERFORMANCE, 2, "performance", "the fastest level in use")                               \
	X(BALANCED, 3, "balanced", "as auto, but never above the middle level in use")             \
	X(POWERSAVE, 4, "powersave", "the slowest level in use")                                   \
	X(FIXED, 5, "fixed", "one level")

/* Why the level in force was chosen. X(NAME, value, text, meaning) */
#define RIVULET_POLICY_REASONS(X)                                                                  \
	X(MAINS, 1, "mains", "power comes from outside, or there is no battery")                   \
	X(BATTERY, 2, "battery", "charge against the thresholds")                                  \
	X(HEAT, 3, "heat", "a thermal zone is at its limit")                                       \
	X(MODE, 4, "mode", "the mode asks for it")                                                 \
	X(VARIANT, 5, "variant", "the level wanted has no variant of an admitted model, or was refused")

#define RIVULET_POLICY_ENUM(name, value, text, doc) , RIVULET_POLICY_##name = (value)
/** enum rivulet_policy_mode - mode of the power policy; KEEP in a request changes nothing */
enum rivulet_policy_mode { RIVULET_POLICY_KEEP = 0 RIVULET_POLICY_MODES(RIVULET_POLICY_ENUM) };
#undef RIVULET_POLICY_ENUM

#define RIVULET_REASON_ENUM(name, value, text, doc) , RIVULET_REASON_##name = (value)
/** enum rivulet_policy_reason - why the level was chosen; NONE without a device */
enum rivulet_policy_reason { RIVULET_REASON_NONE = 0 RIVULET_POLICY_REASONS(RIVULET_REASON_ENUM) };
#undef RIVULET_REASON_ENUM

/** enum rivulet_policy_source - who chose the mode */
enum rivulet_policy_source {
	RIVULET_SOURCE_CONFIG = 0,
	RIVULET_SOURCE_TOOL = 1,
	RIVULET_SOURCE_PROFILES = 2
};

/** enum rivulet_policy_flag - state of power supply, temperature and level */
enum rivulet_policy_flag {
	RIVULET_POLICY_EXTERNAL = 1 << 0,	/* power comes from outside */
	RIVULET_POLICY_BATTERY = 1 << 1,	/* there is a battery */
	RIVULET_POLICY_KNOWN = 1 << 2,		/* the battery's charge is known */
	RIVULET_POLICY_RESERVE = 1 << 3,	/* in the battery's reserve: few runs are admitted */
	RIVULET_POLICY_EMERGENCY = 1 << 4,	/* too hot: few runs are admitted */
	RIVULET_POLICY_STEERED = 1 << 5,	/* the daemon sets the device's level */
	RIVULET_POLICY_YIELDED = 1 << 6		/* another writer sets the level, the daemon yielded */
};

#endif
