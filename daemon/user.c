// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdlib.h>

#include "fair.h"
#include "manager.h"
#include "user.h"
#include "util.h"

/* Journal entries that one user may cause. */
#define LOG_BURST 50
#define LOG_INTERVAL_NS (NSEC_PER_SEC / 2)

#define KEPT_MAX 64	/* users without anything open who are remembered */

static void user_free(struct rvl_manager *m, struct rvl_user *u)
{
	sd_event_source_disable_unref(u->intake.retry);
	rvl_fair_leave(&m->sched.fair, &u->share);
	rvl_list_del(&u->link);
	free(u);
}

/* Reconnecting must not reset a user's virtual time, nor the budget of journal entries. */
static bool is_remembered(const struct rvl_manager *m, const struct rvl_user *u)
{
	return rvl_fair_in_debt(&m->sched.fair, &u->share) || !rvl_rate_is_full(&u->log);
}

/* Frees users without references: those with nothing to remember, and the oldest beyond KEPT_MAX. */
static void sweep(struct rvl_manager *m)
{
	struct rvl_user *u;
	uint32_t kept = 0;

	rvl_list_each(u, &m->users, link)
		kept += !u->refs;
	rvl_list_each(u, &m->users, link) {
		if (u->refs || (kept <= KEPT_MAX && is_remembered(m, u)))
			continue;
		user_free(m, u);
		kept--;
	}
}

struct rvl_user *rvl_user_get(struct rvl_manager *m, uid_t uid)
{
	struct rvl_user *u;

	rvl_list_each(u, &m->users, link) {
		if (u->uid == uid) {
			u->refs++;
			return u;
		}
	}
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	u->refs = 1;
	u->log = RVL_RATE(LOG_BURST, LOG_INTERVAL_NS);
	u->m = m;
	rvl_list_init(&u->intake.queue);
	rvl_fair_join(&m->sched.fair, &u->share);
	rvl_list_add_tail(&m->users, &u->link);
	return u;
}

struct rvl_user *rvl_user_put(struct rvl_user *u)
{
	if (u && !--u->refs)
		sweep(u->m);
	return NULL;
}

void rvl_users_clear(struct rvl_manager *m)
{
	struct rvl_user *u;

	rvl_list_each(u, &m->users, link)
		user_free(m, u);
}

int rvl_user_charge(struct rvl_manager *m, struct rvl_user *u, uint64_t bytes, const char *what,
		    struct rvl_text *err)
{
	if (u->bytes > m->cfg.user_bytes || bytes > m->cfg.user_bytes - u->bytes)
		return rvl_say(err, -EDQUOT,
			       "%s needs %llu bytes, user %u has %llu of MemoryPerUser=%llu left",
			       what, (unsigned long long)bytes, u->uid,
			       u->bytes > m->cfg.user_bytes ?
				       0 :
				       (unsigned long long)(m->cfg.user_bytes - u->bytes),
			       (unsigned long long)m->cfg.user_bytes);
	u->bytes += bytes;
	return 0;
}

int rvl_user_count(uint32_t *counter, uint64_t limit, const char *key, struct rvl_text *err)
{
	if (*counter >= limit)
		return rvl_say(err, -EDQUOT, "%u in use, %s=%llu allows no more", *counter, key,
			       (unsigned long long)limit);
	++*counter;
	return 0;
}
