// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pinned memory and queued jobs by user. Every buffer is pinned for its whole life, so the bytes
 * that one user has pinned are limited. They are counted by user and not by file, because a user
 * can open any number of files.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "rivulet_device.h"

static unsigned int rvl_user_mib;
module_param_named(user_mib, rvl_user_mib, uint, 0644);
MODULE_PARM_DESC(user_mib, "MiB that a user without CAP_IPC_LOCK may pin, 0: half of the RAM (0)");

/* One user who has files open or buffers pinned; in rvl_accounts while referenced. */
struct rvl_account {
	refcount_t ref;		/* one for each buffer and each client */
	uid_t uid;
	atomic64_t bytes;
	atomic_t jobs;		/* jobs not yet freed, of all files that the user opened */
};

/* Accounts by user ID. xa_lock orders a lookup and the put of the last reference. */
static DEFINE_XARRAY(rvl_accounts);

static u64 rvl_account_limit(void)
{
	u64 mib = READ_ONCE(rvl_user_mib);

	if (ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK))
		return U64_MAX;
	return mib ? mib << 20 : (u64)totalram_pages() << (PAGE_SHIFT - 1);
}

/*
 * The user who is charged for what the calling process pins. It is the process's user. Within a
 * user namespace it is the user who created the namespace, because a namespace gives its creator a
 * range of subordinate IDs, each of which would otherwise have a limit of its own. Of nested
 * namespaces the outermost one counts that root did not create, because the users of a namespace of
 * root may be unrelated.
 */
static uid_t rvl_account_payer(void)
{
	kuid_t payer = current_uid();
	struct user_namespace *ns;

	for (ns = current_user_ns(); ns != &init_user_ns; ns = ns->parent)
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			payer = ns->owner;
	return from_kuid(&init_user_ns, payer);
}

/* Called with xa_lock of rvl_accounts held. */
static struct rvl_account *rvl_account_find(uid_t uid)
{
	struct rvl_account *account = xa_load(&rvl_accounts, uid);

	if (account)
		refcount_inc(&account->ref);
	return account;
}

/* The account that is charged for the caller, for rvl_account_put(). NULL if there is no memory. */
struct rvl_account *rvl_account_get(void)
{
	uid_t uid = rvl_account_payer();
	struct rvl_account *account, *fresh;
	void *old;

	xa_lock(&rvl_accounts);
	account = rvl_account_find(uid);
	xa_unlock(&rvl_accounts);
	if (account)
		return account;
	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	if (!fresh)
		return NULL;
	refcount_set(&fresh->ref, 1);
	fresh->uid = uid;
	xa_lock(&rvl_accounts);
	account = rvl_account_find(uid);
	if (!account) {
		/* This may drop the lock to allocate, so that another thread may add an entry. */
		old = __xa_cmpxchg(&rvl_accounts, uid, NULL, fresh, GFP_KERNEL);
		if (!xa_is_err(old))
			account = old ? rvl_account_find(uid) : fresh;
	}
	xa_unlock(&rvl_accounts);
	if (account != fresh)
		kfree(fresh);
	return account;
}

/* Drop a reference. The account is freed with the last one. */
void rvl_account_put(struct rvl_account *account)
{
	bool last;

	if (!account)
		return;
	xa_lock(&rvl_accounts);
	last = refcount_dec_and_test(&account->ref);
	if (last)
		__xa_erase(&rvl_accounts, account->uid);
	xa_unlock(&rvl_accounts);
	if (last)
		kfree(account);
}

/* Charge @bytes. Returns 0, or -EDQUOT when the calling user would exceed its limit. */
int rvl_account_charge(struct rvl_account *account, u64 bytes)
{
	if ((u64)atomic64_add_return(bytes, &account->bytes) <= rvl_account_limit())
		return 0;
	atomic64_sub(bytes, &account->bytes);
	return -EDQUOT;
}

void rvl_account_uncharge(struct rvl_account *account, u64 bytes)
{
	atomic64_sub(bytes, &account->bytes);
}

/* Count a job. Returns false, without counting it, when the user has RVL_MAX_USER_QUEUED. */
bool rvl_account_add_job(struct rvl_account *account)
{
	return atomic_add_unless(&account->jobs, 1, RVL_MAX_USER_QUEUED);
}

void rvl_account_remove_job(struct rvl_account *account)
{
	atomic_dec(&account->jobs);
}

/* Report how many bytes the calling user has pinned, and how many it may pin. */
void rvl_account_query(struct drm_rivulet_client *out)
{
	struct rvl_account *account = rvl_account_get();

	out->pinned = account ? atomic64_read(&account->bytes) : 0;
	out->pinned_limit = rvl_account_limit();
	rvl_account_put(account);
}
