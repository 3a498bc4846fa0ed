// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
/* Checks of the socket's messages for both ends, derived from the tables in the header. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "rivulet_proto.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/*
 * A struct is as long as the sum of its fields on every ABI, so it has no padding that could leak
 * memory.
 */
#define SIZE_SCALAR(type, name, doc) + sizeof(type)
#define SIZE_ARRAY(type, name, count, doc) + sizeof(type) * (count)
#define SIZE_TEXT(name, size, doc) + (size)
#define BODY_SIZE(BODY) (sizeof(struct rivulet_msg) \
			 RIVULET_BODY_##BODY(SIZE_SCALAR, SIZE_ARRAY, SIZE_TEXT))
#define ASSERT_PACKED(name, BODY)                                                                  \
	_Static_assert(sizeof(struct rivulet_msg_##name) == BODY_SIZE(BODY), "padding in " #name); \
	_Static_assert(BODY_SIZE(BODY) <= RIVULET_MSG_MAX, #name " is too long");
RIVULET_BODIES(ASSERT_PACKED)

#define FIELD_SCALAR(type, name, doc) { #name, doc, RIVULET_PROTO_##type, sizeof(type), 0 },
#define FIELD_ARRAY(type, name, count, doc)                                                        \
	{ #name, doc, RIVULET_PROTO_##type, sizeof(type), count },
#define FIELD_TEXT(name, size, doc) { #name, doc, RIVULET_PROTO_text, 1, size },
#define FIELD_TABLE(name, BODY)                                                                    \
	static const struct rivulet_proto_field fields_##BODY[] = {                                \
		RIVULET_BODY_##BODY(FIELD_SCALAR, FIELD_ARRAY, FIELD_TEXT)                         \
	};
RIVULET_BODIES(FIELD_TABLE)

#define INFO(name, doc, type, BODY, min_fds, max_fds)                                              \
	{ name, doc, type, BODY_SIZE(BODY), min_fds, max_fds, fields_##BODY,                       \
	  ARRAY_SIZE(fields_##BODY) },
#define INFO_REQUEST(name, type, REQ, fds, REP, min_fds, max_fds, doc)                             \
	INFO(#name, doc, type, REQ, fds, fds)                                                      \
	INFO(#name " reply", "", (type) | RIVULET_REPLY, REP, min_fds, max_fds)
#define INFO_EVENT(name, type, BODY, doc) INFO(#name, doc, type, BODY, 0, 0)

static const struct rivulet_proto_info infos[] = {
	RIVULET_REQUESTS(INFO_REQUEST)
	RIVULET_EVENTS(INFO_EVENT)
};

const struct rivulet_proto_info *rivulet_proto_list(int n)
{
	return n >= 0 && (size_t)n < ARRAY_SIZE(infos) ? &infos[n] : NULL;
}

const struct rivulet_proto_info *rivulet_proto_info(uint16_t type)
{
	for (size_t i = 0; i < ARRAY_SIZE(infos); i++)
		if (infos[i].type == type)
			return &infos[i];
	return NULL;
}

__attribute__((format(printf, 4, 5)))
static int refuse(int code, char *err, size_t errsize, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, errsize, fmt, ap);
	va_end(ap);
	return code;
}

static bool is_event(uint16_t type)
{
	return type == RIVULET_MSG_DEVICE || type == RIVULET_MSG_LEVEL || type == RIVULET_MSG_ERROR;
}

static int check_header(const struct rivulet_msg *h, const struct rivulet_proto_info *info,
			bool from_client, uint16_t version, char *err, size_t errsize)
{
	bool hello = (h->type & ~RIVULET_REPLY) == RIVULET_MSG_HELLO;
	bool request = !(h->type & RIVULET_REPLY) && !is_event(h->type);

	if (request != from_client)
		return refuse(-EPROTO, err, errsize, "%s is not sent by the %s", info->name,
			      from_client ? "client" : "daemon");
	if (h->type != RIVULET_MSG_ERROR && h->version != (hello ? 0 : version))
		return refuse(-EPROTO, err, errsize, "%s: version %u instead of %u", info->name,
			      h->version, hello ? 0 : version);
	if (from_client && !hello && !version)
		return refuse(-EPROTO, err, errsize, "%s before HELLO", info->name);
	if (from_client && hello && version)
		return refuse(-EPROTO, err, errsize, "a second HELLO");
	if (h->type != RIVULET_MSG_ERROR && is_event(h->type) != !h->serial)
		return refuse(-EPROTO, err, errsize, "%s: serial %u", info->name, h->serial);
	if (h->type == RIVULET_MSG_ERROR ? h->error >= 0 || h->error < -4095 : h->error != 0)
		return refuse(-EPROTO, err, errsize, "%s: error field %d", info->name, h->error);
	return 0;
}

static bool all_zero(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

/*
 * Returns the bytes of the character at @p, or 0 for invalid UTF-8 (RFC 3629: no overlong form, no
 * surrogate) and for a control character, which would break a journal line or a terminal.
 */
static size_t character(const unsigned char *p, size_t left)
{
	static const uint32_t lowest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;
	uint32_t code = n == 1 ? *p : *p & (0x7fu >> n);

	if (!n || n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < lowest[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return code < 0x20 || (code >= 0x7f && code < 0xa0) ? 0 : n;
}

size_t rivulet_proto_text(const char *text, size_t len)
{
	size_t at = 0, n;

	while (at < len && (n = character((const unsigned char *)text + at, len - at)))
		at += n;
	return at;
}

static int check_text(const char *text, const struct rivulet_proto_info *info,
		      const struct rivulet_proto_field *f, char *err, size_t errsize)
{
	size_t len = strnlen(text, f->count), good;

	if (len == f->count || !all_zero((const unsigned char *)text + len, f->count - len))
		return refuse(-EPROTO, err, errsize, "%s: %s is not NUL terminated and padded",
			      info->name, f->name);
	good = rivulet_proto_text(text, len);
	if (good == len)
		return 0;
	return refuse(-EINVAL, err, errsize,
		      "%s: byte %zu of %s is a control character or no valid UTF-8", info->name, good,
		      f->name);
}

/* -EPROTO takes precedence over -EINVAL, wherever the field is. */
static int check_fields(const unsigned char *p, const struct rivulet_proto_info *info, char *err,
			size_t errsize)
{
	size_t at = sizeof(struct rivulet_msg);
	char text[256];
	int r = 0, f_r;

	for (int i = 0; i < info->fields && r != -EPROTO; i++) {
		const struct rivulet_proto_field *f = &info->field[i];
		size_t bytes = (size_t)f->width * (f->count ? f->count : 1);

		f_r = 0;
		if (f->type == RIVULET_PROTO_text)
			f_r = check_text((const char *)p + at, info, f, text, sizeof(text));
		else if (!strcmp(f->name, "rsvd") && !all_zero(p + at, bytes))
			f_r = refuse(-EINVAL, text, sizeof(text),
				     "%s: a reserved field is not zero", info->name);
		if (f_r == -EPROTO || (f_r && !r))
			r = refuse(f_r, err, errsize, "%s", text);
		at += bytes;
	}
	return r;
}

int rivulet_proto_check(const void *packet, size_t size, int nfds, bool from_client,
			uint16_t version, char *err, size_t errsize)
{
	const struct rivulet_proto_info *info;
	struct rivulet_msg h;
	int r;

	if (size < sizeof(h))
		return refuse(-EPROTO, err, errsize, "a packet of %zu bytes has no header", size);
	memcpy(&h, packet, sizeof(h));
	info = rivulet_proto_info(h.type);
	if (!info)
		return refuse(-EPROTO, err, errsize, "unknown message type 0x%04x", h.type);
	if (size != info->size || h.length != size)
		return refuse(-EPROTO, err, errsize, "%s: %zu bytes, length field %u, not %u",
			      info->name, size, h.length, info->size);
	if (nfds < info->min_fds || nfds > info->max_fds)
		return refuse(-EPROTO, err, errsize, "%s: %d file descriptors instead of %u",
			      info->name, nfds, info->max_fds);
	r = check_header(&h, info, from_client, version, err, errsize);
	return r ? r : check_fields(packet, info, err, errsize);
}

size_t rivulet_proto_init(void *packet, uint16_t type, uint16_t version, uint32_t serial)
{
	const struct rivulet_proto_info *info = rivulet_proto_info(type);
	struct rivulet_msg h = { .type = type, .version = version, .serial = serial };

	if (!info)
		return 0;
	memset(packet, 0, info->size);
	h.length = info->size;
	memcpy(packet, &h, sizeof(h));
	return info->size;
}

void rivulet_proto_name(char *field, size_t size, const char *text)
{
	size_t len = strlen(text), to = 0, n;

	memset(field, 0, size);
	for (size_t from = 0; from < len; from += n ? n : 1) {
		n = character((const unsigned char *)text + from, len - from);
		if (to + (n ? n : 1) >= size)
			return;
		if (n)
			memcpy(field + to, text + from, n);
		else
			field[to] = '?';
		to += n ? n : 1;
	}
}

int rivulet_proto_send(int sock, const void *packet, size_t size, int fd, int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)packet, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	do {
		n = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}
