/* SPDX-License-Identifier: MIT */
/* Files beside a model that hold the data of its tensors. The compiler itself opens no file. */
#ifndef RVL_BASE_FILES_H
#define RVL_BASE_FILES_H

#include <stdint.h>

#include "base/err.h"

/** struct rivulet_files - how a caller of the compiler reads files beside the model */
struct rivulet_files {
	/**
	 * @read: @size bytes at @offset of a file. @location is a relative path without "." and ".."
	 * and without empty parts; the caller must not follow symbolic links out of the folder.
	 * *data stays valid until the caller is done with the compiler. Returns 0 or a negative errno.
	 */
	int (*read)(void *arg, const char *location, uint64_t offset, uint64_t size,
		    const void **data, struct rvl_err *err);
	void *arg;
};

#endif
