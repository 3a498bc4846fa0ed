// SPDX-License-Identifier: MIT
/*
 * rivulet doctor: checks kernel, PCI, module, node, permissions, devfreq and daemon, and names for
 * each problem the command that repairs it. A check whose precondition failed adds no finding. With
 * --root the files of another system are read, which is how the tests produce each diagnosis.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rivulet_proto.h"
#include "device/sysfs.h"
#include "device/engine.h"
#include "output.h"
#include "verb.h"

#define MAX_FINDINGS 32
#define GROUP "render"

enum grade { FINE, NOTE, PROBLEM };

struct finding {
	enum grade grade;
	const char *id;
	char text[300];
	char fix[300];
};

struct doctor {
	struct finding f[MAX_FINDINGS];
	uint32_t n, problems;
	char release[128];
	bool cloud, loaded, device_seen;
	char node[64];		/* "accel0" or "renderD128", of our driver; "" without */
	char path[80];		/* its node */
};

/* @fix: the command that repairs it, "" when there is nothing to repair. */
static void __attribute__((format(printf, 5, 6)))
report(struct doctor *d, enum grade g, const char *id, const char *fix, const char *fmt, ...)
{
	struct finding *f = &d->f[d->n];
	va_list ap;

	if (d->n == MAX_FINDINGS)
		return;
	d->n++;
	d->problems += g == PROBLEM;
	f->grade = g;
	f->id = id;
	snprintf(f->fix, sizeof(f->fix), "%s", fix);
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
}

/* ---- kernel ---- */

static void check_kernel(struct doctor *d)
{
	int major = 0, minor = 0;

	if (!rvl_sys_read(d->release, sizeof(d->release), "proc/sys/kernel/osrelease")) {
		report(d, PROBLEM, "kernel", "mount -t proc proc /proc", "the kernel's release cannot be read");
		return;
	}
	sscanf(d->release, "%d.%d", &major, &minor);
	d->cloud = strstr(d->release, "-cloud-");
	if (d->cloud)
		report(d, PROBLEM, "kernel",
		     "apt install linux-image-6.12-amd64, then boot that kernel",
		     "kernel %s is Debian's -cloud- flavour, which has neither DRM nor devfreq", d->release);
	else if (major < 6 || (major == 6 && minor < 12))
		report(d, PROBLEM, "kernel", "apt install linux-image-6.12-amd64, then reboot",
		     "kernel %s is older than 6.12, which the driver needs", d->release);
	else
		report(d, FINE, "kernel", "", "kernel %s", d->release);
}

/* ---- PCI ---- */

static bool is_candidate(void *ctx, const char *name)
{
	struct doctor *d = ctx;
	char vendor[16], device[16];

	if (!rvl_sys_read(vendor, sizeof(vendor), "sys/bus/pci/devices/%s/vendor", name) ||
	    !rvl_sys_read(device, sizeof(device), "sys/bus/pci/devices/%s/device", name) ||
	    strcmp(vendor, "0x1af4") || strcmp(device, "0x1110"))
		return false;
	d->device_seen = true;
	report(d, FINE, "pci", "", "PCI device %s may be a Rivulet NPU (ivshmem 1af4:1110)", name);
	return true;
}

static void check_pci(struct doctor *d)
{
	if (!rvl_sys_each("sys/bus/pci/devices", is_candidate, d))
		report(d, NOTE, "pci", "run with --device sim:zu3eg-64, or start a VM with `make demo`",
		     "no PCI device that could be a Rivulet NPU");
}

/* ---- module ---- */

static bool find_module(void *ctx, const char *name)
{
	const char *const *rel = ctx;

	return (!strncmp(name, "rivulet.ko", 10)) ||
	       rvl_sys_exists("lib/modules/%s/%s/rivulet.ko", *rel, name) ||
	       rvl_sys_exists("lib/modules/%s/%s/rivulet.ko.xz", *rel, name);
}

static bool module_installed(const struct doctor *d)
{
	const char *rel = d->release;
	char dir[RVL_PATH_MAX];

	snprintf(dir, sizeof(dir), "lib/modules/%s", d->release);
	if (rvl_sys_each(dir, find_module, &rel))
		return true;
	for (int i = 0; i < 4; i++) {
		static const char *const places[] = { "updates", "updates/dkms", "extra",
						      "kernel/drivers/accel/rivulet" };

		snprintf(dir, sizeof(dir), "lib/modules/%s/%s", d->release, places[i]);
		if (rvl_sys_each(dir, find_module, &rel))
			return true;
	}
	return false;
}

/* The file of an EFI variable has four bytes of attributes before the value. */
static bool secure_boot(void)
{
	char path[RVL_PATH_MAX];
	unsigned char v[5] = { 0 };
	ssize_t n;
	int fd = open(rvl_sys_path(path, "sys/firmware/efi/efivars/"
				   "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"),
		      O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	n = read(fd, v, sizeof(v));
	close(fd);
	return n == 5 && v[4] == 1;
}

/* Why the kernel accepts only signed modules; NULL if it accepts all. */
static const char *signing_forced(void)
{
	char text[80];

	if (rvl_sys_read(text, sizeof(text), "sys/module/module/parameters/sig_enforce") &&
	    text[0] == 'Y')
		return "the kernel was started with module.sig_enforce=1";
	/*
	 * The mode in force stands in brackets. Secure Boot locks the kernel down, unless the
	 * validation of shim is off: then the firmware's variable has no effect on modules.
	 */
	if (rvl_sys_read(text, sizeof(text), "sys/kernel/security/lockdown") && strchr(text, '[')) {
		if (strstr(text, "[none]"))
			return NULL;
		return secure_boot() ? "Secure Boot is on" : "the kernel is locked down";
	}
	return secure_boot() ? "Secure Boot is on" : NULL;
}

static void report_unsigned(struct doctor *d, const char *why)
{
	const char *fix = "make install-dkms in Rivulet's source, which signs it with this machine's key; then "
			  "mokutil --import /var/lib/dkms/mok.pub, reboot, and confirm the key at the blue screen";

	if (rvl_sys_exists("lib/modules/%s/updates/dkms/rivulet.ko", d->release) ||
	    rvl_sys_exists("lib/modules/%s/updates/dkms/rivulet.ko.xz", d->release))
		fix = "enrol the key that DKMS signed it with: mokutil --import /var/lib/dkms/mok.pub, reboot, "
		      "and confirm the key at the blue screen";
	report(d, PROBLEM, "secure-boot", fix,
	     "module rivulet is installed but not loaded: %s, so that a module is refused "
	     "(\"Key was rejected by service\") unless it is signed with an enrolled key", why);
}

static void check_not_loaded(struct doctor *d)
{
	const char *why = signing_forced();
	char fix[256];

	if (!module_installed(d)) {
		if (!strstr(d->release, "deb"))
			snprintf(fix, sizeof(fix), "apt install linux-image-6.12-amd64 and boot it; or build "
				 "for this kernel with its headers: make modules KVER=%s", d->release);
		else if (!rvl_sys_exists("lib/modules/%s/build", d->release))
			snprintf(fix, sizeof(fix), "apt install linux-headers-%s, then make modules && "
				 "make modules-install in Rivulet's source", d->release);
		else
			snprintf(fix, sizeof(fix),
				 "make modules && make modules-install in Rivulet's source");
		report(d, PROBLEM, "module", fix, "module rivulet is not installed for kernel %s",
		     d->release);
		return;
	}
	if (why)
		report_unsigned(d, why);
	else
		report(d, PROBLEM, "module", "modprobe rivulet",
		     "module rivulet is installed for kernel %s but not loaded", d->release);
}

static void check_module(struct doctor *d)
{
	char version[64] = "";

	d->loaded = rvl_sys_exists("sys/module/rivulet");
	if (!d->loaded) {
		if (!d->cloud)
			check_not_loaded(d);
		return;
	}
	rvl_sys_read(version, sizeof(version), "sys/module/rivulet/version");
	report(d, FINE, "module", "", "module rivulet %s is loaded", version);
}

/* ---- node ---- */

static bool is_ours(void *ctx, const char *name)
{
	struct doctor *d = ctx;
	char driver[64];

	/*
	 * Without CONFIG_DRM_ACCEL the driver has a render node, and a card node that is not used.
	 */
	bool render = !strncmp(name, "renderD", 7);

	if (!rvl_sys_link(driver, sizeof(driver), "sys/class/%s/%s/device/driver",
			  render ? "drm" : "accel", name) ||
	    strcmp(driver, "rivulet"))
		return false;
	snprintf(d->node, sizeof(d->node), "%.63s", name);
	snprintf(d->path, sizeof(d->path), "/dev/%s/%s", render ? "dri" : "accel", d->node);
	return true;
}

static bool in_group(gid_t gid)
{
	gid_t list[256];
	int n = getgroups(256, list);

	if (getegid() == gid)
		return true;
	for (int i = 0; i < n; i++)
		if (list[i] == gid)
			return true;
	return false;
}

static bool has_udev_rule(void *ctx, const char *name)
{
	(void)ctx;
	return strstr(name, "rivulet") && strstr(name, ".rules");
}

static bool udev_rule_installed(void)
{
	return rvl_sys_each("usr/lib/udev/rules.d", has_udev_rule, NULL) ||
	       rvl_sys_each("lib/udev/rules.d", has_udev_rule, NULL) ||
	       rvl_sys_each("etc/udev/rules.d", has_udev_rule, NULL);
}

/* Whether the node belongs to the group, and this user to it. */
static void check_rights(struct doctor *d, const struct stat *st)
{
	const struct group *g = getgrnam(GROUP);
	const struct passwd *pw = getpwuid(geteuid());
	char fix[256];

	if (!g || st->st_gid != g->gr_gid || (st->st_mode & 060) != 060) {
		if (!udev_rule_installed())
			report(d, PROBLEM, "udev", "make install in Rivulet's source, then "
			     "udevadm control --reload && udevadm trigger",
			     "%s does not belong to group " GROUP
			     ": the udev rule is not installed", d->path);
		else
			report(d, PROBLEM, "udev", "udevadm control --reload && udevadm trigger",
			     "%s does not belong to group " GROUP
			     ", although the udev rule is installed", d->path);
		return;
	}
	if (geteuid() == 0 || in_group(g->gr_gid))
		return;
	snprintf(fix, sizeof(fix), "usermod -aG " GROUP " %s, then log in again",
		 pw ? pw->pw_name : "USER");
	report(d, PROBLEM, "permission", fix, "%s: this user is not in group " GROUP, d->path);
}

/*
 * Opens the node, which checks the version of the driver. Not below --root: devices are this
 * system's.
 */
static void check_open(struct doctor *d)
{
	struct drm_rivulet_clock clock = { 0 };
	struct rivulet_device *dev;
	int r = *rvl_sys_root ? 1 : rivulet_device_open(d->path, &dev);

	if (r == -EPROTO)
		report(d, PROBLEM, "version", "install driver and library from the same source, then reload "
		     "the module: modprobe -r rivulet && modprobe rivulet", "%s", rivulet_last_error());
	else if (r < 0 && r != -EACCES)
		report(d, PROBLEM, "node", "dmesg | grep rivulet", "%s", rivulet_last_error());
	if (r)
		return;
	rivulet_device_clock(dev, &clock);
	report(d, FINE, "node", "", "%s: board %s, level %u of %u", d->path, rivulet_device_info(dev)->name,
	     clock.level, rivulet_device_info(dev)->level_count - 1);
	rivulet_device_unref(dev);
}

static void check_node(struct doctor *d)
{
	char path[RVL_PATH_MAX];
	struct stat st;

	if (!d->loaded)
		return;
	if (!rvl_sys_each("sys/class/accel", is_ours, d) && !rvl_sys_each("sys/class/drm", is_ours, d)) {
		if (d->device_seen)
			report(d, PROBLEM, "node", "dmesg | grep rivulet",
			     "the module is loaded, but is bound to no device");
		else
			report(d, NOTE, "node", "", "the module is loaded and waits for a device");
		return;
	}
	if (stat(rvl_sys_path(path, "%s", d->path + 1), &st)) {
		report(d, PROBLEM, "node", "mount -t devtmpfs devtmpfs /dev, or systemctl start systemd-udevd",
		     "%s is missing, although the driver registered it", d->path);
		return;
	}
	check_rights(d, &st);
	check_open(d);
}

static void check_devfreq(struct doctor *d)
{
	char name[128], governor[64] = "", hz[32] = "";

	if (!*d->node)
		return;
	if (!rvl_sys_devfreq(d->node, name, sizeof(name))) {
		report(d, NOTE, "devfreq", "", "no devfreq device: the V/F level stays as it is");
		return;
	}
	rvl_sys_read(governor, sizeof(governor), "sys/class/devfreq/%s/governor", name);
	rvl_sys_read(hz, sizeof(hz), "sys/class/devfreq/%s/cur_freq", name);
	report(d, FINE, "devfreq", "", "devfreq %s: governor %s, %s Hz; bounds: min_freq, max_freq there",
	     name, governor, hz);
}

/* ---- daemon ---- */

static void check_daemon(struct doctor *d)
{
	const char *unit = "systemctl enable --now rivuletd.socket";
	const char *path = getenv(RIVULET_SOCKET_ENV);
	struct rivulet_daemon_info info = { .size = sizeof(info) };
	struct rivulet_client *c;
	int r;

	if (*rvl_sys_root) {
		if (!rvl_sys_exists("run/rivuletd/rivuletd.sock"))
			report(d, PROBLEM, "daemon", unit, "rivuletd is not running: no socket");
		return;
	}
	r = rivulet_open(path, &c);
	if (r == -ENOENT || r == -ECONNREFUSED) {
		bool installed = rvl_sys_exists("usr/lib/systemd/system/rivuletd.socket") ||
				 rvl_sys_exists("lib/systemd/system/rivuletd.socket");

		report(d, PROBLEM, "daemon", installed ? unit :
		     "make install in Rivulet's source, then systemctl enable --now rivuletd.socket",
		     "rivuletd is not %s: %s", installed ? "running" : "installed", rivulet_last_error());
	} else if (r == -EACCES) {
		report(d, PROBLEM, "daemon", "usermod -aG " GROUP " $USER, then log in again", "%s",
		     rivulet_last_error());
	} else if (r == -EPROTO) {
		report(d, PROBLEM, "version", "install daemon and library from the same source, then "
		     "systemctl restart rivuletd", "%s", rivulet_last_error());
	} else if (r) {
		report(d, PROBLEM, "daemon", "journalctl -u rivuletd", "%s", rivulet_last_error());
	}
	if (r)
		return;
	rivulet_client_info(c, &info);
	report(d, FINE, "daemon", "", "rivuletd %s answers, %s", info.version,
	     info.present ? info.device : "without a device");
	rivulet_client_unref(c);
}

/* ---- all ---- */

static void print_text(const struct doctor *d)
{
	static const char *const mark[] = { "ok  ", "note", "BAD " };

	for (int pass = PROBLEM; pass >= FINE; pass--)
		for (uint32_t i = 0; i < d->n; i++) {
			const struct finding *f = &d->f[i];

			if ((int)f->grade != pass)
				continue;
			printf("%s  %s\n", mark[f->grade], f->text);
			if (*f->fix)
				printf("      %s: %s\n", f->grade == PROBLEM ? "fix" : "instead", f->fix);
		}
}

static void print_json(const struct doctor *d)
{
	static const char *const grade[] = { "ok", "note", "problem" };

	rvl_json_begin("doctor");
	rvl_json_u64("problems", d->problems);
	rvl_json_open("findings", '[');
	for (uint32_t i = 0; i < d->n; i++) {
		rvl_json_open(NULL, '{');
		rvl_json_str("id", d->f[i].id);
		rvl_json_str("grade", grade[d->f[i].grade]);
		rvl_json_str("text", d->f[i].text);
		rvl_json_str("fix", d->f[i].fix);
		rvl_json_close();
	}
	rvl_json_close();
	rvl_json_end();
}

struct doctor_args {
	const char *root;
};

static int run_doctor(void *args, int n, char **operand)
{
	struct doctor_args *a = args;
	struct doctor d = { 0 };

	(void)n;
	(void)operand;
	rvl_sys_root = a->root;
	check_kernel(&d);
	check_pci(&d);
	check_module(&d);
	check_node(&d);
	check_devfreq(&d);
	check_daemon(&d);
	(rvl_tool_json ? print_json : print_text)(&d);
	return d.problems ? RVL_EXIT_DIFFERENT : RVL_EXIT_OK;
}

static const struct rvl_option options[] = {
	{ "root", 0, "DIR", "look at the system below DIR, without opening its devices",
	  RVL_MEMBER(struct doctor_args, root) },
	{ 0 }
};

const struct rvl_verb rvl_verb_doctor = {
	.name = "doctor", .summary = "find out why it does not work, and the command that repairs it",
	.order = 110, .operands = "", .takes = "no operand", .options = options,
	.args_size = sizeof(struct doctor_args), .defaults = &(const struct doctor_args) { .root = "" },
	.run = run_doctor,
};
