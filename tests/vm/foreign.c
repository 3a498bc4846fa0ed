// SPDX-License-Identifier: MIT
/*
 * foreign SOCKET FILE: two ivshmem devices that resemble the NPU but are not it: the server of an
 * ivshmem-doorbell on SOCKET, and FILE as the memory of an ivshmem-plain. Both memories begin with
 * the NPU's magic, version and size, and a wrong checksum. On SIGTERM it reports whether the guest
 * wrote to the memories or rang the doorbell. The exit status is 0 if it did neither.
 */
#include "rivulet_crc32c.h"
#include "rivulet_dev.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BYTES	(1u << 20)
#define SERVER	0		/* peer id of this program */
#define GUEST	1		/* peer id of QEMU */

static void die(const char *what)
{
	fprintf(stderr, "foreign: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint32_t *make_memory(int fd)
{
	uint32_t *p;

	if (fd < 0 || ftruncate(fd, BYTES))
		die("memory");
	p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die("mmap");
	p[0] = RIVULET_MAGIC;
	p[1] = RIVULET_DEV_VERSION;
	p[2] = RIVULET_WINDOW_SIZE;
	p[3] = rivulet_crc32c(0, p, 12) ^ 1;
	return p;
}

/* Does the memory hold what make_memory() wrote? */
static int untouched(const uint32_t *p, const char *name)
{
	for (uint32_t i = 4; i < BYTES / 4; i++) {
		if (p[i]) {
			printf("foreign: %s: word %u was written\n", name, i);
			return 0;
		}
	}
	if (p[3] == (rivulet_crc32c(0, p, 12) ^ 1))
		return 1;
	printf("foreign: %s: the header was written\n", name);
	return 0;
}

static int listen_on(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(a.sun_path))
		errno = ENAMETOOLONG, die(path);
	strcpy(a.sun_path, path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1))
		die(path);
	return fd;
}

/* Send one message of the ivshmem server protocol: a number, and with @fd >= 0 a descriptor. */
static void send_message(int sock, int64_t value, int fd)
{
	struct iovec io = { &value, sizeof(value) };
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} c = {};
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1 };

	if (fd >= 0) {
		m.msg_control = &c;
		m.msg_controllen = sizeof(c);
		c.h.cmsg_level = SOL_SOCKET;
		c.h.cmsg_type = SCM_RIGHTS;
		c.h.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
	}
	if (sendmsg(sock, &m, MSG_NOSIGNAL) != sizeof(value))
		die("send");
}

static int serve(int sock, int memory, int bell)
{
	int irq = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	send_message(sock, 0, -1);		/* protocol version */
	send_message(sock, GUEST, -1);
	send_message(sock, -1, memory);
	send_message(sock, SERVER, bell);
	send_message(sock, GUEST, irq);
	return irq;
}

int main(int argc, char **argv)
{
	int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), sock, memory, good;
	uint32_t *shared, *plain;
	uint64_t rings = 0;
	sigset_t set;

	if (argc != 3) {
		fprintf(stderr, "usage: foreign SOCKET FILE\n");
		return 2;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	memory = memfd_create("foreign", MFD_CLOEXEC);
	shared = make_memory(memory);
	plain = make_memory(open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	sock = listen_on(argv[1]);

	struct pollfd p[] = {
		{ .fd = signalfd(-1, &set, SFD_CLOEXEC), .events = POLLIN },
		{ .fd = sock, .events = POLLIN },
	};

	while (poll(p, 2, -1) >= 0 && !p[0].revents)
		if (p[1].revents)
			serve(accept4(sock, NULL, NULL, SOCK_CLOEXEC), memory, bell);
	if (read(bell, &rings, sizeof(rings)) == sizeof(rings))
		printf("foreign: doorbell rung %llu times\n", (unsigned long long)rings);
	good = untouched(shared, "doorbell device") & untouched(plain, "plain device") & !rings;
	if (good)
		printf("foreign: untouched\n");
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
