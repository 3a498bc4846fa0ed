// SPDX-License-Identifier: MIT
/*
 * A plugin of QEMU that counts the instructions that a program executes, and prints their number when
 * it ends. Debian packages no header for plugins, so the functions of version 1 of their interface
 * that this one calls are declared here.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;	/* a translated block */

enum { ADD_U64 };	/* the only operation that a block can execute inline */

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
					   void (*cb)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *ptr,
					      uint64_t value);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*cb)(uint64_t id, void *arg), void *arg);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_outs(const char *text);

EXPORT extern int qemu_plugin_version;
int qemu_plugin_version = 1;

EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

/* Threads of the program add without atomicity, so the program must have one. */
static uint64_t executed;

static void on_block(uint64_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_U64, &executed, qemu_plugin_tb_n_insns(tb));
}

static void on_exit(uint64_t id, void *arg)
{
	char text[64];

	(void)id;
	(void)arg;
	snprintf(text, sizeof(text), "executed %" PRIu64 " instructions\n", executed);
	qemu_plugin_outs(text);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	(void)argc;
	(void)argv;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
	qemu_plugin_register_atexit_cb(id, on_exit, NULL);
	return 0;
}
