/* SPDX-License-Identifier: MIT */
/* The table of modes with those of this folder: make gives it another npu_modes.inc. */
#include "npu/mode.c"
