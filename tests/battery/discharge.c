// SPDX-License-Identifier: MIT
/*
 * discharge ARM MODEL.rvp IMAGES LABELS CONSTRAINT-NS: discharges the machine's battery by
 * inferences through the daemon, one at a time, and prints a line for each run. CONSTRAINT-NS 0
 * means that there is no deadline.
 *
 *   run NUMBER CHARGE LEVEL LENGTH DEVICE-NS PICOJOULES RIGHT    charge in ppm before the run
 *   arm NAME runs N refused N seconds S waited S
 *
 * The run in which the battery becomes empty is not counted. With pace=fast, device time passes
 * only in jobs and more slowly than wall-clock time. So that the daemon's readings are as recent as
 * on a board, no run starts while the charge is more than BEHIND_PPM below the last reading.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "rivulet.h"

#define BATTERY	   "/sys/class/power_supply/BAT0/"
#define BEHIND_PPM 2500
#define PATIENCE_S 30 /* limit for the daemon to read the battery */
#define RUNS_MAX   100000
#define PIXELS	   784
#define CLASSES	   10

struct set {
	uint8_t *pixels, *label;
	uint32_t count;
};

struct arm {
	struct rivulet_client *client;
	struct rivulet_model *model;
	struct rivulet_request *request;
	struct set set;
	uint64_t constraint; /* ns, or 0 for no deadline */
	uint64_t full;	     /* uWh */
	uint32_t known;	     /* charge at the daemon's last reading, ppm */
	uint64_t waited;     /* ns spent waiting for the daemon to read the battery */
	uint32_t runs, refused;
	float in[PIXELS], out[CLASSES];
};

static int report_error(const char *what, int r, const char *why)
{
	fprintf(stderr, "discharge: %s: %s%s%s\n", what, strerror(-r), *why ? ": " : "", why);
	return r;
}

/* ---- Fashion-MNIST, unpacked ---- */

static uint32_t big_endian(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/*
 * Read the items of an IDX file of bytes after a header of @head bytes. Stores their number in
 * @count.
 */
static uint8_t *read_idx(const char *path, size_t head, size_t item, uint32_t *count)
{
	FILE *f = fopen(path, "rb");
	uint8_t h[16], *data = NULL;

	if (f && fread(h, 1, head, f) == head) {
		*count = big_endian(h + 4);
		data = *count && *count <= 1000000 ? malloc(*count * item) : NULL;
		if (data && fread(data, item, *count, f) != *count) {
			free(data);
			data = NULL;
		}
	}
	if (f)
		fclose(f);
	return data;
}

static int read_set(struct set *s, const char *images, const char *labels)
{
	uint32_t n = 0;

	s->pixels = read_idx(images, 16, PIXELS, &s->count);
	s->label = read_idx(labels, 8, 1, &n);
	if (!s->pixels || !s->label || n != s->count)
		return report_error(images, -EINVAL, "no IDX file of pictures with as many labels");
	return 0;
}

/* ---- the battery, the daemon ---- */

static int read_uwh(const char *path, uint64_t *out)
{
	FILE *f = fopen(path, "r");
	int r = f && fscanf(f, "%" SCNu64, out) == 1 ? 0 : -EIO;

	if (f)
		fclose(f);
	return r ? report_error(path, r, "") : 0;
}

static int read_charge(const struct arm *a, uint32_t *ppm)
{
	uint64_t left = 0;
	int r = read_uwh(BATTERY "energy_now", &left);

	*ppm = (uint32_t)(left * 1000000 / a->full);
	return r;
}

/* Wait until the daemon's last reading is at most BEHIND_PPM above @charge. */
static int keep_up(struct arm *a, uint32_t charge)
{
	struct rivulet_policy_state p = { .size = sizeof(p) };
	uint64_t since = clock_ns();
	int r;

	while (!a->known || a->known > charge + BEHIND_PPM) {
		r = rivulet_client_policy(a->client, 0, 0, &p);
		if (r)
			return report_error("policy", r, rivulet_last_error());
		a->known = p.charge;
		if (a->known && a->known <= charge + BEHIND_PPM)
			break;
		if (clock_ns() - since > PATIENCE_S * 1000000000ull)
			return report_error("policy", -ETIMEDOUT,
					    "the daemon did not read the battery");
		usleep(1000);
	}
	a->waited += clock_ns() - since;
	return 0;
}

/* ---- runs ---- */

static int open_model(struct arm *a, const char *path)
{
	struct rivulet_load_options o = { .size = sizeof(o), .program = true };
	int r = rivulet_open(NULL, &a->client);

	r = r ? r : rivulet_model_load(a->client, path, &o, &a->model);
	r = r ? r : rivulet_request_new(a->model, &a->request);
	r = r ? r : rivulet_bind_memory(a->request, 0, a->in, sizeof(a->in));
	r = r ? r : rivulet_bind_memory(a->request, 1, a->out, sizeof(a->out));
	return r ? report_error(path, r, rivulet_last_error()) : 0;
}

static bool infer(struct arm *a, uint32_t picture, bool *right)
{
	struct rivulet_run_options o = { .size = sizeof(o) };
	const uint8_t *p = a->set.pixels + (size_t)picture * PIXELS;
	uint32_t best = 0;

	for (uint32_t i = 0; i < PIXELS; i++)
		a->in[i] = (float)p[i] / 255.0f;
	/* The deadline is soft: a run that misses it completes and is counted. */
	o.deadline = a->constraint ? (int64_t)(clock_ns() + a->constraint) : 0;
	if (rivulet_request_run(a->request, &o))
		return false;
	for (uint32_t i = 1; i < CLASSES; i++)
		best = a->out[i] > a->out[best] ? i : best;
	*right = best == a->set.label[picture];
	return true;
}

static int report_run(struct arm *a, uint32_t charge, bool right)
{
	struct rivulet_run_stats s = { .size = sizeof(s) };
	int r = rivulet_request_stats(a->request, &s);

	if (r)
		return report_error("stats", r, "");
	if (s.level_min != s.level_max)
		return report_error("run", -EIO, "a job ran at two levels");
	printf("run %u %u %u %u %" PRIu64 " %" PRIu64 " %d\n", a->runs++, charge, s.level_min,
	       s.length, s.npu_ns, s.energy_pj, right);
	return 0;
}

static int one_run(struct arm *a, uint32_t *charge)
{
	uint32_t before = *charge;
	bool right;
	int r = keep_up(a, before);

	if (r)
		return r;
	if (!infer(a, (a->runs + a->refused) % a->set.count, &right)) {
		fprintf(stderr, "discharge: refused: %s\n", rivulet_request_error(a->request));
		return ++a->refused > 10 ? -EIO : 0;
	}
	r = read_charge(a, charge);
	if (r || !*charge)
		return r;
	return report_run(a, before, right);
}

static int discharge(struct arm *a, const char *name)
{
	uint64_t start = clock_ns();
	uint32_t charge = 0;
	int r = read_uwh(BATTERY "energy_full", &a->full);

	if (r || !a->full)
		return r ? r : report_error("battery", -EIO, "its capacity is 0");
	r = read_charge(a, &charge);
	while (!r && charge) {
		r = a->runs < RUNS_MAX ? one_run(a, &charge) :
					 report_error("battery", -ERANGE, "too many runs");
	}
	printf("arm %s runs %u refused %u seconds %.1f waited %.1f\n", name, a->runs, a->refused,
	       (double)(clock_ns() - start) / 1e9, (double)a->waited / 1e9);
	return r;
}

int main(int argc, char **argv)
{
	static struct arm a;
	static char buffer[65536];
	int r;

	if (argc != 6) {
		fputs("usage: discharge ARM MODEL.rvp IMAGES LABELS CONSTRAINT-NS\n", stderr);
		return 2;
	}
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	a.constraint = strtoull(argv[5], NULL, 10);
	r = read_set(&a.set, argv[3], argv[4]);
	r = r ? r : open_model(&a, argv[2]);
	r = r ? r : discharge(&a, argv[1]);
	rivulet_request_unref(a.request);
	rivulet_model_unref(a.model);
	rivulet_client_unref(a.client);
	free(a.set.pixels);
	free(a.set.label);
	return r ? 1 : 0;
}
