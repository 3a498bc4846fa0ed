/* SPDX-License-Identifier: MIT */
/* The accel node, or the model that is linked in, as it comes and goes. */
#ifndef RVL_ACCEL_H
#define RVL_ACCEL_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-device.h>
#include <systemd/sd-event.h>

#include "config.h"
#include "rivulet_board.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"
#include "rivulet_runtime.h"
#include "util.h"

struct rvl_key;
struct rvl_manager;
struct rvl_program;

/** struct rvl_engine - a runtime on the event loop; one per session, or one for all on the model */
struct rvl_engine {
	uint32_t refs;
	struct rvl_device *device;
	struct rivulet_runtime *rt;
	sd_event_source *source;
};

struct rvl_device {
	struct rvl_manager *m;
	struct rvl_node wanted;		/* Node= */
	bool present, sim;
	uint32_t epoch;			/* number of arrivals; engines of earlier epochs are stale */
	char node[RIVULET_NAME_MAX];	/* "" when absent */
	char syspath[256];
	struct rivulet_board board;
	struct rivulet_target target;
	struct rivulet_workers *pool;
	struct rvl_engine *shared;	/* the model's */
	sd_device_monitor *monitor;
	sd_event_source *retry;		/* enumerates again after a node could not be opened */
	unsigned int tries;
	struct rivulet_level_total past[RIVULET_LEVELS];	/* of engines that are gone */
};

/** rvl_device_start() - enumerate and monitor devices; it is no error if there is none */
int rvl_device_start(struct rvl_manager *m, struct rvl_text *err);
void rvl_device_stop(struct rvl_device *d);
/** rvl_device_removed() - the driver reported -ENODEV before udev announced the removal */
void rvl_device_removed(struct rvl_device *d);
/** rvl_device_engine() - a runtime for one session; -ENODEV without a device */
int rvl_device_engine(struct rvl_device *d, struct rvl_engine **out, struct rvl_text *err);
struct rvl_engine *rvl_engine_put(struct rvl_engine *e);
/** rvl_device_key() - the parts of a program's key that the device decides */
void rvl_device_key(const struct rvl_device *d, struct rvl_key *key);
/** rvl_device_expected_ns() - of one run at the highest level; 0 without a device */
uint64_t rvl_device_expected_ns(const struct rvl_device *d, const struct rvl_program *p);

#endif
