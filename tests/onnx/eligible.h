/* SPDX-License-Identifier: MIT */
#ifndef RVL_TEST_ELIGIBLE_H
#define RVL_TEST_ELIGIBLE_H

#include <stdbool.h>
#include <stddef.h>

/** Whether a model's test is one that rivulet is measured by; check_onnx.c says which are. */
bool test_is_eligible(const void *model, size_t size);

#endif
