/* SPDX-License-Identifier: MIT */
/* QRescale of int16 to 8 bits as a product. */
#ifndef RVL_NARROW_H
#define RVL_NARROW_H

#include "graph/graph.h"

/** The factor with which the ALU makes the bytes of @n, as the CPU makes them; 0: there is none. */
float rvl_narrow_factor(const struct rvl_node *n);

#endif
