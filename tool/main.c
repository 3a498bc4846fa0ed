// SPDX-License-Identifier: MIT
/* The `rivulet` command. Everything else is in a library, so that tests can run verbs. */
#include "verb.h"

int main(int argc, char **argv)
{
	return rvl_tool_main(argc, argv);
}
