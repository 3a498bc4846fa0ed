/* SPDX-License-Identifier: MIT */
#include "rivulet_compiler.h"

#include <stdlib.h>

void rivulet_blob_free(struct rivulet_blob *b)
{
	if (b->data && b->release)
		b->release(b->data, b->size);
	else
		free(b->data);
	*b = (struct rivulet_blob){ 0 };
}
