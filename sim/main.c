// SPDX-License-Identifier: MIT
/* rivulet-sim: the device model as a program. */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "serve.h"

static void usage(FILE *f)
{
	fputs("usage: rivulet-sim --board NAME|FILE --socket PATH --mem FILE [OPTION]...\n"
	      "Serve the Rivulet NPU to QEMU's ivshmem-doorbell.\n"
	      "  --board NAME|FILE  board profile\n"
	      "  --socket PATH      ivshmem server socket: -chardev socket,id=npu,path=PATH\n"
	      "                     -device ivshmem-doorbell,chardev=npu,vectors=1\n"
	      "  --mem FILE         the machine's memory: -object "
	      "memory-backend-file,share=on,mem-path=FILE\n"
	      "  --pace real|fast   completions wait for device time, or come when computed\n"
	      "  --control PATH     socket for commands: inject SPEC, unplug, stat\n"
	      "  --inject SPEC      faults on purpose, KIND@JOB[:MS],...; KIND is one of\n",
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
	bool done; /* --help or --version was all that was asked */
};

static int parse(struct arguments *a, int argc, char **argv)
{
	static const struct option longopts[] = {
		{ "board", 1, NULL, 'b' },   { "socket", 1, NULL, 's' },
		{ "mem", 1, NULL, 'm' },     { "pace", 1, NULL, 'p' },
		{ "inject", 1, NULL, 'i' },  { "control", 1, NULL, 'c' },
		{ "verbose", 0, NULL, 'v' }, { "help", 0, NULL, 'h' },
		{ "version", 0, NULL, 'V' }, { NULL, 0, NULL, 0 },
	};
	const char **text[256] = {
		['b'] = &a->board, ['s'] = &a->opt.socket, ['m'] = &a->opt.mem,
		['p'] = &a->pace,  ['i'] = &a->inject,	   ['c'] = &a->opt.control
	};
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

static int check(struct arguments *a)
{
	char err[512] = "";

	if (!a->board || !a->opt.socket || !a->opt.mem)
		return bad("%s", "--board, --socket and --mem are needed; see --help");
	if (rivulet_board_load(&a->opt.board, a->board, err, sizeof(err)))
		return bad("%s", err);
	if (a->pace && strcmp(a->pace, "real") && strcmp(a->pace, "fast"))
		return bad("--pace %s: expected real or fast", a->pace);
	if (a->pace)
		a->opt.board.pace_real = !strcmp(a->pace, "real");
	if (a->inject && rvl_inject_add(&a->opt.inject, a->inject, 0, err, sizeof(err)))
		return bad("--inject: %s", err);
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
	rvl_server_log(&s, "board %s, pace %s, listening on %s", a.opt.board.name,
		       a.opt.board.pace_real ? "real" : "fast", a.opt.socket);
	r = rvl_server_run(&s);
	rvl_server_close(&s);
	return r ? bad("%s", strerror(-r)) : EXIT_SUCCESS;
}
