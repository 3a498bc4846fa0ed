/* SPDX-License-Identifier: MIT */
/*
 * eventloop MODEL IMAGE...: the same as classify, from an event loop. No call in it blocks:
 * connecting, loading and running are begun, and their ends are called back by
 * rivulet_client_dispatch(). Two requests keep the daemon busy; a timer shows that the loop goes on
 * meanwhile.
 * cc eventloop.c $(pkg-config --cflags --libs librivulet)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <rivulet.h>

#define PIXELS (28 * 28)
#define LANES 2

struct lane {
	struct rivulet_request *request;
	float image[PIXELS], scores[10];
	int number;		/* of the image that it classifies */
};

static struct {
	struct rivulet_client *client;
	struct rivulet_model *model;
	struct lane lane[LANES];
	char **paths;
	int count, next, done;
	int *class;
} app;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static void read_image(const char *path, float *pixels)
{
	unsigned char bytes[PIXELS];
	FILE *f = fopen(path, "rb");

	if (!f || fread(bytes, sizeof(bytes), 1, f) != 1)
		fail(path, "not an image of 28 x 28 bytes");
	fclose(f);
	for (int i = 0; i < PIXELS; i++)
		pixels[i] = bytes[i] / 255.0f;
}

/* Gives a lane the next image. The input is copied by rivulet_request_start(). */
static void start_next(struct lane *l)
{
	if (app.next == app.count)
		return;
	l->number = app.next++;
	read_image(app.paths[l->number], l->image);
	if (rivulet_request_start(l->request, NULL))
		fail(app.paths[l->number], rivulet_last_error());
}

static void on_done(struct rivulet_request *request, void *data)
{
	struct lane *l = data;
	int best = 0;

	if (rivulet_request_result(request))
		fail(app.paths[l->number], rivulet_request_error(request));
	for (int i = 1; i < 10; i++)
		best = l->scores[i] > l->scores[best] ? i : best;
	app.class[l->number] = best;
	app.done++;
	start_next(l);
}

static void on_loaded(struct rivulet_model *model, void *data)
{
	(void)data;
	if (rivulet_model_result(model))
		fail("model", rivulet_model_error(model));
	for (int i = 0; i < LANES; i++) {
		struct lane *l = &app.lane[i];

		if (rivulet_request_new(model, &l->request) ||
		    rivulet_bind_memory(l->request, 0, l->image, sizeof(l->image)) ||
		    rivulet_bind_memory(l->request, 1, l->scores, sizeof(l->scores)))
			fail("request", rivulet_last_error());
		rivulet_request_on_done(l->request, on_done, l);
		start_next(l);
	}
}

int main(int argc, char **argv)
{
	struct itimerspec every = { { 0, 10000000 }, { 0, 10000000 } };
	struct pollfd p[2] = { { .events = POLLIN }, { .events = POLLIN } };
	uint64_t ticks = 0, n;

	if (argc < 3)
		return fprintf(stderr, "usage: %s MODEL IMAGE...\n", argv[0]), 2;
	app.paths = argv + 2;
	app.count = argc - 2;
	app.class = calloc((size_t)app.count, sizeof(*app.class));
	if (rivulet_open_start(NULL, &app.client) ||
	    rivulet_model_load_start(app.client, argv[1], NULL, &app.model))
		fail("rivuletd", rivulet_last_error());
	rivulet_model_on_loaded(app.model, on_loaded, NULL);
	p[0].fd = rivulet_client_fd(app.client);
	p[1].fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	timerfd_settime(p[1].fd, 0, &every, NULL);
	while (app.done < app.count) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			fail("poll", "failed");
		if (p[0].revents && rivulet_client_dispatch(app.client) < 0)
			fail("rivuletd", rivulet_last_error());
		if (p[1].revents && read(p[1].fd, &n, sizeof(n)) == sizeof(n))
			ticks += n;
	}
	for (int i = 0; i < app.count; i++)
		printf("%s %d\n", app.paths[i], app.class[i]);
	fprintf(stderr, "%llu ticks of 10 ms meanwhile\n", (unsigned long long)ticks);
	for (int i = 0; i < LANES; i++)
		rivulet_request_unref(app.lane[i].request);
	rivulet_model_unref(app.model);
	rivulet_client_unref(app.client);
	close(p[1].fd);
	free(app.class);
	return 0;
}
