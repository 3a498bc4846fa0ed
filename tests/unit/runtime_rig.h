/* SPDX-License-Identifier: MIT */
/* A runtime on the fake NPU, for tests of what it issues. */
#ifndef RVL_RUNTIME_RIG_H
#define RVL_RUNTIME_RIG_H

#include <check.h>

#include "../../runtime/internal.h"
#include "fake_npu.h"

static struct rivulet_workers *workers;
static struct rivulet_runtime *rt;
static struct rivulet_runtime_error err;
static struct rivulet_device *dev;

static void setup(void)
{
	npu_setup("zu3eg-64");
	dev = npu_device();
	ck_assert(!rivulet_workers_new(2, &workers));
	ck_assert_msg(!rivulet_runtime_new_device(dev, workers, &rt, &err), "%s", err.text);
}

static void teardown(void)
{
	ck_assert_ptr_null(rivulet_runtime_unref(rt));
	ck_assert_ptr_null(rivulet_device_unref(dev));
	ck_assert_ptr_null(rivulet_workers_unref(workers));
	npu_teardown();
}

/* A run of a program file. */
static struct rivulet_exec *exec_of_file(const void *file, size_t size)
{
	struct rivulet_image *img;
	struct rivulet_exec *x;

	ck_assert_msg(!rivulet_image_load(rt, file, size, &img, &err), "%s", err.text);
	ck_assert_msg(!rivulet_exec_new(img, &x, &err), "%s", err.text);
	rivulet_image_unref(img);
	return x;
}

#endif
