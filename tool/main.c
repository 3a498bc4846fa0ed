// SPDX-License-Identifier: MIT
/* The `rivulet` command. Everything else is in a library, so that tests can run verbs. */
#include <signal.h>

#include "verb.h"

int main(int argc, char **argv)
{
	int code = rvl_tool_main(argc, argv);

	/*
	 * The parent must see the signal: a shell stops its loop only if its child died of SIGINT.
	 */
	if (code > 128) {
		signal(code - 128, SIG_DFL);
		raise(code - 128);
	}
	return code;
}
