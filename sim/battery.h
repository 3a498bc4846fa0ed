/* SPDX-License-Identifier: MIT */
/*
 * The battery that the device drains: some words of guest memory, which the machine's ACPI battery
 * (scripts/vm-files/battery.asl) reads. docs/battery.md has the layout.
 */
#ifndef RVL_SIM_BATTERY_H
#define RVL_SIM_BATTERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"

#define RVL_BATTERY_MAGIC 0x54414252u /* "RBAT" */

/** struct rvl_battery_page - as the machine reads it, little endian; capacities in mWh */
struct rvl_battery_page {
	uint32_t magic; /* written last */
	uint32_t state; /* ACPI _BST: 1 discharging, 4 critical */
	uint32_t rate;	/* mW; all ones: unknown */
	uint32_t left;
	uint32_t voltage; /* mV */
	uint32_t design;
	uint32_t full;
	uint32_t warning;
	uint32_t low;
	uint32_t design_voltage; /* mV */
};

/** struct rvl_battery - the battery, which keeps its state when the machine disconnects */
struct rvl_battery {
	bool on;
	uint64_t at;   /* guest physical address of the page */
	uint32_t full; /* mWh */
	double factor; /* multiplies the energy that is taken from it */
	double left;   /* joules, of @full */
	double taken;  /* joules of the device since the last charge, without @factor */
	uint64_t counted; /* energy counter of the device at the last update, pJ */
	bool unmapped;     /* the page is outside the machine's memory, and this was logged */
};

/**
 * rvl_battery_set() - --battery: mwh=N,at=ADDR[,factor=X][,charge=PERCENT]
 * A charge left out is 100, a factor 1. Returns 0, or -EINVAL with @err.
 */
int rvl_battery_set(struct rvl_battery *b, const char *spec, char *err, size_t errsize);
/** rvl_battery_change() - at run time: charge=PERCENT[,factor=X] of a battery that is on */
int rvl_battery_change(struct rvl_battery *b, const char *spec, char *err, size_t errsize);
/**
 * rvl_battery_follow() - take the increase of the energy counter from the charge, and update the
 * page
 * @energy: of the device that is connected, pJ; a new device begins at 0. Returns false when there
 * is memory, but none at the address of the page.
 */
bool rvl_battery_follow(struct rvl_battery *b, struct rvl_memory *mem, uint64_t energy);
/** rvl_battery_restart() - a new device is connected, whose counter starts at 0 */
void rvl_battery_restart(struct rvl_battery *b);
/** rvl_battery_left() - mWh */
double rvl_battery_left(const struct rvl_battery *b);

#endif
