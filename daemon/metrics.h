/* SPDX-License-Identifier: MIT */
/* OpenMetrics. */
#ifndef RVL_METRICS_H
#define RVL_METRICS_H

struct rvl_manager;
struct rvl_metrics;

/** rvl_metrics_start() - OpenMetrics on a Unix socket; NULL: switched off, or it cannot be made */
struct rvl_metrics *rvl_metrics_start(struct rvl_manager *m);
struct rvl_metrics *rvl_metrics_stop(struct rvl_metrics *x);

#endif
