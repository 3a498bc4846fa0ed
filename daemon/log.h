/* SPDX-License-Identifier: MIT */
/*
 * The journal. An entry has a priority, a text, and where it is known the device, model, job and
 * client in fields of their own. Events that an administrator may search for have a MESSAGE_ID, which
 * systemd/rivulet.catalog explains.
 */
#ifndef RVL_LOG_H
#define RVL_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <syslog.h>

#include "util.h"

/* X(NAME, MESSAGE_ID, meaning). */
#define RVL_LOG_IDS(X)                                                                             \
	X(NONE, "", "")                                                                            \
	X(STARTED, "195d5859cad74dd786f3737263593ddc", "the daemon is ready")                      \
	X(DEVICE_ADDED, "43d39e46261d44b0af5ff2b0d490b38e", "a device is served")                  \
	X(DEVICE_REMOVED, "8c2eef4192e04c759625fb02d24c814b", "the device is gone")                \
	X(CONFIG_RELOADED, "5ce357dfb5584e519a5ea4288c01477a", "a new configuration is in force")  \
	X(CONFIG_REFUSED, "0c078b2cfe894b8d8506776ce8dfebc5", "a reload failed, nothing changed")  \
	X(MODEL_LOADED, "add8accb0c4d48bb8f83f2761dcafdbf", "a model was compiled")                \
	X(MODEL_REFUSED, "a11b7491662a4cc8bf49168b4b7be2dc", "a model could not be compiled")      \
	X(COMPILER_DIED, "85e24bf78c41492b8c76be64b25cc804", "a model broke the compiler or a limit") \
	X(POLICY_LEVEL, "27e9d6aa6fe24b9f9d3aaf6f0fb8fbb1", "another voltage/frequency level")      \
	X(POLICY_UNSTEERED, "f1d8cf1a85b94cb9a1c20aa6c9b5b6d4", "the level cannot be set")         \
	X(POLICY_REFUSED, "5a0f0c4c26f6481e8e4b1f6a2f4ad4f2", "devfreq refused a level")           \
	X(POLICY_FOREIGN, "c8e3a4c2e8f84d6f8f3f1dbb5a0c8e17", "somebody else set the limits")      \
	X(POLICY_RECOVERED, "93f5b1d3c7a54f0f8c3a2f6f4b7d9e28", "taken over from a killed daemon") \
	X(POLICY_MODE, "d0b7c6a9e1f24f3ab5d48c9e7f61a2b3", "another policy mode")                  \
	X(EXHAUSTED, "7c1d8c3a0f9e4b0a9a4bb1a2b64d5e60", "the daemon is out of descriptors or memory") \
	X(RUN_FAILED, "1bb8e9450dad4edab25bfefe41296c89", "an inference failed")                   \
	X(PROTOCOL, "759ba8f39bec4fc9abf69b45e238ac71", "a client was disconnected")

#define RVL_LOG_ENUM(name, id, doc) RVL_LOG_##name,
enum rvl_log_id { RVL_LOG_IDS(RVL_LOG_ENUM) RVL_LOG_COUNT };

/** struct rvl_about - what an entry is about; zero and NULL mean unknown */
struct rvl_about {
	const char *device;
	const char *model;
	uint32_t job;		/* serial of the run */
	const char *client;	/* name in its HELLO */
	pid_t pid;
	uid_t uid;		/* with pid */
	bool have_level, have_charge;
	int level;
	uint32_t charge;	/* parts per million */
	const char *reason;	/* of the level */
	struct rvl_rate *rate;	/* of the user whose act caused the entry; NULL: not limited */
};

/**
 * rvl_log_init() - to the journal if stderr leads there, else to stderr; @max: least urgent
 * priority shown
 */
void rvl_log_init(int max);

/** rvl_log() - write an entry; @about may be NULL */
void rvl_log(int priority, enum rvl_log_id id, const struct rvl_about *about, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/**
 * rvl_log_last() - log the error that ends the process, always to stderr
 * journald finds the unit of a native entry by its sender's process, which may have exited by then. It
 * knows the unit of the stderr stream.
 */
void rvl_log_last(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** rvl_log_message_id() - the 32 hex digits, "" for NONE */
const char *rvl_log_message_id(enum rvl_log_id id);

#endif
