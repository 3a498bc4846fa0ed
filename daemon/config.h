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
 * K, M or G), SECONDS, TIME (ns, with ms or s), PERCENT (parts per million); USERS, NODE, PATH,
 * MODE, NUMBERS and PERCENTS are lists and text; SWITCH, FOREIGN, ADMITS and RECONFIGURE one of a
 * few words. rivuletd.conf.5 is checked against this.
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
	K(Limits, HelloTimeout, hello_timeout, TIME, "10s", 1000000, 3600000000000ull,             \
	  "for a connection's first message")                                                      \
	K(Limits, MaxRunSec, run_limit, TIME, "60s", 1000000, 3600000000000ull,                    \
	  "for one inference, from its start")                                                     \
	K(Limits, ModelSizeMax, model_size, SIZE, "256M", 1, 1ull << 30, "bytes of one model file") \
	K(Compiler, Workers, workers, COUNT, "2", 1, 64, "compilers at a time, one per user")      \
	K(Compiler, MemoryMax, worker_memory, SIZE, "2G", 1ull << 24, 1ull << 40,                  \
	  "address space of one compiler")                                                         \
	K(Compiler, TimeMax, worker_seconds, SECONDS, "120", 1, 86400, "for one model")            \
	K(Compiler, ProgramSizeMax, program_size, SIZE, "256M", 4096, 1ull << 30,                  \
	  "bytes of one compiled program")                                                         \
	K(Cache, MemoryMax, cache_bytes, SIZE, "256M", 0, 1ull << 40, "bytes of programs not loaded") \
	K(Cache, ProgramsMax, cache_programs, COUNT, "128", 0, 4096, "number of programs not loaded") \
	K(Scheduler, ParallelRuns, parallel, COUNT, "3", 1, 64, "inferences under way at a time")  \
	K(Scheduler, StopTimeout, stop_timeout, TIME, "10s", 1000000, 3600000000000ull,             \
	  "for work under way when the daemon stops")                                              \
	K(Scheduler, Threads, threads, COUNT, "0", 0, 64, "for CPU steps; 0: one per processor")   \
	K(Scheduler, HighPriorityUsers, high_users, USERS, "root", 0, 0, "names or numbers")       \
	K(Power, Mode, power_mode, MODE, "auto", 0, 0,                                             \
	  "auto, performance, balanced, powersave, or the number of a level")                      \
	K(Power, Levels, power_levels, NUMBERS, "auto", 0, 7, "levels in use, fastest first")      \
	K(Power, Thresholds, power_thresholds, PERCENTS, "auto", 0, 1000000,                       \
	  "of charge, one between two levels: at or below it the slower one")                      \
	K(Power, Reconfigure, reconfigure, RECONFIGURE, "both", 0, 0,                              \
	  "what the policy changes: both, hardware (clock), software (lengths), none")             \
	K(Power, Hysteresis, power_hysteresis, PERCENT, "2", 0, 500000, "above it before rising")  \
	K(Power, Dwell, power_dwell, TIME, "10s", 0, 3600000000000ull, "between a change and a rise") \
	K(Power, Reserve, power_reserve, PERCENT, "5", 0, 500000, "of charge, kept; 0: none")      \
	K(Power, ReserveAdmits, power_admits, ADMITS, "high", 0, 0, "runs in it: high, none, all")  \
	K(Power, Heat, power_heat, SWITCH, "yes", 0, 0, "obey thermal zones")                      \
	K(Power, TemperatureLimit, power_temp, COUNT, "0", 0, 150, "degrees Celsius; 0: trips only") \
	K(Power, HeatStep, power_heat_step, TIME, "5s", 1000000, 3600000000000ull,                 \
	  "between two levels down while it is too hot")                                           \
	K(Power, PollMax, poll_max, TIME, "30s", 1000000, 3600000000000ull, "between two readings") \
	K(Power, PollMin, poll_min, TIME, "100ms", 1000000, 60000000000ull, "when charge falls fast") \
	K(Power, ForeignWriter, foreign, FOREIGN, "yield", 0, 0, "yield or reassert")              \
	K(Power, PowerProfiles, profiles, SWITCH, "yes", 0, 0, "obey power-profiles-daemon in auto") \
	K(Power, PolicyUsers, policy_users, USERS, "root", 0, 0, "may change mode and level")       \
	K(Power, StateDirectory, state_dir, PATH, "auto", 0, 0, "auto, off or a directory")         \
	K(Metrics, Socket, metrics, PATH, "auto", 0, 0, "auto, off or a path")

/* X(key, member): keys that take effect when the daemon is restarted. */
#define RVL_CONFIG_FIXED(X)                                                                        \
	X(Node, node) X(Threads, threads) X(StateDirectory, state_dir) X(Socket, metrics)

#define RVL_CONFIG_USERS 16

struct rvl_users {
	uid_t uid[RVL_CONFIG_USERS];
	uint32_t n;
};

struct rvl_node {
	char s[128];
};

/** struct rvl_numbers - a short list; n 0: auto */
struct rvl_numbers {
	uint32_t v[8];
	uint32_t n;
};

/** struct rvl_mode - of the power policy */
struct rvl_mode {
	uint32_t mode;	/* enum rivulet_policy_mode */
	uint32_t fixed;
};

enum rvl_foreign { RVL_FOREIGN_YIELD = 0, RVL_FOREIGN_REASSERT };
enum rvl_reconfigure {
	RVL_RECONFIGURE_BOTH = 0, RVL_RECONFIGURE_HARDWARE, RVL_RECONFIGURE_SOFTWARE,
	RVL_RECONFIGURE_NONE,
};
enum rvl_admits { RVL_ADMITS_HIGH = 0, RVL_ADMITS_NONE, RVL_ADMITS_ALL };

#define RVL_KIND_COUNT uint64_t
#define RVL_KIND_SIZE uint64_t
#define RVL_KIND_SECONDS uint64_t
#define RVL_KIND_TIME uint64_t
#define RVL_KIND_PERCENT uint64_t
#define RVL_KIND_SWITCH uint64_t
#define RVL_KIND_FOREIGN uint64_t
#define RVL_KIND_ADMITS uint64_t
#define RVL_KIND_RECONFIGURE uint64_t
#define RVL_KIND_MODE struct rvl_mode
#define RVL_KIND_NUMBERS struct rvl_numbers
#define RVL_KIND_PERCENTS struct rvl_numbers
#define RVL_KIND_PATH struct rvl_node
#define RVL_KIND_USERS struct rvl_users
#define RVL_KIND_NODE struct rvl_node
#define RVL_CONFIG_MEMBER(section, key, member, kind, def, lo, hi, doc) RVL_KIND_##kind member;
/** struct rvl_config - plain data */
struct rvl_config {
	RVL_CONFIG_KEYS(RVL_CONFIG_MEMBER)
};

/** rvl_users_have() - whether @uid is on a list */
bool rvl_users_have(const struct rvl_users *u, uid_t uid);

/** enum rvl_config_skipped - what the parser does not know, warns of, and skips */
enum rvl_config_skipped { RVL_SKIPPED_KEY, RVL_SKIPPED_SECTION };
/** rvl_config_warn_fn - called for each unknown key and section; @text names file and line */
typedef void (*rvl_config_warn_fn)(enum rvl_config_skipped what, const char *text, void *data);

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

/**
 * rvl_config_keep_fixed() - take from @old what only a restart changes
 * @names: becomes the keys that differed, "Node=, Threads=", or ""
 */
void rvl_config_keep_fixed(struct rvl_config *c, const struct rvl_config *old, struct rvl_text *names);

/** rvl_config_print() - the merged result as a file that could be read again */
void rvl_config_print(const struct rvl_config *c, FILE *out);

#endif
