/* SPDX-License-Identifier: MIT */
/*
 * Operators that are compositions of others: those that onnxruntime's tools fuse and quantise. A row
 * gives the body as text, which becomes a FunctionProto for each call, so that the nodes of the body
 * meet the passes and kernels that they would meet unfused. The text is a list of statements
 *
 *	y, z = Op<attribute=value, ...>(x, ...);
 *
 * A value is an integer, a [list] of them, a float with a point or exponent, "a string", or @NAME, the
 * attribute of the call. An operand is a name, a [list] of integers, or a float. @NAME as the operator is the
 * string of the call's attribute; ms.Op is one of com.microsoft. Where the call lacks an operand, Op?(x, y) is a copy of the one
 * that there is, and Op!(x, y) makes nothing.
 */
#include "onnx/model.h"
#include "onnx/onnx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS "com.microsoft"
#define QUANTISED "X xs xz ys +yz"
#define Q(op) "x = DequantizeLinear(X, xs, xz); y = " op "; Y = QuantizeLinear(y, ys, yz);"

/*
 * The mask of an Attention of total positions says which of them count: one number for each sample
 * says how many, two dimensions have a number for each position of each sample, three for each query of
 * those, too. mflat has two dimensions or three, f0 is [samples, 1, queries or 1, total]. Lists of zeros
 * that are reshaped to the mask's own sizes fail if it is of other samples or positions than X.
 */
#define MASK "mshape = Shape!(mask); mrank = Shape!(mshape); lengths = Equal!(mrank, [1]); mless = Sub!(mrank, [1]);" \
	"tail = Slice!([1], mless, [1]); mdims = Concat!<axis=0>(mshape, tail); mflat = Reshape!(mask, mdims);" \
	"wide = Where!(lengths, total, [1]); mdims2 = Concat!<axis=0>([1], wide); mall = Expand!(mflat, mdims2);" \
	"mown = Concat<axis=0>([0], [1], [-1], total); f0 = Reshape!(mall, mown); f1 = Cast!<to=1>(f0);" \
	"msamples = Slice!(mshape, [0], [1]); zn = Expand([0], n); z0 = Reshape!(zn, msamples);" \
	"malls = Shape!(mall); mlast = Slice!(malls, [-1], [9]); zt = Expand([0], total); z1 = Reshape!(zt, mlast);" \
	"z2 = Reshape!(z0, [-1, 1, 1, 1]); z3 = Add!(z1, z2); z4 = Cast!<to=1>(z3); f2 = Add!(f1, z4);" \
	"ones = Greater!(f2, 0.0); length = Slice!(f2, [0], [1], [3]);" \
	"pfirst = Squeeze([0]); ppast = Squeeze(total); pstep = Squeeze([1]); places = Range(pfirst, ppast, pstep); at = Cast<to=1>(places);" \
	"less = Greater!(length, at); counts = Where!(lengths, less, ones);"

/* t: the products of Q, K and V, beside each other. */
#define ATTENTION(bias) "q, k, v = Split<axis=-1, num_outputs=3>(t);" \
	"before = Shape!<start=3, end=4>(past); fresh = Shape<start=1, end=2>(X);" \
	"total = Add?(before, fresh); n = Shape<start=0, end=1>(X);" MASK \
	"one = Cast!<to=1>(counts); g = Sub!(1.0, one); filter = Constant<value_float=@mask_filter_value>(); m = Mul!(g, filter);" bias \
	"ppk, ppv = Split!<axis=0, num_outputs=2>(past); pk = Squeeze!(ppk, [0]); pv = Squeeze!(ppv, [0]);" \
	"Y, K, V = Attention<q_num_heads=@num_heads, kv_num_heads=@num_heads, scale=@scale," \
	"is_causal=@unidirectional>(q, k, v, a, pk, pv);" \
	"uk = Unsqueeze(K, [0]); uv = Unsqueeze(V, [0]); present = Concat<axis=0>(uk, uv);"
#define COUNT_MASK "m = Cast!<to=6>(mask); c = ReduceSum!<keepdims=0>(m, [1]);" \
	"i = ReduceSum<keepdims=0>(ids, [1]); j = Sub(i, i); z = Cast<to=6>(j); index = First?(c, z);"

/* Without segments everything is in the first one. */
#define SEGMENT "none = Sub(ids, ids); of = First?(seg, none);"

/* An operator on images whose channels are the last of four dimensions, by that on channels first. */
#define FIRST "perm=[0, 3, 1, 2]"
#define LAST "perm=[0, 2, 3, 1]"
#define WINDOW "auto_pad=@auto_pad, kernel_shape=@kernel_shape, pads=@pads, strides=@strides"
#define CHANNELS_LAST(op) "x = Transpose<" FIRST ">(X); y = " op "; Y = Transpose<" LAST ">(y);"
#define QCONV(x) "QLinearConv<" WINDOW ", dilations=@dilations, group=@group>(" x ", xs, xz, w, ws, wz, ys, yz, b)"

static const struct body {
	const char *domain, *op;
	const char *in, *out;		/* names; "-": not supported, "+": must be there */
	const char *defaults;		/* of attributes: "name=value, ..." */
	int64_t opset;			/* of ai.onnx in the body */
	const char *text;
	const char *any;		/* attributes that have no meaning here, or none if NAME=0; NAME=1: the row is of calls that have it */
} bodies[] = {
	{ MS, "QLinearSigmoid", QUANTISED, "Y", "", 13, Q("Sigmoid(x)"), NULL },
	{ MS, "QLinearLeakyRelu", QUANTISED, "Y", "alpha=0.01", 13, Q("LeakyRelu<alpha=@alpha>(x)"), NULL },
	/* A body opset of 0 stands for the value of the attribute opset of the call. */
	{ MS, "QLinearSoftmax", QUANTISED, "Y", "axis=-1", 0, Q("Softmax<axis=@axis>(x)"), NULL },
	{ MS, "QLinearWhere", "c X xs xz Y ys yz zs zz", "Z", "", 13,
	  "x = DequantizeLinear(X, xs, xz); y = DequantizeLinear(Y, ys, yz); z = Where(c, x, y);"
	  "Z = QuantizeLinear(z, zs, zz);", NULL },
	{ MS, "MatMulIntegerToFloat", "A B as bs az bz b", "Y", "", 13,
	  "i = MatMulInteger(A, B, az, bz); f = Cast<to=1>(i); s = Mul(as, bs); m = Mul(f, s);"
	  "Y = Add?(m, b);", NULL },
	{ MS, "DynamicQuantizeMatMul", "A B bs bz b", "Y", "", 13,
	  "a, as, az = DynamicQuantizeLinear(A); i = MatMulInteger(a, B, az, bz); f = Cast<to=1>(i);"
	  "s = Mul(as, bs); m = Mul(f, s); Y = Add?(m, b);", NULL },
	{ MS, "Gelu", "X", "Y", "", 24, "Y = Gelu(X);", NULL },
	{ MS, "FastGelu", "X b", "Y", "", 24, "x = Add?(X, b); Y = Gelu<approximate=\"tanh\">(x);", NULL },
	{ MS, "BiasGelu", "X b", "Y", "", 24, "x = Add(X, b); Y = Gelu(x);", NULL },
	{ MS, "QuickGelu", "X", "Y", "alpha=1.702", 24, "Y = Swish<alpha=@alpha>(X);", NULL },
	{ MS, "BiasAdd", "X b s", "Y", "", 13, "x = Add(X, b); Y = Add(x, s);", NULL },
	{ MS, "SkipLayerNormalization", "X s g b c", "Y mean var sum", "epsilon=1e-12", 17,
	  "x = Add(X, s); sum = Add?(x, c);"
	  "Y, mean, var = LayerNormalization<axis=-1, epsilon=@epsilon>(sum, g, b);", NULL },
	{ MS, "SkipSimplifiedLayerNormalization", "X s g c", "Y - - sum", "epsilon=1e-12", 23,
	  "x = Add(X, s); sum = Add?(x, c);"
	  "Y = RMSNormalization<axis=-1, epsilon=@epsilon>(sum, g);", NULL },
	{ "", "SimplifiedLayerNormalization", "X g", "Y", "axis=-1, epsilon=1e-5", 23,
	  "Y = RMSNormalization<axis=@axis, epsilon=@epsilon>(X, g);", "stash_type" },
	{ MS, "EmbedLayerNormalization", "ids seg words pos segs g b mask at", "Y index sum",
	  "epsilon=1e-12", 17,
	  "w = Gather(words, ids); n = Shape<start=1, end=2>(ids); first = Slice(pos, [0], n, [0]);"
	  "placed = Gather!(pos, at); p = First?(placed, first); e = Add(w, p);" SEGMENT
	  "s = Gather!(segs, of); sum = Add?(e, s); Y = LayerNormalization<axis=-1, epsilon=@epsilon>(sum, g, b);" COUNT_MASK, NULL },
	{ MS, "QEmbedLayerNormalization",
	  "ids seg words pos segs g b mask ws ps ss gs bs wz pz sz gz bz", "Y index", "epsilon=1e-12", 17,
	  "wq = Gather(words, ids); w = DequantizeLinear(wq, ws, wz); n = Shape<start=1, end=2>(ids);"
	  "pq = Slice(pos, [0], n, [0]); p = DequantizeLinear(pq, ps, pz); e = Add(w, p);"
	  SEGMENT "sq = Gather!(segs, of); s = DequantizeLinear!(sq, ss, sz); sum = Add?(e, s);"
	  "gf = DequantizeLinear(g, gs, gz); bf = DequantizeLinear(b, bs, bz);"
	  "Y = LayerNormalization<axis=-1, epsilon=@epsilon>(sum, gf, bf);" COUNT_MASK, NULL },
	{ MS, "MultiHeadAttention", "q k v - - bias pk pv", "Y PK PV", "", 24,
	  "Y, PK, PV = Attention<q_num_heads=@num_heads, kv_num_heads=@num_heads, scale=@scale,"
	  "is_causal=@unidirectional>(q, k, v, bias, pk, pv);", "mask_filter_value" },
	{ MS, "Attention", "X w b mask past bias", "Y present", "mask_filter_value=-10000.0", 24,
	  "p = MatMul(X, w); t = Add?(p, b);" ATTENTION("a = Add?(m, bias);"), "do_rotary=0 past_present_share_buffer=0" },
	{ MS, "QAttention", "X w b xs ws mask xz wz past", "Y present", "mask_filter_value=-10000.0", 24,
	  "i = MatMulInteger(X, w, xz, wz); fi = Cast<to=1>(i); s = Mul(xs, ws); p = Mul(fi, s);"
	  "t = Add(p, b);" ATTENTION("a = Identity!(m);"), "do_rotary=0 past_present_share_buffer=0" },
	/*
	 * One position, in one dimension, is that of the first element of each sample. onnxruntime ignores the
	 * attribute scale.
	 */
	{ MS, "RotaryEmbedding", "X at cos sin", "Y", "", 24,
	  "dims = Shape(at); rank = Shape(dims); first = Equal(rank, [1]); own = Where(first, [1], dims);"
	  "at1 = Reshape(at, own); n = Shape<start=-2, end=-1>(X); z = Squeeze([0]); o = Squeeze([1]);"
	  "past = Squeeze(n); r = Range(z, past, o); at2 = Add(at1, r); at3 = Where(first, at2, at1);"
	  "b = Shape<start=0, end=1>(X); each = Concat<axis=0>(b, n); want = Where(first, each, [1]);"
	  "ids = Expand(at3, want); Y = RotaryEmbedding<interleaved=@interleaved, num_heads=@num_heads,"
	  "rotary_embedding_dim=@rotary_embedding_dim>(X, cos, sin, ids);", "scale is_packed_batching=0" },
	{ MS, "FusedGemm", "A B C", "Y", "", 13,
	  "y = Gemm<alpha=@alpha, beta=@beta, transA=@transA, transB=@transB>(A, B, C);"
	  "Y = @activation<alpha=@activation_alpha>(y);", NULL },
	{ MS, "QLinearConv", "X xs xz w ws wz ys yz b", "Y", "", 13, CHANNELS_LAST(QCONV("x")), "channels_last=1" },
	{ MS, "QLinearConv", "X xs xz w ws wz ys yz b", "Y", "", 13, "Y = " QCONV("X") ";", "channels_last=0" },
	{ MS, "QLinearAveragePool", "X xs xz ys yz", "Y", "", 13,
	  CHANNELS_LAST("ms.QLinearAveragePool<" WINDOW ", ceil_mode=@ceil_mode,"
			"count_include_pad=@count_include_pad>(x, xs, xz, ys, yz)"),
	  "channels_last=1" },
	{ MS, "QLinearGlobalAveragePool", "X xs xz ys yz", "Y", "", 13,
	  CHANNELS_LAST("ms.QLinearGlobalAveragePool(x, xs, xz, ys, yz)"), "channels_last=1" },
	{ MS, "NhwcMaxPool", "X", "Y", "", 13,
	  CHANNELS_LAST("MaxPool<" WINDOW ", ceil_mode=@ceil_mode, dilations=@dilations>(x)"), NULL },
	{ MS, "Pad", "x pads value", "y", "", 13, "y = Pad<mode=@mode>(x, pads, value);", NULL },
	{ MS, "Trilu", "x k", "y", "", 14, "y = Trilu<upper=@upper>(x, k);", NULL },
};

#define BODIES (sizeof(bodies) / sizeof(bodies[0]))
#define MAX_NAMES 32	/* of a statement or a row */
#define MAX_ABSENT 64

/* ---- messages ---- */

/* A protobuf message under construction. */
struct out {
	struct rvl_graph *g;
	uint8_t *p;
	size_t n, cap;
	bool failed;
};

static void put(struct out *o, const void *p, size_t n)
{
	if (o->n + n > o->cap) {
		size_t cap = 2 * (o->n + n) + 128;
		uint8_t *more = rvl_arena_alloc(o->g->arena, cap);

		if (!more) {
			o->failed = true;
			return;
		}
		if (o->n)
			memcpy(more, o->p, o->n);
		o->p = more;
		o->cap = cap;
	}
	if (n)
		memcpy(o->p + o->n, p, n);
	o->n += n;
}

static void put_varint(struct out *o, uint64_t v)
{
	do {
		uint8_t c = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));

		put(o, &c, 1);
		v >>= 7;
	} while (v);
}

static void put_int(struct out *o, uint32_t field, int64_t v)
{
	put_varint(o, (uint64_t)field << 3 | RVL_WIRE_VARINT);
	put_varint(o, (uint64_t)v);
}

static void put_bytes(struct out *o, uint32_t field, const void *p, size_t n)
{
	put_varint(o, (uint64_t)field << 3 | RVL_WIRE_BYTES);
	put_varint(o, n);
	put(o, p, n);
}

static void put_text(struct out *o, uint32_t field, const char *s)
{
	put_bytes(o, field, s, strlen(s));
}

static void put_float(struct out *o, uint32_t field, float v)
{
	put_varint(o, (uint64_t)field << 3 | RVL_WIRE_FIXED32);
	put(o, &v, sizeof(v));
}

static void put_message(struct out *o, uint32_t field, struct out *m)
{
	put_bytes(o, field, m->p, m->n);
	o->failed |= m->failed;
}

/* ---- text ---- */

struct writer {
	struct rvl_graph *g;
	const struct rvl_onnx_node *on;
	const char *at;			/* what is left of the text */
	struct out function;
	char absent[MAX_ABSENT][24];	/* names of operands that the call lacks */
	uint32_t n_absent, constants;
};

static void skip(struct writer *w)
{
	while (*w->at == ' ' || *w->at == ',')
		w->at++;
}

/* A word up to one of the characters that end it. */
static void word(struct writer *w, char *to, size_t size)
{
	size_t n;

	skip(w);
	n = strcspn(w->at, " ,;=<>()[]?!");
	snprintf(to, size, "%.*s", (int)n, w->at);
	w->at += n;
	skip(w);
}

static bool is_absent(const struct writer *w, const char *name)
{
	for (uint32_t i = 0; i < w->n_absent; i++)
		if (!strcmp(w->absent[i], name))
			return true;
	return false;
}

static void set_absent(struct writer *w, const char *name)
{
	if (w->n_absent < MAX_ABSENT)
		snprintf(w->absent[w->n_absent++], sizeof(w->absent[0]), "%s", name);
}

/* AttributeProto of "name=value"; @at is behind the value then. */
static void put_attr(struct writer *w, struct out *to, uint32_t field)
{
	struct out a = { .g = w->g };
	char name[40], value[40];

	word(w, name, sizeof(name));
	w->at++;
	put_text(&a, 1, name);
	if (*w->at == '[') {
		for (w->at++; *w->at != ']'; skip(w))
			put_int(&a, 8, strtoll(w->at, (char **)(uintptr_t)&w->at, 10));
		put_int(&a, 20, 7);
		w->at++;
	} else if (*w->at == '"') {
		size_t n = strcspn(w->at + 1, "\"");

		put_bytes(&a, 4, w->at + 1, n);
		put_int(&a, 20, 3);
		w->at += n + 2;
	} else {
		word(w, value, sizeof(value));
		if (value[0] == '@') {
			put_text(&a, 21, value + 1);
		} else if (strpbrk(value, ".e")) {
			put_float(&a, 2, strtof(value, NULL));
			put_int(&a, 20, 1);
		} else {
			put_int(&a, 3, strtoll(value, NULL, 10));
			put_int(&a, 20, 2);
		}
	}
	put_message(to, field, &a);
	skip(w);
}

/* A node that makes the constant which @at names; its name goes to @name. */
static void put_constant(struct writer *w, char *name, size_t size)
{
	struct out node = { .g = w->g }, a = { .g = w->g };

	snprintf(name, size, "constant%u", w->constants++);
	if (*w->at == '[') {
		put_text(&a, 1, "value_ints");
		for (w->at++; *w->at != ']'; skip(w))
			put_int(&a, 8, strtoll(w->at, (char **)(uintptr_t)&w->at, 10));
		put_int(&a, 20, 7);
		w->at++;
	} else {
		put_text(&a, 1, "value_float");
		put_float(&a, 2, strtof(w->at, (char **)(uintptr_t)&w->at));
		put_int(&a, 20, 1);
	}
	put_text(&node, 2, name);
	put_text(&node, 4, "Constant");
	put_message(&node, 5, &a);
	put_message(&w->function, 7, &node);
	skip(w);
}

struct statement {
	char out[4][24], in[MAX_NAMES][24];
	uint32_t n_out, n_in;
	char op[40];
	char mark;		/* '?', '!' or 0 */
};

static void put_node(struct writer *w, const struct statement *s, struct out *node)
{
	bool ms = !strncmp(s->op, "ms.", 3);

	for (uint32_t i = 0; i < s->n_in; i++)
		put_text(node, 1, is_absent(w, s->in[i]) ? "" : s->in[i]);
	for (uint32_t i = 0; i < s->n_out; i++)
		put_text(node, 2, s->out[i]);
	put_text(node, 4, s->op + (ms ? 3 : 0));
	if (ms)
		put_text(node, 7, MS);
	put_message(&w->function, 7, node);
}

/*
 * Writes the node of a statement. A marked statement that lacks an operand becomes a copy of the one
 * that it has, or is left out.
 */
static void end_statement(struct writer *w, struct statement *s, struct out *attrs)
{
	struct out none = { .g = w->g };
	uint32_t there = 0, last = 0;

	for (uint32_t i = 0; i < s->n_in; i++) {
		if (is_absent(w, s->in[i]))
			continue;
		there++;
		last = i;
	}
	if (s->mark && there < s->n_in && (s->mark == '!' || !there)) {
		for (uint32_t i = 0; i < s->n_out; i++)
			set_absent(w, s->out[i]);
		return;
	}
	if (!strcmp(s->op, "First") || (s->mark && there < s->n_in)) {
		if (!strcmp(s->op, "First") && !is_absent(w, s->in[0]))
			last = 0;
		memmove(s->in[0], s->in[last], sizeof(s->in[0]));
		s->n_in = 1;
		strcpy(s->op, "Identity");
		attrs = &none;
	}
	put_node(w, s, attrs);
}

static void read_op(struct writer *w, struct statement *s)
{
	const struct rvl_onnx_attr *a;

	word(w, s->op, sizeof(s->op));
	s->mark = *w->at == '?' || *w->at == '!' ? *w->at++ : 0;
	if (s->op[0] != '@')
		return;
	a = rvl_onnx_attr(w->on, s->op + 1);
	snprintf(s->op, sizeof(s->op), "%.*s", a ? (int)(a->s.len < 39 ? a->s.len : 39) : 8,
		 a && a->s.len ? (const char *)a->s.p : "Identity");
}

static void read_statement(struct writer *w)
{
	struct statement s = { .n_out = 0 };
	struct out node = { .g = w->g };

	while (*w->at != '=')
		word(w, s.out[s.n_out++], sizeof(s.out[0]));
	w->at++;
	read_op(w, &s);
	if (*w->at == '<')
		for (w->at++; *w->at != '>';)
			put_attr(w, &node, 5);
	w->at += *w->at == '>';
	for (w->at++; *w->at != ')'; s.n_in++) {
		if (*w->at == '[' || strchr("0123456789", *w->at))
			put_constant(w, s.in[s.n_in], sizeof(s.in[0]));
		else
			word(w, s.in[s.n_in], sizeof(s.in[0]));
	}
	w->at += strspn(w->at, "); ");
	end_statement(w, &s, &node);
}

/* ---- the call ---- */

/* Whether the call has the flag that the row is for, if it is for one. */
static bool has_flag(const struct body *b, const struct rvl_onnx_node *on)
{
	const char *end = b->any ? strstr(b->any, "=1") : NULL;
	const struct rvl_onnx_attr *a;
	char name[24];

	if (!end)
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)(end - b->any), b->any);
	a = rvl_onnx_attr(on, name);
	return a && a->i == 1;
}

static const struct body *find(const struct rvl_onnx_node *on)
{
	struct rvl_span domain = on->domain;

	if (rvl_span_is(domain, "ai.onnx"))
		domain.len = 0;
	for (size_t i = 0; i < BODIES; i++)
		if (rvl_span_is(on->op_type, bodies[i].op) && rvl_span_is(domain, bodies[i].domain) &&
		    has_flag(&bodies[i], on))
			return &bodies[i];
	return NULL;
}

bool rvl_onnx_has_body(const struct rvl_onnx_node *on)
{
	return find(on);
}

/* Word @i of a list separated by spaces; false behind the last. */
static bool word_at(const char *list, uint32_t i, char *to, size_t size)
{
	for (; *list; list += strspn(list, " ")) {
		size_t n = strcspn(list, " ");

		if (!i--) {
			snprintf(to, size, "%.*s", (int)n, list);
			return true;
		}
		list += n;
	}
	return false;
}

/* Whether the row knows an attribute of the call. */
static bool knows(const struct body *b, const struct rvl_onnx_attr *a)
{
	const char *const lists[] = { b->text, b->any ? b->any : "" };
	char ref[44];

	if (!b->opset && rvl_span_is(a->name, "opset"))
		return true;
	for (int i = 0; i < 2; i++) {
		size_t n = (size_t)snprintf(ref, sizeof(ref), "%s%.*s", i ? "" : "@",
					    (int)(a->name.len < 40 ? a->name.len : 40),
					    (const char *)a->name.p);
		const char *p = lists[i];

		for (; a->name.len && (p = strstr(p, ref)); p += n)
			if (strchr(" ,><", p[n]) || (i && p[n] == '=' && a->i == p[n + 1] - '0'))
				return true;
	}
	return false;
}

/* Why the body cannot stand for this call, or NULL. */
static const char *check(struct rvl_graph *g, const struct body *b, const struct rvl_onnx_node *on)
{
	char name[24];

	for (uint32_t i = 0; i < on->n_attr; i++)
		if (!knows(b, &on->attr[i]))
			return rvl_graph_printf(g, "attribute '%.*s' is not supported",
						(int)(on->attr[i].name.len < 60 ? on->attr[i].name.len : 60),
						(const char *)on->attr[i].name.p);
	for (uint32_t i = 0; i < on->n_in || word_at(b->in, i, name, sizeof(name)); i++) {
		bool there = i < on->n_in && on->in[i].len;
		bool named = word_at(b->in, i, name, sizeof(name));

		if (there && (!named || name[0] == '-'))
			return rvl_graph_printf(g, "its input %u is not supported", i);
		if (!there && named && name[0] == '+')
			return rvl_graph_printf(g, "it lacks input %u", i);
	}
	for (uint32_t i = 0; i < on->n_out; i++)
		if (on->out[i].len && (!word_at(b->out, i, name, sizeof(name)) || name[0] == '-'))
			return rvl_graph_printf(g, "its output %u is not supported", i);
	return NULL;
}

/* Formal operands, outputs that the call wants, and the defaults of attributes. */
static void write_head(struct writer *w, const struct body *b)
{
	char name[24];

	for (uint32_t i = 0; word_at(b->in, i, name, sizeof(name)); i++) {
		const char *formal = name + (name[0] == '+');

		put_text(&w->function, 4, formal);
		if (i >= w->on->n_in || !w->on->in[i].len)
			set_absent(w, formal);
	}
	for (uint32_t i = 0; i < w->on->n_out && word_at(b->out, i, name, sizeof(name)); i++)
		put_text(&w->function, 5, name);
	for (w->at = b->defaults; *w->at;)
		put_attr(w, &w->function, 11);
}

static void write_opset(struct writer *w, const struct body *b)
{
	const struct rvl_onnx_attr *a = rvl_onnx_attr(w->on, "opset");
	struct out o = { .g = w->g };

	put_text(&o, 1, "");
	put_int(&o, 2, b->opset ? b->opset : a && a->i > 0 && a->i <= RVL_ONNX_MAX_OPSET ? a->i : 13);
	put_message(&w->function, 9, &o);
}

int rvl_onnx_body(struct rvl_graph *g, const struct rvl_onnx_model *m,
		  const struct rvl_onnx_node *on, const char **why, struct rvl_err *err)
{
	const struct body *b = find(on);
	struct writer *w = malloc(sizeof(*w));
	struct rvl_onnx_function fn = { .opset = 0 };
	struct rvl_onnx_model in = *m;
	struct rvl_field f;
	int rc;

	*why = w ? check(g, b, on) : NULL;
	if (*why || !w) {
		free(w);
		return *why ? 0 : rvl_fail(err, -ENOMEM, "no memory for a body");
	}
	*w = (struct writer) { .g = g, .on = on, .function = { .g = g } };
	put_bytes(&w->function, 1, on->op_type.p, on->op_type.len);
	write_head(w, b);
	write_opset(w, b);
	for (w->at = b->text; *w->at;)
		read_statement(w);
	f = (struct rvl_field) { .wire = RVL_WIRE_BYTES, .s = { w->function.p, w->function.n } };
	rc = w->function.failed ? rvl_fail(err, -ENOMEM, "no memory for a body") : 0;
	free(w);
	in.file = rvl_msg_file(f.s.p, f.s.len, "FunctionProto", err);
	if (!rc)
		rc = rvl_onnx_scan_function(g, &in.file, &f, &fn);
	return rc ? rc : rvl_onnx_call(g, &in, on, &fn, err);
}

const char *rvl_onnx_body_op(size_t i, const char **domain)
{
	if (i >= BODIES)
		return NULL;
	*domain = *bodies[i].domain ? bodies[i].domain : "ai.onnx";
	return bodies[i].op;
}
