// SPDX-License-Identifier: MIT
/*
 * How rivuletd finds its device by driver and follows removal and addition, on umockdev's sysfs and
 * uevents. The driver answers the two ioctls that opening a node takes. The program executes itself
 * again under umockdev's preload library.
 */
#include <stdatomic.h>

#include "daemon_rig.h"

#include "cache.h"
#include "mock.h"
#include "rivulet_accel.h"
#include "suite.h"

static UMockdevTestbed *bed;

/* A driver: what it answers to the calls of opening one of its nodes. */
struct driver {
	UMockdevIoctlBase *ioctls;
	const char *name;
	int major;
	bool refuse_query;
};

static struct driver ours = { .name = "rivulet", .major = 2 };
static struct driver other;
/* the driver of the nodes that are plugged next */
static struct driver *driver = &ours;
/* number of calls that the driver refuses, as one that is still probing does */
static int refusals;
static atomic_int answers;	/* calls that drivers answered */
static uint32_t tile = 16;	/* tile size of the board that is added next */
static uint64_t clock_hz = 200000000;

/* ---- the driver ---- */

static void fill_device(struct drm_rivulet_device *d)
{
	memset(d, 0, sizeof(*d));
	d->dev_version = RIVULET_DEV_VERSION;
	d->isa_version = 1;
	d->tm = d->tn = tile;
	d->dn = 4;
	d->inp_bytes = d->wgt_bytes = 96 << 10;
	d->acc_bytes = 64 << 10;
	d->port_bytes = 16;
	d->mem_latency = 64;
	d->queue_depth = 64;
	d->modes = 1;
	d->cycle_cap = 1024;
	d->level_count = 2;
	d->level[0].hz = 100000000;
	d->level[1].hz = clock_hz;
	strcpy(d->name, "mock-board");
}

static int do_query(const struct driver *of, UMockdevIoctlData *arg)
{
	struct drm_rivulet_query q;
	struct drm_rivulet_device d;
	UMockdevIoctlData *out;
	GError *error = NULL;

	memcpy(&q, arg->data, sizeof(q));
	if (of->refuse_query || q.type != DRM_RIVULET_QUERY_DEVICE || q.size != sizeof(d))
		return EINVAL;
	fill_device(&d);
	out = umockdev_ioctl_data_resolve(arg, offsetof(struct drm_rivulet_query, pointer),
					  sizeof(d), &error);
	mock_reply(out, &d, sizeof(d));
	umockdev_ioctl_data_unref(out);
	return 0;
}

static gboolean on_ioctl(UMockdevIoctlBase *base, UMockdevIoctlClient *client, gpointer data)
{
	gulong request = umockdev_ioctl_client_get_request(client);
	UMockdevIoctlData *ptr = umockdev_ioctl_client_get_arg(client), *arg;
	const struct driver *of = data;
	GError *error = NULL;
	int err = ENOTTY;

	(void)base;
	arg = umockdev_ioctl_data_resolve(ptr, 0, _IOC_SIZE(request), &error);
	if (refusals > 0 && refusals--)
		err = ENODEV;
	else if (request == DRM_IOCTL_VERSION)
		err = mock_version(arg, of->name, of->major);
	else if (request == DRM_IOCTL_RIVULET_QUERY)
		err = do_query(of, arg);
	umockdev_ioctl_data_unref(arg);
	umockdev_ioctl_client_complete(client, err ? -1 : 0, err);
	answers++;
	return TRUE;
}

/* ---- the machine ---- */

#define CARD "/sys/devices/pci0000:00/0000:00:05.0"
#define ACCEL CARD "/accel/accel0"

static void add(const char *text)
{
	GError *error = NULL;

	ck_assert_msg(umockdev_testbed_add_from_string(bed, text, &error), "%s", error->message);
}

/* The ioctls come first, because adding a device sends its uevent. */
static void plug(const char *bound, const char *subsystem, const char *name, const char *number)
{
	const char *dir = !strcmp(subsystem, "drm") ? "dri" : subsystem;
	GError *error = NULL;
	char text[512];

	snprintf(text, sizeof(text), "/dev/%s/%s", dir, name);
	ck_assert_msg(umockdev_testbed_attach_ioctl(bed, text, driver->ioctls, &error), "%s",
		      error->message);
	snprintf(text, sizeof(text),
		 "P: /devices/pci0000:00/0000:00:05.0\n"
		 "E: SUBSYSTEM=pci\n"
		 "E: DRIVER=%s\n"
		 "L: driver=../../../bus/pci/drivers/%s\n\n", bound, bound);
	add(text);
	snprintf(text, sizeof(text),
		 "P: /devices/pci0000:00/0000:00:05.0/%s/%s\n"
		 "N: %s/%s\n"
		 "E: DEVNAME=/dev/%s/%s\n"
		 "E: SUBSYSTEM=%s\n"
		 "A: dev=%s\n", subsystem, name, dir, name, dir, name, subsystem, number);
	add(text);
}

static void unplug(const char *path)
{
	umockdev_testbed_uevent(bed, path, "remove");
	umockdev_testbed_remove_device(bed, path);
	umockdev_testbed_remove_device(bed, CARD);
}

static void start_driver(struct driver *d)
{
	d->ioctls = umockdev_ioctl_base_new();
	g_signal_connect(d->ioctls, "handle-ioctl", G_CALLBACK(on_ioctl), d);
}

static void machine(void)
{
	bed = umockdev_testbed_new();
	other = ours;
	start_driver(&ours);
	start_driver(&other);
}

static void power_off(void)
{
	g_object_unref(ours.ioctls);
	g_object_unref(other.ioctls);
	g_object_unref(bed);
}

/* Returns the next DEVICE event. */
static struct rivulet_msg_device next_event(int sock)
{
	union rivulet_packet p;

	ck_assert_int_gt(raw_recv(sock, &p, NULL), 0);
	ck_assert_uint_eq(p.h.type, RIVULET_MSG_DEVICE);
	return p.device;
}

/* Asserts that no event arrives before the answer to a ping. */
static void no_event(int sock)
{
	struct pollfd pfd = { .fd = sock, .events = POLLIN };

	ck_assert_int_eq(raw_ping(sock), 0);
	ck_assert_int_eq(poll(&pfd, 1, 300), 0);
}

/*
 * Proves that a device that is present at the start is found, and that models are compiled for the
 * board that it reports.
 */
START_TEST(present_at_start)
{
	struct rivulet_msg_hello_reply *h;
	union rivulet_packet p;
	size_t size;
	void *onnx;
	int sock;

	plug("rivulet", "accel", "accel0", "261:0");
	rig_start_on("", NULL);
	sock = raw_connect();
	raw_init(&p, RIVULET_MSG_HELLO);
	p.hello.max_version = 1;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
	h = &p.hello_reply;
	ck_assert_uint_eq(h->device_state, RIVULET_DEVICE_PRESENT);
	ck_assert_str_eq(h->device, "/dev/accel/accel0");
	ck_assert_str_eq(h->board, "mock-board");
	ck_assert_uint_eq(h->levels, 2);
	ck_assert_uint_eq(h->features & (RIVULET_FEATURE_DMABUF | RIVULET_FEATURE_SIM),
			  RIVULET_FEATURE_DMABUF);
	onnx = read_file("models/lenet.onnx", &size);
	ck_assert_msg(!raw_load(sock, onnx, size, 0, &p, NULL), "%s", p.error.text);
	ck_assert_uint_gt(p.load_reply.expected_ns, 0);
	free(onnx);
	rig_stop();
}
END_TEST

/* Proves that clients get an event when the device is removed and when it is added. */
START_TEST(removed_and_added)
{
	struct rivulet_msg_device e;
	union rivulet_packet p;
	int sock;

	rig_start_on("", NULL);
	sock = raw_open();
	ck_assert_int_eq(raw_load(sock, "x", 1, 0, &p, NULL), -ENODEV);
	/* The number differs each time, as with a kernel, and as umockdev requires. */
	for (int i = 0; i < 3; i++) {
		char name[24], path[96], node[40];

		snprintf(name, sizeof(name), "accel%d", i);
		snprintf(path, sizeof(path), CARD "/accel/%s", name);
		snprintf(node, sizeof(node), "/dev/accel/%s", name);
		plug("rivulet", "accel", name, "261:0");
		e = next_event(sock);
		ck_assert_uint_eq(e.device_state, RIVULET_DEVICE_PRESENT);
		ck_assert_str_eq(e.device, node);
		ck_assert_str_eq(e.board, "mock-board");
		/* A change of the device sends no second event. */
		umockdev_testbed_uevent(bed, path, "change");
		no_event(sock);
		unplug(path);
		e = next_event(sock);
		ck_assert_uint_eq(e.device_state, RIVULET_DEVICE_ABSENT);
		ck_assert_str_eq(e.device, "");
		ck_assert_int_eq(raw_load(sock, "x", 1, 0, &p, NULL), -ENODEV);
		/* The status names no node, and no levels follow. */
		status_number("\"device\":{\"present\":false,\"node\":\"\",\"model\":false,\"board\":\"\"}", "queued");
	}
	rig_stop();
}
END_TEST

/*
 * Proves that a node which its driver does not serve when the uevent arrives is opened once it
 * does.
 */
START_TEST(served_late)
{
	struct rivulet_msg_device e;
	int sock;

	rig_start_on("", NULL);
	sock = raw_open();
	refusals = 3;
	plug("rivulet", "accel", "accel0", "261:0");
	e = next_event(sock);
	ck_assert_uint_eq(e.device_state, RIVULET_DEVICE_PRESENT);
	ck_assert_int_eq(refusals, 0);
	unplug(ACCEL);
	e = next_event(sock);
	ck_assert_uint_eq(e.device_state, RIVULET_DEVICE_ABSENT);
	rig_stop();
}
END_TEST

/* Proves that a loaded model survives its device, and that no instance can be opened meanwhile. */
START_TEST(models_survive)
{
	union rivulet_packet p;
	uint32_t model;
	size_t size;
	void *onnx = read_file("models/lenet.onnx", &size);
	int sock;

	plug("rivulet", "accel", "accel0", "261:0");
	rig_start_on("", NULL);
	sock = raw_open();
	ck_assert_int_eq(raw_load(sock, onnx, size, 0, &p, NULL), 0);
	model = p.load_reply.model;
	unplug(ACCEL);
	ck_assert_uint_eq(next_event(sock).device_state, RIVULET_DEVICE_ABSENT);
	raw_init(&p, RIVULET_MSG_OPEN);
	p.model.model = model;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), -ENODEV);
	raw_init(&p, RIVULET_MSG_TENSOR);
	p.tensor.model = model;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
	plug("rivulet", "accel", "accel1", "261:1");
	ck_assert_uint_eq(next_event(sock).device_state, RIVULET_DEVICE_PRESENT);
	ck_assert_int_eq(raw_load(sock, onnx, size, 0, &p, NULL), 0);
	ck_assert_uint_eq(p.load_reply.cached, 1);
	free(onnx);
	rig_stop();
}
END_TEST

/*
 * Proves that a program is compiled for the present board, also when only its clock differs from
 * the previous one.
 */
START_TEST(clock_differs)
{
	union rivulet_packet p;
	size_t size;
	void *onnx = read_file("models/lenet.onnx", &size);
	int sock;

	plug("rivulet", "accel", "accel0", "261:0");
	rig_start_on("", NULL);
	sock = raw_open();
	ck_assert_int_eq(raw_load(sock, onnx, size, 0, &p, NULL), 0);
	unplug(ACCEL);
	ck_assert_uint_eq(next_event(sock).device_state, RIVULET_DEVICE_ABSENT);
	clock_hz = 150000000;
	plug("rivulet", "accel", "accel1", "261:1");
	ck_assert_uint_eq(next_event(sock).device_state, RIVULET_DEVICE_PRESENT);
	ck_assert_int_eq(raw_load(sock, onnx, size, 0, &p, NULL), 0);
	ck_assert_uint_eq(p.load_reply.cached, 0);
	ck_assert_int_eq(raw_load(sock, onnx, size, 0, &p, NULL), 0);
	ck_assert_uint_eq(p.load_reply.cached, 1);
	free(onnx);
	rig_stop();
}
END_TEST

/* In the daemon: notes each call in DIR/discarded. */
void __real_rvl_cache_forget_times(struct rvl_cache *c);
void __wrap_rvl_cache_forget_times(struct rvl_cache *c);
void __wrap_rvl_cache_forget_times(struct rvl_cache *c)
{
	char path[SCRATCH_MAX + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/discarded", rig.dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (write(fd, "x", 1) != 1)
		abort();
	close(fd);
	__real_rvl_cache_forget_times(c);
}

static long discarded(void)
{
	char path[SCRATCH_MAX + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/discarded", rig.dir);
	return stat(path, &st) ? 0 : (long)st.st_size;
}

static void exchange(int sock, const char *old, const char *name, const char *number)
{
	unplug(old);
	ck_assert_uint_eq(next_event(sock).device_state, RIVULET_DEVICE_ABSENT);
	plug("rivulet", "accel", name, number);
	ck_assert_uint_eq(next_event(sock).device_state, RIVULET_DEVICE_PRESENT);
}

/* Proves that measured times are kept while the same board returns, and discarded with another one. */
START_TEST(times_are_discarded)
{
	long before;
	int sock;

	plug("rivulet", "accel", "accel0", "261:0");
	rig_start_on("", NULL);
	sock = raw_open();
	before = discarded();
	exchange(sock, ACCEL, "accel1", "261:1");
	ck_assert_int_eq(discarded(), before);
	clock_hz = 150000000;
	exchange(sock, CARD "/accel/accel1", "accel2", "261:2");
	ck_assert_int_eq(discarded(), before + 1);
	rig_stop();
}
END_TEST

#define SLOW_BATCH 7

/*
 * Waits for the file "exchanged" in the directory of the daemon, whose command line has its name, because
 * a worker has no environment.
 */
static void await_exchange(void)
{
	char args[512] = "", path[sizeof(args) + 16], *dir = args;
	pid_t daemon = getppid();
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", daemon);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, args, sizeof(args) - 1) <= 0)
		_exit(EXIT_FAILURE);
	close(fd);
	for (int i = 0; i < 3; i++)
		dir += strlen(dir) + 1;
	snprintf(path, sizeof(path), "%s/exchanged", dir);
	while (access(path, F_OK) && getppid() == daemon)
		usleep(1000);
}

/* A compiler that ends only after the board was exchanged if the batch size is SLOW_BATCH. */
static int slow_worker(void)
{
	struct rvl_worker_job job;

	if (recv(RVL_WORKER_CONTROL_FD, &job, sizeof(job), MSG_PEEK) == sizeof(job) &&
	    job.batch == SLOW_BATCH)
		await_exchange();
	return rvl_worker_main();
}

/* Proves that a model is compiled again when the board is exchanged during the compilation. */
START_TEST(exchanged)
{
	size_t size;
	void *onnx = read_file("models/lenet.onnx", &size);
	int sock, fd = memfd_of(onnx, size, MODEL_SEALS), program = -1;
	struct rivulet_program head;
	union rivulet_packet p;
	uint32_t serial;

	plug("rivulet", "accel", "accel0", "261:0");
	rig_start_on("", NULL);
	sock = raw_open();
	raw_init(&p, RIVULET_MSG_LOAD);
	p.load.size = size;
	p.load.batch = SLOW_BATCH;
	p.load.flags = RIVULET_LOAD_WANT_FD;
	serial = p.h.serial;
	ck_assert_int_gt(raw_send(sock, &p, p.h.length, &fd, 1), 0);
	ck_assert_int_eq(raw_ping(sock), 0);
	unplug(ACCEL);
	ck_assert_uint_eq(next_event(sock).device_state, RIVULET_DEVICE_ABSENT);
	tile = 32;
	plug("rivulet", "accel", "accel1", "261:1");
	ck_assert_uint_eq(next_event(sock).device_state, RIVULET_DEVICE_PRESENT);
	put_file(rig.dir, "exchanged", "");
	ck_assert_int_eq(raw_answer(sock, serial, &p, &program), 0);
	ck_assert_int_eq(pread(program, &head, sizeof(head), 0), sizeof(head));
	ck_assert_uint_eq(head.target.tm, 32);
	close(program);
	close(fd);
	free(onnx);
	rig_stop();
}
END_TEST

/* Proves that a kernel without accel nodes is served through the driver's render node. */
START_TEST(render_node)
{
	struct rivulet_msg_device e;
	int sock;

	rig_start_on("", NULL);
	sock = raw_open();
	plug("rivulet", "drm", "renderD128", "226:128");
	e = next_event(sock);
	ck_assert_str_eq(e.device, "/dev/dri/renderD128");
	rig_stop();
}
END_TEST

/*
 * Waits for the event of a rivulet device, which proves that the daemon has handled earlier
 * uevents.
 */
static void expect_rivulet(int sock, const char *name)
{
	char node[40];

	driver = &ours;
	snprintf(node, sizeof(node), "/dev/accel/%s", name);
	plug("rivulet", "accel", name, "261:7");
	ck_assert_str_eq(next_event(sock).device, node);
}

/* Waits until the daemon has judged a node by the answers of its driver. */
static void wait_for_answers(int n)
{
	for (int i = 0; answers < n; i++) {
		ck_assert_msg(i < WAIT_MS / 10, "%d calls of the driver instead of %d", answers, n);
		usleep(10000);
	}
}

/*
 * Proves that the daemon ignores devices of other drivers, and a driver of another interface
 * version.
 */
START_TEST(other_drivers)
{
	int sock;

	if (_i == 1)
		other.name = "intel_vpu";
	if (_i == 2)
		other.major = 1;
	if (_i == 3)
		other.refuse_query = true;
	driver = &other;
	rig_start_on("", NULL);
	sock = raw_open();
	plug(_i == 0 ? "intel_vpu" : "rivulet", "accel", "accel0", "261:0");
	/* Where sysfs names another driver, the node is not opened. */
	wait_for_answers(_i == 0 ? 0 : _i == 3 ? 2 : 1);
	no_event(sock);
	unplug(ACCEL);
	expect_rivulet(sock, "accel1");
	rig_stop();
}
END_TEST

/* Proves that Node= restricts the daemon to that node. */
START_TEST(other_node)
{
	int sock;

	rig_start_on("[Device]\nNode=/dev/accel/accel7\n", NULL);
	sock = raw_open();
	plug("rivulet", "accel", "accel0", "261:0");
	no_event(sock);
	unplug(ACCEL);
	expect_rivulet(sock, "accel7");
	rig_stop();
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t;

	rig_main(argc, argv, slow_worker);
	under_umockdev(argv);
	s = suite_create("discovery");
	t = tcase_create("uevents");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, machine, power_off);
	tcase_add_test(t, present_at_start);
	tcase_add_test(t, removed_and_added);
	tcase_add_test(t, served_late);
	tcase_add_test(t, models_survive);
	tcase_add_test(t, clock_differs);
	tcase_add_test(t, times_are_discarded);
	tcase_add_test(t, exchanged);
	tcase_add_test(t, render_node);
	tcase_add_loop_test(t, other_drivers, 0, 4);
	tcase_add_test(t, other_node);
	suite_add_tcase(s, t);
	return run_suite(s);
}
