/* SPDX-License-Identifier: MIT */
/* The reply to STATUS, and what it shares with the metrics. */
#ifndef RVL_STATUS_H
#define RVL_STATUS_H

#include <stdint.h>
#include <sys/types.h>

#include "rivulet_runtime.h"

struct rvl_manager;

/** rvl_status_fd() - JSON in a sealed memfd; users other than root see only their own sessions */
int rvl_status_fd(struct rvl_manager *m, uid_t uid, int *fd, uint64_t *size);
/** rvl_status_mark() - set visible in the programs that STATUS and metrics show to @uid */
void rvl_status_mark(struct rvl_manager *m, uid_t uid);
/** rvl_level_total() - work at one level, of engines that are there and that were */
struct rivulet_level_total rvl_level_total(const struct rvl_manager *m, uint32_t level);

#endif
