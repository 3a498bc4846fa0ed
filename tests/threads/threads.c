// SPDX-License-Identifier: MIT
/*
 * threads MODEL: runs what librivulet(3) allows threads to do, under ThreadSanitizer. Four threads
 * with a client each run at the same time, and one client is passed from thread to thread under a
 * lock. Every answer must equal the first one, and rivulet_last_error() must be per thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet.h"

#define THREADS 4
#define RUNS 25

static const char *path;
static float expected[10];
static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct lane {
	struct rivulet_client *client;
	struct rivulet_model *model;
	struct rivulet_request *request;
	float in[28 * 28], out[10];
};

#define OK(cond)                                                                                   \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #cond,                     \
				rivulet_last_error());                                             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void lane_open(struct lane *l)
{
	memset(l, 0, sizeof(*l));
	for (int i = 0; i < 28 * 28; i++)
		l->in[i] = (float)(i % 256) / 255.0f;
	OK(!rivulet_open(NULL, &l->client));
	OK(!rivulet_model_load(l->client, path, NULL, &l->model));
	OK(!rivulet_request_new(l->model, &l->request));
	OK(!rivulet_bind_memory(l->request, 0, l->in, sizeof(l->in)));
	OK(!rivulet_bind_memory(l->request, 1, l->out, sizeof(l->out)));
}

static void lane_close(struct lane *l)
{
	rivulet_request_unref(l->request);
	rivulet_model_unref(l->model);
	rivulet_client_unref(l->client);
}

static void run_once(struct lane *l)
{
	memset(l->out, 0, sizeof(l->out));
	OK(!rivulet_request_run(l->request, NULL));
	OK(!memcmp(l->out, expected, sizeof(expected)));
}

static void *own_client(void *arg)
{
	struct lane l;
	char name[32];

	lane_open(&l);
	snprintf(name, sizeof(name), "none-%d", *(int *)arg);
	for (int i = 0; i < RUNS; i++) {
		OK(rivulet_model_find(l.model, name) < 0);
		pthread_barrier_wait(&barrier);
		OK(strstr(rivulet_last_error(), name));
		run_once(&l);
	}
	lane_close(&l);
	return NULL;
}

static void *handed_over(void *arg)
{
	for (int i = 0; i < RUNS; i++) {
		pthread_mutex_lock(&lock);
		run_once(arg);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int number[THREADS];
	pthread_t t[THREADS];
	struct lane l;

	if (argc != 2)
		return 2;
	path = argv[1];
	lane_open(&l);
	OK(!rivulet_request_run(l.request, NULL));
	memcpy(expected, l.out, sizeof(expected));
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		number[i] = i;
		OK(!pthread_create(&t[i], NULL, own_client, &number[i]));
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < THREADS; i++)
		OK(!pthread_create(&t[i], NULL, handed_over, &l));
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	lane_close(&l);
	puts("ran");
	return 0;
}
