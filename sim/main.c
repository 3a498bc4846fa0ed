// SPDX-License-Identifier: MIT
/* rivulet-sim: the device model as a program. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "serve.h"

#define MAX_SPI 987 /* a GIC has at most 988 shared peripheral interrupts */

static void usage(FILE *f)
{
	fputs("usage: rivulet-sim --board NAME|FILE --socket PATH --mem FILE [OPTION]...\n"
	      "       rivulet-sim --board NAME|FILE --window ADDR --mem FILE [OPTION]...\n"
	      "Serve the Rivulet NPU to QEMU's ivshmem-doorbell, or in a page of its memory.\n"
	      "  --board NAME|FILE  board profile\n"
	      "  --socket PATH      ivshmem server socket: -chardev socket,id=npu,path=PATH\n"
	      "                     -device ivshmem-doorbell,chardev=npu,vectors=1\n"
	      "  --mem FILE         the machine's memory: -object "
	      "memory-backend-file,share=on,mem-path=FILE\n"
	      "  --window ADDR      guest physical address of the register window: a page of FILE\n"
	      "                     that the machine's Device Tree reserves\n"
	      "  --qtest PATH       raise the interrupt by QEMU's -qtest "
	      "unix:PATH,server=on,wait=off;\n"
	      "                     without it there is none\n"
	      "  --irq N            number of that interrupt at the GIC: an SPI, 0..987\n"
	      "  --pace real|fast   completions wait for device time, or come when computed\n"
	      "  --battery SPEC     a battery that the device drains: "
	      "mwh=N,at=ADDR[,factor=X][,charge=PERCENT]\n"
	      "                     for the machine's ACPI, in the page at guest physical ADDR\n"
	      "  --control PATH     socket for commands: inject SPEC, temp MDEG, battery SPEC, "
	      "hurry,\n"
	      "                     stall MS, unplug, power, stat\n"
	      "  --inject SPEC      faults to inject, KIND@JOB[:ARG],...; KIND is one of\n",
	      f);
#define KIND(name, arg, doc) fprintf(f, "                       %-15s " doc "\n", #name);
	RVL_INJECTIONS(KIND)
#undef KIND
	fputs("  --verbose          connections and every register the device writes\n"
	      "  --version, --help\n",
	      f);
}

static int bad(const char *fmt, const char *arg)
{
	fputs("rivulet-sim: ", stderr);
	fprintf(stderr, fmt, arg);
	fputc('\n', stderr);
	return 1;
}

struct arguments {
	struct rvl_server_options opt;
	const char *board;
	const char *pace;
	const char *inject;
	const char *window;
	const char *irq;
	const char *battery;
	bool done; /* --help or --version was given */
};

static int parse(struct arguments *a, int argc, char **argv)
{
	static const struct option longopts[] = {
		{ "board", 1, NULL, 'b' },  { "socket", 1, NULL, 's' },
		{ "mem", 1, NULL, 'm' },    { "pace", 1, NULL, 'p' },
		{ "inject", 1, NULL, 'i' }, { "control", 1, NULL, 'c' },
		{ "window", 1, NULL, 'w' }, { "qtest", 1, NULL, 'q' },
		{ "irq", 1, NULL, 'n' },    { "battery", 1, NULL, 'B' },
		{ "verbose", 0, NULL, 'v' },
		{ "help", 0, NULL, 'h' },   { "version", 0, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	const char **text[256] = { ['b'] = &a->board,	['s'] = &a->opt.socket,
				   ['m'] = &a->opt.mem, ['p'] = &a->pace,
				   ['i'] = &a->inject,	['c'] = &a->opt.control,
				   ['w'] = &a->window,	['q'] = &a->opt.platform.qtest,
				   ['n'] = &a->irq,	['B'] = &a->battery };
	int c;

	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		if (c == '?')
			return 1;
		if (text[c])
			*text[c] = optarg;
		a->opt.trace |= c == 'v';
		if (c == 'h')
			usage(stdout);
		if (c == 'V')
			puts("rivulet-sim " RIVULET_VERSION);
		a->done |= c == 'h' || c == 'V';
	}
	if (optind < argc)
		return bad("unexpected argument \"%s\"", argv[optind]);
	return 0;
}

/* A whole number of @text up to @max. */
static bool number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 0);
	return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *out <= max;
}

static int check_platform(struct arguments *a)
{
	struct rvl_platform *p = &a->opt.platform;
	uint64_t spi = 0;

	p->on = a->window;
	if (!p->on)
		return p->qtest || a->irq ? bad("%s", "--qtest and --irq go with --window") : 0;
	if (a->opt.socket)
		return bad("%s", "--socket is for ivshmem, --window for a platform: give one");
	if (!number(a->window, UINT64_MAX, &p->window) || p->window % RIVULET_WINDOW_SIZE)
		return bad("--window %s: expected an address, multiple of 4096", a->window);
	if (!p->qtest != !a->irq)
		return bad("%s", "--qtest and --irq go together");
	if (p->qtest && strlen(p->qtest) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return bad("--qtest %s: too long a path", p->qtest);
	if (a->irq && !number(a->irq, MAX_SPI, &spi))
		return bad("--irq %s: expected 0 to 987", a->irq);
	p->spi = spi;
	return 0;
}

static int check(struct arguments *a)
{
	char err[512] = "";

	if (!a->board || (!a->opt.socket && !a->window) || !a->opt.mem)
		return bad("%s",
			   "--board, --mem and one of --socket, --window are needed; see --help");
	if (check_platform(a))
		return EXIT_FAILURE;
	if (rivulet_board_load(&a->opt.board, a->board, err, sizeof(err)))
		return bad("%s", err);
	if (a->pace && strcmp(a->pace, "real") && strcmp(a->pace, "fast"))
		return bad("--pace %s: expected real or fast", a->pace);
	if (a->pace)
		a->opt.board.pace_real = !strcmp(a->pace, "real");
	if (a->inject && rvl_inject_add(&a->opt.inject, a->inject, 0, err, sizeof(err)))
		return bad("--inject: %s", err);
	if (a->battery && rvl_battery_set(&a->opt.battery, a->battery, err, sizeof(err)))
		return bad("--battery: %s", err);
	return 0;
}

int main(int argc, char **argv)
{
	struct arguments a = { .opt.log = stderr };
	struct rvl_server s;
	char err[512];
	sigset_t set;
	int r;

	if (parse(&a, argc, argv))
		return EXIT_FAILURE;
	if (a.done)
		return EXIT_SUCCESS;
	if (check(&a))
		return EXIT_FAILURE;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (rvl_server_open(&s, &a.opt, err, sizeof(err)))
		return bad("%s", err);
	rvl_server_log(&s, "board %s, pace %s, %s %s", a.opt.board.name,
		       a.opt.board.pace_real ? "real" : "fast",
		       a.window ? "window at" : "listening on", a.window ? a.window : a.opt.socket);
	r = rvl_server_run(&s);
	rvl_server_close(&s);
	return r ? bad("%s", strerror(-r)) : EXIT_SUCCESS;
}
