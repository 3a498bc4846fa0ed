// SPDX-License-Identifier: MIT
/* What `rivulet info` prints of a device node whose driver is umockdev's. */
#include "fake_driver.h"

#include <json-c/json.h>

#include "../../tool/json.h"
#include "suite.h"
#include "verb.h"
#include "verb_out.h"

/* Every number is different. The array makes 2 x 4 multiplications in a cycle. */
static const struct drm_rivulet_device board = {
	.dev_version = RIVULET_DEV_VERSION, .isa_version = 7, .tm = 8, .tn = 16, .dn = 4, .inp_bytes = 4096,
	.wgt_bytes = 8192, .acc_bytes = 16384, .port_bytes = 32, .mem_latency = 65, .queue_depth = 66, .modes = 1,
	.flags = DRM_RIVULET_DEVICE_PACED,
	.level_count = 2,
	.level = { { .hz = 150000000, .microvolt = 710000, .fj_per_mac = 811, .fj_per_byte = 912, .static_uw = 1300000 },
		   { .hz = 1200000000, .microvolt = 920000, .fj_per_mac = 821, .fj_per_byte = 922, .static_uw = 450 } },
	.name = "edge",
};

static void setup(void)
{
	driver_setup();
	fake.device = board;
}

static void starts(const char *name, const char *text)
{
	ck_assert_msg(!strncmp(line_of(name), text, strlen(text)), "\"%s\" is not \"%s...\"", line_of(name), text);
}

START_TEST(info_text)
{
	EXPECT("info --device " NODE, 0);
	starts(NODE, NODE ": board edge, device ");
	ck_assert_ptr_nonnull(strstr(line_of(NODE), ", instructions 7, at level 1, paced to real time"));
	starts("tm", "tm 8 rows output channels");
	starts("mem_latency", "mem_latency 65 cycles request to first beat");
	starts("queue_depth", "queue_depth 66 instructions");
	starts("0 ", "0 150.0 MHz 710 mV 811 fJ 912 fJ 1.300 W 4.800 GMAC/s");
	starts("1 ", "1 1.200 GHz 920 mV 821 fJ 922 fJ 450.0 uW 38.40 GMAC/s");
	starts("since power on", "since power on, 3 resets:");
	starts("jobs", "jobs 11 ");
	starts("faults", "faults 22 ");
}
END_TEST

START_TEST(info_json)
{
	struct json_object *o, *b, *c, *l;

	EXPECT("info --json --device " NODE, 0);
	check_json("rivulet.info/2");
	o = rvl_json_parse(out);
	ck_assert_str_eq(json_object_get_string(rvl_json_member(o, "device")), NODE);
	ck_assert_double_eq(number(o, "level"), 1);
	b = rvl_json_member(o, "board");
	ck_assert_str_eq(json_object_get_string(rvl_json_member(b, "name")), "edge");
	ck_assert_str_eq(json_object_get_string(rvl_json_member(b, "pace")), "real");
	ck_assert_double_eq(number(b, "tn"), 16);
	ck_assert_double_eq(number(b, "inp_bytes"), 4096);
	ck_assert_double_eq(number(b, "acc_bytes"), 16384);
	/* Energies are those of the levels, in SI units. */
	ck_assert_ptr_null(rvl_json_member(b, "fj_per_mac"));
	ck_assert_ptr_null(rvl_json_member(b, "static_uw"));
	ck_assert_uint_eq(json_object_array_length(rvl_json_member(b, "levels")), 2);
	l = rvl_json_item(rvl_json_member(b, "levels"), 0);
	ck_assert_double_eq(number(l, "hz"), 150000000);
	ck_assert_double_eq_tol(number(l, "volt"), 0.71, 1e-12);
	ck_assert_double_eq_tol(number(l, "joule_per_mac"), 811e-15, 1e-20);
	ck_assert_double_eq_tol(number(l, "joule_per_byte"), 912e-15, 1e-20);
	ck_assert_double_eq_tol(number(l, "static_watt"), 1.3, 1e-12);
	c = rvl_json_member(o, "counters");
	ck_assert_double_eq(number(c, "resets"), 3);
	ck_assert_double_eq(number(c, "jobs"), 11);
	ck_assert_double_eq(number(c, "faults"), 22);
	json_object_put(o);
}
END_TEST

/* Proves that all but the counters are shown to a user without privilege, and that other errors end the verb. */
START_TEST(info_without_privilege)
{
	struct json_object *o;

	fake.no_privilege = true;
	EXPECT("info --device " NODE, 0);
	SAYS("\ncounters since power on: needs privilege (CAP_PERFMON)\n");
	starts("tm", "tm 8 rows");
	EXPECT("info --json --device " NODE, 0);
	o = rvl_json_parse(out);
	ck_assert_str_eq(json_object_get_string(rvl_json_member(o, "counters")), "needs privilege");
	json_object_put(o);
	fake.no_privilege = false;
	EXPECT("info --device /dev/accel/accel9", RVL_EXIT_ABSENT);
	ck_assert_str_eq(out, "");
	fake.driver = "other";
	EXPECT("info --device " NODE, RVL_EXIT_ABSENT);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "belongs to driver other"));
	fake.driver = "rivulet";
}
END_TEST

/* Proves that info without a daemon finds the node. */
START_TEST(info_finds_the_node)
{
	setenv(RIVULET_SOCKET_ENV, "/nonexistent/sock", 1);
	EXPECT("info", 0);
	starts(NODE, NODE ": board edge");
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s = suite_create("node");
	TCase *t = tcase_create("info");

	(void)argc;
	under_umockdev(argv);
	tcase_add_checked_fixture(t, setup, driver_teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, info_text);
	tcase_add_test(t, info_json);
	tcase_add_test(t, info_without_privilege);
	tcase_add_test(t, info_finds_the_node);
	suite_add_tcase(s, t);
	return run_suite(s);
}
