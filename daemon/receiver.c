// SPDX-License-Identifier: MIT
#include "receiver.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "rivulet_proto.h"
#include "util.h"

#define FDS_MAX 253	/* SCM_MAX_FD */

/** struct parcel - one packet with its descriptors */
struct parcel {
	ssize_t size;
	uint32_t nfds;
	int fd[FDS_MAX];
};

static void take_fds(struct msghdr *msg, struct parcel *in)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = n < FDS_MAX - in->nfds ? n : FDS_MAX - in->nfds;
		memcpy(in->fd + in->nfds, CMSG_DATA(c), n * sizeof(int));
		in->nfds += (uint32_t)n;
	}
}

/*
 * @flags: MSG_DONTWAIT, or 0 to wait. Fills in a negative errno, 0 at the end, or the packet's
 * size.
 */
static void receive(int sock, void *data, size_t room, int flags, struct parcel *in)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_MAX * sizeof(int))];
	struct iovec iov = { .iov_base = data, .iov_len = room };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			      .msg_controllen = sizeof(control) };

	in->nfds = 0;
	in->size = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | flags);
	if (in->size < 0)
		in->size = -errno;
	else
		take_fds(&msg, in);
}

static void close_all(const struct parcel *in)
{
	for (uint32_t i = 0; i < in->nfds; i++)
		close(in->fd[i]);
}

/* fcntl(F_GET_SEALS) succeeds on tmpfs and hugetlbfs only; pages of the latter may be missing. */
static bool is_memfd(int fd, struct rvl_file *f)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC || fstat(fd, &st))
		return false;
	f->seals = (uint32_t)seals;
	f->size = (uint64_t)st.st_size;
	return true;
}

static bool is_dmabuf(int fd, struct rvl_file *f)
{
	struct statfs fs;
	off_t size;

	if (fstatfs(fd, &fs) || (unsigned long)fs.f_type != DMA_BUF_MAGIC)
		return false;
	size = lseek(fd, 0, SEEK_END);
	f->size = size < 0 ? 0 : (uint64_t)size;
	return true;
}

static void examine(int fd, struct rvl_file *f)
{
	int flags = fcntl(fd, F_GETFL);

	f->writable = flags >= 0 && (flags & O_ACCMODE) == O_RDWR;
	if (is_memfd(fd, f))
		f->kind = RVL_FILE_MEMFD;
	else if (is_dmabuf(fd, f))
		f->kind = RVL_FILE_DMABUF;
}

static bool report(const struct rvl_receiver_report *r, int fd)
{
	return !rivulet_proto_send(RVL_RECEIVER_CONTROL_FD, r, sizeof(*r), fd, 0);
}

static bool receive_one(int sock)
{
	struct rvl_receiver_report r = { .size = 0 };
	struct parcel in;
	bool sent;

	receive(sock, &r.p, sizeof(r.p), MSG_DONTWAIT, &in);
	r.size = (int32_t)in.size;
	r.nfds = in.nfds;
	if (in.nfds == 1)
		examine(in.fd[0], &r.file);
	sent = report(&r, r.file.kind == RVL_FILE_OTHER ? -1 : in.fd[0]);
	close_all(&in);
	return sent;
}

/*
 * Descriptors that are not taken are dropped without becoming descriptors of this process, so no
 * FUSE server is asked. When a socket is closed with unread packets, its peer loses what was sent
 * to it.
 */
static void discard(int sock)
{
	union rivulet_packet p;

	shutdown(sock, SHUT_RD);
	while (recv(sock, &p, sizeof(p), MSG_DONTWAIT) > 0)
		;
}

static bool serve(void)
{
	struct rvl_receiver_job job;
	struct rvl_receiver_done done;
	struct parcel in;
	bool sent = true;

	receive(RVL_RECEIVER_CONTROL_FD, &job, sizeof(job), 0, &in);
	if (in.size != sizeof(job) || in.nfds != 1)
		return false;
	if (job.order == RVL_RECEIVE)
		sent = receive_one(in.fd[0]);
	else
		discard(in.fd[0]);
	close_all(&in);
	done.order = job.order;
	return sent && send(RVL_RECEIVER_CONTROL_FD, &done, sizeof(done), MSG_NOSIGNAL) == sizeof(done);
}

int rvl_receiver_main(void)
{
	/*
	 * The daemon's death closes the control socket, but a receiver that is stuck does not see
	 * that.
	 */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	while (serve())
		;
	return EXIT_SUCCESS;
}
