/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "rivulet_proto.h"

#include <stdarg.h>
#include <stdio.h>

int rvl_fail(struct rvl_err *err, int code, const char *fmt, ...)
{
	char text[RVL_ERR_MAX];
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rivulet_proto_name(err->msg, sizeof(err->msg), text);
	return code;
}
