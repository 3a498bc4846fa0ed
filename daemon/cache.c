// SPDX-License-Identifier: MIT
/* Programs by what made them. Whoever loads the same model for the same device shares one memfd. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "manager.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

void rvl_cache_init(struct rvl_cache *c, uint64_t max_idle)
{
	memset(c, 0, sizeof(*c));
	rvl_list_init(&c->programs);
	c->max_idle = max_idle;
}

static void program_free(struct rvl_program *p)
{
	rvl_list_del(&p->link);
	if (p->file)
		munmap((void *)p->file, p->size);
	rvl_close(p->fd);
	free(p);
}

/* The least recently used come first. */
static void evict(struct rvl_cache *c)
{
	struct rvl_program *p;

	rvl_list_each(p, &c->programs, link) {
		if (c->idle_bytes <= c->max_idle)
			return;
		if (p->refs)
			continue;
		c->idle_bytes -= p->size;
		c->evictions++;
		program_free(p);
	}
}

void rvl_cache_limit(struct rvl_cache *c, uint64_t max_idle)
{
	c->max_idle = max_idle;
	evict(c);
}

void rvl_cache_clear(struct rvl_cache *c)
{
	struct rvl_program *p;

	rvl_list_each(p, &c->programs, link)
		program_free(p);
	c->idle_bytes = 0;
}

struct rvl_program *rvl_cache_find(struct rvl_cache *c, const struct rvl_key *key)
{
	struct rvl_program *p;

	rvl_list_each(p, &c->programs, link) {
		if (memcmp(&p->key, key, sizeof(*key)))
			continue;
		if (!p->refs++)
			c->idle_bytes -= p->size;
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
	if (!p || --p->refs)
		return NULL;
	/* One that cannot stay must not drive out those that can. */
	if (p->size > p->cache->max_idle) {
		p->cache->evictions++;
		program_free(p);
		return NULL;
	}
	rvl_list_del(&p->link);
	rvl_list_add_tail(&p->cache->programs, &p->link);
	p->cache->idle_bytes += p->size;
	evict(p->cache);
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
	if (!st.st_size || st.st_size > RIVULET_PROGRAM_MAX)
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

int rvl_cache_add(struct rvl_cache *c, const struct rvl_key *key, const char *name, int memfd,
		  struct rvl_program **out, struct rvl_text *err)
{
	_cleanup_close_ int fd = memfd;
	struct rvl_program *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return rvl_say(err, -ENOMEM, "out of memory");
	p->fd = -1;
	p->cache = c;
	p->key = *key;
	p->refs = 1;
	r = map_program(p, fd, err);
	if (r) {
		program_free(p);
		return r;
	}
	rivulet_proto_name(p->name, sizeof(p->name), name);
	sum_steps(p);
	rvl_list_add_tail(&c->programs, &p->link);
	*out = p;
	return 0;
}

/* By the compiler; 0 when the program cannot run there. */
static uint64_t reckoned_ns(const struct rvl_program *p, const struct rivulet_board *b, uint32_t level,
			    struct rvl_way way)
{
	uint32_t variant = way.variant ? way.variant - 1 : level;
	uint32_t clock = way.clock ? way.clock - 1 : level;

	if (level >= b->levels || !b->level[clock].hz)
		return 0;
	return (uint64_t)((double)p->cycles_at[variant] * 1e9 / (double)b->level[clock].hz);
}

uint64_t rvl_program_expected_ns(const struct rvl_program *p, const struct rivulet_board *board,
				 uint32_t level, struct rvl_way way)
{
	uint64_t here = reckoned_ns(p, board, level, way), there, best = here;

	if (level >= board->levels)
		return 0;
	if (p->at[level].measured_ns)
		return p->at[level].measured_ns;
	/* Of what was measured at other levels, the longest: host and CPU steps are in it. */
	for (uint32_t l = 0; l < board->levels; l++) {
		if (!p->at[l].measured_ns)
			continue;
		there = reckoned_ns(p, board, l, way);
		there = p->at[l].measured_ns > there ? p->at[l].measured_ns - there : 0;
		best = here + there > best ? here + there : best;
	}
	return best;
}

uint32_t rvl_program_accurate(const struct rvl_program *p, uint32_t ppm)
{
	uint32_t mask = 0;

	for (uint32_t l = RIVULET_LEVELS; l-- > 0;) {
		if (!(p->levels >> l & 1))
			continue;
		/* Levels that this board does not have say nothing. */
		if (!p->file->level[l].accuracy && !mask)
			continue;
		if (p->file->level[l].accuracy < ppm)
			break;
		mask |= 1u << l;
	}
	return mask;
}
