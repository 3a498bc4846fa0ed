/* SPDX-License-Identifier: MIT */
/*
 * Errors of the compiler. A negative errno gives the kind of error, and the message names the cause
 * and the object. Library code fills the message in and returns; it never prints and never exits.
 */
#ifndef RVL_ERR_H
#define RVL_ERR_H

#define RVL_ERR_MAX 256

struct rvl_err {
	char msg[RVL_ERR_MAX];
};

/**
 * Write a message and return @code unchanged: `return rvl_fail(err, -EINVAL, ...)`. The message is
 * cut at the end of the field. Names come from files that are not trusted, so control characters and
 * invalid UTF-8 become '?' by the rule of the protocol's text fields, rivulet_proto_name().
 * @err may be NULL.
 */
int rvl_fail(struct rvl_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
