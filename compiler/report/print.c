/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/print.h"

void rvl_put(struct rvl_out *o, const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	if (o->rc)
		return;
	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	o->rc = n < 0 ? -ENOMEM : rvl_bytes_add(&o->b, s, n, 1, NULL);
	if (n >= 0)
		free(s);
}

int rvl_out_finish(struct rvl_out *o, struct rivulet_blob *out)
{
	rvl_put(o, "%c", '\n');
	if (o->rc) {
		rvl_bytes_free(&o->b);
		return o->rc;
	}
	o->b.data[o->b.size - 1] = '\0'; /* there is room for it, because the line feed was there */
	*out = (struct rivulet_blob){ .data = o->b.data, .size = o->b.size - 1 };
	return 0;
}

const char *rvl_si(uint64_t v, char *s, size_t n)
{
	static const char unit[] = " kMGTPE";
	double d = (double)v;
	int u = 0;

	while (d >= 999.5 && u < 6) {
		d /= 1000;
		u++;
	}
	snprintf(s, n, "%.*f %c", !u ? 0 : d < 9.995 ? 2 : d < 99.95 ? 1 : 0, d, unit[u]);
	return s;
}
