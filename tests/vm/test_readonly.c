// SPDX-License-Identifier: MIT
/*
 * A read-only export under attack. Each row of places[] is a descriptor through which the exported
 * memory can be mapped, reached through this driver, through another DRM driver (vgem) or both.
 * Each row of writes[] is a way to make a mapping of it writable. Every pair is tried; a pair that
 * changes the owner's memory is an escape.
 */
#include "vm.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE		8192
#define RDONLY_EXPORT	0
/* The first mmap offset of a DRM object, and how many pages of offsets are searched for one. */
#define OFFSETS_START	0x100000000ull
#define OFFSETS_PAGES	8192

/** struct place - where a read-only export can be mapped */
struct place {
	int fd;
	off_t offset;
};

/** struct attack - the owner's view of the memory, and what all places are reached from */
struct attack {
	struct vm_buf owner;
	int dmabuf;		/* the export */
	int rivulet;		/* another file of our driver */
	uint32_t handle;	/* of the import there */
	int vgem;
	uint32_t vgem_handle;	/* of the import there */
};

/* ---- places ---- */

static void *map_at(const struct place *p, int prot)
{
	return mmap(NULL, SIZE, prot, MAP_SHARED, p->fd, p->offset);
}

/*
 * vgem's only ioctl for mmap offsets refuses imports, but mmap() takes any offset, and offsets are
 * dense. The mapping is recognised by its content, which is the owner's noise.
 */
static struct place find_in_vgem(const struct attack *a, int fd)
{
	for (uint64_t i = 0; i < OFFSETS_PAGES; i++) {
		struct place p = { .fd = fd, .offset = (off_t)(OFFSETS_START + i * 4096) };
		void *map = map_at(&p, PROT_READ);
		bool found = map != MAP_FAILED && !memcmp(map, a->owner.map, SIZE);

		if (map != MAP_FAILED)
			munmap(map, SIZE);
		if (found)
			return p;
	}
	vm_fail(__FILE__, __LINE__, "vgem maps the import at no offset");
}

static struct place in_rivulet(int fd, uint32_t handle)
{
	uint64_t offset;

	OK(!vm_map_offset(fd, handle, &offset));
	return (struct place){ .fd = fd, .offset = (off_t)offset };
}

static struct place the_export(const struct attack *a)
{
	return (struct place){ .fd = a->dmabuf };
}

static struct place import_rivulet(const struct attack *a)
{
	return in_rivulet(a->rivulet, a->handle);
}

static struct place export_again(const struct attack *a)
{
	struct place p = {};

	OK(!vm_export(a->rivulet, a->handle, RDONLY_EXPORT, &p.fd));
	return p;
}

static struct place import_vgem(const struct attack *a)
{
	return find_in_vgem(a, a->vgem);
}

/* vgem has no read-only handles: it exports with the mode that the caller requests. */
static int vgem_export(const struct attack *a)
{
	int fd;

	OK(!vm_export(a->vgem, a->vgem_handle, DRM_RDWR, &fd));
	return fd;
}

static struct place export_of_vgem(const struct attack *a)
{
	return (struct place){ .fd = vgem_export(a) };
}

static struct place import_back(const struct attack *a)
{
	int fd = vm_open();
	uint32_t handle;

	OK(!vm_import(fd, vgem_export(a), &handle));
	OK(vm_buf_flags(fd, handle) & DRM_RIVULET_BO_READONLY);
	return in_rivulet(fd, handle);
}

static struct place import_vgem_again(const struct attack *a)
{
	int fd = vm_vgem();
	uint32_t handle;

	OK(!vm_import(fd, vgem_export(a), &handle));
	return find_in_vgem(a, fd);
}

static const struct {
	const char *name;
	struct place (*reach)(const struct attack *a);
} places[] = {
	{ "the dma-buf", the_export },
	{ "imported by this driver", import_rivulet },
	{ "imported by this driver and exported again", export_again },
	{ "imported by vgem", import_vgem },
	{ "imported and exported writable by vgem", export_of_vgem },
	{ "imported by vgem, exported writable, imported by this driver", import_back },
	{ "imported by vgem, exported writable, imported by another file of vgem",
	  import_vgem_again },
};

/* ---- ways to write; each returns an address that should be writable, or NULL ---- */

static uint8_t *ok_or_null(void *map)
{
	return map == MAP_FAILED ? NULL : map;
}

static uint8_t *readable(const struct place *p)
{
	uint8_t *map = ok_or_null(map_at(p, PROT_READ));

	OK(map);
	return map;
}

static uint8_t *protect(uint8_t *map)
{
	return map && !mprotect(map, SIZE, PROT_READ | PROT_WRITE) ? map : NULL;
}

static uint8_t *map_writable(const struct place *p)
{
	return ok_or_null(map_at(p, PROT_READ | PROT_WRITE));
}

static uint8_t *map_write_only(const struct place *p)
{
	return ok_or_null(map_at(p, PROT_WRITE));
}

static uint8_t *protect_readable(const struct place *p)
{
	return protect(readable(p));
}

static uint8_t *protect_none(const struct place *p)
{
	return protect(ok_or_null(map_at(p, PROT_NONE)));
}

static uint8_t *protect_executable(const struct place *p)
{
	uint8_t *map = readable(p);

	return !mprotect(map, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC) ? map : NULL;
}

static uint8_t *protect_moved(const struct place *p)
{
	void *there = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	OK(there != MAP_FAILED);
	return protect(
		ok_or_null(mremap(readable(p), SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, there)));
}

/* Writes through the process's own memory file, which may override page protection. */
static uint8_t *write_mem(const struct place *p)
{
	uint8_t *map = readable(p), value = (uint8_t)~map[0];
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	OK(fd >= 0);
	if (pwrite(fd, &value, 1, (off_t)(uintptr_t)map) != 1)
		errno = 0;
	close(fd);
	return NULL;
}

/* Opening the descriptor again may give another mode. */
static uint8_t *open_again(const struct place *p)
{
	char path[64];
	struct place again = *p;
	uint8_t *map;

	/* A DRM node opened again is another file, without the handle. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->fd);
	again.fd = open(path, O_RDWR | O_CLOEXEC);
	if (again.fd < 0)
		return NULL;
	map = map_writable(&again);
	close(again.fd);
	return map;
}

static const struct {
	const char *name;
	uint8_t *(*open)(const struct place *p);
	bool in_child;		/* from a mapping that a forked child inherits */
} writes[] = {
	{ "mmap writable", map_writable, false },
	{ "mmap write-only", map_write_only, false },
	{ "mprotect", protect_readable, false },
	{ "mprotect of an inaccessible mapping", protect_none, false },
	{ "mprotect with PROT_EXEC", protect_executable, false },
	{ "mremap, then mprotect", protect_moved, false },
	{ "/proc/self/mem", write_mem, false },
	{ "opening again", open_again, false },
	{ "mprotect in a child", readable, true },
};

/* Write one byte in a child, because a mapping that is not writable after all ends the writer. */
static void try_to_write(const struct place *p, size_t attempt)
{
	uint8_t *map = writes[attempt].open(p);
	pid_t pid;

	if (!map)
		return;
	fflush(stdout);
	pid = fork();
	OK(pid >= 0);
	if (!pid) {
		if (writes[attempt].in_child)
			map = protect(map);
		if (map)
			*(volatile uint8_t *)map ^= 0xff;
		_exit(0);
	}
	OK(waitpid(pid, NULL, 0) == pid);
}

/* @flags: of the export, RDONLY_EXPORT or DRM_RDWR */
static struct attack attack_new(uint32_t flags)
{
	int fd = vm_open();
	struct attack a = { .owner = vm_buf_new(fd, SIZE),
			    .rivulet = vm_open(),
			    .vgem = vm_vgem() };

	vm_noise(a.owner.map, SIZE, 77);
	OK(!vm_export(fd, a.owner.handle, flags, &a.dmabuf));
	OK(!vm_import(a.rivulet, a.dmabuf, &a.handle));
	OK(!vm_import(a.vgem, a.dmabuf, &a.vgem_handle));
	return a;
}

static void attack_readonly(void)
{
	unsigned int attacks = 0, escapes = 0;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct attack a = attack_new(RDONLY_EXPORT);
		struct place p = places[i].reach(&a);

		for (size_t attempt = 0; attempt < sizeof(writes) / sizeof(writes[0]); attempt++) {
			uint8_t before = a.owner.map[0];

			try_to_write(&p, attempt);
			attacks++;
			if (a.owner.map[0] == before)
				continue;
			escapes++;
			printf("# written: %s, by %s\n", places[i].name, writes[attempt].name);
		}
	}
	printf("figure readonly.attacks %u attacks\n", attacks);
	printf("figure readonly.escapes %u escapes\n", escapes);
	EQ(escapes, 0);
}

/*
 * The attacks above fail because the right is missing, and not because such mappings always fail.
 */
static void control_writable(void)
{
	struct attack a = attack_new(DRM_RDWR);
	struct place reached[] = { the_export(&a), import_rivulet(&a), import_vgem(&a) };

	for (size_t i = 0; i < sizeof(reached) / sizeof(reached[0]); i++) {
		for (size_t attempt = 0; attempt < sizeof(writes) / sizeof(writes[0]); attempt++) {
			uint8_t before = a.owner.map[0];

			if (writes[attempt].open == write_mem || writes[attempt].open == open_again)
				continue;
			try_to_write(&reached[i], attempt);
			EQ(a.owner.map[0], (uint8_t)~before);
		}
	}
}

const struct vm_test vm_readonly_tests[] = {
	{ "readonly_attacks",
	  "a read-only export is written through no mapping, of this driver or of vgem",
	  attack_readonly },
	{ "readonly_control", "the same mappings of a writable export can be written",
	  control_writable },
	{ 0 },
};
