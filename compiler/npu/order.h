/* SPDX-License-Identifier: MIT */
#ifndef RVL_ORDER_H
#define RVL_ORDER_H

#include "npu/clock.h"

/** Makes @t->order the best order that is found for all tiles; leaves it NULL where there are many. */
int rvl_order_find(struct rvl_turns *t);

#endif
