/* SPDX-License-Identifier: MIT */
/*
 * A daemon in a thread, for tests of the client library. It answers correctly, or with one selected
 * fault.
 */
#ifndef RVL_FAKE_DAEMON_H
#define RVL_FAKE_DAEMON_H

#include <check.h>
#include <dirent.h>
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <umockdev.h>
#include <unistd.h>

#include "rivulet.h"
#include "rivulet_proto.h"

enum fault {
	NONE, SHORT, LONG, WRONG_TYPE, OTHER_SERIAL, EXTRA_FD, SIZE_LIE, MANY, CLOSED, ERRNO,
		NO_END,
	VERSION, RESERVED, SILENT, GOODBYE, DIM_OVERFLOW, FAULTS
};

static const struct { uint16_t at; int want; } faults[FAULTS] = {
	[NONE] = { 0, 0 }, [SHORT] = { RIVULET_MSG_TENSOR, -EBADMSG },
	[LONG] = { RIVULET_MSG_LOAD, -EBADMSG }, [WRONG_TYPE] = { RIVULET_MSG_TENSOR, -EBADMSG },
	[OTHER_SERIAL] = { RIVULET_MSG_TENSOR, 0 }, [EXTRA_FD] = { RIVULET_MSG_TENSOR, -EBADMSG },
	[SIZE_LIE] = { RIVULET_MSG_TENSOR, -EBADMSG }, [MANY] = { RIVULET_MSG_LOAD, -EBADMSG },
	[CLOSED] = { RIVULET_MSG_LOAD, -ECONNRESET }, [ERRNO] = { RIVULET_MSG_LOAD, -EOPNOTSUPP },
	[NO_END] = { RIVULET_MSG_TENSOR, -EBADMSG }, [VERSION] = { RIVULET_MSG_HELLO, -EPROTO },
	[RESERVED] = { RIVULET_MSG_TENSOR, 0 }, [SILENT] = { RIVULET_MSG_LOAD, -ETIMEDOUT },
	[GOODBYE] = { RIVULET_MSG_LOAD, -EPERM }, [DIM_OVERFLOW] = { RIVULET_MSG_TENSOR, -EBADMSG },
};

#define WAIT_MS 60000	/* timeout of an answer, with sanitizers on a busy machine */
#define BYTES 256	/* size of the input and of the output */

static struct daemon {
	enum fault fault;
	int listener;
	char path[108];
	pthread_t thread;
	int bound[2];		/* memfds of input and output */
	uint64_t offset[2];
	bool hold;		/* RUN is answered only after CANCEL */
	uint32_t held, loads, closes, unloads, priority;
	int connections;	/* number of connections to serve; -1: until daemon_stop() */
	_Atomic int current;	/* socket of the connection being served */
	_Atomic bool paused;	/* reads nothing until it is cleared */
	uint16_t refuse;	/* type of the request that is answered with ... */
	int refuse_with;	/* ... this errno */
	_Atomic uint32_t opens, binds, runs;
	_Atomic bool die;	/* closes the connection on the next RUN */
	_Atomic bool replug;	/* the device is removed at the next RUN, and added again */
	_Atomic bool absent;	/* there is no device: OPEN is refused */
	bool bounded;		/* the shape of the output is known at run time only, ... */
	uint64_t rows;		/* ... whose first dimension is this, of 4 */
	uint64_t deadline, max_model;
	char name[RIVULET_NAME_MAX];
	int extra_fd;		/* passed with the answers to LOAD and STATUS, or -1 */
	uint64_t status_size;	/* that STATUS answers with; 0: 4 */
	struct rivulet_msg_policy_reply policy;	/* answer to POLICY, unless its mode is 0 */
	struct rivulet_msg_hello_reply hello;	/* answer to HELLO, unless its version is 0 */
	struct rivulet_msg_policy asked;	/* last POLICY */
} dm;

static void send_packet(int fd, void *p, size_t size, int pass)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { p, size };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (pass >= 0) {
		m.msg_control = control.buf;
		m.msg_controllen = sizeof(control.buf);
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &pass, sizeof(pass));
	}
	sendmsg(fd, &m, MSG_NOSIGNAL);
}

static int receive_packet(int fd, union rivulet_packet *p)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { p, sizeof(*p) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf) };
	int got = -1;
	ssize_t n;

	/*
	 * A client that closes with unread answers resets the connection. Packets that it sent
	 * before can still be read after the error.
	 */
	do {
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == ECONNRESET);
	if (n <= 0)
		return -2;
	if (CMSG_FIRSTHDR(&m))
		memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(got));
	return got;
}

/* Output byte = input byte + 1. */
static void compute(void)
{
	uint8_t b[BYTES];

	if (pread(dm.bound[0], b, BYTES, (off_t)dm.offset[0]) != BYTES)
		return;
	for (int i = 0; i < BYTES; i++)
		b[i]++;
	if (pwrite(dm.bound[1], b, BYTES, (off_t)dm.offset[1]) != BYTES)
		return;
}

/* Replaces the answer by one that the test has prepared, with the header of the original answer. */
static void replace_body(union rivulet_packet *a, const void *prepared, size_t size, bool use)
{
	if (use)
		memcpy((char *)a + sizeof(a->h), (const char *)prepared + sizeof(a->h), size - sizeof(a->h));
}

static void fill_reply(const union rivulet_packet *q, union rivulet_packet *a, int got)
{
	switch (q->h.type) {
	case RIVULET_MSG_HELLO:
		a->hello_reply.version = dm.fault == VERSION ? 9 : 1;
		a->hello_reply.max_model = dm.max_model;
		a->hello_reply.features = RIVULET_FEATURE_POLICY;
		a->hello_reply.device_state = !dm.absent;
		strcpy(a->hello_reply.daemon, "0.1-test");
		strcpy(a->hello_reply.board, "fake");
		memcpy(dm.name, q->hello.name, sizeof(dm.name));
		replace_body(a, &dm.hello, sizeof(dm.hello), dm.hello.version);
		break;
	case RIVULET_MSG_LOAD:
		dm.loads++;
		a->load_reply.inputs = dm.fault == MANY ? 1000000 : 1;
		a->load_reply.outputs = 1;
		a->load_reply.model = 5;
		/* The memfd must have the seals and the size that the protocol demands. */
		if ((fcntl(got, F_GET_SEALS) & 7) != 7 ||
		    (uint64_t)lseek(got, 0, SEEK_END) != q->load.size)
			a->load_reply.model = 666;
		break;
	case RIVULET_MSG_TENSOR:
		strcpy(a->tensor_reply.name, q->tensor.dir ? "out" : "in");
		a->tensor_reply.dtype = RIVULET_U8;
		a->tensor_reply.ndim = 2;
		a->tensor_reply.dim[0] = 4;
		a->tensor_reply.dim[1] = 64;
		a->tensor_reply.size = dm.fault == SIZE_LIE ? 1 << 30 : BYTES;
		if (dm.fault == DIM_OVERFLOW) {
			a->tensor_reply.dim[0] = 1ull << 33;
			a->tensor_reply.dim[1] = 1ull << 33;
			a->tensor_reply.size = 0;
		}
		if (dm.bounded && q->tensor.dir)
			a->tensor_reply.flags = RIVULET_TENSOR_BOUNDED;
		if (q->tensor.instance) {
			a->tensor_reply.dim[0] = dm.rows;
			a->tensor_reply.size = dm.rows * 64;
		}
		a->tensor_reply.scale = 0.5f;
		a->tensor_reply.zero_point = 3;
		if (dm.fault == NO_END)
			memset(a->tensor_reply.name, 'x', sizeof(a->tensor_reply.name));
		a->tensor_reply.rsvd[1] = dm.fault == RESERVED;
		break;
	case RIVULET_MSG_OPEN:
		ck_assert_uint_eq(q->open.flags, dm.bounded ? RIVULET_OPEN_SHAPES : 0);
		a->instance.instance = 9 + dm.opens;
		dm.opens += !dm.absent;
		break;
	case RIVULET_MSG_BIND:
		dm.binds++;
		close(dm.bound[q->bind.dir]);
		dm.bound[q->bind.dir] = dup(got);
		dm.offset[q->bind.dir] = q->bind.offset;
		break;
	case RIVULET_MSG_RUN:
		dm.runs++;
		dm.priority = q->run.priority;
		dm.deadline = q->run.deadline;
		compute();
		a->run_reply.cycles = 77;
		a->run_reply.flags = RIVULET_RAN_LATE;
		break;
	case RIVULET_MSG_STATUS: a->status_reply.size = dm.status_size ? dm.status_size : 4; break;
	case RIVULET_MSG_POLICY:
		dm.asked = q->policy;
		a->policy_reply.mode = q->policy.mode ? q->policy.mode : 1;
		replace_body(a, &dm.policy, sizeof(dm.policy), dm.policy.mode);
		break;
	case RIVULET_MSG_CLOSE: dm.closes++; break;
	case RIVULET_MSG_UNLOAD: dm.unloads++; break;
	}
}

static void send_error(int fd, uint32_t serial, uint16_t version, int error)
{
	union rivulet_packet e;

	rivulet_proto_init(&e, RIVULET_MSG_ERROR, version, serial);
	e.h.error = error;
	strcpy(e.error.text, "node \"Loop_7\" (Loop): no such operator here");
	send_packet(fd, &e, e.h.length, -1);
}

/* Sends the answer, changed by the selected fault. Returns false if the connection is to end. */
static bool send_answer(int fd, const union rivulet_packet *q, union rivulet_packet *a)
{
	enum fault f = faults[dm.fault].at == q->h.type ? dm.fault : NONE;
	size_t size = a->h.length;

	if (f == SHORT)
		size -= 4;
	if (f == LONG)
		size += 4;
	if (f == WRONG_TYPE)
		size = rivulet_proto_init(a, RIVULET_MSG_PING | RIVULET_REPLY, 1, q->h.serial);
	if (f == OTHER_SERIAL) {
		union rivulet_packet other = *a;

		other.h.serial += 100;
		send_packet(fd, &other, size, -1);
	}
	if (f == ERRNO || f == GOODBYE)
		send_error(fd, f == ERRNO ? q->h.serial : 0, 1, faults[f].want);
	else if (f != CLOSED && f != SILENT)
		send_packet(fd, a, size, f == EXTRA_FD ? 0 : q->h.type == RIVULET_MSG_LOAD ||
			    q->h.type == RIVULET_MSG_STATUS ? dm.extra_fd : -1);
	return f != CLOSED && f != GOODBYE;
}

static void send_device(int fd, bool present)
{
	union rivulet_packet e;

	rivulet_proto_init(&e, RIVULET_MSG_DEVICE, 1, 0);
	e.device.device_state = present ? RIVULET_DEVICE_PRESENT : RIVULET_DEVICE_ABSENT;
	send_packet(fd, &e, e.h.length, -1);
}

/*
 * Sends events that replace or precede the answer to a request. Returns false if the connection is
 * to end.
 */
static bool interrupted(int fd, const union rivulet_packet *q, bool *answered)
{
	*answered = true;
	if (q->h.type == dm.refuse) {
		send_error(fd, q->h.serial, q->h.type == RIVULET_MSG_HELLO ? 0 : 1, dm.refuse_with);
	} else if (q->h.type == RIVULET_MSG_OPEN && dm.absent) {
		send_error(fd, q->h.serial, 1, -ENODEV);
	} else if (q->h.type == RIVULET_MSG_RUN && dm.replug) {
		dm.replug = false;
		send_device(fd, false);
		/*
		 * This event precedes the run's error, so that the client opens the next instance
		 * on the new device.
		 */
		if (!dm.absent)
			send_device(fd, true);
		send_error(fd, q->h.serial, 1, -ENODEV);
	} else if (q->h.type == RIVULET_MSG_PING && dm.absent) {
		dm.absent = false;
		send_device(fd, true);
		*answered = false;
	} else if (q->h.type == RIVULET_MSG_RUN && dm.die) {
		dm.die = false;
		return false;
	} else {
		*answered = false;
	}
	return true;
}

static void serve_one(int fd)
{
	union rivulet_packet q, a;
	int got;

	while ((got = receive_packet(fd, &q)) != -2) {
		char why[200];
		bool more = true, answered;

		while (dm.paused)
			usleep(1000);

		/* The library's requests must be well formed, whichever fault the answers have. */
		if (rivulet_proto_check(&q, q.h.length, got >= 0, true,
					q.h.type == RIVULET_MSG_HELLO ? 0 : 1, why, sizeof(why)))
			abort();
		rivulet_proto_init(&a, q.h.type | RIVULET_REPLY, q.h.version, q.h.serial);
		fill_reply(&q, &a, got);
		if (got >= 0)
			close(got);
		if (!interrupted(fd, &q, &answered))
			break;
		if (q.h.type == RIVULET_MSG_RUN && dm.hold)
			dm.held = q.h.serial;
		else if (!answered)
			more = send_answer(fd, &q, &a);
		if (q.h.type == RIVULET_MSG_CANCEL)
			send_error(fd, dm.held, 1, -ECANCELED);
		if (!more)
			break;
	}
	close(fd);
}

static void *serve(void *arg)
{
	(void)arg;
	for (int i = 0; i != dm.connections; i++) {
		int fd = accept(dm.listener, NULL, NULL);

		if (fd < 0)
			break;
		dm.current = fd;
		serve_one(fd);
	}
	return NULL;
}

static void daemon_start_for(enum fault fault, int connections)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	dm = (struct daemon) { .fault = fault, .bound = { -1, -1 }, .extra_fd = -1,
			       .connections = connections, .max_model = 1 << 20 };
	snprintf(dm.path, sizeof(dm.path), "/tmp/rvl-test-%d", getpid());
	strcpy(a.sun_path, dm.path);
	unlink(dm.path);
	dm.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert(!bind(dm.listener, (struct sockaddr *)&a, sizeof(a)) && !listen(dm.listener, 1));
	ck_assert(!pthread_create(&dm.thread, NULL, serve, NULL));
}

static inline void daemon_start(enum fault fault)
{
	daemon_start_for(fault, 1);
}

/* Ends the connection while no request is in flight, as a restarted daemon does. */
static inline void daemon_restart(void)
{
	shutdown(dm.current, SHUT_RDWR);
}

/* Closes the listening socket but leaves its file, so that connect() is refused. */
static inline void daemon_stop_listening(void)
{
	shutdown(dm.listener, SHUT_RDWR);
	pthread_join(dm.thread, NULL);
	close(dm.listener);
}

static inline void daemon_stop(void)
{
	if (dm.connections < 0)
		shutdown(dm.listener, SHUT_RDWR);
	pthread_join(dm.thread, NULL);
	close(dm.listener);
	close(dm.bound[0]);
	close(dm.bound[1]);
	unlink(dm.path);
}

static inline int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline struct rivulet_request *request(struct rivulet_client **c, uint8_t *in, uint8_t *out)
{
	struct rivulet_request *q;
	struct rivulet_model *m;

	ck_assert(!rivulet_open(dm.path, c));
	ck_assert(!rivulet_model_load_memory(*c, "onnx", 4, NULL, &m));
	ck_assert(!rivulet_request_new(m, &q));
	rivulet_model_unref(m);
	ck_assert(!rivulet_bind_memory(q, 0, in, BYTES) && !rivulet_bind_memory(q, 1, out, BYTES));
	return q;
}

#endif
