// SPDX-License-Identifier: MIT
/*
 * client VERB: one small thing over the daemon's socket, for the shell scripts around it.
 *
 *   info            prints node and board
 *   run MODEL [N]   loads an ONNX file and runs it N times on zeroed inputs
 *   load MODEL      only loads; prints the error that it gets
 *   hold N          keeps a connection for N seconds after a line "held"
 *
 * Exit status: 0, or the errno of what failed, after a line on stderr.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rivulet.h"

static int complain(const char *what, int r, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", what, strerror(-r), why);
	return -r;
}

static int info(struct rivulet_client *c)
{
	struct rivulet_daemon_info i;
	rivulet_client_info(c, &i);
	printf("device=%s board=%s version=%s\n", i.device, i.board, i.version);
	return 0;
}

static int bind_all(struct rivulet_request *q, struct rivulet_model *m)
{
	uint32_t n = rivulet_model_inputs(m) + rivulet_model_outputs(m);
	struct rivulet_tensor_info t;

	for (uint32_t i = 0; i < n; i++) {
		int r = rivulet_model_tensor(m, i, &t);
		void *p = r ? NULL : calloc(1, t.size + 64);

		r = r ? r : p ? rivulet_bind_memory(q, i, p, t.size) : -ENOMEM;
		if (r)
			return r;
	}
	return 0;
}

static int run(struct rivulet_client *c, const char *path, int times)
{
	struct rivulet_request *q;
	struct rivulet_model *m;
	int r = rivulet_model_load(c, path, NULL, &m);

	if (r)
		return complain(path, r, rivulet_last_error());
	if (!times) {
		rivulet_model_unref(m);
		return 0;
	}
	r = rivulet_request_new(m, &q);
	r = r ? r : bind_all(q, m);
	if (r)
		return complain("bind", r, rivulet_last_error());
	for (int i = 0; !r && i < times; i++)
		r = rivulet_request_run(q, NULL);
	if (r)
		return complain("run", r, rivulet_request_error(q));
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
		return complain("connect", r, rivulet_last_error());
	if (argc == 2 && !strcmp(argv[1], "info")) {
		r = info(c);
	} else if (argc >= 3 && !strcmp(argv[1], "run")) {
		r = run(c, argv[2], argc > 3 ? atoi(argv[3]) : 1);
	} else if (argc == 3 && !strcmp(argv[1], "load")) {
		r = run(c, argv[2], 0);
	} else if (argc == 3 && !strcmp(argv[1], "hold")) {
		puts("held");
		fflush(stdout);
		sleep((unsigned int)atoi(argv[2]));
	} else {
		fprintf(stderr, "usage: client info | run MODEL [N] | load MODEL | hold N\n");
		r = EINVAL;
	}
	rivulet_client_unref(c);
	return r;
}
