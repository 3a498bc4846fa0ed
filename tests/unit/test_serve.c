// SPDX-License-Identifier: MIT
/*
 * rivulet-sim's server as QEMU uses it: a client that speaks ivshmem's protocol, maps the window,
 * rings the doorbell and waits for interrupts; and a machine with the window in its memory, whose
 * interrupts are lines on a qtest socket or are polled.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dut.h"
#include "files.h"
#include "serve.h"
#include "suite.h"

#define MEM_BYTES 0x200000u
#define WINDOW	  0x1ff000u /* address of a platform's window: the last page */
#define SPI	  89u
#define UP_DOWN                                                                                    \
	"set_irq_in /machine/soc/gic unnamed-gpio-in 89 1\n"                                       \
	"set_irq_in /machine/soc/gic unnamed-gpio-in 89 0\n"

/* What QEMU received, and guest memory. */
struct client {
	enum { IVSHMEM, PLATFORM, POLLED } kind;
	int sock;
	int64_t version, id, peer;
	int window_fd, doorbell, irq;
	_Atomic uint32_t *window;
	uint8_t *mem;
};

static char dir[64], sock_path[96], mem_path[96], control_path[96];
static int qtest_fd = -1;
static struct rvl_server server;
static pthread_t thread;

static void *serve(void *arg)
{
	(void)arg;
	ck_assert_int_eq(rvl_server_run(&server), 0);
	return NULL;
}

static void make_memory(void)
{
	int fd = open(mem_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, MEM_BYTES), 0);
	close(fd);
}

static void make_paths(void)
{
	make_scratch(dir);
	sprintf(sock_path, "%s/sock", dir);
	sprintf(mem_path, "%s/mem", dir);
	sprintf(control_path, "%s/control", dir);
}

static void start(struct rvl_server_options opt, const char *board, bool real)
{
	char err[200];
	sigset_t set;

	opt.mem = mem_path;
	opt.control = control_path;
	ck_assert_msg(!rivulet_board_load(&opt.board, board, err, sizeof(err)), "%s", err);
	opt.board.pace_real = real;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	ck_assert_msg(!rvl_server_open(&server, &opt, err, sizeof(err)), "%s", err);
	pthread_create(&thread, NULL, serve, NULL);
}

static void start_server(const char *board, bool real)
{
	make_paths();
	start((struct rvl_server_options){ .socket = sock_path }, board, real);
}

/* Creates the machine's memory first, because the window is in it. */
static void start_platform(bool irq, bool real)
{
	struct rvl_platform p = { .on = true, .window = WINDOW, .spi = SPI };

	make_paths();
	make_memory();
	if (irq) {
		p.qtest = sock_path;
		qtest_fd = rvl_listen(sock_path);
		ck_assert_int_ge(qtest_fd, 0);
	}
	start((struct rvl_server_options){ .platform = p }, "zu3eg-64", real);
}

static void setup(void)
{
	start_server("zu3eg-64", true);
	make_memory();
}

static void teardown(void)
{
	kill(getpid(), SIGTERM);
	pthread_join(thread, NULL);
	rvl_server_close(&server);
	if (qtest_fd >= 0) {
		close(qtest_fd);
		unlink(sock_path);
	}
	qtest_fd = -1;
	ck_assert_int_ne(access(sock_path, F_OK), 0);
	ck_assert_int_ne(access(control_path, F_OK), 0);
	unlink(mem_path);
	rmdir(dir);
}

static int connect_socket(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/*
 * Receives one message: its number in @value, its descriptor or -1 in @fd. Returns false if the
 * server closed the connection.
 */
static bool receive(int sock, int64_t *value, int *fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} u;
	struct iovec iov = { .iov_base = value, .iov_len = sizeof(*value) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = u.buf,
			    .msg_controllen = sizeof(u.buf) };
	ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL);

	*fd = -1;
	if (n <= 0)
		return false;
	ck_assert_int_eq(n, 8);
	if (CMSG_FIRSTHDR(&m))
		memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return true;
}

static bool join(struct client *c)
{
	int64_t value;
	int fd;

	memset(c, 0, sizeof(*c));
	c->sock = connect_socket(sock_path);
	if (!receive(c->sock, &c->version, &fd))
		return false;
	ck_assert(receive(c->sock, &c->id, &fd) && fd < 0);
	ck_assert(receive(c->sock, &value, &c->window_fd) && value == -1 && c->window_fd >= 0);
	ck_assert(receive(c->sock, &c->peer, &c->doorbell) && c->doorbell >= 0);
	ck_assert(receive(c->sock, &value, &c->irq) && value == c->id && c->irq >= 0);
	c->window = mmap(NULL, RIVULET_WINDOW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			 c->window_fd, 0);
	ck_assert_ptr_ne(c->window, MAP_FAILED);
	return true;
}

static void map_memory(struct client *c)
{
	int fd = open(mem_path, O_RDWR | O_CLOEXEC);

	c->mem = mmap(NULL, MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(c->mem, MAP_FAILED);
	close(fd);
}

/*
 * Boots a machine whose window is in its memory. The model connects to the qtest socket at its
 * first interrupt.
 */
static void boot(struct client *c, bool irq)
{
	*c = (struct client){ .kind = irq ? PLATFORM : POLLED, .sock = -1 };
	map_memory(c);
	c->window = (void *)(c->mem + WINDOW);
}

static void leave(struct client *c)
{
	if (c->sock >= 0)
		close(c->sock);
	if (c->kind != IVSHMEM) {
		munmap(c->mem, MEM_BYTES);
		return;
	}
	if (c->window) {
		munmap(c->window, RIVULET_WINDOW_SIZE);
		close(c->window_fd);
		close(c->doorbell);
		close(c->irq);
	}
	if (c->mem)
		munmap(c->mem, MEM_BYTES);
}

static uint32_t rd(struct client *c, uint32_t reg)
{
	return atomic_load(&c->window[reg / 4]);
}

static void wr(struct client *c, uint32_t reg, uint32_t value)
{
	atomic_store(&c->window[reg / 4], value);
}

static void ring_doorbell(struct client *c)
{
	if (c->kind != IVSHMEM) {
		wr(c, RIVULET_REG_DOORBELL, rd(c, RIVULET_REG_DOORBELL) + 1);
		return;
	}
	ck_assert_int_eq(eventfd_write(c->doorbell, 1), 0);
}

/*
 * Receives one interrupt on the qtest socket, where the line is raised and lowered, and answers as
 * QEMU does.
 */
static void wait_qtest(struct client *c)
{
	struct pollfd p = { .fd = c->sock < 0 ? qtest_fd : c->sock, .events = POLLIN };
	char text[sizeof(UP_DOWN)] = "";

	ck_assert_msg(poll(&p, 1, 60000) == 1, "no interrupt");
	if (c->sock < 0)
		c->sock = accept(qtest_fd, NULL, NULL);
	ck_assert_int_ge(c->sock, 0);
	ck_assert_int_eq(recv(c->sock, text, sizeof(UP_DOWN) - 1, MSG_WAITALL),
			 sizeof(UP_DOWN) - 1);
	ck_assert_str_eq(text, UP_DOWN);
	ck_assert_int_eq(send(c->sock, "OK\nOK\n", 6, MSG_NOSIGNAL), 6);
}

static void wait_irq(struct client *c)
{
	struct pollfd p = { .fd = c->irq, .events = POLLIN };
	eventfd_t n;

	if (c->kind == PLATFORM) {
		wait_qtest(c);
		return;
	}
	if (c->kind == POLLED) {
		usleep(100);
		return;
	}
	ck_assert_msg(poll(&p, 1, 60000) == 1, "no interrupt");
	eventfd_read(c->irq, &n);
}

/* Waits until the word has the value, because interrupts may be late or early. */
static void wait_reg(struct client *c, uint32_t reg, uint32_t value)
{
	while (rd(c, reg) != value)
		wait_irq(c);
}

static void reset(struct client *c, uint32_t base)
{
	wr(c, RIVULET_REG_IRQ_ENABLE, c->kind != POLLED);
	wr(c, RIVULET_REG_SLOT0_SEQ, base);
	wr(c, RIVULET_REG_SLOT1_SEQ, base);
	wr(c, RIVULET_REG_RESET_BASE, base);
	wr(c, RIVULET_REG_RESET_REQ, rd(c, RIVULET_REG_RESET_ACK) + 1);
	ring_doorbell(c);
	wait_reg(c, RIVULET_REG_RESET_ACK, rd(c, RIVULET_REG_RESET_REQ));
}

/*
 * Assembles @text at 0x10000 or 0x11000, because the entry before may still run, puts the
 * descriptor of @seq at 0x1000 or 0x1400 and its status at 0x8000, and fills the slot.
 */
static void submit(struct client *c, uint32_t seq, const char *text)
{
	uint64_t at = 0x10000 + (seq & 1) * 0x1000;
	struct rivulet_insn *code = (struct rivulet_insn *)(c->mem + at);
	struct rivulet_desc *d = (struct rivulet_desc *)(c->mem + 0x1000 + (seq & 1) * 0x400);
	uint32_t slot = seq & 1 ? RIVULET_REG_SLOT1_ADDR_LO : RIVULET_REG_SLOT0_ADDR_LO;
	char *copy = strdup(text), *next = copy, *line, err[100];

	*d = (struct rivulet_desc){ .magic = RIVULET_DESC_MAGIC,
				    .size = sizeof(*d),
				    .seq = seq,
				    .client = 7,
				    .flags = RIVULET_DESC_IRQ,
				    .report_slot = RIVULET_NO_SLOT,
				    .status = 0x8000 };
	while ((line = strsep(&next, "\n")))
		code += rivulet_assemble(line, code, err, sizeof(err));
	free(copy);
	for (int l = 0; l < 4; l++)
		d->variant[l].length = (uint8_t *)code - (c->mem + at);
	d->region[0] = (struct rivulet_region){ .addr = at,
						.limit = 0x1000,
						.flags = RIVULET_REGION_VALID };
	d->region[1] =
		(struct rivulet_region){ .addr = 0x40000,
					 .limit = 0x10000,
					 .flags = RIVULET_REGION_VALID | RIVULET_REGION_WRITE };
	dut_seal(d);
	wr(c, slot, 0x1000 + (seq & 1) * 0x400);
	wr(c, slot + 4, 0);
	wr(c, slot + 8, seq);
	ring_doorbell(c);
}

#define COPY                                                                                       \
	"load load slot=1 rows=1 cols=16 blks=1 push=store\n"                                      \
	"store store slot=1 offset=4096 rows=1 cols=16 blks=1 pop=load\n" DUT_END

static void run_copy(struct client *c, uint32_t seq)
{
	const struct rivulet_status *st = (const void *)(c->mem + 0x8000);

	for (int i = 0; i < 256; i++)
		c->mem[0x40000 + i] = i + seq;
	submit(c, seq, COPY);
	wait_reg(c, RIVULET_REG_DONE_SEQ, seq);
	ck_assert_int_eq(memcmp(c->mem + 0x41000, c->mem + 0x40000, 256), 0);
	ck_assert(dut_sealed(st) && st->seq == seq && st->state == RIVULET_STATE_DONE);
}

START_TEST(test_job_by_doorbell_and_interrupt)
{
	struct client c;

	ck_assert(join(&c));
	map_memory(&c);
	ck_assert(c.version == 0 && c.id == 1 && c.peer == 0);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_MAGIC), RIVULET_MAGIC);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_DOORBELL_PEER), 0);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_FLAGS), RIVULET_FLAG_REAL | RIVULET_FLAG_SENSOR);
	reset(&c, 0xfffffff0);
	for (uint32_t i = 1; i <= 40; i++)
		run_copy(&c, 0xfffffff0 + i);
	leave(&c);
}
END_TEST

START_TEST(test_reconnect_is_power_on)
{
	struct client a, b;

	ck_assert(join(&a));
	map_memory(&a);
	reset(&a, 5);
	run_copy(&a, 6);
	ck_assert_msg(!join(&b), "a second machine was let in");
	leave(&b);
	leave(&a);
	/* the server notices the closed connection asynchronously */
	while (!join(&b))
		leave(&b);
	map_memory(&b);
	ck_assert_int_eq(b.id, 2);
	ck_assert_uint_eq(rd(&b, RIVULET_REG_EPOCH), 0);
	reset(&b, 0);
	run_copy(&b, 1);
	leave(&b);
}
END_TEST

START_TEST(test_client_that_sends_data_is_dropped)
{
	struct client c;
	int64_t value;
	int fd;

	ck_assert(join(&c));
	ck_assert_int_eq(send(c.sock, "garbage", 7, 0), 7);
	ck_assert(!receive(c.sock, &value, &fd));
	leave(&c);
	ck_assert(join(&c));
	map_memory(&c);
	reset(&c, 0);
	run_copy(&c, 1);
	leave(&c);
}
END_TEST

/* Returns the answer to a command, including its last line. */
static void control(const char *line, char *answer, size_t size)
{
	int fd = connect_socket(control_path);
	size_t len = 0;
	ssize_t n;

	dprintf(fd, "%s\n", line);
	do {
		n = recv(fd, answer + len, size - 1 - len, 0);
		ck_assert_int_gt(n, 0);
		len += n;
		answer[len] = 0;
	} while (!strstr(answer, "ok\n") && !strstr(answer, "error"));
	close(fd);
}

START_TEST(test_abort_and_reset_reach_a_busy_device)
{
	struct client c;
	char a[2000];

	ck_assert(join(&c));
	map_memory(&c);
	reset(&c, 0);
	control("inject hang@+1,stuck@+2", a, sizeof(a));
	ck_assert_str_eq(a, "ok\n");
	submit(&c, 1, COPY);
	while (rd(&c, RIVULET_REG_CURRENT_SEQ) != 1)
		usleep(1000);
	wr(&c, RIVULET_REG_ABORT_SEQ, 1);
	wr(&c, RIVULET_REG_ABORT_REQ, 1);
	ring_doorbell(&c);
	wait_reg(&c, RIVULET_REG_ABORT_ACK, 1);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_ABORT_RESULT), RIVULET_ABORT_CURRENT);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_FROZEN), 1);
	wr(&c, RIVULET_REG_RESUME_SEQ, 1);
	wr(&c, RIVULET_REG_RESUME_REQ, 1);
	submit(&c, 2, COPY);
	while (rd(&c, RIVULET_REG_CURRENT_SEQ) != 2)
		usleep(1000);
	wr(&c, RIVULET_REG_ABORT_SEQ, 2);
	wr(&c, RIVULET_REG_ABORT_REQ, 2);
	ring_doorbell(&c);
	usleep(50000);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_ABORT_ACK), 1);
	reset(&c, 2);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_ABORT_ACK), 2);
	run_copy(&c, 3);
	leave(&c);
}
END_TEST

/* ABORT must not wait for a program of minutes, which would exceed the test's timeout. */
START_TEST(test_abort_stops_a_long_instruction)
{
	struct client c;

	ck_assert(join(&c));
	map_memory(&c);
	reset(&c, 0);
	submit(&c, 1,
	       "conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1\n"
	       "conv c_input rows=64 cols=64\n"
	       "conv conv rows=64 cols=64 icb=1000 ocb=1000\n" DUT_END);
	while (rd(&c, RIVULET_REG_CURRENT_SEQ) != 1)
		usleep(1000);
	wr(&c, RIVULET_REG_ABORT_SEQ, 1);
	wr(&c, RIVULET_REG_ABORT_REQ, 1);
	ring_doorbell(&c);
	wait_reg(&c, RIVULET_REG_ABORT_ACK, 1);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_DONE_SEQ), 1);
	ck_assert_uint_eq(((struct rivulet_status *)(c.mem + 0x8000))->state,
			  RIVULET_STATE_ABORTED);
	leave(&c);
}
END_TEST

START_TEST(test_unplug_and_replug)
{
	struct client a, b;
	char text[4000];

	control("unplug", text, sizeof(text));
	ck_assert_str_eq(text, "error: no machine is connected\n");
	ck_assert(join(&a));
	map_memory(&a);
	reset(&a, 0);
	run_copy(&a, 1);
	control("unplug", text, sizeof(text));
	ck_assert_str_eq(text, "ok\n");
	for (uint32_t i = 0; i < RVL_WINDOW_WORDS; i++)
		ck_assert_uint_eq(rd(&a, 4 * i), UINT32_MAX);
	ring_doorbell(&a);
	control("stat", text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "\nunplugged 1\n"));
	ck_assert_ptr_nonnull(strstr(text, "\njobs 1\n"));
	/* the old connection is still open when the machine plugs the new device */
	ck_assert(join(&b));
	map_memory(&b);
	reset(&b, 0);
	run_copy(&b, 1);
	for (uint32_t i = 0; i < RVL_WINDOW_WORDS; i++)
		ck_assert_uint_eq(rd(&a, 4 * i), UINT32_MAX);
	leave(&a);
	leave(&b);
}
END_TEST

START_TEST(test_platform_by_interrupt)
{
	struct client c;

	start_platform(true, true);
	boot(&c, true);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_MAGIC), RIVULET_MAGIC);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_DOORBELL_PEER), RIVULET_NO_PEER);
	reset(&c, 0xfffffff0);
	for (uint32_t i = 1; i <= 40; i++)
		run_copy(&c, 0xfffffff0 + i);
	leave(&c);
	teardown();
}
END_TEST

/*
 * There is no qtest socket, and at this pace nothing becomes due, so only the doorbell can start
 * the job.
 */
START_TEST(test_platform_polled_looks_when_rung)
{
	struct client c;
	uint32_t bell;

	start_platform(false, false);
	boot(&c, false);
	reset(&c, 0);
	for (uint32_t i = 1; i <= 40; i++)
		run_copy(&c, i);
	bell = rd(&c, RIVULET_REG_DOORBELL);
	wr(&c, RIVULET_REG_HOLD_VALUE, 1);
	wr(&c, RIVULET_REG_HOLD_REQ, 1);
	usleep(50000);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_HOLD_ACK), 0);
	wr(&c, RIVULET_REG_DOORBELL, bell - 7);
	wait_reg(&c, RIVULET_REG_HOLD_ACK, 1);
	leave(&c);
	teardown();
}
END_TEST

START_TEST(test_platform_power)
{
	struct client c;
	char text[200];

	start_platform(true, true);
	boot(&c, true);
	reset(&c, 5);
	run_copy(&c, 6);
	control("unplug", text, sizeof(text));
	ck_assert_str_eq(text, "ok\n");
	ck_assert_uint_eq(rd(&c, RIVULET_REG_MAGIC), UINT32_MAX);
	control("power", text, sizeof(text));
	ck_assert_str_eq(text, "ok\n");
	ck_assert_uint_eq(rd(&c, RIVULET_REG_EPOCH), 0);
	close(c.sock);
	c.sock = -1;
	reset(&c, 0);
	run_copy(&c, 1);
	/* the machine ends, and the next machine finds the device in its state after power on */
	ck_assert_uint_eq(rd(&c, RIVULET_REG_EPOCH), 1);
	close(c.sock);
	c.sock = -1;
	while (rd(&c, RIVULET_REG_EPOCH))
		usleep(1000);
	reset(&c, 0);
	run_copy(&c, 1);
	leave(&c);
	teardown();
}
END_TEST

START_TEST(test_control_sets_temperature)
{
	struct client c;
	char text[200];

	ck_assert(join(&c));
	ck_assert_int_eq((int32_t)rd(&c, RIVULET_REG_TEMPERATURE), 25000);
	control("temp -1500", text, sizeof(text));
	ck_assert_str_eq(text, "ok\n");
	ck_assert_int_eq((int32_t)rd(&c, RIVULET_REG_TEMPERATURE), -1500);
	leave(&c);
}
END_TEST

/*
 * The delay exceeds the timeout of the test. Each "hurry" ends the delay of one job, and the job
 * behind it starts by itself.
 */
START_TEST(test_control_hurries_slow_jobs)
{
	struct client c;
	char text[4000];

	ck_assert(join(&c));
	map_memory(&c);
	reset(&c, 0);
	control("inject slow@1:600000,slow@2:600000", text, sizeof(text));
	ck_assert_str_eq(text, "ok\n");
	submit(&c, 1, COPY);
	submit(&c, 2, COPY);
	for (uint32_t seq = 1; seq <= 2; seq++) {
		while (rd(&c, RIVULET_REG_CURRENT_SEQ) != seq)
			usleep(1000);
		ck_assert_uint_eq(rd(&c, RIVULET_REG_DONE_SEQ), seq - 1);
		control("hurry", text, sizeof(text));
		ck_assert_str_eq(text, "ok\n");
		wait_reg(&c, RIVULET_REG_DONE_SEQ, seq);
	}
	run_copy(&c, 3);
	control("stat", text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "started 3\nfollowed 1\n"));
	leave(&c);
}
END_TEST

/* A stalled device serves no request and retires no job. Afterwards it does both by itself. */
START_TEST(test_control_stalls)
{
	struct client c;
	char text[200];

	ck_assert(join(&c));
	map_memory(&c);
	reset(&c, 0);
	control("stall 3600000", text, sizeof(text));
	ck_assert_str_eq(text, "ok\n");
	wr(&c, RIVULET_REG_HOLD_REQ, 1);
	submit(&c, 1, COPY);
	usleep(100000);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_HOLD_ACK), 0);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_DONE_SEQ), 0);
	control("stall 50", text, sizeof(text));
	ck_assert_str_eq(text, "ok\n");
	wait_reg(&c, RIVULET_REG_HOLD_ACK, 1);
	wait_reg(&c, RIVULET_REG_DONE_SEQ, 1);
	leave(&c);
}
END_TEST

START_TEST(test_control_refuses_invalid_commands)
{
	static const char *const almost[] = { "injectx slow@1:1", "tempo 5", "batteryx charge=5",
		"stalls 5", "hurry 1", "unplug 1", "power 1", "stat 1", "temp", "stall" };
	char text[4000], big[600];
	int fd;

	control("hello", text, sizeof(text));
	ck_assert_str_eq(text, "error: \"hello\": expected inject SPEC, temp MDEG, "
			       "consume JOULE, battery SPEC, hurry, stall MS, unplug, power or stat\n");
	/* A command's name ends at the space, and a command without an argument has none. */
	for (size_t i = 0; i < sizeof(almost) / sizeof(almost[0]); i++) {
		control(almost[i], text, sizeof(text));
		ck_assert_msg(strstr(text, "\": expected inject SPEC"), "%s: %s", almost[i], text);
	}
	control("battery charge=50", text, sizeof(text));
	ck_assert_str_eq(text, "error: there is no battery: --battery\n");
	control("hurry", text, sizeof(text));
	ck_assert_str_eq(text, "error: no job runs\n");
	control("stall 5", text, sizeof(text));
	ck_assert_str_eq(text, "error: no machine is connected\n");
	control("stall -5", text, sizeof(text));
	ck_assert_str_eq(text, "error: stall \"-5\": expected 0 to 3600000 ms\n");
	control("consume 5", text, sizeof(text));
	ck_assert_str_eq(text, "error: no machine is connected\n");
	control("consume 1000001", text, sizeof(text));
	ck_assert_str_eq(text, "error: consume \"1000001\": expected 0 to 1000000 J\n");
	control("power", text, sizeof(text));
	ck_assert_str_eq(text, "error: on ivshmem, a new connection is a power on\n");
	control("temp hot", text, sizeof(text));
	ck_assert_str_eq(text, "error: temp \"hot\": expected -273150 to 1000000\n");
	control("inject hang@0", text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "error: injection \"hang@0\""));
	control("stat", text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "board zu3eg-64\npace real\nconnected 0\nok\n"));
	fd = connect_socket(control_path);
	memset(big, 'x', sizeof(big));
	ck_assert_int_eq(send(fd, big, sizeof(big), MSG_NOSIGNAL), sizeof(big));
	ck_assert_int_le(recv(fd, text, sizeof(text), 0), 0);
	close(fd);
}
END_TEST

START_TEST(test_memory_may_come_late)
{
	struct client c;

	start_server("zu3eg-64", false);
	ck_assert(join(&c));
	reset(&c, 0);
	wr(&c, RIVULET_REG_SLOT1_ADDR_LO, 0x1400);
	wr(&c, RIVULET_REG_SLOT1_SEQ, 1);
	ring_doorbell(&c);
	wait_reg(&c, RIVULET_REG_DONE_SEQ, 1);
	ck_assert_uint_eq(rd(&c, RIVULET_REG_FROZEN_FAULT), RIVULET_FAULT_DESC_BUS);
	make_memory();
	map_memory(&c);
	reset(&c, 1);
	run_copy(&c, 2);
	leave(&c);
	teardown();
}
END_TEST

/*
 * A job's energy is taken from the page before its interrupt, and a new charge is in the page
 * before its "ok".
 */
START_TEST(test_battery_follows_jobs)
{
	struct rvl_battery battery = { .on = false };
	const struct rvl_battery_page *page;
	char text[2000], err[160];
	struct client c;
	uint32_t left;
	double taken;

	make_paths();
	make_memory();
	ck_assert_msg(!rvl_battery_set(&battery, "mwh=1000000,at=0x1e0000,factor=1e10", err,
		      sizeof(err)), "%s", err);
	start((struct rvl_server_options){ .socket = sock_path, .battery = battery }, "zu3eg-64",
	      false);
	ck_assert(join(&c));
	map_memory(&c);
	page = (const void *)(c.mem + 0x1e0000);
	control("battery charge=50", text, sizeof(text));
	ck_assert_str_eq(text, "ok\n");
	ck_assert_uint_eq(page->magic, RVL_BATTERY_MAGIC);
	left = page->left;
	ck_assert_uint_eq(left, 500000);
	reset(&c, 5);
	run_copy(&c, 6);
	ck_assert_uint_lt(page->left, left);
	control("stat", text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "battery_full_mwh 1000000\n"));
	ck_assert_ptr_null(strstr(text, "battery_taken_pj 0\n"));
	ck_assert_ptr_nonnull(strstr(text, "battery_factor 1e+10\n"));
	/* 2 J more are 2e12 pJ. */
	taken = strtod(strstr(text, "battery_taken_pj ") + 17, NULL);
	control("consume 2", text, sizeof(text));
	ck_assert_str_eq(text, "ok\n");
	control("stat", text, sizeof(text));
	ck_assert_double_eq_tol(strtod(strstr(text, "battery_taken_pj ") + 17, NULL), taken + 2e12, 1e9);
	control("battery charge=101", text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "error: \"charge=101\" is not within 0 to 100"));
	leave(&c);
	teardown();
}
END_TEST

START_TEST(test_guest_physical_addresses)
{
	const uint64_t mib = 1 << 20, gib = 1 << 30;

	ck_assert_uint_eq(rvl_memory_offset(gib, 0, 4096), 0);
	ck_assert_uint_eq(rvl_memory_offset(gib, gib - 4096, 4096), gib - 4096);
	ck_assert_uint_eq(rvl_memory_offset(gib, gib - 4096, 4097), UINT64_MAX);
	ck_assert_uint_eq(rvl_memory_offset(gib, gib, 1), UINT64_MAX);
	ck_assert_uint_eq(rvl_memory_offset(gib, 4 * gib, 1), UINT64_MAX);
	ck_assert_uint_eq(rvl_memory_offset(gib, UINT64_MAX, 2), UINT64_MAX);
	ck_assert_uint_eq(rvl_memory_offset(gib, 1, UINT64_MAX), UINT64_MAX);
	ck_assert_uint_eq(rvl_memory_offset(2815 * mib, 2814 * mib, mib), 2814 * mib);
	ck_assert_uint_eq(rvl_memory_offset(2816 * mib, 2 * gib - 4096, 4096), 2 * gib - 4096);
	ck_assert_uint_eq(rvl_memory_offset(2816 * mib, 2 * gib - 4096, 8192), UINT64_MAX);
	ck_assert_uint_eq(rvl_memory_offset(2816 * mib, 2 * gib, 1), UINT64_MAX);
	ck_assert_uint_eq(rvl_memory_offset(2816 * mib, 4 * gib, 1), 2 * gib);
	ck_assert_uint_eq(rvl_memory_offset(4 * gib, 4 * gib, 2 * gib), 2 * gib);
	ck_assert_uint_eq(rvl_memory_offset(4 * gib, 4 * gib, 2 * gib + 1), UINT64_MAX);
}
END_TEST

START_TEST(test_listen_errors)
{
	char path[64] = "/tmp/rivulet-listen.XXXXXX", at[96], long_path[200];
	int fd;

	ck_assert_ptr_nonnull(mkdtemp(path));
	sprintf(at, "%s/s", path);
	memset(long_path, 'a', sizeof(long_path));
	long_path[sizeof(long_path) - 1] = 0;
	ck_assert_int_eq(rvl_listen(long_path), -ENAMETOOLONG);
	ck_assert_int_eq(rvl_listen("/nonexistent/s"), -ENOENT);
	fd = rvl_listen(at);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(rvl_listen(at), -EADDRINUSE);
	close(fd);
	/* a socket left behind by a server that was killed */
	fd = rvl_listen(at);
	ck_assert_int_ge(fd, 0);
	close(fd);
	unlink(at);
	rmdir(path);
}
END_TEST

/* Runs the program of this build. Returns its exit status; @out receives both output streams. */
static int program(const char *args, char *out, size_t size)
{
	return run_program("rivulet-sim", args, out, size);
}

static const struct {
	const char *args, *says;
} refused[] = {
	{ "",
	  "rivulet-sim: --board, --mem and one of --socket, --window are needed; see --help\n" },
	{ "--board zu3eg-64 --socket /tmp/x", "are needed" },
	{ "--board nosuch --socket /tmp/x --mem /tmp/y", "no board \"nosuch\"; known:" },
	{ "--board ./nosuch.board --socket /tmp/x --mem /tmp/y", "nosuch.board: No such file" },
	{ "--board zu3eg-64 --socket /tmp/x --mem /tmp/y --pace slow",
	  "--pace slow: expected real or fast" },
	{ "--board zu3eg-64 --socket /tmp/x --mem /tmp/y --inject hung@1",
	  "--inject: injection \"hung@1\"" },
	{ "--board zu3eg-64 --socket /nonexistent/x --mem /tmp/y",
	  "cannot listen on /nonexistent/x" },
	{ "--board zu3eg-64 --mem /tmp/y --window 0x1000 --socket /tmp/x", "give one" },
	{ "--board zu3eg-64 --mem /tmp/y --window 0x1001", "--window 0x1001: expected" },
	{ "--board zu3eg-64 --mem /tmp/y --window -4096", "--window -4096: expected" },
	{ "--board zu3eg-64 --mem /nonexistent/y --window 0x1000",
	  "no window at 0x1000 of /nonexistent/y" },
	{ "--board zu3eg-64 --mem /tmp/y --window 0x1000 --qtest /tmp/q", "--irq go together" },
	{ "--board zu3eg-64 --mem /tmp/y --window 0x1000 --qtest /tmp/q --irq 988",
	  "--irq 988: expected 0 to 987" },
	{ "--board zu3eg-64 --mem /tmp/y --socket /tmp/x --irq 3", "go with --window" },
	{ "--board zu3eg-64 --socket /tmp/x --mem /tmp/y --battery mwh=10",
	  "--battery: \"mwh=10\": mwh= and at= are needed" },
	{ "extra", "unexpected argument \"extra\"" },
	{ "--nosuch", "unrecognized option" },
};

START_TEST(test_program_refuses)
{
	char out[4000];

	ck_assert_int_eq(program(refused[_i].args, out, sizeof(out)), 1);
	ck_assert_msg(strstr(out, refused[_i].says) != NULL, "%s", out);
	ck_assert_msg(strchr(out, '\n') == out + strlen(out) - 1, "more than one line: %s", out);
}
END_TEST

START_TEST(test_program_helps_and_ends)
{
	char out[4000], args[600];

	ck_assert_int_eq(program("--help", out, sizeof(out)), 0);
	ck_assert(strstr(out, "usage: rivulet-sim") && strstr(out, "corrupt_status"));
	ck_assert_int_eq(program("--version", out, sizeof(out)), 0);
	ck_assert_str_eq(out, "rivulet-sim " RIVULET_VERSION "\n");
	make_scratch(dir);
	snprintf(args, sizeof(args),
		 "--board sc-edge --pace fast --verbose --socket %s/s --control %s/c --mem %s/m & "
		 "p=$!; while kill -0 $p && [ ! -S %s/c ]; do sleep 0.05; done; kill -TERM $p; "
		 "wait $p",
		 dir, dir, dir, dir);
	ck_assert_int_eq(program(args, out, sizeof(out)), 0);
	ck_assert_ptr_nonnull(strstr(out, "board sc-edge, pace fast, listening on"));
	ck_assert_msg(!rmdir(dir), "it left something behind");
}
END_TEST

static Suite *serve_suite(void)
{
	Suite *s = suite_create("serve");
	TCase *tc = tcase_create("machine"), *alone = tcase_create("alone");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_job_by_doorbell_and_interrupt);
	tcase_add_test(tc, test_reconnect_is_power_on);
	tcase_add_test(tc, test_client_that_sends_data_is_dropped);
	tcase_add_test(tc, test_abort_and_reset_reach_a_busy_device);
	tcase_add_test(tc, test_abort_stops_a_long_instruction);
	tcase_add_test(tc, test_unplug_and_replug);
	tcase_add_test(tc, test_control_sets_temperature);
	tcase_add_test(tc, test_control_hurries_slow_jobs);
	tcase_add_test(tc, test_control_stalls);
	tcase_add_test(tc, test_control_refuses_invalid_commands);
	tcase_set_timeout(alone, 120);
	tcase_add_test(alone, test_platform_by_interrupt);
	tcase_add_test(alone, test_platform_polled_looks_when_rung);
	tcase_add_test(alone, test_platform_power);
	tcase_add_test(alone, test_memory_may_come_late);
	tcase_add_test(alone, test_battery_follows_jobs);
	tcase_add_test(alone, test_guest_physical_addresses);
	tcase_add_test(alone, test_listen_errors);
	tcase_add_loop_test(alone, test_program_refuses, 0, sizeof(refused) / sizeof(refused[0]));
	tcase_add_test(alone, test_program_helps_and_ends);
	suite_add_tcase(s, tc);
	suite_add_tcase(s, alone);
	return s;
}

int main(void)
{
	return run_suite(serve_suite());
}
