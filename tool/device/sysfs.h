/* SPDX-License-Identifier: MIT */
/*
 * What the system says about the device: small files below a root ("" is the real one; tests have
 * another).
 */
#ifndef RVL_TOOL_SYSFS_H
#define RVL_TOOL_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RVL_PATH_MAX 512

/** rvl_sys_read() - first line of ROOT/fmt without its newline; false when it cannot be read */
bool rvl_sys_read(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/** rvl_sys_exists() - whether ROOT/fmt is there */
bool rvl_sys_exists(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** rvl_sys_link() - last part of the symbolic link ROOT/fmt */
bool rvl_sys_link(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/**
 * rvl_sys_each() - call @fn with the name of each entry of the directory ROOT/dir, sorted, till it
 * returns true
 */
bool rvl_sys_each(const char *dir, bool (*fn)(void *ctx, const char *name), void *ctx);
/** rvl_sys_path() - ROOT/fmt; @out of RVL_PATH_MAX bytes is returned */
const char *rvl_sys_path(char *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** rvl_sys_root - prefix of every path, "" by default */
extern const char *rvl_sys_root;

/**
 * rvl_sys_devfreq() - name below /sys/class/devfreq of the device of this node ("accel0"), or false
 */
bool rvl_sys_devfreq(const char *node, char *out, size_t size);

#endif
