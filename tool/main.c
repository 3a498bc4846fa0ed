// SPDX-License-Identifier: MIT
/* The `rivulet` command: choose the verb, tell the one error. */
#include <errno.h>
#include <string.h>

#include "tool.h"

static const struct rvl_command commands[] = {
	{ "run", "classify pictures or run tensors through a model", rvl_cmd_run },
	{ "explain", "what of a model runs where, why, and at what cost", rvl_cmd_explain },
	{ "compile", "make a program file of an ONNX model", rvl_cmd_compile },
	{ "bench", "latency, throughput, energy of a model", rvl_cmd_bench },
	{ "eval", "accuracy of a model over a data set, by bitstream length", rvl_cmd_eval },
	{ "plan", "choose a bitstream length for each level, by time, accuracy, charge", rvl_cmd_plan },
	{ "info", "the device, its levels and counters, or a model's tensors", rvl_cmd_info },
	{ "status", "what the daemon serves, model by model, level by level", rvl_cmd_status },
	{ "policy", "the power policy: its state, another mode, a recorded battery", rvl_cmd_policy },
	{ "doctor", "find out why it does not work, and what mends it", rvl_cmd_doctor },
	{ "disasm", "list the instructions of a program file", rvl_cmd_disasm },
	{ "asm", "assemble instructions, prove and time them", rvl_cmd_asm },
};

static void usage(FILE *f)
{
	fprintf(f, "rivulet %s: models on the Rivulet NPU\n\nusage: rivulet VERB [options]\n\n",
		RIVULET_VERSION);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(f, "  %-9s %s\n", commands[i].name, commands[i].summary);
	fprintf(f, "\n  rivulet VERB --help tells its options; every verb knows --json\n\nexit status:\n");
#define EXIT_HELP(name, value, doc) fprintf(f, "  %d  %s\n", value, doc);
	RVL_EXITS(EXIT_HELP)
#undef EXIT_HELP
}

static int finish(int code)
{
	if (*rvl_tool_error && rvl_tool_json && !rvl_json_written()) {
		rvl_json_begin("error");
		rvl_json_str("error", rvl_tool_error);
		rvl_json_i64("exit", code);
		rvl_json_end();
	}
	if (*rvl_tool_error)
		fprintf(stderr, "rivulet: %s%s\n", rvl_tool_error, code != RVL_EXIT_ABSENT ? "" :
			"; `rivulet doctor` says what mends it, --device sim:zu3eg-64 does without");
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "rivulet: cannot write the output: %s\n", strerror(errno));
		return code ? code : RVL_EXIT_FAILED;
	}
	return code;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return RVL_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return RVL_EXIT_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("rivulet %s\n", RIVULET_VERSION);
		return RVL_EXIT_OK;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return finish(commands[i].run(argc - 1, argv + 1));
	return finish(rvl_tool_fail(RVL_EXIT_USAGE, "no verb \"%s\"; see rivulet --help", argv[1]));
}
