/* SPDX-License-Identifier: MIT */
/* Where buffers of weights may begin. */
#include "npu/layer.h"
#include "rivulet_footprint.h"
#include "rivulet_sparse.h"

int64_t rvl_wgt_step(const struct rivulet_board *b)
{
	return rivulet_sparse_of(b, b->dn).align;
}

int64_t rvl_wgt_round(const struct rivulet_board *b, int64_t words)
{
	int64_t step = rvl_wgt_step(b);

	return rvl_div_up(words, step) * step;
}

int64_t rvl_wgt_words(const struct rivulet_board *b)
{
	int64_t words = rivulet_mem_words(b, RIVULET_MEM_WGT);

	return words - words % rvl_wgt_step(b);
}
