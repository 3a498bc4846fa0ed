/* SPDX-License-Identifier: MIT */
/* Prints docs/operators.md. */
#include <stdio.h>
#include <stdlib.h>

#include "program/operators_doc.h"

int main(void)
{
	char *text = rvl_operators_doc();

	if (!text || fputs(text, stdout) < 0)
		return 1;
	free(text);
	return 0;
}
