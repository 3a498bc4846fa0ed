// SPDX-License-Identifier: MIT
/*
 * The socket's messages: every rule of rivulet_proto_check(), every message of the table, and
 * random packets.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "chance.h"
#include "rivulet_proto.h"
#include "suite.h"

#define CASES 300000

static char err[256];

static bool sent_by_client(const struct rivulet_proto_info *info)
{
	return !(info->type & RIVULET_REPLY) && info->type != RIVULET_MSG_DEVICE &&
	       info->type != RIVULET_MSG_LEVEL;
}

static uint16_t version_of(const struct rivulet_proto_info *info)
{
	return (info->type & ~RIVULET_REPLY) == RIVULET_MSG_HELLO ? 0 : 1;
}

/* Returns the version that the receiver has negotiated when the message arrives. */
static uint16_t agreed(const struct rivulet_proto_info *info)
{
	return info->type == RIVULET_MSG_HELLO ? 0 : 1;
}

static void make(union rivulet_packet *p, const struct rivulet_proto_info *info)
{
	bool event = info->type == RIVULET_MSG_DEVICE || info->type == RIVULET_MSG_LEVEL;

	ck_assert_uint_eq(rivulet_proto_init(p, info->type, version_of(info), event ? 0 : 7),
			  info->size);
	if (info->type == RIVULET_MSG_ERROR)
		p->h.error = -EIO;
}

static int check(const union rivulet_packet *p, const struct rivulet_proto_info *info)
{
	return rivulet_proto_check(p, info->size, info->min_fds, sent_by_client(info), agreed(info),
				   err, sizeof(err));
}

/* Proves that the table is well formed: types differ, a reply follows its request, sizes fit. */
START_TEST(table)
{
	const struct rivulet_proto_info *a, *b;
	int n, k;

	for (n = 0; (a = rivulet_proto_list(n)); n++) {
		ck_assert_uint_le(a->size, RIVULET_MSG_MAX);
		ck_assert_int_le(a->max_fds, RIVULET_MSG_FDS);
		ck_assert_int_le(a->min_fds, a->max_fds);
		ck_assert_ptr_eq(rivulet_proto_info(a->type), a);
		for (k = 0; k < n; k++) {
			b = rivulet_proto_list(k);
			ck_assert_uint_ne(a->type, b->type);
		}
		if (sent_by_client(a))
			ck_assert_ptr_eq(rivulet_proto_info(a->type | RIVULET_REPLY),
					 rivulet_proto_list(n + 1));
	}
	ck_assert_int_eq(n, 2 * 12 + 3);
	ck_assert_ptr_null(rivulet_proto_list(-1));
	ck_assert_ptr_null(rivulet_proto_info(0x7abc));
}
END_TEST

/* Proves that each message is accepted with its own length and with no other. */
START_TEST(lengths)
{
	const struct rivulet_proto_info *info;
	union rivulet_packet p;

	for (int n = 0; (info = rivulet_proto_list(n)); n++) {
		make(&p, info);
		ck_assert_msg(!check(&p, info), "%s: %s", info->name, err);
		for (size_t size = 0; size <= sizeof(p); size++) {
			int r = rivulet_proto_check(&p, size, info->min_fds, sent_by_client(info),
						    agreed(info), err, sizeof(err));

			ck_assert_int_eq(r, size == info->size ? 0 : -EPROTO);
		}
		p.h.length++;
		ck_assert_int_eq(check(&p, info), -EPROTO);
	}
}
END_TEST

/* Proves that descriptors are counted, in both directions. */
START_TEST(descriptors)
{
	const struct rivulet_proto_info *info;
	union rivulet_packet p;

	for (int n = 0; (info = rivulet_proto_list(n)); n++) {
		make(&p, info);
		for (int fds = 0; fds < 4; fds++) {
			bool ok = fds >= info->min_fds && fds <= info->max_fds;

			ck_assert_int_eq(rivulet_proto_check(&p, info->size, fds,
							     sent_by_client(info), agreed(info),
							     err, sizeof(err)),
					 ok ? 0 : -EPROTO);
		}
	}
}
END_TEST

/* Proves the rules of the header: direction, version, serial, error field. */
START_TEST(headers)
{
	const struct rivulet_proto_info *info;
	union rivulet_packet p;

	for (int n = 0; (info = rivulet_proto_list(n)); n++) {
		bool is_error = info->type == RIVULET_MSG_ERROR;

		make(&p, info);
		ck_assert_int_eq(rivulet_proto_check(&p, info->size, info->min_fds,
						     !sent_by_client(info), agreed(info), err,
						     sizeof(err)),
				 -EPROTO);
		p.h.version += 1;
		ck_assert_int_eq(check(&p, info), is_error ? 0 : -EPROTO);
		make(&p, info);
		p.h.serial = p.h.serial ? 0 : 7;
		ck_assert_int_eq(check(&p, info), is_error ? 0 : -EPROTO);
		make(&p, info);
		p.h.error = is_error ? 0 : -1;
		ck_assert_int_eq(check(&p, info), -EPROTO);
		p.h.error = INT32_MIN;
		ck_assert_int_eq(check(&p, info), -EPROTO);
	}
}
END_TEST

/* Proves that HELLO must be the first message, and that it is accepted only once. */
START_TEST(hello_first)
{
	union rivulet_packet p;
	size_t size = rivulet_proto_init(&p, RIVULET_MSG_PING, 0, 1);

	ck_assert_int_eq(rivulet_proto_check(&p, size, 0, true, 0, err, sizeof(err)), -EPROTO);
	ck_assert_ptr_nonnull(strstr(err, "before HELLO"));
	size = rivulet_proto_init(&p, RIVULET_MSG_HELLO, 0, 1);
	ck_assert_int_eq(rivulet_proto_check(&p, size, 0, true, 0, err, sizeof(err)), 0);
	ck_assert_int_eq(rivulet_proto_check(&p, size, 0, true, 1, err, sizeof(err)), -EPROTO);
}
END_TEST

/* Byte offset of field @i. */
static size_t offset_of(const struct rivulet_proto_info *info, int i)
{
	size_t at = sizeof(struct rivulet_msg);

	for (int k = 0; k < i; k++)
		at += (size_t)info->field[k].width *
		      (info->field[k].count ? info->field[k].count : 1);
	return at;
}

/*
 * Control characters of C0, DEL and C1, and invalid UTF-8: a lone byte, truncated, overlong,
 * surrogate, too large.
 */
static const char *const bad_text[] = {
	"a\nb", "\x1b[31m", "\x7f", "\xc2\x85", "\xff", "a\x80", "\xc3", "\xe2\x82", "\xc3z",
		"\xc0\xaf",
	"\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80",
};

static const char good_text[] = "a\"\\<\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc2\xa0~";

/*
 * Proves for every field: one that is reserved must be zero (else the request is answered with an
 * error), and a string must end (else the connection is closed).
 */
START_TEST(fields)
{
	const struct rivulet_proto_info *info;
	unsigned char raw[sizeof(union rivulet_packet)];
	union rivulet_packet p;

	for (int n = 0; (info = rivulet_proto_list(n)); n++) {
		for (int i = 0; i < info->fields; i++) {
			const struct rivulet_proto_field *f = &info->field[i];
			size_t at = offset_of(info, i);
			size_t bytes = (size_t)f->width * (f->count ? f->count : 1);

			make(&p, info);
			memcpy(raw, &p, sizeof(raw));
			memset(raw + at, 'x', bytes);
			memcpy(&p, raw, sizeof(raw));
			if (f->type == RIVULET_PROTO_text)
				ck_assert_int_eq(check(&p, info), -EPROTO);
			else
				ck_assert_int_eq(check(&p, info),
						 strcmp(f->name, "rsvd") ? 0 : -EINVAL);
			if (f->type != RIVULET_PROTO_text)
				continue;
			for (size_t k = 0; k < sizeof(bad_text) / sizeof(*bad_text); k++) {
				memset(raw + at, 0, bytes);
				memcpy(raw + at, bad_text[k], strlen(bad_text[k]));
				memcpy(&p, raw, sizeof(raw));
				ck_assert_int_eq(check(&p, info), -EINVAL);
				ck_assert_ptr_nonnull(strstr(err, f->name));
			}
			memset(raw + at, 0, bytes);
			memcpy(raw + at, good_text, sizeof(good_text));
			memcpy(&p, raw, sizeof(raw));
			ck_assert_msg(!check(&p, info), "%s", err);
			/* Bytes behind the end of a string must be zero, too. */
			memset(raw + at, 0, bytes);
			raw[at + bytes - 1] = 'x';
			memcpy(&p, raw, sizeof(raw));
			ck_assert_int_eq(check(&p, info), -EPROTO);
		}
		if (info->fields)
			ck_assert_uint_eq(offset_of(info, info->fields), info->size);
	}
}
END_TEST

static uint64_t seed = 0x243f6a8885a308d3ull;

static uint32_t chance(uint32_t below)
{
	return (uint32_t)((xorshift(&seed) >> 16) % below);
}

static void mutate(unsigned char *raw, size_t size)
{
	for (uint32_t k = chance(4); k; k--)
		switch (chance(3)) {
		case 0:
			raw[chance((uint32_t)size)] = (unsigned char)chance(256);
			break;
		case 1:
			raw[chance(16)] ^= (unsigned char)(1u << chance(8));
			break;
		default:
			memset(raw + chance((uint32_t)size), (int)chance(256), 1);
		}
}

/*
 * Proves that random packets have one of the three results, and that accepted ones follow the
 * rules.
 */
START_TEST(fuzz)
{
	const struct rivulet_proto_info *info;
	union rivulet_packet p;
	int accepted = 0;

	for (int i = 0; i < CASES; i++) {
		bool client = chance(2);
		uint16_t version = (uint16_t)chance(2);
		int fds = (int)chance(3), r;
		unsigned char *raw;
		size_t size;

		info = rivulet_proto_list((int)chance(2 * 12 + 3));
		make(&p, info);
		size = chance(8) ? info->size : chance(sizeof(p));
		/* A copy of exactly this length, so that the sanitizer reports overreads. */
		raw = malloc(size ? size : 1);
		ck_assert_ptr_nonnull(raw);
		memcpy(raw, &p, size);
		if (size >= 16)
			mutate(raw, size);
		err[0] = 0;
		r = rivulet_proto_check(raw, size, fds, client, version, err, sizeof(err));
		ck_assert(r == 0 || ((r == -EPROTO || r == -EINVAL) && err[0]));
		if (!r) {
			struct rivulet_msg h;

			memcpy(&h, raw, sizeof(h));
			info = rivulet_proto_info(h.type);
			ck_assert(size == info->size && h.length == size);
			ck_assert(client == sent_by_client(info));
			ck_assert(fds >= info->min_fds && fds <= info->max_fds);
			accepted++;
		}
		free(raw);
	}
	ck_assert_int_gt(accepted, CASES / 50);
}
END_TEST

/* Proves that names are cut at a character, padded with NUL, and free of control characters. */
START_TEST(names)
{
	char field[8];

	memset(field, 'x', sizeof(field));
	rivulet_proto_name(field, sizeof(field), "ab\nc\x7f");
	ck_assert_mem_eq(field, "ab?c?\0\0\0", 8);
	rivulet_proto_name(field, sizeof(field), "abcdefghij");
	ck_assert_str_eq(field, "abcdefg");
	rivulet_proto_name(field, sizeof(field), "abcdef\xc3\xa9z");
	ck_assert_str_eq(field, "abcdef");
	rivulet_proto_name(field, sizeof(field), "a\xff\xc3\xa9\xc2\x85z");
	ck_assert_str_eq(field, "a?\xc3\xa9??z");
	ck_assert_uint_eq(rivulet_proto_text(good_text, sizeof(good_text) - 1),
			  sizeof(good_text) - 1);
	ck_assert_uint_eq(rivulet_proto_text("ab\xc3\xa9\n", 5), 4);
	rivulet_proto_name(field, sizeof(field), "");
	ck_assert_mem_eq(field, "\0\0\0\0\0\0\0\0", 8);
	ck_assert_uint_eq(rivulet_proto_init(field, 0x7abc, 1, 1), 0);
}
END_TEST

/* Receives a packet of one byte with room for a file. Returns the file, or -1 if none came. */
static int receive(int sock)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	char byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			      .msg_controllen = sizeof(control) };
	int fd = -1;

	ck_assert_int_eq(recvmsg(sock, &msg, 0), 1);
	ck_assert_int_eq(byte, 'r');
	if (CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* Proves that a packet carries a file or none, and that errors are returned without a signal. */
START_TEST(sending)
{
	int s[2], p[2], fd, r;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s), 0);
	ck_assert_int_eq(pipe(p), 0);
	ck_assert_int_eq(rivulet_proto_send(s[0], "r", 1, -1, 0), 0);
	ck_assert_int_eq(receive(s[1]), -1);
	ck_assert_int_eq(rivulet_proto_send(s[0], "r", 1, p[1], 0), 0);
	fd = receive(s[1]);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "w", 1), 1);
	ck_assert_int_eq(read(p[0], &(char){ 0 }, 1), 1);
	close(fd);
	ck_assert_int_eq(fcntl(p[1], F_GETFD), 0);
	ck_assert_int_eq(rivulet_proto_send(s[0], "r", 1, 9999, 0), -EBADF);
	while (!(r = rivulet_proto_send(s[0], "r", 1, -1, MSG_DONTWAIT)))
		;
	ck_assert_int_eq(r, -EAGAIN);
	close(s[1]);
	/* The packets that nobody read reset the connection. */
	ck_assert_int_eq(rivulet_proto_send(s[0], "r", 1, -1, 0), -ECONNRESET);
	ck_assert_int_eq(rivulet_proto_send(s[0], "r", 1, -1, 0), -EPIPE);
	close(s[0]);
	close(p[0]);
	close(p[1]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("proto");
	TCase *t = tcase_create("messages");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, table);
	tcase_add_test(t, lengths);
	tcase_add_test(t, descriptors);
	tcase_add_test(t, headers);
	tcase_add_test(t, hello_first);
	tcase_add_test(t, fields);
	tcase_add_test(t, names);
	tcase_add_test(t, sending);
	tcase_add_test(t, fuzz);
	suite_add_tcase(s, t);
	return run_suite(s);
}
