/* SPDX-License-Identifier: MIT */
/*
 * Guest memory of a QEMU q35 machine as the device masters it: a memory-backend-file with share=on.
 * With less than 2816 MiB of RAM, the file offset is the guest physical address. With more, this
 * holds for the first 2 GiB, and the rest starts at 4 GiB.
 */
#ifndef RVL_SIM_MEMORY_H
#define RVL_SIM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct rvl_memory - the mapping, made at the first access, because QEMU may create the file later
 */
struct rvl_memory {
	const char *path;	/* outlives the struct */
	uint8_t *base;		/* NULL: not mapped yet */
	uint64_t size;
};

/** rvl_memory_map() - struct rvl_bus map: NULL outside RAM or while there is no memory */
void *rvl_memory_map(void *ctx, uint64_t addr, uint64_t len, bool write);

/** rvl_memory_drop() - release the mapping; the next access makes a new one */
void rvl_memory_drop(struct rvl_memory *m);

/**
 * rvl_memory_offset() - file offset of a guest physical range in a file of @size bytes, or
 * UINT64_MAX
 */
uint64_t rvl_memory_offset(uint64_t size, uint64_t addr, uint64_t len);

#endif
