/* SPDX-License-Identifier: MIT */
/*
 * Windows that slide over an image of any number of dimensions: the geometry of pools and
 * convolutions, and the loop over all taps of all positions.
 */
#ifndef RVL_WINDOW_H
#define RVL_WINDOW_H

#include "rivulet_op.h"

struct rvl_window_axis {
	int64_t n;		/* number of positions of the input */
	int64_t out;		/* number of positions of the result */
	int64_t k, stride, dilation;
	int64_t pad[2];		/* before and behind the input */
};

/* axis[0] is dimension 2 of the operands [N, C, D1, ...]. */
struct rvl_window {
	int rank;		/* at least 1 */
	struct rvl_window_axis axis[RVL_MAX_RANK];
};

/**
 * Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode of the call for images of
 * shape @x, as far as its definition has them, and works out the result's positions. @kernel: the
 * weights' dimensions, which kernel_shape must equal where it is given; NULL: kernel_shape decides.
 */
int rvl_window_read(struct rvl_call *c, const struct rvl_shape *x, const int64_t *kernel,
		    struct rvl_window *w);

/** The same for a transposed convolution, with output_padding and output_shape. */
int rvl_window_read_transposed(struct rvl_call *c, const struct rvl_shape *x,
			       const int64_t *kernel, struct rvl_window *w);

/* A convolution: its window and the sizes of its parts. */
struct rvl_conv_parts {
	struct rvl_window w;
	int64_t m, m_group, c_group;	/* output channels; those and the input channels of a group */
	int64_t in, out, taps;		/* elements of a plane and of a kernel */
};

/**
 * Reads a convolution of input @x by weights @kernel, both indices of the call: [M, C / group, ...], of
 * a transposed one [C, M / group, ...].
 */
int rvl_conv_parts_read(struct rvl_call *c, uint32_t x, uint32_t kernel, bool transposed,
			struct rvl_conv_parts *p);

/** Whether input @i, if present, has one value for each of @m channels; fails where it does not. */
int rvl_conv_bias_check(struct rvl_call *c, uint32_t i, int64_t m);

/** Output 0 has the convolution's shape and this type. */
void rvl_conv_set_result(struct rvl_call *c, uint32_t x, const struct rvl_conv_parts *p,
			 enum rvl_type type);

/** An integer attribute; 0 where the definition does not have it. */
int64_t rvl_window_flag(const struct rvl_call *c, const char *name);

/** Taps of the kernel. */
int64_t rvl_window_size(const struct rvl_window *w);

/** rvl_op_def.work of a convolution; see rvl_conv_parts_read(). INT64_MAX for operands that do not fit. */
int64_t rvl_conv_work(const struct rvl_call *c, uint32_t x, uint32_t kernel, bool transposed);

/** Elements of a plane of the input and of the result. */
int64_t rvl_window_in(const struct rvl_window *w);
int64_t rvl_window_out(const struct rvl_window *w);

/** Whether there is one window, which is the whole image without padding. */
bool rvl_window_is_image(const struct rvl_window *w);

/** The first and one past the last tap that lies inside the input at position @o of an axis. */
void rvl_window_taps(const struct rvl_window_axis *a, int64_t o, int64_t *first, int64_t *past);
/** Taps that lie inside the input and its padding. */
int64_t rvl_window_padded(const struct rvl_window_axis *a, int64_t o);

#define RVL_WINDOW_ROW 256

/* Consecutive results of one row of a plane. */
struct rvl_window_row {
	int64_t plane;
	int64_t pos[RVL_MAX_RANK];	/* position of the first one */
	int64_t at;			/* its index in the plane */
	int64_t n;			/* at most RVL_WINDOW_ROW */
};

/* One tap over the part of a row where it lies inside the input. */
struct rvl_window_tap {
	int64_t index;		/* of the tap in the kernel */
	int64_t x, x_step;	/* index in the input's plane of the first element, and from it on */
	int64_t y, y_step;	/* index in the row of its result, and from it on */
	int64_t n;
};

/* Sums of a row while its taps are visited; zeroed before the first. */
union rvl_window_sum {
	double f[RVL_WINDOW_ROW];
	int64_t s[RVL_WINDOW_ROW];
	uint32_t u[RVL_WINDOW_ROW];
};

struct rvl_window_work {
	/* Taps of a row come in the order of the kernel's elements. */
	void (*tap)(void *arg, const struct rvl_window_row *row, const struct rvl_window_tap *tap,
		    union rvl_window_sum *sum);
	void (*end)(void *arg, const struct rvl_window_row *row, union rvl_window_sum *sum);
	void *arg;
};

/** Visits every tap of every row of @planes results, on the threads of the call. */
void rvl_window_run(const struct rvl_call *c, const struct rvl_window *w, int64_t planes,
		    const struct rvl_window_work *work);

#endif
