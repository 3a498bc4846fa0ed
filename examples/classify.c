/* SPDX-License-Identifier: MIT */
/*
 * classify MODEL IMAGE...: prints the class of each image. IMAGE: 28 x 28 bytes, row by row.
 * cc classify.c $(pkg-config --cflags --libs librivulet)
 */
#include <stdio.h>
#include <stdlib.h>
#include <rivulet.h>

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, rivulet_last_error());
	exit(1);
}

static void read_image(const char *path, float *pixels)
{
	unsigned char bytes[28 * 28];
	FILE *f = fopen(path, "rb");

	if (!f || fread(bytes, sizeof(bytes), 1, f) != 1) {
		perror(path);
		exit(1);
	}
	fclose(f);
	for (int i = 0; i < 28 * 28; i++)
		pixels[i] = bytes[i] / 255.0f;
}

int main(int argc, char **argv)
{
	float image[28 * 28], scores[10];
	struct rivulet_client *client;
	struct rivulet_model *model;
	struct rivulet_request *request;

	if (argc < 3)
		return fprintf(stderr, "usage: %s MODEL IMAGE...\n", argv[0]), 2;
	check(rivulet_open(NULL, &client), "rivuletd");
	check(rivulet_model_load(client, argv[1], NULL, &model), argv[1]);
	check(rivulet_request_new(model, &request), "request");
	check(rivulet_bind_memory(request, rivulet_model_find(model, "image"), image, sizeof(image)), "image");
	check(rivulet_bind_memory(request, rivulet_model_find(model, "scores"), scores, sizeof(scores)), "scores");
	for (int a = 2; a < argc; a++) {
		int best = 0;

		read_image(argv[a], image);
		check(rivulet_request_run(request, NULL), argv[a]);
		for (int i = 1; i < 10; i++)
			best = scores[i] > scores[best] ? i : best;
		printf("%s %d %.6f\n", argv[a], best, scores[best]);
	}
	rivulet_request_unref(request);
	rivulet_model_unref(model);
	rivulet_client_unref(client);
	return 0;
}
