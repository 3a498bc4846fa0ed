// SPDX-License-Identifier: MIT
/*
 * The platform attachment: the window is a page of the machine's memory, its DOORBELL word is
 * polled, and the interrupt, if there is one, is a line of the GIC that is set through QEMU's qtest
 * socket.
 */
#include "serve.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define GIC	 "/machine/soc/gic unnamed-gpio-in" /* of QEMU's xlnx-zcu102 */
#define POLL_NS 50000ull			    /* polling interval of DOORBELL */
#define IDLE_POLL_NS	 500000ull			    /* polling interval while idle */
#define IDLE_AFTER_NS 20000000ull			    /* idle after this time without a doorbell */

int rvl_platform_power(struct rvl_server *s)
{
	s->window = rvl_memory_map(&s->mem, s->opt.platform.window, RIVULET_WINDOW_SIZE, true);
	return s->window ? 0 : -ENXIO;
}

bool rvl_platform_rang(struct rvl_server *s)
{
	uint32_t doorbell = rvl_rd(&s->sim->window, RIVULET_REG_DOORBELL);

	if (doorbell == s->doorbell)
		return false;
	s->doorbell = doorbell;
	s->changed_at = rvl_pace_host(s->sim);
	return true;
}

uint64_t rvl_platform_slice(struct rvl_server *s, uint64_t now)
{
	return now - s->changed_at < IDLE_AFTER_NS ? POLL_NS : IDLE_POLL_NS;
}

/* Connects to QEMU's qtest socket. QEMU may start after the model and end before it. */
static int connect_qtest(struct rvl_server *s)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (s->client_fd >= 0)
		return 0;
	strncpy(a.sun_path, s->opt.platform.qtest, sizeof(a.sun_path) - 1);
	s->client_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->client_fd < 0)
		return -errno;
	if (!connect(s->client_fd, (struct sockaddr *)&a, sizeof(a)))
		return 0;
	close(s->client_fd);
	s->client_fd = -1;
	return -errno;
}

/* Raises and then lowers the line, because the interrupt is edge-triggered. */
void rvl_platform_raise(struct rvl_server *s)
{
	char text[200];
	int n, r;

	if (!s->opt.platform.qtest)
		return;
	n = snprintf(text, sizeof(text), "set_irq_in " GIC " %u 1\nset_irq_in " GIC " %u 0\n",
		     s->opt.platform.spi, s->opt.platform.spi);
	r = connect_qtest(s);
	if (!r && send(s->client_fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT) != n)
		r = -EIO;
	if (r)
		rvl_server_log(s, "interrupt lost: %s: %s", s->opt.platform.qtest, strerror(-r));
}

/* QEMU answers each command by "OK" in a line of its own. */
bool rvl_platform_read(struct rvl_server *s)
{
	char buf[512];
	ssize_t n = recv(s->client_fd, buf, sizeof(buf) - 1, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	buf[n] = 0;
	if (strstr(buf, "FAIL") || strstr(buf, "ERR"))
		rvl_server_log(s, "QEMU refuses the interrupt: %.*s", (int)strcspn(buf, "\n"), buf);
	return true;
}
