/* SPDX-License-Identifier: MIT */
/*
 * Configuration: /usr/lib/rivuletd/rivuletd.conf, then /etc/rivuletd/rivuletd.conf, then drop-ins
 * rivuletd.conf.d/NAME.conf below /usr/lib, /run and /etc in the order of their names; of two with
 * one name the one in /etc wins over /run over /usr/lib, and a link to /dev/null masks.
 */
#ifndef RVL_CONFIG_H
#define RVL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util.h"

/*
 * K(section, key, member, kind, default, lowest, highest, meaning). Kinds: COUNT, SIZE (bytes, with
 * K, M or G), SECONDS; USERS and NODE are lists and text. rivuletd.conf.5 is checked against this.
 */
#define RVL_CONFIG_KEYS(K)                                                                         \
	K(Device, Node, node, NODE, "auto", 0, 0, "auto, a device node, or sim:BOARD")             \
	K(Limits, Sessions, sessions, COUNT, "64", 1, 4096, "connections of all users")            \
	K(Limits, SessionsPerUser, user_sessions, COUNT, "16", 1, 4096, "connections of one user") \
	K(Limits, ModelsPerUser, user_models, COUNT, "32", 1, 65536, "loaded models of one user")  \
	K(Limits, InstancesPerUser, user_instances, COUNT, "64", 1, 65536, "instances of one user") \
	K(Limits, RunsPerUser, user_runs, COUNT, "64", 1, 65536, "queued and running inferences")  \
	K(Limits, MemoryPerUser, user_bytes, SIZE, "1G", 4096, 1ull << 40,                         \
	  "bound memory, loaded programs and working memory of one user")                          \
	K(Limits, CompilesPerUser, user_compiles, COUNT, "16", 1, 4096, "models being loaded")      \
	K(Limits, ModelSizeMax, model_size, SIZE, "256M", 1, 1ull << 30, "bytes of one model file") \
	K(Compiler, Workers, workers, COUNT, "2", 1, 64, "compilers at a time, one per user")      \
	K(Compiler, MemoryMax, worker_memory, SIZE, "2G", 1ull << 24, 1ull << 40,                  \
	  "address space of one compiler")                                                         \
	K(Compiler, TimeMax, worker_seconds, SECONDS, "120", 1, 86400, "for one model")            \
	K(Compiler, ProgramSizeMax, program_size, SIZE, "256M", 4096, 1ull << 30,                  \
	  "bytes of one compiled program")                                                         \
	K(Cache, MemoryMax, cache_bytes, SIZE, "256M", 0, 1ull << 40, "programs nobody has loaded") \
	K(Scheduler, ParallelRuns, parallel, COUNT, "2", 1, 64, "inferences under way at a time")  \
	K(Scheduler, Threads, threads, COUNT, "0", 0, 64, "for CPU steps; 0: one per processor")   \
	K(Scheduler, HighPriorityUsers, high_users, USERS, "root", 0, 0, "names or numbers")

#define RVL_CONFIG_USERS 16

struct rvl_users {
	uid_t uid[RVL_CONFIG_USERS];
	uint32_t n;
};

struct rvl_node {
	char s[128];
};

#define RVL_KIND_COUNT uint64_t
#define RVL_KIND_SIZE uint64_t
#define RVL_KIND_SECONDS uint64_t
#define RVL_KIND_USERS struct rvl_users
#define RVL_KIND_NODE struct rvl_node
#define RVL_CONFIG_MEMBER(section, key, member, kind, def, lo, hi, doc) RVL_KIND_##kind member;
/** struct rvl_config - plain data */
struct rvl_config {
	RVL_CONFIG_KEYS(RVL_CONFIG_MEMBER)
};

/** rvl_config_warn - told of each line that is skipped; @text has file and line */
typedef void (*rvl_config_warn_fn)(const char *text, void *data);

/** rvl_config_default() - every key's default */
void rvl_config_default(struct rvl_config *c);

/**
 * rvl_config_parse() - apply the lines of one file
 * @origin: its name, for messages. Unknown sections and keys are warned of and skipped.
 * Returns 0, or -EINVAL with @err = "ORIGIN:LINE: what is wrong"; @c is then half changed.
 */
int rvl_config_parse(struct rvl_config *c, const char *origin, const char *text, size_t len,
		     rvl_config_warn_fn warn, void *data, struct rvl_text *err);

/**
 * rvl_config_load() - defaults, then all files below @root ("" or a directory, for tests)
 * A file that is not there is skipped. Returns 0, or negative errno with @err and @c unchanged.
 */
int rvl_config_load(struct rvl_config *c, const char *root, rvl_config_warn_fn warn, void *data,
		    struct rvl_text *err);

/** rvl_config_print() - the merged result as a file that could be read again */
void rvl_config_print(const struct rvl_config *c, FILE *out);

#endif
