/* SPDX-License-Identifier: MIT */
/* Users: the owners of limits and of shares of the device's time. One for each uid. */
#ifndef RVL_USER_H
#define RVL_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fair.h"
#include "intake.h"
#include "log.h"
#include "offload.h"
#include "util.h"

struct rvl_manager;

/**
 * struct rvl_user - what one uid uses
 * Freed when refs is 0 and its share is not in debt. Otherwise a user could clear its debt by
 * closing its connections and opening new ones.
 */
struct rvl_user {
	struct rvl_list link;
	struct rvl_manager *m;
	uid_t uid;
	uint32_t refs;	/* sessions and LOADs under way */
	uint32_t sessions, models, instances, runs, compiles;
	uint32_t under_way;	/* runs that take a slot of ParallelRuns= */
	uint32_t overdue;	/* runs that were cancelled by MaxRunSec= and have not ended */
	bool compiling;	/* a worker process runs for this user, or its program is checked */
	uint64_t compiled;	/* when the last worker process for this user started */
	uint64_t bytes;
	struct rvl_rate log;	/* journal entries that its clients cause */
	struct rvl_share share;	/* of the device's time */
	struct rvl_work_owner work;	/* of the loader */
	struct rvl_work_owner release;	/* of the closer */
	struct rvl_intake intake;
};

/** rvl_user_get() - find or create a user and take a reference; NULL: out of memory */
struct rvl_user *rvl_user_get(struct rvl_manager *m, uid_t uid);
struct rvl_user *rvl_user_put(struct rvl_user *u);
/** rvl_users_clear() - forget also those that are kept for their debts; the daemon ends */
void rvl_users_clear(struct rvl_manager *m);
/** rvl_user_charge() - take @bytes of MemoryPerUser=, or -EDQUOT with both numbers in @err */
int rvl_user_charge(struct rvl_manager *m, struct rvl_user *u, uint64_t bytes, const char *what,
		    struct rvl_text *err);
/**
 * rvl_user_count() - increment @counter, or return -EDQUOT if it has reached @limit, which @key
 * names
 */
int rvl_user_count(uint32_t *counter, uint64_t limit, const char *key, struct rvl_text *err);

#endif
