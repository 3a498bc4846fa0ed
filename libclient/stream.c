// SPDX-License-Identifier: MIT
/*
 * Streams: requests of one model in a ring, so that CPU steps of a frame run while the NPU runs the
 * frame before it. The next frame uses the request behind those in flight; frames are taken from the
 * oldest one on.
 */
#include <errno.h>
#include <stdlib.h>

#include "request.h"

#define DEPTH_MAX 64

struct rivulet_stream {
	int refs;
	uint32_t depth;			/* requests in the ring */
	uint32_t oldest, in_flight;	/* place of the oldest frame that was not taken, and their number */
	struct rivulet_request *ring[DEPTH_MAX];	/* referenced */
};

/*
 * Opens an instance of the daemon for one more request. Returns 0, or the error of the daemon, which
 * is -EDQUOT where a limit of the user is reached.
 */
static int add_request(struct rivulet_stream *s, struct rivulet_model *m)
{
	struct rivulet_request *r;
	int e = rivulet_request_new(m, &r);

	if (e)
		return e;
	e = rivulet_request_prepare(r);
	if (e)
		rivulet_request_unref(r);
	else
		s->ring[s->depth++] = r;
	return e;
}

int rivulet_stream_new(struct rivulet_model *m, uint32_t depth, struct rivulet_stream **out)
{
	struct rivulet_stream *s;
	int e = 0;

	if (depth > DEPTH_MAX)
		return rvl_lib_fail(EINVAL, "%u frames in flight are more than %u", depth, DEPTH_MAX);
	s = calloc(1, sizeof(*s));
	if (!s)
		return rvl_lib_fail(ENOMEM, "out of memory");
	s->refs = 1;
	for (depth = depth ? depth : RIVULET_STREAM_DEPTH; !e && s->depth < depth;)
		e = add_request(s, m);
	if (e && (!s->depth || (e != -EDQUOT && e != -ENOMEM))) {
		rivulet_stream_unref(s);
		return e;
	}
	*out = s;
	return 0;
}

struct rivulet_stream *rivulet_stream_ref(struct rivulet_stream *s)
{
	if (s)
		s->refs++;
	return s;
}

struct rivulet_stream *rivulet_stream_unref(struct rivulet_stream *s)
{
	if (!s || --s->refs)
		return NULL;
	for (uint32_t i = 0; i < s->depth; i++)
		rivulet_request_unref(s->ring[i]);
	free(s);
	return NULL;
}

uint32_t rivulet_stream_depth(const struct rivulet_stream *s)
{
	return s->depth;
}

struct rivulet_request *rivulet_stream_request(const struct rivulet_stream *s, uint32_t place)
{
	return place < s->depth ? s->ring[place] : NULL;
}

struct rivulet_request *rivulet_stream_next(const struct rivulet_stream *s)
{
	return s->in_flight < s->depth ? s->ring[(s->oldest + s->in_flight) % s->depth] : NULL;
}

int rivulet_stream_submit(struct rivulet_stream *s, const struct rivulet_run_options *opts)
{
	struct rivulet_request *r = rivulet_stream_next(s);
	int e;

	if (!r)
		return rvl_lib_fail(EAGAIN, "%u frames are in flight: take one first", s->depth);
	e = rivulet_request_start(r, opts);
	s->in_flight += !e;
	return e;
}

int rivulet_stream_take(struct rivulet_stream *s, int timeout_ms, struct rivulet_request **frame)
{
	struct rivulet_request *r = s->ring[s->oldest];
	int e;

	*frame = NULL;
	if (!s->in_flight)
		return rvl_lib_fail(ENODATA, "no frame is in flight");
	e = rivulet_request_wait(r, timeout_ms);
	/* The run itself never ends with -EINPROGRESS, so this tells a timeout of the wait. */
	if (rivulet_request_result(r) == -EINPROGRESS)
		return e;
	s->oldest = (s->oldest + 1) % s->depth;
	s->in_flight--;
	*frame = r;
	return e;
}
