// SPDX-License-Identifier: MIT
/* The client library when the daemon is restarted, or the device is removed and added again. */
#include "fake_driver.h"
#include "fake_daemon.h"
#include "suite.h"

/* Runs @q on an input of @value and checks the output. */
static void run_well(struct rivulet_request *q, uint8_t *in, uint8_t *out, uint8_t value)
{
	memset(in, value, BYTES);
	memset(out, 0, BYTES);
	ck_assert_msg(!rivulet_request_run(q, NULL), "%s", rivulet_last_error());
	ck_assert(out[0] == value + 1 && out[BYTES - 1] == value + 1);
}

/*
 * After a restart of the daemon, the run in flight ends once, and the next run restores model,
 * instance and bindings.
 */
START_TEST(daemon_returns)
{
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	struct rivulet_client *c;
	struct rivulet_request *q;
	struct rivulet_model *m;
	int before = count_fds();

	daemon_start_for(NONE, 3);
	q = request(&c, in, out);
	run_well(q, in, out, 7);
	dm.die = true;
	ck_assert_int_eq(rivulet_request_run(q, NULL), -ECONNRESET);
	run_well(q, in, out, 8);
	ck_assert_uint_eq(dm.loads, 2);
	ck_assert_uint_eq(dm.opens, 2);
	ck_assert_uint_eq(dm.binds, 4);
	/* The connection ends between two calls, and no call fails. */
	dm.die = true;
	ck_assert(!rivulet_request_start(q, NULL));
	ck_assert_int_eq(rivulet_request_wait(q, WAIT_MS), -ECONNRESET);
	ck_assert(!rivulet_client_ping(c, WAIT_MS));
	ck_assert(!rivulet_model_load_memory(c, "onnx", 4, NULL, &m));
	ck_assert_uint_eq(dm.loads, 3);
	run_well(q, in, out, 9);
	ck_assert_uint_eq(dm.loads, 4);
	ck_assert_uint_eq(dm.unloads, 0);
	rivulet_model_unref(m);
	rivulet_request_unref(q);
	rivulet_client_unref(c);
	daemon_stop();
	ck_assert_uint_eq(dm.unloads, 2);
	ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* The same for a device that is removed and added again while the connection stays. */
START_TEST(device_returns)
{
	uint8_t in[BYTES] = { 1 }, out[BYTES] = { 0 };
	struct rivulet_daemon_info info = { .size = sizeof(info) };
	struct rivulet_client *c;
	struct rivulet_request *q;

	daemon_start(NONE);
	q = request(&c, in, out);
	run_well(q, in, out, 7);
	dm.replug = true;
	ck_assert_int_eq(rivulet_request_run(q, NULL), -ENODEV);
	run_well(q, in, out, 8);
	ck_assert_uint_eq(dm.loads, 1);
	ck_assert_uint_eq(dm.opens, 2);
	ck_assert_uint_eq(dm.closes, 1);
	/* The device stays absent for several calls. */
	dm.absent = dm.replug = true;
	ck_assert_int_eq(rivulet_request_run(q, NULL), -ENODEV);
	ck_assert_int_eq(rivulet_request_start(q, NULL), 0);
	ck_assert_int_eq(rivulet_request_wait(q, WAIT_MS), -ENODEV);
	ck_assert_int_eq(rivulet_client_wait_device(c, 20), -ETIMEDOUT);
	rivulet_client_info(c, &info);
	ck_assert(!info.present);
	ck_assert_int_eq(rivulet_request_prepare(q), -ENODEV);
	ck_assert(!rivulet_client_ping(c, WAIT_MS));	/* makes the fake daemon add the device */
	ck_assert(!rivulet_client_wait_device(c, WAIT_MS));
	run_well(q, in, out, 9);
	rivulet_request_unref(q);
	rivulet_client_unref(c);
	daemon_stop();
	ck_assert_uint_eq(dm.opens, 3);
	ck_assert_uint_eq(dm.closes, 3);
}
END_TEST

/*
 * The frame of a stream that is in flight when the device is removed fails; the frames after it run on
 * the device that is added.
 */
START_TEST(stream_goes_on)
{
	uint8_t in[2][BYTES] = { { 1 }, { 2 } }, out[2][BYTES];
	struct rivulet_request *q;
	struct rivulet_client *c;
	struct rivulet_stream *s;
	struct rivulet_model *m;

	daemon_start(NONE);
	ck_assert(!rivulet_open(dm.path, &c));
	ck_assert(!rivulet_model_load_memory(c, "onnx", 4, NULL, &m));
	ck_assert(!rivulet_stream_new(m, 2, &s));
	rivulet_model_unref(m);
	for (uint32_t i = 0; i < 2; i++) {
		q = rivulet_stream_request(s, i);
		ck_assert(!rivulet_bind_memory(q, 0, in[i], BYTES) &&
			  !rivulet_bind_memory(q, 1, out[i], BYTES));
	}
	dm.replug = true;
	ck_assert_int_eq(rivulet_stream_submit(s, NULL), 0);
	ck_assert_int_eq(rivulet_stream_take(s, WAIT_MS, &q), -ENODEV);
	ck_assert_ptr_eq(q, rivulet_stream_request(s, 0));
	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_int_eq(rivulet_stream_submit(s, NULL), 0);
		ck_assert_int_eq(rivulet_stream_take(s, WAIT_MS, &q), 0);
		ck_assert_ptr_eq(q, rivulet_stream_request(s, (i + 1) % 2));
	}
	rivulet_stream_unref(s);
	rivulet_client_unref(c);
	daemon_stop();
	/* Each request has had an instance before the removal and one after it. */
	ck_assert_uint_eq(dm.opens, 4);
}
END_TEST

/* A buffer of a removed device cannot be bound again, and the error names its tensor. */
START_TEST(buffer_of_the_old_device)
{
	struct rivulet_device *dev;
	struct rivulet_buffer *b;
	struct rivulet_client *c;
	struct rivulet_request *q;
	struct rivulet_model *m;
	uint8_t *map, out[BYTES];

	driver_setup();
	daemon_start(NONE);
	fake.memory = memfd_create("m", MFD_CLOEXEC);
	ck_assert(!ftruncate(fake.memory, 4096));
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fake.memory, 0);
	ck_assert(!rivulet_open(dm.path, &c) && !rivulet_model_load_memory(c, "onnx", 4, NULL,
									   &m) &&
		  !rivulet_request_new(m, &q));
	dev = device();
	ck_assert(!rivulet_buffer_import(dev, fake.memory, &b));
	ck_assert(!rivulet_bind_buffer(q, 0, b, 0) && !rivulet_bind_memory(q, 1, out, BYTES));
	run_well(q, map, out, 5);
	dm.replug = true;
	ck_assert_int_eq(rivulet_request_run(q, NULL), -ENODEV);
	fake.export_error = ENODEV;
	ck_assert_int_eq(rivulet_request_run(q, NULL), -ENODEV);
	ck_assert_ptr_nonnull(strstr(rivulet_last_error(),
				     "tensor in is bound to a buffer of a device "
				     "that is gone"));
	/* Another exporter's dma-buf outlives the device. */
	ck_assert(!rivulet_bind_dmabuf(q, 0, fake.memory, 0));
	run_well(q, map, out, 6);
	dm.replug = true;
	ck_assert_int_eq(rivulet_request_run(q, NULL), -ENODEV);
	run_well(q, map, out, 7);
	rivulet_buffer_unref(b);
	rivulet_device_unref(dev);
	rivulet_request_unref(q);
	rivulet_model_unref(m);
	rivulet_client_unref(c);
	daemon_stop();
	munmap(map, 4096);
	close(fake.memory);
	driver_teardown();
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s = suite_create("reconnect");
	TCase *t = tcase_create("returns");

	(void)argc;
	under_umockdev(argv);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, daemon_returns);
	tcase_add_test(t, device_returns);
	tcase_add_test(t, buffer_of_the_old_device);
	tcase_add_test(t, stream_goes_on);
	suite_add_tcase(s, t);
	return run_library_suite(s);
}
