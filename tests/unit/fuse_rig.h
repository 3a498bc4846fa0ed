/* SPDX-License-Identifier: MIT */
/*
 * Descriptors whose close() blocks: a file of a FUSE server that answers no more than what open()
 * needs, and a TCP socket that lingers over data that its peer does not read.
 */
#ifndef RVL_FUSE_RIG_H
#define RVL_FUSE_RIG_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUSE_RIG_AT "/mnt"	/* in a mount namespace of the server's own */
#define FUSE_RIG_FILE 2		/* node of the only file */

static inline void fuse_rig_answer(int dev, uint64_t unique, const void *body, size_t size)
{
	struct { struct fuse_out_header h; char body[256]; } out = {
		.h = { .len = (uint32_t)(sizeof(out.h) + size), .unique = unique },
	};

	memcpy(out.body, body, size);
	if (write(dev, &out, out.h.len) < 0)
		perror("fuse");
}

static inline struct fuse_attr fuse_rig_attr(uint64_t node)
{
	struct fuse_attr a = { .ino = node, .size = 1 << 20, .nlink = 1 };

	a.mode = node == FUSE_RIG_FILE ? S_IFREG | 0666 : S_IFDIR | 0777;
	return a;
}

/* A request that is not listed here is read but never answered. */
static inline void fuse_rig_serve(int dev, const struct fuse_in_header *h)
{
	struct fuse_init_out init = { .major = 7, .minor = 31, .max_write = 4096 };
	struct fuse_entry_out entry = { .nodeid = FUSE_RIG_FILE, .entry_valid = 1u << 20,
					.attr_valid = 1, .attr = fuse_rig_attr(FUSE_RIG_FILE) };
	struct fuse_attr_out root = { .attr_valid = 1u << 20, .attr = fuse_rig_attr(h->nodeid) };
	struct fuse_open_out opened = { .fh = 1 };

	if (h->opcode == FUSE_INIT)
		fuse_rig_answer(dev, h->unique, &init, sizeof(init));
	else if (h->opcode == FUSE_LOOKUP)
		fuse_rig_answer(dev, h->unique, &entry, sizeof(entry));
	else if (h->opcode == FUSE_GETATTR && h->nodeid != FUSE_RIG_FILE)
		fuse_rig_answer(dev, h->unique, &root, sizeof(root));
	else if (h->opcode == FUSE_OPEN)
		fuse_rig_answer(dev, h->unique, &opened, sizeof(opened));
}

/*
 * The server's process. It ends with @owner, the process of the test: the one that has the file
 * open cannot end before the server does.
 */
static inline void fuse_rig_main(int dev, pid_t owner)
{
	static _Alignas(8) char in[1 << 17];
	struct pollfd p = { .fd = dev, .events = POLLIN };

	while (!kill(owner, 0) || errno != ESRCH)
		if (poll(&p, 1, 100) > 0 && read(dev, in, sizeof(in)) > 0)
			fuse_rig_serve(dev, (const struct fuse_in_header *)in);
	_exit(0);
}

static inline bool fuse_rig_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* Gives the calling process, which has one thread, a user and a mount namespace of its own. */
static inline bool fuse_rig_isolate(void)
{
	char uid[32], gid[32];

	snprintf(uid, sizeof(uid), "0 %u 1", geteuid());
	snprintf(gid, sizeof(gid), "0 %u 1", getegid());
	/* Otherwise a process that changed its uid does not own its files in /proc. */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	return !unshare(CLONE_NEWUSER | CLONE_NEWNS) && fuse_rig_write("/proc/self/setgroups", "deny") &&
	       fuse_rig_write("/proc/self/uid_map", uid) && fuse_rig_write("/proc/self/gid_map", gid);
}

/*
 * Returns a descriptor of the file, or -1 where this cannot be done. The server is a child of the
 * calling process, which has one thread; @owner is the process whose end ends the server.
 */
static inline int fuse_rig_open(pid_t owner)
{
	char options[96];
	int dev, file;
	pid_t server;

	if (!fuse_rig_isolate())
		return -1;
	dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", dev);
	if (dev < 0 || mount("none", FUSE_RIG_AT, "fuse", MS_NOSUID | MS_NODEV, options))
		return -1;
	server = fork();
	if (!server)
		fuse_rig_main(dev, owner);
	file = server < 0 ? -1 : open(FUSE_RIG_AT "/file", O_RDWR | O_CLOEXEC);
	close(dev);
	return file;
}

/* Ends the process group of @pid, in which fuse_rig_open() was called, and waits for @pid. */
static inline void fuse_rig_kill(pid_t pid)
{
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Whether this machine lets an unprivileged user serve a file. */
static inline bool fuse_rig_works(void)
{
	siginfo_t end = { .si_status = 1 };
	pid_t owner = getpid(), pid = fork();

	if (!pid) {
		setpgid(0, 0);
		if (fuse_rig_open(owner) < 0)
			_exit(1);
		raise(SIGSTOP);
		_exit(1);
	}
	if (pid < 0 || waitid(P_PID, (id_t)pid, &end, WEXITED | WSTOPPED | WNOWAIT))
		return false;
	fuse_rig_kill(pid);
	return end.si_code == CLD_STOPPED;
}

/* Returns a socket whose last close() waits for a day, or -1. */
static inline int linger_rig_open(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger day = { .l_onoff = 1, .l_linger = 86400 };
	char data[4096] = "";
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&a, &len))
		return -1;
	connect(fd, (struct sockaddr *)&a, sizeof(a));
	/* The peer is never closed and never read. */
	if (accept4(listener, NULL, NULL, SOCK_CLOEXEC) < 0)
		return -1;
	close(listener);
	while (write(fd, data, sizeof(data)) > 0)
		;
	fcntl(fd, F_SETFL, 0);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &day, sizeof(day));
	return fd;
}

#endif
