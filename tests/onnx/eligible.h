/* SPDX-License-Identifier: MIT */
#ifndef RVL_TEST_ELIGIBLE_H
#define RVL_TEST_ELIGIBLE_H

#include <stdbool.h>
#include <stddef.h>

/** Whether the test of a model counts for the score; check_onnx.c defines which tests do. */
bool test_is_eligible(const void *model, size_t size);

#endif
