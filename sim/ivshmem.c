// SPDX-License-Identifier: MIT
/* The ivshmem server protocol, version 0: 8-byte little-endian numbers, some with a descriptor. */
#include "serve.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define PROTOCOL 0
#define MODEL_ID 0

static int send_msg(int sock, int64_t value, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} u = { 0 };
	struct iovec iov = { .iov_base = &value, .iov_len = sizeof(value) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		msg.msg_control = u.buf;
		msg.msg_controllen = sizeof(u.buf);
		u.align.cmsg_level = SOL_SOCKET;
		u.align.cmsg_type = SCM_RIGHTS;
		u.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&u.align), &fd, sizeof(fd));
	}
	n = sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	return n == sizeof(value) ? 0 : -EIO;
}

/*
 * Sends version, the client's id and the window, then the vectors of every peer: the model's
 * doorbell and the client's interrupt.
 */
int rvl_ivshmem_greet(int fd, uint16_t id, int window_fd, int doorbell_fd, int irq_fd)
{
	int r = send_msg(fd, PROTOCOL, -1);

	if (!r)
		r = send_msg(fd, id, -1);
	if (!r)
		r = send_msg(fd, -1, window_fd);
	if (!r)
		r = send_msg(fd, MODEL_ID, doorbell_fd);
	if (!r)
		r = send_msg(fd, id, irq_fd);
	return r;
}
