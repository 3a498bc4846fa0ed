// SPDX-License-Identifier: MIT
/*
 * The findings of `rivulet doctor`, as whole texts: for the files of other systems, for users in and outside of the
 * node's group, and for each way in which a daemon can answer.
 */
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include "../../tool/device/sysfs.h"
#include "fake_daemon.h"
#include "files.h"
#include "suite.h"
#include "verb.h"

static char dir[SCRATCH_MAX], words[300];

/* The user and the group of the tests, in place of those that run them. */
static struct {
	uid_t user;
	gid_t group, also[3];
	int n_also;
	bool no_group, no_name;
} who;

static struct stat node_stat;	/* its st_gid: the group "render" */

struct group *__wrap_getgrnam(const char *name);
struct group *__wrap_getgrnam(const char *name)
{
	static struct group g;

	ck_assert_str_eq(name, "render");
	g.gr_gid = node_stat.st_gid + (who.no_group ? 1 : 0);
	return &g;
}

struct passwd *__wrap_getpwuid(uid_t uid);
struct passwd *__wrap_getpwuid(uid_t uid)
{
	static struct passwd p = { .pw_name = (char *)"ada" };

	ck_assert_uint_eq(uid, who.user);
	return who.no_name ? NULL : &p;
}

uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
	return who.user;
}

gid_t __wrap_getegid(void);
gid_t __wrap_getegid(void)
{
	return who.group;
}

int __wrap_getgroups(int size, gid_t *list);
int __wrap_getgroups(int size, gid_t *list)
{
	ck_assert_int_ge(size, 3);
	memcpy(list, who.also, (size_t)who.n_also * sizeof(list[0]));
	return who.n_also;
}

static void setup(void)
{
	make_scratch(dir);
	setenv(RIVULET_SOCKET_ENV, "/nonexistent/sock", 1);
}

static void teardown(void)
{
	remove_scratch(dir);
}

static void put(const char *path, const char *text)
{
	put_file(dir, path, text);
}

static void put_link(const char *path, const char *target)
{
	char full[300];

	put(path, "");
	snprintf(full, sizeof(full), "%s/%s", dir, path);
	unlink(full);
	ck_assert_int_eq(symlink(target, full), 0);
}

/* Proves that the doctor prints exactly @text about the system in the directory. */
static void finds(int code, const char *text)
{
	snprintf(words, sizeof(words), "doctor --root %s", dir);
	EXPECT(words, code);
	ck_assert_str_eq(out, text);
}

#define KERNEL "ok    kernel 6.12.9+deb12-amd64\n"
#define PCI    "ok    PCI device 0000:00:04.0 may be a Rivulet NPU (ivshmem 1af4:1110)\n"
#define NO_PCI "note  no PCI device that could be a Rivulet NPU\n"                                                   \
	       "      instead: run with --device sim:zu3eg-64, or start a VM with `make demo`\n"
#define NO_DAEMON "BAD   rivuletd is not running: no socket\n"                                                      \
		  "      fix: systemctl enable --now rivuletd.socket\n"
#define NO_DEVFREQ "note  no devfreq device: the V/F level stays as it is\n"
#define MODULE "ok    module rivulet 2.0 is loaded\n"

static void release(const char *text)
{
	put("proc/sys/kernel/osrelease", text);
}

static void pci(void)
{
	put("sys/bus/pci/devices/0000:00:03.0/vendor", "0x1af4\n");
	put("sys/bus/pci/devices/0000:00:03.0/device", "0x1000\n");
	put("sys/bus/pci/devices/0000:00:04.0/vendor", "0x1af4\n");
	put("sys/bus/pci/devices/0000:00:04.0/device", "0x1110\n");
}

/* ---- the kernel ---- */

START_TEST(kernels)
{
	static const struct { const char *release; bool old; } releases[] = {
		{ "6.11.10-amd64", true }, { "5.19.0-1-amd64", true }, { "6.12.0", false }, { "7.0.0", false } };
	char text[200];

	put("sys/module/rivulet/version", "2.0\n");
	put("run/rivuletd/rivuletd.sock", "");
	finds(RVL_EXIT_DIFFERENT, "BAD   the kernel's release cannot be read\n      fix: mount -t proc proc /proc\n"
	      NO_PCI "note  the module is loaded and waits for a device\n" MODULE);
	for (size_t i = 0; i < 4; i++) {
		release(releases[i].release);
		snprintf(text, sizeof(text), releases[i].old ?
			 "BAD   kernel %s is older than 6.12, which the driver needs\n"
			 "      fix: apt install linux-image-6.12-amd64, then reboot\n" : "ok    kernel %s\n",
			 releases[i].release);
		snprintf(words, sizeof(words), "doctor --root %s", dir);
		EXPECT(words, releases[i].old ? RVL_EXIT_DIFFERENT : 0);
		SAYS(text);
	}
	release("6.12.9-cloud-amd64\n");
	finds(RVL_EXIT_DIFFERENT, "BAD   kernel 6.12.9-cloud-amd64 is Debian's -cloud- flavour, which has neither DRM "
	      "nor devfreq\n      fix: apt install linux-image-6.12-amd64, then boot that kernel\n" NO_PCI
	      "note  the module is loaded and waits for a device\n" MODULE);
}
END_TEST

/* ---- the module ---- */

/* Proves that the module is found in each place where an installation may put it, and in no other. */
START_TEST(places_of_the_module)
{
	static const char *const places[] = { "rivulet.ko", "updates/rivulet.ko", "updates/rivulet.ko.zst",
		"updates/dkms/rivulet.ko.xz", "extra/rivulet.ko.xz", "mine/rivulet.ko", "mine/rivulet.ko.xz",
		"kernel/drivers/accel/rivulet/rivulet.ko" };
	char path[100];

	release("6.12.9+deb12-amd64\n");
	pci();
	put("lib/modules/6.12.9+deb12-amd64/build", NULL);
	put("lib/modules/6.12.9+deb12-amd64/kernel/net/rivulet.ko", "");
	put("lib/modules/6.12.9+deb12-amd64/updates/other.ko", "");
	finds(RVL_EXIT_DIFFERENT, "BAD   module rivulet is not installed for kernel 6.12.9+deb12-amd64\n"
	      "      fix: make modules && make modules-install in Rivulet's source\n" NO_DAEMON KERNEL PCI);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "lib/modules/6.12.9+deb12-amd64/%s", places[i]);
		put(path, "");
		finds(RVL_EXIT_DIFFERENT, "BAD   module rivulet is installed for kernel 6.12.9+deb12-amd64 but not loaded\n"
		      "      fix: modprobe rivulet\n" NO_DAEMON KERNEL PCI);
		snprintf(path, sizeof(path), "%s/lib/modules/6.12.9+deb12-amd64/%s", dir, places[i]);
		unlink(path);
	}
}
END_TEST

START_TEST(module_is_missing)
{
	release("6.12.9+deb12-amd64\n");
	finds(RVL_EXIT_DIFFERENT, "BAD   module rivulet is not installed for kernel 6.12.9+deb12-amd64\n"
	      "      fix: apt install linux-headers-6.12.9+deb12-amd64, then make modules && make modules-install in "
	      "Rivulet's source\n" NO_DAEMON NO_PCI KERNEL);
	release("6.13.0-mine\n");
	finds(RVL_EXIT_DIFFERENT, "BAD   module rivulet is not installed for kernel 6.13.0-mine\n"
	      "      fix: apt install linux-image-6.12-amd64 and boot it; or build for this kernel with its headers: "
	      "make modules KVER=6.13.0-mine\n" NO_DAEMON NO_PCI "ok    kernel 6.13.0-mine\n");
}
END_TEST

#define REFUSED(why)                                                                                                \
	"BAD   module rivulet is installed but not loaded: " why ", so that a module is refused (\"Key was rejected "  \
	"by service\") unless it is signed with an enrolled key\n"
#define SIGN                                                                                                        \
	"      fix: make install-dkms in Rivulet's source, which signs it with this machine's key; then mokutil "      \
	"--import /var/lib/dkms/mok.pub, reboot, and confirm the key at the blue screen\n"
#define ENROL                                                                                                       \
	"      fix: enrol the key that DKMS signed it with: mokutil --import /var/lib/dkms/mok.pub, reboot, and "      \
	"confirm the key at the blue screen\n"
#define SECURE_BOOT "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

static void put_bytes(const char *path, const char *bytes, size_t n)
{
	char full[300];

	put(path, "");
	snprintf(full, sizeof(full), "%s/%s", dir, path);
	write_file(full, bytes, n);
}

/* Proves the reason for a refused module, and the two ways to have it signed. */
START_TEST(unsigned_module)
{
	release("6.12.9+deb12-amd64\n");
	put("lib/modules/6.12.9+deb12-amd64/updates/rivulet.ko", "");
	put("sys/module/module/parameters/sig_enforce", "Y\n");
	finds(RVL_EXIT_DIFFERENT, REFUSED("the kernel was started with module.sig_enforce=1") SIGN NO_DAEMON NO_PCI KERNEL);
	put("lib/modules/6.12.9+deb12-amd64/updates/dkms/rivulet.ko", "");
	finds(RVL_EXIT_DIFFERENT, REFUSED("the kernel was started with module.sig_enforce=1") ENROL NO_DAEMON NO_PCI KERNEL);
	put("sys/module/module/parameters/sig_enforce", "N\n");
	put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	finds(RVL_EXIT_DIFFERENT, REFUSED("the kernel is locked down") ENROL NO_DAEMON NO_PCI KERNEL);
	put_bytes(SECURE_BOOT, "\6\0\0\0\1", 5);
	finds(RVL_EXIT_DIFFERENT, REFUSED("Secure Boot is on") ENROL NO_DAEMON NO_PCI KERNEL);
	/* Without lockdown in the kernel, the firmware's variable decides: 1 in its fifth byte. */
	put("sys/kernel/security/lockdown", "\n");
	finds(RVL_EXIT_DIFFERENT, REFUSED("Secure Boot is on") ENROL NO_DAEMON NO_PCI KERNEL);
	for (int i = 0; i < 3; i++) {
		put_bytes(SECURE_BOOT, i == 0 ? "\6\0\0\0\0" : i == 1 ? "\6\0\0\0\2" : "\6\0\0\1", i < 2 ? 5 : 4);
		finds(RVL_EXIT_DIFFERENT, "BAD   module rivulet is installed for kernel 6.12.9+deb12-amd64 but not loaded\n"
		      "      fix: modprobe rivulet\n" NO_DAEMON NO_PCI KERNEL);
	}
}
END_TEST

/* ---- the node ---- */

static void loaded(void)
{
	char path[200];

	release("6.12.9+deb12-amd64\n");
	pci();
	put("sys/module/rivulet/version", "2.0\n");
	put("run/rivuletd/rivuletd.sock", "");
	put_link("sys/class/accel/accel3/device/driver", "../../bus/pci/drivers/rivulet");
	put("dev/accel/accel3", "");
	snprintf(path, sizeof(path), "%s/dev/accel/accel3", dir);
	ck_assert_int_eq(chmod(path, 0660), 0);
	ck_assert_int_eq(stat(path, &node_stat), 0);
	who.user = 1000;
	who.group = 7;
	who.also[0] = 8;
	who.also[1] = node_stat.st_gid;
	who.n_also = 2;
}

static void node_mode(mode_t mode)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/dev/accel/accel3", dir);
	ck_assert_int_eq(chmod(path, mode), 0);
}

#define FINE_NODE NO_DEVFREQ KERNEL PCI MODULE

/* Proves who may use the node: root, and a user whose first or other group is the node's. */
START_TEST(users_of_the_node)
{
	loaded();
	finds(0, FINE_NODE);
	who.n_also = 1;
	finds(RVL_EXIT_DIFFERENT, "BAD   /dev/accel/accel3: this user is not in group render\n"
	      "      fix: usermod -aG render ada, then log in again\n" FINE_NODE);
	who.no_name = true;
	finds(RVL_EXIT_DIFFERENT, "BAD   /dev/accel/accel3: this user is not in group render\n"
	      "      fix: usermod -aG render USER, then log in again\n" FINE_NODE);
	who.group = node_stat.st_gid;
	finds(0, FINE_NODE);
	who.group = 7;
	who.user = 0;
	finds(0, FINE_NODE);
}
END_TEST

/* Proves that the group must be the node's, with both rights, and which places a udev rule may have. */
START_TEST(rights_of_the_node)
{
	static const char *const places[] = { "usr/lib/udev/rules.d/70-rivulet.rules", "lib/udev/rules.d/rivulet.rules",
					      "etc/udev/rules.d/99-my-rivulet.rules" };
	static const mode_t modes[] = { 0600, 0620, 0640, 0606 };
	char path[200];

	loaded();
	put("etc/udev/rules.d/70-other.rules", "");
	put("etc/udev/rules.d/rivulet.conf", "");
	for (int i = 0; i < 5; i++) {
		who.no_group = i == 4;
		node_mode(i < 4 ? modes[i] : 0660);
		finds(RVL_EXIT_DIFFERENT, "BAD   /dev/accel/accel3 does not belong to group render: the udev rule is not "
		      "installed\n      fix: make install in Rivulet's source, then udevadm control --reload && udevadm "
		      "trigger\n" FINE_NODE);
	}
	for (size_t i = 0; i < 3; i++) {
		put(places[i], "");
		finds(RVL_EXIT_DIFFERENT, "BAD   /dev/accel/accel3 does not belong to group render, although the udev rule "
		      "is installed\n      fix: udevadm control --reload && udevadm trigger\n" FINE_NODE);
		snprintf(path, sizeof(path), "%s/%s", dir, places[i]);
		unlink(path);
	}
}
END_TEST

START_TEST(node_is_missing)
{
	char path[200];

	loaded();
	snprintf(path, sizeof(path), "%s/dev/accel/accel3", dir);
	unlink(path);
	finds(RVL_EXIT_DIFFERENT, "BAD   /dev/accel/accel3 is missing, although the driver registered it\n"
	      "      fix: mount -t devtmpfs devtmpfs /dev, or systemctl start systemd-udevd\n" FINE_NODE);
	snprintf(path, sizeof(path), "rm -r %s/sys/class", dir);
	ck_assert_int_eq(system(path), 0);
	finds(RVL_EXIT_DIFFERENT, "BAD   the module is loaded, but is bound to no device\n"
	      "      fix: dmesg | grep rivulet\n" KERNEL PCI MODULE);
}
END_TEST

START_TEST(frequencies)
{
	loaded();
	put_link("sys/class/accel/accel3/device/dummy", "x");
	snprintf(words, sizeof(words), "rm -r %s/sys/class/accel/accel3", dir);
	ck_assert_int_eq(system(words), 0);
	/* A device directory that both classes link to. */
	put_link("sys/devices/0000:00:04.0/driver", "../../bus/pci/drivers/rivulet");
	put_link("sys/class/accel/accel3/device", "../../../devices/0000:00:04.0");
	put_link("sys/class/devfreq/npu/device", "../../../devices/0000:00:04.0");
	put("sys/class/devfreq/npu/governor", "simple_ondemand\n");
	put("sys/class/devfreq/npu/cur_freq", "250000000\n");
	finds(0, KERNEL PCI MODULE "ok    devfreq npu: governor simple_ondemand, 250000000 Hz; bounds: min_freq, max_freq "
	      "there\n");
	put_link("sys/class/accel/accel0/device/driver", "../../bus/pci/drivers/ivpu");
	finds(0, KERNEL PCI MODULE "ok    devfreq npu: governor simple_ondemand, 250000000 Hz; bounds: min_freq, max_freq "
	      "there\n");
}
END_TEST

START_TEST(json)
{
	loaded();
	who.n_also = 0;
	snprintf(words, sizeof(words), "doctor --json --root %s", dir);
	EXPECT(words, RVL_EXIT_DIFFERENT);
	check_json("rivulet.doctor/1");
	ck_assert_str_eq(out, "{\"schema\":\"rivulet.doctor/1\",\"problems\":1,\"findings\":["
		"{\"id\":\"kernel\",\"grade\":\"ok\",\"text\":\"kernel 6.12.9+deb12-amd64\",\"fix\":\"\"},"
		"{\"id\":\"pci\",\"grade\":\"ok\",\"text\":\"PCI device 0000:00:04.0 may be a Rivulet NPU (ivshmem "
		"1af4:1110)\",\"fix\":\"\"},"
		"{\"id\":\"module\",\"grade\":\"ok\",\"text\":\"module rivulet 2.0 is loaded\",\"fix\":\"\"},"
		"{\"id\":\"permission\",\"grade\":\"problem\",\"text\":\"/dev/accel/accel3: this user is not in group "
		"render\",\"fix\":\"usermod -aG render ada, then log in again\"},"
		"{\"id\":\"devfreq\",\"grade\":\"note\",\"text\":\"no devfreq device: the V/F level stays as it is\","
		"\"fix\":\"\"}]}\n");
}
END_TEST

/* ---- the daemon, of this system ---- */

/* Proves the finding about the daemon; what else is found depends on this system. */
static void daemon_is(const char *mark, const char *text, const char *fix)
{
	char want[700];

	snprintf(want, sizeof(want), "%s  %s%s%s\n", mark, text, *fix ? "\n      fix: " : "", fix);
	verb("doctor");
	SAYS(want);
}

static void start(void)
{
	daemon_start_for(NONE, -1);
	setenv(RIVULET_SOCKET_ENV, dm.path, 1);
}

START_TEST(daemon_answers)
{
	dm.hello = (struct rivulet_msg_hello_reply) {
		.version = 1, .device_state = RIVULET_DEVICE_PRESENT, .max_model = 1, .daemon = "3.1",
		.device = "/dev/accel/accel3", .board = "edge",
	};
	daemon_is("ok  ", "rivuletd 3.1 answers, /dev/accel/accel3", "");
	dm.hello.device_state = RIVULET_DEVICE_ABSENT;
	daemon_is("ok  ", "rivuletd 3.1 answers, without a device", "");
}
END_TEST

/* Proves the advice for each error with which a daemon can refuse a client. */
START_TEST(daemon_refuses)
{
	static const struct { int error; const char *fix; } refusals[] = {
		{ -EACCES, "usermod -aG render $USER, then log in again" },
		{ -ENOMEM, "journalctl -u rivuletd" },
		{ -EPERM, "journalctl -u rivuletd" },
	};

	dm.refuse = RIVULET_MSG_HELLO;
	for (size_t i = 0; i < 3; i++) {
		dm.refuse_with = refusals[i].error;
		ck_assert_int_eq(verb("doctor"), RVL_EXIT_DIFFERENT);
		snprintf(words, sizeof(words), "\n      fix: %s\n", refusals[i].fix);
		SAYS(words);
		SAYS("no such operator here");
	}
	dm.refuse = 0;
	dm.hello.version = 0;
	dm.fault = VERSION;
	ck_assert_int_eq(verb("doctor"), RVL_EXIT_DIFFERENT);
	SAYS("\n      fix: install daemon and library from the same source, then systemctl restart rivuletd\n");
}
END_TEST

START_TEST(no_daemon)
{
	bool installed = !access("/usr/lib/systemd/system/rivuletd.socket", F_OK) ||
			 !access("/lib/systemd/system/rivuletd.socket", F_OK);

	ck_assert_int_eq(verb("doctor"), RVL_EXIT_DIFFERENT);
	snprintf(words, sizeof(words), "BAD   rivuletd is not %s: ", installed ? "running" : "installed");
	SAYS(words);
	SAYS(installed ? "\n      fix: systemctl enable --now rivuletd.socket\n" :
			 "\n      fix: make install in Rivulet's source, then systemctl enable --now rivuletd.socket\n");
	verb("doctor --json");
	check_json("rivulet.doctor/1");
	SAYS("{\"id\":\"daemon\",\"grade\":\"problem\",");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("doctor");
	TCase *t = add_case(s, "systems", 30, setup, teardown), *d = add_case(s, "daemon", 60, start, daemon_stop);

	tcase_add_test(t, kernels);
	tcase_add_test(t, places_of_the_module);
	tcase_add_test(t, module_is_missing);
	tcase_add_test(t, unsigned_module);
	tcase_add_test(t, users_of_the_node);
	tcase_add_test(t, rights_of_the_node);
	tcase_add_test(t, node_is_missing);
	tcase_add_test(t, frequencies);
	tcase_add_test(t, json);
	tcase_add_test(t, no_daemon);
	tcase_add_test(d, daemon_answers);
	tcase_add_test(d, daemon_refuses);
	return run_suite(s);
}
