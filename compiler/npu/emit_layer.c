/* SPDX-License-Identifier: MIT */
/* Emission by the kind of a layer. */
#include "npu/stream.h"

void rvl_emit_layer(struct rvl_stream *s, const struct rvl_layer *l)
{
	if (l->kind == RVL_LAYER_CONV)
		rvl_emit_conv_layer(s, l);
	else
		rvl_emit_plain_layer(s, l);
}
