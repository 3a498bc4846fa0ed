/* SPDX-License-Identifier: MIT */
/* Windows over images of any number of dimensions. */
#include <stdio.h>
#include <string.h>

#include "sizes.h"
#include "window.h"

#define MOST INT32_MAX	/* of an image, and a kernel's side, stride, dilation and padding */

/* ---- geometry ---- */

static bool has_attr(const struct rvl_call *c, const char *name)
{
	for (const struct rvl_attr_def *a = c->def->attrs; a && a->name; a++)
		if (!strcmp(a->name, name))
			return true;
	return false;
}

int64_t rvl_window_flag(const struct rvl_call *c, const char *name)
{
	return has_attr(c, name) ? rvl_attr_int(c, name) : 0;
}

/* Attribute @name, one number or @per_axis for each axis, into @list; what is absent is @value. */
static int read_list(struct rvl_call *c, const char *name, int rank, int64_t least, int64_t value,
		     int64_t *list)
{
	const int64_t *given = NULL;
	uint32_t n = 0;

	if (has_attr(c, name))
		given = rvl_attr_ints(c, name, &n);
	if (n && n != (uint32_t)rank)
		return rvl_op_fail(c, "attribute %s has %u values, not %d", name, n, rank);
	for (int i = 0; i < rank; i++) {
		list[i] = n ? given[i] : value;
		if (list[i] < least || list[i] > MOST)
			return rvl_op_fail(c, "attribute %s has the value %lld, which is not in %lld to %d",
					   name, (long long)list[i], (long long)least, MOST);
	}
	return 0;
}

static int read_kernel(struct rvl_call *c, const int64_t *kernel, struct rvl_window *w)
{
	int64_t list[RVL_MAX_RANK];
	int rc = read_list(c, "kernel_shape", w->rank, 1, 1, list);

	for (int i = 0; i < w->rank && !rc; i++) {
		w->axis[i].k = list[i];
		if (!kernel)
			continue;
		w->axis[i].k = kernel[i];
		if (rvl_attr_given(c, "kernel_shape") ? kernel[i] != list[i] :
						       kernel[i] < 1 || kernel[i] > MOST)
			return rvl_op_fail(c, "kernel_shape and the weights' shape disagree");
	}
	return rc;
}

/* Everything but the number of results and what auto_pad decides. */
static int read_axes(struct rvl_call *c, const struct rvl_shape *x, const int64_t *kernel,
		     struct rvl_window *w)
{
	int64_t stride[RVL_MAX_RANK], dilation[RVL_MAX_RANK], pad[2 * RVL_MAX_RANK];
	int rc;

	*w = (struct rvl_window) { .rank = x->rank - 2 };
	if (w->rank < 1)
		return rvl_op_fail(c, "its input has no spatial dimensions");
	rc = read_kernel(c, kernel, w);
	if (!rc)
		rc = read_list(c, "strides", w->rank, 1, 1, stride);
	if (!rc)
		rc = read_list(c, "dilations", w->rank, 1, 1, dilation);
	if (!rc)
		rc = read_list(c, "pads", 2 * w->rank, 0, 0, pad);
	for (int i = 0; i < w->rank && !rc; i++) {
		struct rvl_window_axis *a = &w->axis[i];

		a->n = x->dim[i + 2];
		if (a->n > MOST)
			return rvl_op_fail(c, "dimension %d of its input is %lld", i + 2,
					   (long long)a->n);
		a->stride = stride[i];
		a->dilation = dilation[i];
		a->pad[0] = pad[i];
		a->pad[1] = pad[i + w->rank];
	}
	return rc;
}

static int64_t reach(const struct rvl_window_axis *a)
{
	return (a->k - 1) * a->dilation + 1;
}

static bool auto_pad_is(const struct rvl_call *c, const char *value)
{
	return has_attr(c, "auto_pad") && rvl_attr_is(c, "auto_pad", value);
}

/* The padding @total is divided between both ends; the larger half is behind with SAME_UPPER. */
static void divide_padding(const struct rvl_call *c, int64_t total, struct rvl_window_axis *a)
{
	bool upper = auto_pad_is(c, "SAME_UPPER");

	total = total < 0 ? 0 : total;
	a->pad[0] = upper ? total / 2 : total - total / 2;
	a->pad[1] = total - a->pad[0];
}

static bool same_padding(const struct rvl_call *c)
{
	return auto_pad_is(c, "SAME_UPPER") || auto_pad_is(c, "SAME_LOWER");
}

/* The sides of the window, or of the padded input, as "7x3". */
static const char *sides(const struct rvl_window *w, bool window, char *text, size_t size)
{
	size_t at = 0;

	for (int i = 0; i < w->rank && at < size; i++) {
		const struct rvl_window_axis *a = &w->axis[i];
		int64_t n = window ? reach(a) : a->n + a->pad[0] + a->pad[1];

		at += (size_t)snprintf(text + at, size - at, i ? "x%lld" : "%lld", (long long)n);
	}
	return text;
}

static int too_small(struct rvl_call *c, const struct rvl_window *w)
{
	char window[64], input[64];

	return rvl_op_fail(c, "its %s window is larger than the padded %s input",
			   sides(w, true, window, sizeof(window)),
			   sides(w, false, input, sizeof(input)));
}

/* Positions of the window; false: none. With ceil_mode the last one may pass the end, but begins before it. */
static bool count_positions(const struct rvl_call *c, struct rvl_window_axis *a)
{
	bool ceil = rvl_window_flag(c, "ceil_mode");
	int64_t room;

	if (same_padding(c)) {
		a->out = (a->n + a->stride - 1) / a->stride;
		divide_padding(c, (a->out - 1) * a->stride + reach(a) - a->n, a);
		return true;
	}
	if (auto_pad_is(c, "VALID"))
		a->pad[0] = a->pad[1] = 0;
	room = a->n + a->pad[0] + a->pad[1] - reach(a) + (ceil ? a->stride - 1 : 0);
	if (room < 0)
		return false;
	a->out = room / a->stride + 1;
	if (ceil && (a->out - 1) * a->stride >= a->n + a->pad[0])
		a->out--;
	return true;
}

int rvl_window_read(struct rvl_call *c, const struct rvl_shape *x, const int64_t *kernel,
		    struct rvl_window *w)
{
	int rc = read_axes(c, x, kernel, w);

	for (int i = 0; i < w->rank && !rc; i++)
		rc = count_positions(c, &w->axis[i]) ? 0 : too_small(c, w);
	return rc;
}

/* output_shape, of the images alone or of all dimensions, decides the padding. */
static int read_output_shape(struct rvl_call *c, struct rvl_window *w, bool *given)
{
	uint32_t n;
	const int64_t *size = rvl_attr_ints(c, "output_shape", &n);

	*given = n > 0;
	if (!n)
		return 0;
	if (n != (uint32_t)w->rank && n != (uint32_t)w->rank + 2)
		return rvl_op_fail(c, "attribute output_shape has %u values, not %d", n, w->rank);
	for (int i = 0; i < w->rank; i++) {
		w->axis[i].out = size[n - (uint32_t)w->rank + (uint32_t)i];
		if (w->axis[i].out < 0 || w->axis[i].out > MOST)
			return rvl_op_fail(c, "attribute output_shape has the value %lld",
					   (long long)w->axis[i].out);
	}
	return 0;
}

int rvl_window_read_transposed(struct rvl_call *c, const struct rvl_shape *x,
			       const int64_t *kernel, struct rvl_window *w)
{
	int64_t extra[RVL_MAX_RANK];
	bool given = false;
	int rc = read_axes(c, x, kernel, w);

	if (!rc)
		rc = read_list(c, "output_padding", w->rank, 0, 0, extra);
	if (!rc)
		rc = read_output_shape(c, w, &given);
	for (int i = 0; i < w->rank && !rc; i++) {
		struct rvl_window_axis *a = &w->axis[i];
		int64_t full = (a->n - 1) * a->stride + reach(a) + extra[i];

		/*
		 * No padding is negative: where the kernel is smaller than its stride, onnxruntime and
		 * the shape inference of ONNX end the result with the last kernel, not with the stride.
		 */
		if (!given && same_padding(c))
			a->out = rvl_least(a->n * a->stride, full);
		if (given || same_padding(c)) {
			divide_padding(c, full - a->out, a);
			continue;
		}
		if (auto_pad_is(c, "VALID"))
			a->pad[0] = a->pad[1] = 0;
		a->out = full - a->pad[0] - a->pad[1];
		if (a->out < 0)
			return rvl_op_fail(c, "its padding of %lld is larger than the result of %lld",
					   (long long)(a->pad[0] + a->pad[1]), (long long)full);
	}
	return rc;
}

int64_t rvl_window_size(const struct rvl_window *w)
{
	int64_t n = 1;

	for (int i = 0; i < w->rank; i++)
		n = rvl_work(n, w->axis[i].k);
	return n;
}

int64_t rvl_window_in(const struct rvl_window *w)
{
	int64_t n = 1;

	for (int i = 0; i < w->rank; i++)
		n *= w->axis[i].n;
	return n;
}

int64_t rvl_window_out(const struct rvl_window *w)
{
	int64_t n = 1;

	for (int i = 0; i < w->rank; i++)
		n *= w->axis[i].out;
	return n;
}

/* The least i for which i * step >= @v. */
static int64_t steps_to(int64_t v, int64_t step)
{
	return v <= 0 ? 0 : (v - 1) / step + 1;
}

void rvl_window_taps(const struct rvl_window_axis *a, int64_t o, int64_t *first, int64_t *past)
{
	int64_t at = o * a->stride - a->pad[0];

	*first = steps_to(-at, a->dilation);
	*past = rvl_least(a->k, steps_to(a->n - at, a->dilation));
	if (*first > *past)
		*first = *past;
}

bool rvl_window_is_image(const struct rvl_window *w)
{
	for (int i = 0; i < w->rank; i++) {
		const struct rvl_window_axis *a = &w->axis[i];

		if (a->k != a->n || a->out != 1 || a->dilation != 1 || a->pad[0] || a->pad[1])
			return false;
	}
	return true;
}

int64_t rvl_window_padded(const struct rvl_window_axis *a, int64_t o)
{
	int64_t at = o * a->stride - a->pad[0];

	return rvl_least(a->k, steps_to(a->n + a->pad[1] - at, a->dilation));
}

/* ---- loop ---- */

/*
 * Iterates over the taps of the outer axes of a row. The taps in [first, past) may lie inside the
 * input.
 */
struct walk {
	const struct rvl_window *w;
	const struct rvl_window_work *work;
	const struct rvl_window_row *row;
	union rvl_window_sum *sum;
	int64_t tap[RVL_MAX_RANK], first[RVL_MAX_RANK], past[RVL_MAX_RANK];
};

/* Prepares the walk. False if no tap of the row lies inside the input. */
static bool start_walk(struct walk *k)
{
	const struct rvl_window *w = k->w;

	for (int d = 0; d < w->rank - 1; d++) {
		rvl_window_taps(&w->axis[d], k->row->pos[d], &k->first[d], &k->past[d]);
		if (k->first[d] >= k->past[d])
			return false;
		k->tap[d] = k->first[d];
	}
	return true;
}

static bool next_tap(struct walk *k)
{
	for (int d = k->w->rank - 2; d >= 0; d--) {
		if (++k->tap[d] < k->past[d])
			return true;
		k->tap[d] = k->first[d];
	}
	return false;
}

/* The input position that the tap of an outer axis reads. */
static int64_t source(const struct walk *k, int d)
{
	const struct rvl_window_axis *a = &k->w->axis[d];

	return k->row->pos[d] * a->stride + k->tap[d] * a->dilation - a->pad[0];
}

/* Visits tap @i of the last axis of a window. @t has the index and position of its row. */
static void gather(const struct walk *k, struct rvl_window_tap t, int64_t i)
{
	const struct rvl_window_axis *a = &k->w->axis[k->w->rank - 1];
	int64_t x0 = k->row->pos[k->w->rank - 1], x1 = x0 + k->row->n;
	int64_t off = i * a->dilation - a->pad[0];
	int64_t lo = steps_to(-off, a->stride), hi = rvl_least(steps_to(a->n - off, a->stride), x1);

	lo = lo < x0 ? x0 : lo;
	t.index += i;
	t.x += lo * a->stride + off;
	t.x_step = a->stride;
	t.y = lo - x0;
	t.y_step = 1;
	t.n = hi - lo;
	if (t.n > 0)
		k->work->tap(k->work->arg, k->row, &t, k->sum);
}

/* All taps of the last axis, for one tap of the others. */
static void inner_taps(const struct walk *k)
{
	const struct rvl_window *w = k->w;
	const struct rvl_window_axis *a = &w->axis[w->rank - 1];
	struct rvl_window_tap t = { .index = 0 };
	int64_t first = 0, past = a->k, last = k->row->pos[w->rank - 1] + k->row->n - 1, none;

	for (int d = 0; d < w->rank - 1; d++) {
		t.index = (t.index + k->tap[d]) * w->axis[d + 1].k;
		t.x = (t.x + source(k, d)) * w->axis[d + 1].n;
	}
	rvl_window_taps(a, last, &first, &none);
	rvl_window_taps(a, k->row->pos[w->rank - 1], &none, &past);
	for (int64_t i = first; i < past; i++)
		gather(k, t, i);
}

static void run_row(const struct rvl_window *w, const struct rvl_window_work *work,
		    const struct rvl_window_row *row)
{
	union rvl_window_sum sum;
	struct walk k = { .w = w, .work = work, .row = row, .sum = &sum };

	memset(&sum, 0, sizeof(sum));
	if (start_walk(&k)) {
		do
			inner_taps(&k);
		while (next_tap(&k));
	}
	work->end(work->arg, row, &sum);
}

struct all_rows {
	const struct rvl_window *w;
	const struct rvl_window_work *work;
	int64_t per_plane;	/* rows */
};

static void run_rows(void *arg, int64_t first, int64_t past)
{
	const struct all_rows *r = arg;
	const struct rvl_window *w = r->w;
	int64_t width = w->axis[w->rank - 1].out;

	for (int64_t i = first; i < past; i++) {
		struct rvl_window_row row = { .plane = i / r->per_plane };
		int64_t at = i % r->per_plane;

		row.at = at * width;
		for (int d = w->rank - 2; d >= 0; d--) {
			row.pos[d] = at % w->axis[d].out;
			at /= w->axis[d].out;
		}
		for (int64_t x = 0; x < width; x += row.n) {
			row.pos[w->rank - 1] = x;
			row.n = rvl_least(width - x, RVL_WINDOW_ROW);
			run_row(w, r->work, &row);
			row.at += row.n;
		}
	}
}

void rvl_window_run(const struct rvl_call *c, const struct rvl_window *w, int64_t planes,
		    const struct rvl_window_work *work)
{
	struct all_rows r = { .w = w, .work = work, .per_plane = 1 };

	for (int d = 0; d < w->rank - 1; d++)
		r.per_plane *= w->axis[d].out;
	if (planes > 0 && rvl_window_out(w) > 0)
		rvl_for_range(c, planes * r.per_plane, 1, run_rows, &r);
}

/* ---- convolutions ---- */

static bool weights_fit(const struct rvl_shape *x, const struct rvl_shape *w, int64_t group,
			bool transposed)
{
	if (group < 1)
		return false;
	if (transposed)
		return w->dim[0] == x->dim[1] && x->dim[1] % group == 0 && group <= INT32_MAX;
	return w->dim[0] % group == 0 && x->dim[1] % group == 0 && x->dim[1] / group == w->dim[1];
}

int rvl_conv_parts_read(struct rvl_call *c, uint32_t x, uint32_t kernel, bool transposed,
			struct rvl_conv_parts *p)
{
	const struct rvl_shape *xs = &c->in[x].shape, *ws = &c->in[kernel].shape;
	int64_t group = rvl_attr_int(c, "group");
	int rc;

	*p = (struct rvl_conv_parts) { .taps = 1 };
	if (xs->rank < 3)
		return rvl_op_fail(c, "its input has no spatial dimensions");
	if (ws->rank != xs->rank)
		return rvl_op_fail(c, "its weights have %d dimensions, its input %d", ws->rank,
				   xs->rank);
	if (!weights_fit(xs, ws, group, transposed))
		return rvl_op_fail(c, "weights do not fit input, output and group");
	rc = transposed ? rvl_window_read_transposed(c, xs, ws->dim + 2, &p->w) :
			  rvl_window_read(c, xs, ws->dim + 2, &p->w);
	if (rc)
		return rc;
	if (ws->dim[1] > INT32_MAX)
		return rvl_op_fail(c, "weights do not fit input, output and group");
	p->m = transposed ? ws->dim[1] * group : ws->dim[0];
	p->m_group = p->m / group;
	p->c_group = xs->dim[1] / group;
	p->in = rvl_window_in(&p->w);
	p->out = rvl_window_out(&p->w);
	for (int i = 2; i < ws->rank; i++)
		p->taps *= ws->dim[i];
	return 0;
}

int64_t rvl_conv_work(const struct rvl_call *c, uint32_t x, uint32_t kernel, bool transposed)
{
	struct rvl_call copy = *c;
	struct rvl_conv_parts p;

	if (rvl_conv_parts_read(&copy, x, kernel, transposed, &p))
		return INT64_MAX;
	return rvl_work(rvl_work(p.taps, transposed ? p.m_group : p.c_group),
			rvl_count(transposed ? &c->in[x] : &c->out[0]));
}

int rvl_conv_bias_check(struct rvl_call *c, uint32_t i, int64_t m)
{
	const struct rvl_shape *s = &c->in[i].shape;

	if (rvl_has(c, i) && (s->rank != 1 || s->dim[0] != m))
		return rvl_op_fail(c, "bias has not one value per output channel");
	return 0;
}

void rvl_conv_set_result(struct rvl_call *c, uint32_t x, const struct rvl_conv_parts *p,
			 enum rvl_type type)
{
	struct rvl_shape y = c->in[x].shape;

	y.dim[1] = p->m;
	for (int i = 0; i < p->w.rank; i++)
		y.dim[i + 2] = p->w.axis[i].out;
	rvl_set_out(c, 0, type, &y);
}
