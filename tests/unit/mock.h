/* SPDX-License-Identifier: MIT */
/*
 * Shared by tests on umockdev: preloading its library, and a driver that answers DRM_IOCTL_VERSION.
 */
#ifndef RVL_MOCK_H
#define RVL_MOCK_H

#include <drm.h>
#include <stdlib.h>
#include <string.h>
#include <umockdev.h>
#include <unistd.h>

/*
 * umockdev leaks memory that glib allocated, and no other part of the test uses glib. The sanitizer
 * calls this function for the leaks to ignore.
 */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	return "leak:libglib-2.0.so";
}

/*
 * Executes the test program again with umockdev's library preloaded, and allows the sanitizer's
 * runtime not to be the first library. umockdev creates sockets some 50 bytes below TMPDIR, and the
 * name of a socket has at most 107 bytes.
 */
static inline void under_umockdev(char **argv)
{
	const char *preload = getenv("LD_PRELOAD"), *tmp = getenv("TMPDIR");

	if (preload && strstr(preload, "libumockdev-preload"))
		return;
	if (tmp && strlen(tmp) > 50)
		unsetenv("TMPDIR");
	setenv("LD_PRELOAD", "libumockdev-preload.so.0", 1);
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 0);
	execv("/proc/self/exe", argv);
	perror(argv[0]);
	exit(EXIT_FAILURE);
}

static inline void mock_reply(UMockdevIoctlData *d, const void *bytes, size_t size)
{
	umockdev_ioctl_data_update(d, 0, (guint8 *)(uintptr_t)bytes, (gint)size);
}

static inline void mock_string(UMockdevIoctlData *d, size_t pointer_at, const char *s)
{
	g_autoptr(UMockdevIoctlData) p = umockdev_ioctl_data_resolve(d, pointer_at, strlen(s),
								     NULL);

	if (p)
		mock_reply(p, s, strlen(s));
}

/* Answers DRM_IOCTL_VERSION. libdrm calls it twice: first for the lengths, then with buffers. */
static inline int mock_version(UMockdevIoctlData *d, const char *driver, int major)
{
	struct drm_version v = *(struct drm_version *)(void *)d->data;

	if (v.name_len) {
		mock_string(d, offsetof(struct drm_version, name), driver);
		mock_string(d, offsetof(struct drm_version, date), "-");
		mock_string(d, offsetof(struct drm_version, desc), "-");
	}
	v.version_major = major;
	v.version_minor = 0;
	v.name_len = strlen(driver);
	v.date_len = v.desc_len = 1;
	mock_reply(d, &v, sizeof(v));
	return 0;
}

#endif
