// SPDX-License-Identifier: MIT
/* Programs by what made them. Whoever loads the same model for the same device shares one memfd. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cache.h"
#include "offload.h"
#include "peak.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"
#include "util.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

void rvl_cache_init(struct rvl_cache *c, uint64_t max_bytes, uint64_t max_programs)
{
	memset(c, 0, sizeof(*c));
	rvl_list_init(&c->programs);
	rvl_list_init(&c->holdings);
	c->max_bytes = max_bytes;
	c->max_programs = max_programs;
}

static void program_release(struct rvl_program *p)
{
	if (p->file)
		munmap((void *)p->file, p->size);
	rvl_close(p->fd);
	free(p);
}

static void release_work(struct rvl_work *w)
{
	program_release(rvl_container(w, struct rvl_program, work));
}

/* The last reference to the pages of a program: freeing them takes time by their number. */
static void program_free(struct rvl_program *p)
{
	struct rvl_offload *closer = p->cache ? p->cache->closer : NULL;

	rvl_list_del(&p->link);
	if (!closer) {
		program_release(p);
		return;
	}
	p->work = (struct rvl_work){ .run = release_work };
	rvl_offload_submit(closer, &p->work);
}

/* ---- idle programs ---- */

static struct rvl_holding *holding_of(struct rvl_cache *c, uid_t uid)
{
	struct rvl_holding *h;

	rvl_list_each(h, &c->holdings, link)
		if (h->uid == uid)
			return h;
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	h->uid = uid;
	rvl_list_add_tail(&c->holdings, &h->link);
	return h;
}

static void leave_idle(struct rvl_program *p)
{
	struct rvl_holding *h = p->holding;

	if (!h)
		return;
	p->holding = NULL;
	h->bytes -= rvl_pages(p->size);
	p->cache->idle_bytes -= rvl_pages(p->size);
	p->cache->idle_programs--;
	if (--h->programs)
		return;
	rvl_list_del(&h->link);
	free(h);
}

/* The larger of the holding's shares in both limits. */
static double share(const struct rvl_cache *c, const struct rvl_holding *h)
{
	double bytes = c->max_bytes ? (double)h->bytes / (double)c->max_bytes : (double)h->bytes;
	double programs = c->max_programs ? (double)h->programs / (double)c->max_programs : h->programs;

	return bytes > programs ? bytes : programs;
}

static const struct rvl_holding *largest_holding(const struct rvl_cache *c)
{
	const struct rvl_holding *most = NULL;
	struct rvl_holding *h;

	rvl_list_each(h, &c->holdings, link)
		if (!most || share(c, h) > share(c, most))
			most = h;
	return most;
}

static void evict_of(struct rvl_cache *c, const struct rvl_holding *h)
{
	struct rvl_program *p;

	rvl_list_each(p, &c->programs, link) {
		if (p->holding != h)
			continue;
		leave_idle(p);
		c->evictions++;
		program_free(p);
		return;
	}
}

static void evict(struct rvl_cache *c)
{
	while (c->idle_programs &&
	       (c->idle_bytes > c->max_bytes || c->idle_programs > c->max_programs))
		evict_of(c, largest_holding(c));
}

void rvl_cache_limit(struct rvl_cache *c, uint64_t max_bytes, uint64_t max_programs)
{
	c->max_bytes = max_bytes;
	c->max_programs = max_programs;
	evict(c);
}

void rvl_cache_clear(struct rvl_cache *c)
{
	struct rvl_program *p;

	rvl_list_each(p, &c->programs, link) {
		leave_idle(p);
		program_free(p);
	}
}

struct rvl_program *rvl_cache_find(struct rvl_cache *c, const struct rvl_key *key)
{
	struct rvl_program *p;

	rvl_list_each(p, &c->programs, link) {
		if (memcmp(&p->key, key, sizeof(*key)))
			continue;
		p->refs++;
		leave_idle(p);
		c->hits++;
		rvl_list_del(&p->link);
		rvl_list_add_tail(&c->programs, &p->link);
		return p;
	}
	c->misses++;
	return NULL;
}

struct rvl_program *rvl_program_put(struct rvl_program *p)
{
	struct rvl_cache *c;

	if (!p || --p->refs)
		return NULL;
	c = p->cache;
	/* A program that cannot stay alone must not evict those that can. */
	p->holding = rvl_pages(p->size) > c->max_bytes || !c->max_programs ? NULL :
									     holding_of(c, p->owner);
	if (!p->holding) {
		c->evictions++;
		program_free(p);
		return NULL;
	}
	rvl_list_del(&p->link);
	rvl_list_add_tail(&c->programs, &p->link);
	p->holding->bytes += rvl_pages(p->size);
	p->holding->programs++;
	c->idle_bytes += rvl_pages(p->size);
	c->idle_programs++;
	evict(c);
	return NULL;
}

/* A second, read-only description of the file: what clients get can never be written through. */
static int reopen_read_only(int memfd)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int map_program(struct rvl_program *p, int memfd, struct rvl_text *err)
{
	struct stat st;
	void *map;

	/* The worker is gone, and with it every writable mapping: from here on nothing changes. */
	if (fcntl(memfd, F_ADD_SEALS, SEALS) || fstat(memfd, &st))
		return rvl_say(err, -errno, "sealing the program: %m");
	if (!st.st_size || (uint64_t)st.st_size > RIVULET_PROGRAM_MAX)
		return rvl_say(err, -EINVAL, "a program of %lld bytes", (long long)st.st_size);
	p->fd = reopen_read_only(memfd);
	if (p->fd < 0)
		return rvl_say(err, p->fd, "opening the program read only: %s", strerror(-p->fd));
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, p->fd, 0);
	if (map == MAP_FAILED)
		return rvl_say(err, -errno, "mapping the program: %m");
	p->file = map;
	p->size = (size_t)st.st_size;
	return rivulet_program_check(map, p->size, err->s, sizeof(err->s));
}

static void sum_steps(struct rvl_program *p)
{
	const struct rivulet_step *s = rivulet_program_steps(p->file);

	for (uint32_t i = 0; i < p->file->steps; i++) {
		bool npu = s[i].kind == RIVULET_STEP_NPU;

		p->npu_steps += npu;
		p->cpu_steps += !npu;
		p->macs += s[i].macs;
		for (int l = 0; npu && l < RIVULET_LEVELS; l++)
			p->cycles_at[l] += s[i].variant[l].cycles;
	}
	p->levels = rivulet_program_levels(p->file);
	for (int l = 0; l < RIVULET_LEVELS; l++)
		if (p->levels >> l & 1 && p->cycles_at[l])
			p->cycles = p->cycles_at[l];
}

int rvl_program_read(const struct rvl_key *key, const char *name, int memfd,
		     struct rvl_program **out, struct rvl_text *err)
{
	_cleanup_close_ int fd = memfd;
	struct rvl_program *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return rvl_say(err, -ENOMEM, "out of memory");
	p->fd = -1;
	p->key = *key;
	p->refs = 1;
	r = map_program(p, fd, err);
	if (r) {
		program_release(p);
		return r;
	}
	rivulet_proto_name(p->name, sizeof(p->name), name);
	sum_steps(p);
	*out = p;
	return 0;
}

struct rvl_program *rvl_cache_insert(struct rvl_cache *c, struct rvl_program *p)
{
	struct rvl_program *known;

	p->cache = c;
	rvl_list_each(known, &c->programs, link) {
		if (memcmp(&known->key, &p->key, sizeof(p->key)))
			continue;
		/* Two users loaded the same model at the same time. */
		known->refs++;
		leave_idle(known);
		program_free(p);
		return known;
	}
	rvl_list_add_tail(&c->programs, &p->link);
	return p;
}

void rvl_cache_forget_times(struct rvl_cache *c)
{
	struct rvl_program *p;

	rvl_list_each(p, &c->programs, link) {
		for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
			p->at[l].measured_ns = 0;
			p->at[l].longest = (struct rvl_peak){ 0 };
		}
	}
}
