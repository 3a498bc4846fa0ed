// SPDX-License-Identifier: MIT
/*
 * client VERB: a client of the daemon for shell scripts.
 *
 *   info            prints the device and the board
 *   run MODEL [N]   loads an ONNX file and runs it N times on zeroed inputs
 *   load MODEL      loads an ONNX file without running it
 *   serve MODEL     runs the model until SIGTERM. Every output must equal the first one. When the
 *                   daemon or the device disappears, it prints "lost" with the errno, waits until
 *                   both are back, and prints "again" after the next successful run
 *   hold N          prints "held" and keeps its connection for N seconds
 *
 * The exit status is 0, or the errno of the call that failed; a line on stderr names that call.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rivulet.h"

static int report_error(const char *what, int r, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", what, strerror(-r), why);
	return -r;
}

static int info(struct rivulet_client *c)
{
	struct rivulet_daemon_info i = { .size = sizeof(i) };
	rivulet_client_info(c, &i);
	printf("device=%s board=%s version=%s\n", i.device, i.board, i.version);
	return 0;
}

static int bind_all(struct rivulet_request *q, struct rivulet_model *m)
{
	uint32_t n = rivulet_model_inputs(m) + rivulet_model_outputs(m);
	struct rivulet_tensor_info t = { .size = sizeof(t) };

	for (uint32_t i = 0; i < n; i++) {
		int r = rivulet_model_tensor(m, i, &t);
		void *p = r ? NULL : calloc(1, t.bytes + 64);

		r = r ? r : p ? rivulet_bind_memory(q, i, p, t.bytes) : -ENOMEM;
		if (r)
			return r;
	}
	return 0;
}

static volatile sig_atomic_t stopping;

static void on_term(int signal)
{
	(void)signal;
	stopping = 1;
}

struct service {
	struct rivulet_request *q;
	void *out, *first; /* of the last output */
	size_t size;
	unsigned long runs, lost;
};

/* Run once. @away: the last run failed because the daemon or the device was absent. */
static int serve_once(struct rivulet_client *c, struct service *s, bool *away)
{
	int r = rivulet_request_run(s->q, NULL);

	if (!r && !s->first) {
		s->first = malloc(s->size);
		memcpy(s->first, s->out, s->size);
		puts("serving");
	} else if (!r && memcmp(s->first, s->out, s->size)) {
		return report_error("serve", -EILSEQ, "the output differs from the first one");
	} else if (!r && *away) {
		puts("again");
	} else if (r) {
		printf("lost %d %s\n", -r, rivulet_last_error());
		fflush(stdout);
		s->lost++;
		/*
		 * The jobs fail before udev announces to the daemon that the device was unplugged.
		 */
		if (rivulet_client_wait_device(c, 120000))
			return report_error("wait", r, rivulet_last_error());
	}
	s->runs += !r;
	*away = r != 0;
	fflush(stdout);
	return r == 0 || r == -ENODEV || r == -ECONNRESET || r == -EPIPE ? 0 : r;
}

static int serve(struct rivulet_client *c, const char *path)
{
	struct service s = { .q = NULL };
	struct rivulet_tensor_info t = { .size = sizeof(t) };
	struct rivulet_model *m;
	bool away = false;
	int r = rivulet_model_load(c, path, NULL, &m);

	if (r)
		return report_error(path, r, rivulet_last_error());
	r = rivulet_request_new(m, &s.q);
	r = r ? r : bind_all(s.q, m);
	r = r ? r : rivulet_model_tensor(m, rivulet_model_inputs(m), &t);
	s.size = t.bytes;
	s.out = calloc(1, t.bytes + 64);
	r = r ? r : rivulet_bind_memory(s.q, rivulet_model_inputs(m), s.out, t.bytes);
	if (r)
		return report_error("bind", r, rivulet_last_error());
	signal(SIGTERM, on_term);
	while (!r && !stopping)
		r = serve_once(c, &s, &away);
	printf("ran %lu lost %lu\n", s.runs, s.lost);
	rivulet_request_unref(s.q);
	rivulet_model_unref(m);
	return -r;
}

static int run(struct rivulet_client *c, const char *path, int times)
{
	struct rivulet_request *q;
	struct rivulet_model *m;
	int r = rivulet_model_load(c, path, NULL, &m);

	if (r)
		return report_error(path, r, rivulet_last_error());
	if (!times) {
		rivulet_model_unref(m);
		return 0;
	}
	r = rivulet_request_new(m, &q);
	r = r ? r : bind_all(q, m);
	if (r)
		return report_error("bind", r, rivulet_last_error());
	for (int i = 0; !r && i < times; i++)
		r = rivulet_request_run(q, NULL);
	if (r)
		return report_error("run", r, rivulet_request_error(q));
	printf("ran %d\n", times);
	rivulet_request_unref(q);
	rivulet_model_unref(m);
	return 0;
}

int main(int argc, char **argv)
{
	struct rivulet_client *c;
	int r = rivulet_open(NULL, &c);

	if (r)
		return report_error("connect", r, rivulet_last_error());
	if (argc == 2 && !strcmp(argv[1], "info")) {
		r = info(c);
	} else if (argc >= 3 && !strcmp(argv[1], "run")) {
		r = run(c, argv[2], argc > 3 ? atoi(argv[3]) : 1);
	} else if (argc == 3 && !strcmp(argv[1], "load")) {
		r = run(c, argv[2], 0);
	} else if (argc == 3 && !strcmp(argv[1], "serve")) {
		r = serve(c, argv[2]);
	} else if (argc == 3 && !strcmp(argv[1], "hold")) {
		puts("held");
		fflush(stdout);
		sleep((unsigned int)atoi(argv[2]));
	} else {
		fprintf(stderr,
			"usage: client info | run MODEL [N] | load MODEL | serve MODEL | hold N\n");
		r = EINVAL;
	}
	rivulet_client_unref(c);
	return r;
}
