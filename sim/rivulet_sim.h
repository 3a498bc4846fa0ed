/* SPDX-License-Identifier: MIT */
/*
 * The device model as a library: the whole device of docs/device.md, driven through its register
 * window, and a function that runs one job without the queue. rivulet-sim serves the device to
 * QEMU.
 */
#ifndef RIVULET_SIM_H
#define RIVULET_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "core.h"

struct rivulet_sim;

/** struct rivulet_sim_ops - how the model reaches its host */
struct rivulet_sim_ops {
	struct rvl_bus bus;
	void (*irq)(void *ctx);			/* raise the interrupt; may be NULL (polled) */
	uint64_t (*now)(void *ctx);		/* device time source, ns; NULL: CLOCK_MONOTONIC */
	void *ctx;
};

/**
 * rivulet_sim_new() - a device after power on
 * @window: RIVULET_WINDOW_SIZE bytes shared with the driver, owned by the caller, outliving the
 * device
 */
struct rivulet_sim *rivulet_sim_new(const struct rivulet_board *b, void *window,
				    const struct rivulet_sim_ops *ops);
struct rivulet_sim *rivulet_sim_free(struct rivulet_sim *s);

/**
 * rivulet_sim_step() - read the window and do what can be done without waiting for device time
 * Deterministic single-threaded stepping for tests and for the server's loop. Returns ns until
 * something becomes due by itself (0: call again now), or UINT64_MAX when only a doorbell can
 * change anything.
 */
uint64_t rivulet_sim_step(struct rivulet_sim *s);

/**
 * rivulet_sim_run() - run one program without queue, descriptor CRC or pacing (the linked back end)
 * @job: regions and variant; @level: for energy and time. @st is filled completely, CRC included.
 * Keeps the scratchpads between calls; a new @client clears them.
 */
void rivulet_sim_run(struct rivulet_sim *s, struct rvl_job *job, uint32_t client, uint32_t level,
		     struct rivulet_status *st);

#endif
