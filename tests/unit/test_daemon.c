// SPDX-License-Identifier: MIT
/* rivuletd end to end on the linked model: results, several clients, limits, hostile clients. */
#include <json-c/json.h>

#include "daemon_rig.h"

#include "chance.h"
#include "rivulet_compiler.h"
#include "rivulet_crc32c.h"
#include "suite.h"

#define PIXELS (28 * 28)
#define SCORES 10

static uint64_t seed = 0xa4093822299f31d0ull;

static uint32_t chance(uint32_t below)
{
	return (uint32_t)((xorshift(&seed) >> 16) % below);
}

static void picture(float *p, uint32_t number)
{
	seed = 0x9e3779b97f4a7c15ull * (number + 1);
	for (int i = 0; i < PIXELS; i++)
		p[i] = (float)chance(256) / 255.0f;
}

/* ---- reference results of the runtime without a daemon ---- */

struct reference {
	struct rivulet_workers *pool;
	struct rivulet_runtime *rt;
	struct rivulet_image *img;
	struct rivulet_exec *x;
};

static void reference_open(struct reference *r, const char *path)
{
	struct rivulet_runtime_error err;
	struct rivulet_blob prog = { .data = NULL };
	struct rivulet_board board;
	struct rvl_err why;
	size_t size;
	void *onnx = read_file(path, &size);

	ck_assert_int_eq(rivulet_board_load(&board, "zu3eg-64", err.text, sizeof(err.text)), 0);
	ck_assert_msg(!rivulet_compile(onnx, size, &board, NULL, &prog, NULL, &why), "%s", why.msg);
	ck_assert_int_eq(rivulet_workers_new(1, &r->pool), 0);
	ck_assert_int_eq(rivulet_runtime_new_sim(&board, r->pool, &r->rt, &err), 0);
	ck_assert_int_eq(rivulet_image_load(r->rt, prog.data, prog.size, &r->img, &err), 0);
	ck_assert_int_eq(rivulet_exec_new(r->img, &r->x, &err), 0);
	rivulet_blob_free(&prog);
	free(onnx);
}

static void reference_run(struct reference *r, float *in, float *out)
{
	struct rivulet_runtime_error err;

	ck_assert_int_eq(rivulet_exec_bind_memory(r->x, 0, in, PIXELS * sizeof(*in), &err), 0);
	ck_assert_int_eq(rivulet_exec_bind_memory(r->x, 1, out, SCORES * sizeof(*out), &err), 0);
	ck_assert_int_eq(rivulet_exec_start(r->x, NULL, &err), 0);
	ck_assert_int_eq(rivulet_exec_wait(r->x, -1), 0);
}

static void reference_close(struct reference *r)
{
	rivulet_exec_unref(r->x);
	rivulet_image_unref(r->img);
	rivulet_runtime_unref(r->rt);
	rivulet_workers_unref(r->pool);
}

/* ---- clients of the library ---- */

struct user {
	struct rivulet_client *c;
	struct rivulet_model *m;
	struct rivulet_request *r;
	float in[PIXELS], out[SCORES];
};

static void user_open(struct user *u, const char *path)
{
	ck_assert_msg(!rivulet_open(NULL, &u->c), "%s", rivulet_last_error());
	ck_assert_msg(!rivulet_model_load(u->c, path, NULL, &u->m), "%s", rivulet_last_error());
	ck_assert_msg(!rivulet_request_new(u->m, &u->r), "%s", rivulet_last_error());
	ck_assert_int_eq(rivulet_bind_memory(u->r, 0, u->in, sizeof(u->in)), 0);
	ck_assert_int_eq(rivulet_bind_memory(u->r, 1, u->out, sizeof(u->out)), 0);
}

static void user_close(struct user *u)
{
	rivulet_request_unref(u->r);
	rivulet_model_unref(u->m);
	rivulet_client_unref(u->c);
}

/*
 * Proves that a result of the daemon equals the runtime's bit for bit, and that statistics come
 * with it.
 */
START_TEST(same_answer)
{
	const char *path = _i ? "models/resnet.onnx" : "models/lenet.onnx";
	struct rivulet_run_stats stats = { .size = sizeof(stats) };
	struct reference ref;
	float want[SCORES];
	struct user u;

	reference_open(&ref, path);
	user_open(&u, path);
	for (uint32_t i = 0; i < 5; i++) {
		picture(u.in, i);
		reference_run(&ref, u.in, want);
		memset(u.out, 0, sizeof(u.out));
		ck_assert_msg(!rivulet_request_run(u.r, NULL), "%s", rivulet_request_error(u.r));
		ck_assert_mem_eq(want, u.out, sizeof(want));
	}
	ck_assert_int_eq(rivulet_request_stats(u.r, &stats), 0);
	ck_assert_uint_gt(stats.cycles, 1000);
	ck_assert_uint_gt(stats.energy_pj, 0);
	ck_assert_uint_gt(stats.npu_steps, 0);
	user_close(&u);
	reference_close(&ref);
}
END_TEST

/*
 * One of several concurrent clients: loads, runs and compares. The exit status is 0 if all results
 * are right.
 */
static void busy_client(const char *path, float want[][SCORES], int runs)
{
	struct user u;

	user_open(&u, path);
	for (int i = 0; i < runs; i++) {
		picture(u.in, (uint32_t)i);
		if (rivulet_request_run(u.r, NULL) || memcmp(u.out, want[i], sizeof(want[i])))
			_exit(1);
	}
	user_close(&u);
	_exit(0);
}

/* Proves that concurrent clients each get their own results, and that a model is compiled once. */
START_TEST(several_clients)
{
	static const char *const path[] = { "models/lenet.onnx", "models/resnet.onnx" };
	static float want[2][6][SCORES];
	struct reference ref;
	float in[PIXELS];
	pid_t pid[6];
	int status;

	for (int k = 0; k < 2; k++) {
		reference_open(&ref, path[k]);
		for (int i = 0; i < 6; i++) {
			picture(in, (uint32_t)i);
			reference_run(&ref, in, want[k][i]);
		}
		reference_close(&ref);
	}
	for (int k = 0; k < 6; k++) {
		pid[k] = fork();
		if (!pid[k])
			busy_client(path[k % 2], want[k % 2], 6);
	}
	for (int k = 0; k < 6; k++) {
		ck_assert_int_eq(waitpid(pid[k], &status, 0), pid[k]);
		ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "client %d: 0x%x", k,
			      status);
	}
	ck_assert_uint_eq(status_number("\"compiler\"", "compiled"), 2);
	ck_assert_uint_eq(status_number("\"cache\"", "hits"), 4);
	ck_assert_uint_eq(status_number("\"scheduler\"", "runs"), 36);
	ck_assert_uint_eq(status_number("\"scheduler\"", "failed"), 0);
	/* When all clients are gone, nothing is charged. */
	ck_assert_uint_eq(status_number("\"users\"", "models"), 0);
	rig_settle_charges();
}
END_TEST

/* ---- clients that encode packets ---- */

/*
 * Proves the negotiation of HELLO: with a client that accepts a range of versions including the
 * daemon's, and with one that accepts only newer ones.
 */
START_TEST(versions)
{
	union rivulet_packet p;
	int sock = raw_connect();

	raw_init(&p, RIVULET_MSG_HELLO);
	p.hello.min_version = 0;
	p.hello.max_version = 99;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
	ck_assert_uint_eq(p.hello_reply.version, RIVULET_PROTO_MAX);
	ck_assert_str_eq(p.hello_reply.board, "zu3eg-64");
	ck_assert_uint_eq(p.hello_reply.device_state, RIVULET_DEVICE_PRESENT);
	close(sock);
	sock = raw_connect();
	raw_init(&p, RIVULET_MSG_HELLO);
	p.hello.min_version = 2;
	p.hello.max_version = 3;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), -EPROTONOSUPPORT);
	ck_assert_ptr_nonnull(strstr(p.error.text, "versions 2 to 3"));
	ck_assert_int_eq(raw_recv(sock, &p, NULL), 0);
	close(sock);
}
END_TEST

/* Proves the answer to TENSOR, and that ids of other connections and unknown ids are refused. */
START_TEST(tensors)
{
	union rivulet_packet p;
	struct ready r;
	int other = raw_open();

	make_ready(&r);
	raw_init(&p, RIVULET_MSG_TENSOR);
	p.tensor.model = r.model;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), 0);
	ck_assert_str_eq(p.tensor_reply.name, "image");
	ck_assert_uint_eq(p.tensor_reply.dtype, RIVULET_F32);
	ck_assert_uint_eq(p.tensor_reply.ndim, 4);
	ck_assert_uint_eq(p.tensor_reply.dim[3], 28);
	ck_assert_uint_eq(p.tensor_reply.size, PIXELS * sizeof(float));
	raw_init(&p, RIVULET_MSG_TENSOR);
	p.tensor.model = r.model;
	p.tensor.index = 1;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -ERANGE);
	raw_init(&p, RIVULET_MSG_TENSOR);
	p.tensor.model = r.model;
	p.tensor.dir = 2;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -ERANGE);
	raw_init(&p, RIVULET_MSG_TENSOR);
	p.tensor.model = r.model;
	ck_assert_int_eq(raw_call(other, &p, -1, NULL), -ENOENT);
	raw_init(&p, RIVULET_MSG_OPEN);
	p.model.model = r.model + 100;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -ENOENT);
	init_run(&p, r.instance);
	ck_assert_int_eq(raw_call(other, &p, -1, NULL), -ENOENT);
	raw_init(&p, RIVULET_MSG_CLOSE);
	p.instance.instance = r.instance;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), 0);
	init_run(&p, r.instance);
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -ENOENT);
	raw_init(&p, RIVULET_MSG_UNLOAD);
	p.model.model = r.model;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), 0);
	ck_assert_uint_eq(status_number("\"users\"", "bytes"), 0);
}
END_TEST

/*
 * Proves that the memfd of a program is sealed, that the program can be loaded again, and that a
 * damaged one is refused.
 */
START_TEST(program_files)
{
	union rivulet_packet p;
	size_t size, onnx_size;
	void *onnx = read_file("models/lenet.onnx", &onnx_size);
	int sock = raw_open(), fd = -1, seals;
	uint8_t hash[32];
	char *copy;

	ck_assert_int_eq(raw_load(sock, onnx, onnx_size, RIVULET_LOAD_WANT_FD, &p, &fd), 0);
	memcpy(hash, p.load_reply.hash, sizeof(hash));
	size = p.load_reply.program_size;
	seals = fcntl(fd, F_GET_SEALS);
	ck_assert_int_eq(seals, MODEL_SEALS | F_SEAL_SEAL);
	ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	copy = malloc(size);
	ck_assert_int_eq(pread(fd, copy, size, 0), size);
	ck_assert_mem_eq(((struct rivulet_program *)copy)->model_hash, hash, 32);
	ck_assert_msg(!raw_load(sock, copy, size, RIVULET_LOAD_PROGRAM, &p, NULL), "%s",
		      p.error.text);
	ck_assert_uint_eq(p.load_reply.program_size, size);
	copy[size / 2] ^= 1;
	ck_assert_int_eq(raw_load(sock, copy, size, RIVULET_LOAD_PROGRAM, &p, NULL), -EINVAL);
	copy[size / 2] ^= 1;
	ck_assert_int_eq(raw_load(sock, copy, size - 1, RIVULET_LOAD_PROGRAM, &p, NULL), -EINVAL);
	ck_assert_int_eq(raw_load(sock, onnx, onnx_size, RIVULET_LOAD_PROGRAM, &p, NULL), -EINVAL);
	close(fd);
	free(copy);
	free(onnx);
}
END_TEST

/* Changes words of the parts that the daemon interprets, and corrects the checksum. */
static void damage(char *copy, size_t size)
{
	static const uint32_t words[] = { 0, 1, 2, 7, 255, 65536, 0x7fffffff, 0x80000000, ~0u };
	struct rivulet_program *p = (struct rivulet_program *)copy;
	struct { uint64_t at, size; } part[] = {
		{ 0, sizeof(*p) },
		{ p->tensors_off, p->tensors * sizeof(struct rivulet_tensor) },
		{ p->steps_off, p->steps * sizeof(struct rivulet_step) },
		{ p->params_off, p->params_size },
		{ p->params_off, p->params_size },
		{ p->cmd_off, p->cmd_size },
	};

	for (uint32_t n = 1 + chance(3); n; n--) {
		size_t k = chance(ARRAY_SIZE(part)), at;
		uint32_t word = words[chance(ARRAY_SIZE(words))];

		if (part[k].size < 8)
			continue;
		at = part[k].at + chance((uint32_t)part[k].size - 4);
		if (chance(2))
			memcpy(copy + (at & ~3ull), &word, sizeof(word));
		else
			copy[at] ^= (char)(1u << chance(8));
	}
	p->size = size;
	p->crc = 0;
	p->crc = rivulet_crc32c(0, copy, size);
}

/* Uses a program as far as the daemon allows. Returns whether it ran without an error. */
static bool use_program(int sock, const char *copy, size_t size, int memory)
{
	union rivulet_packet p;
	uint32_t model, instance;
	bool ran = false;

	if (raw_load(sock, copy, size, RIVULET_LOAD_PROGRAM, &p, NULL))
		return false;
	model = p.load_reply.model;
	raw_init(&p, RIVULET_MSG_OPEN);
	p.model.model = model;
	if (!raw_call(sock, &p, -1, NULL)) {
		instance = p.instance.instance;
		if (!bind_fd(sock, instance, RIVULET_DIR_INPUT, memory, 0, 65536) &&
		    !bind_fd(sock, instance, RIVULET_DIR_OUTPUT, memory, 65536, 65536)) {
			init_run(&p, instance);
			ran = !raw_call(sock, &p, -1, NULL);
		}
	}
	raw_init(&p, RIVULET_MSG_UNLOAD);
	p.model.model = model;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
	return ran;
}

/* Models on the NPU, and on the CPU only, where steps run in the daemon's own memory. */
static const struct {
	const char *path;
	bool cpu_only;
} sources[] = {
	{ "models/lenet.onnx", false },
	{ "models/lenet.onnx", true },
	{ "models/resnet.onnx", true },
};

static void compile_source(int i, struct rivulet_blob *prog)
{
	struct rivulet_compile_options opt = { .cpu_only = sources[i].cpu_only };
	struct rivulet_board board;
	struct rvl_err why;
	size_t size;
	void *onnx = read_file(sources[i].path, &size);

	ck_assert_int_eq(rivulet_board_load(&board, "zu3eg-64", why.msg, sizeof(why.msg)), 0);
	ck_assert_msg(!rivulet_compile(onnx, size, &board, &opt, prog, NULL, &why), "%s", why.msg);
	free(onnx);
}

/* Proves that a damaged program file with a valid checksum cannot crash the daemon that runs it. */
START_TEST(hostile_programs)
{
	const char *env = getenv("RIG_CASES");	/* more cases, set by hand */
	int cases = env ? atoi(env) : random_cases(150), ran = 0;
	int sock = raw_open(), bystander = raw_open();
	int memory = memfd_of(NULL, 131072, F_SEAL_SHRINK);
	struct rivulet_blob good = { .data = NULL };
	char *copy;

	compile_source(_i, &good);
	copy = malloc(good.size);
	ck_assert(use_program(sock, good.data, good.size, memory));
	if (env)
		seed = strtoull(getenv("RIG_SEED") ?: "1", NULL, 0) * 0x9e3779b97f4a7c15ull;
	for (int i = 0; i < cases; i++) {
		memcpy(copy, good.data, good.size);
		damage(copy, good.size);
		ran += use_program(sock, copy, good.size, memory);
		ck_assert_int_eq(raw_ping(bystander), 0);
	}
	/* Some damage is harmless, which shows that the test reaches the execution of steps. */
	ck_assert_int_gt(ran, cases / 50);
	ck_assert_int_lt(ran, cases * 9 / 10);
	free(copy);
	rivulet_blob_free(&good);
}
END_TEST

/*
 * Proves that BIND accepts only memory that is safe for the daemon, with an errno for every other
 * kind.
 */
START_TEST(bad_memory)
{
	int pipes[2], fd;
	struct ready r;
	char path[] = "/tmp/rivulet-bind-XXXXXX";

	make_ready(&r);
	ck_assert_int_eq(pipe(pipes), 0);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 0, pipes[0], 0, 4096), -EPERM);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 0, r.sock, 0, 4096), -EPERM);
	fd = open("/dev/zero", O_RDWR);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 0, fd, 0, 4096), -EPERM);
	close(fd);
	fd = mkstemp(path);
	unlink(path);
	ck_assert_int_eq(ftruncate(fd, 8192), 0);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 0, fd, 0, 4096), -EPERM);
	close(fd);
	fd = memfd_of(NULL, 8192, 0);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 0, fd, 0, 4096), -EPERM);
	close(fd);
	fd = memfd_of(NULL, 8192, F_SEAL_SHRINK);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 0, fd, 0, 100), -EINVAL);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 0, fd, 8, 4096), -EINVAL);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 0, fd, 4160, 4096), -EINVAL);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 0, fd, UINT64_MAX - 63, 4096), -EINVAL);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 0, fd, 0, UINT64_MAX), -EINVAL);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 2, fd, 0, 4096), -ERANGE);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 0, fd, 4096, 4096), 0);
	close(fd);
	/* An output must be writable: neither the descriptor nor a seal may prevent it. */
	fd = memfd_of(NULL, 4096, MODEL_SEALS);
	ck_assert_int_lt(bind_fd(r.sock, r.instance, 1, fd, 0, 4096), 0);
	close(fd);
	fd = memfd_of(NULL, 4096, F_SEAL_SHRINK);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, 1, open(path, O_RDONLY), 0, 4096), -EACCES);
	ck_assert_int_eq(raw_ping(r.sock), 0);
}
END_TEST

/* Proves that LOAD accepts only a sealed memfd of the size in the request, within the limit. */
START_TEST(bad_models)
{
	static const unsigned int seals[] = { 0, F_SEAL_SHRINK | F_SEAL_GROW,
					      F_SEAL_WRITE | F_SEAL_GROW,
					      F_SEAL_SHRINK | F_SEAL_WRITE };
	int sock = raw_open(), fd;
	union rivulet_packet p;

	for (size_t i = 0; i < ARRAY_SIZE(seals); i++) {
		fd = memfd_of("x", 1, seals[i]);
		raw_init(&p, RIVULET_MSG_LOAD);
		p.load.size = 1;
		ck_assert_int_eq(raw_call(sock, &p, fd, NULL), -EPERM);
		close(fd);
	}
	fd = memfd_of("xy", 2, MODEL_SEALS);
	raw_init(&p, RIVULET_MSG_LOAD);
	p.load.size = 3;
	ck_assert_int_eq(raw_call(sock, &p, fd, NULL), -EINVAL);
	raw_init(&p, RIVULET_MSG_LOAD);
	ck_assert_int_eq(raw_call(sock, &p, fd, NULL), -EINVAL);
	raw_init(&p, RIVULET_MSG_LOAD);
	p.load.size = 2;
	p.load.flags = 0x80;
	ck_assert_int_eq(raw_call(sock, &p, fd, NULL), -EINVAL);
	raw_init(&p, RIVULET_MSG_LOAD);
	p.load.size = 1ull << 40;
	ck_assert_int_eq(raw_call(sock, &p, fd, NULL), -E2BIG);
	ck_assert_ptr_nonnull(strstr(p.error.text, "ModelSizeMax"));
	raw_init(&p, RIVULET_MSG_LOAD);
	p.load.size = 2;
	p.load.rsvd[3] = 1;
	ck_assert_int_eq(raw_call(sock, &p, fd, NULL), -EINVAL);
	close(fd);
	ck_assert_int_eq(raw_load(sock, "this is no model", 16, 0, &p, NULL), -EBADMSG);
	ck_assert_int_gt(strlen(p.error.text), 5);
	ck_assert_int_eq(raw_ping(sock), 0);
}
END_TEST

/* Proves that a truncated or damaged model gives its owner one error and has no other effect. */
START_TEST(damaged_models)
{
	int sock = raw_open(), bystander = raw_open(), refused = 0;
	union rivulet_packet p;
	size_t size;
	char *onnx = read_file("models/lenet.onnx", &size);
	char *copy = malloc(size);

	for (int i = 0; i < 60; i++) {
		size_t len = i % 2 ? size : chance((uint32_t)size) + 1;
		int r;

		memcpy(copy, onnx, size);
		for (int k = 0; i % 2 && k < 4; k++)
			copy[chance((uint32_t)(k % 2 ? size : 600))] ^= (char)(1 << chance(8));
		r = raw_load(sock, copy, len, 0, &p, NULL);
		if (r) {
			refused++;
			ck_assert_msg(p.error.text[0], "an error without a word");
		} else {
			uint32_t model = p.load_reply.model;

			raw_init(&p, RIVULET_MSG_UNLOAD);
			p.model.model = model;
			ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
		}
		ck_assert_int_eq(raw_ping(bystander), 0);
	}
	ck_assert_int_gt(refused, 30);
	ck_assert_uint_eq(status_number("\"compiler\"", "died"), 0);
	free(onnx);
	free(copy);
}
END_TEST

/* Violates the protocol in the way of number @kind. The daemon must close the connection. */
static void misbehave(int sock, int kind)
{
	union rivulet_packet p;
	static char big[8192];
	int fds[40];

	for (int i = 0; i < 40; i++)
		fds[i] = sock;
	raw_init(&p, RIVULET_MSG_PING);
	switch (kind) {
	case 0:
		raw_send(sock, &p, 3, NULL, 0);
		break;
	case 1:
		raw_send(sock, big, sizeof(big), NULL, 0);
		break;
	case 2:
		raw_send(sock, &p, p.h.length, fds, 1);
		break;
	case 3:
		raw_send(sock, &p, p.h.length, fds, 40);
		break;
	case 4:
		p.h.length = 1u << 31;
		raw_send(sock, &p, 16, NULL, 0);
		break;
	case 5:
		p.h.type = 0x1234;
		raw_send(sock, &p, 16, NULL, 0);
		break;
	case 6:
		raw_init(&p, RIVULET_MSG_HELLO);
		raw_send(sock, &p, p.h.length, NULL, 0);
		break;
	case 7:
		raw_init(&p, RIVULET_MSG_LOAD);
		raw_send(sock, &p, p.h.length, NULL, 0);
		break;
	case 8:
		raw_init(&p, RIVULET_MSG_BIND);
		raw_send(sock, &p, p.h.length, fds, 2);
		break;
	case 9:
		p.h.type |= RIVULET_REPLY;
		raw_send(sock, &p, 16, NULL, 0);
		break;
	default:
		p.h.serial = 0;
		raw_send(sock, &p, 16, NULL, 0);
	}
}

/*
 * Proves that a violation ends its own connection with an ERROR, leaks nothing and does not affect
 * other clients.
 */
START_TEST(broken_messages)
{
	int bystander = raw_open(), before;
	union rivulet_packet p;

	/* The user's receiver, which the daemon starts when it is needed, belongs to what is there before. */
	load_lenet(bystander);
	before = rig_quiet_fds();
	for (int i = 0; i < 110; i++) {
		int sock = raw_open();

		misbehave(sock, i % 11);
		ck_assert_int_gt(raw_recv(sock, &p, NULL), 0);
		ck_assert_uint_eq(p.h.type, RIVULET_MSG_ERROR);
		ck_assert_uint_eq(p.h.serial, 0);
		ck_assert_int_eq(p.h.error, -EPROTO);
		ck_assert_int_eq(raw_recv(sock, &p, NULL), 0);
		close(sock);
		ck_assert_int_eq(raw_ping(bystander), 0);
	}
	ck_assert_uint_eq(status_number("\"connections\"", "violations"), 110);
	rig_settle(before);
}
END_TEST

/* Returns a random request. In the table, pairs of request and reply precede the events. */
static const struct rivulet_proto_info *random_request(void)
{
	int n = 0;

	while (rivulet_proto_list(n) && rivulet_proto_list(n + 1) &&
	       rivulet_proto_list(n + 1)->type == (rivulet_proto_list(n)->type | RIVULET_REPLY))
		n += 2;
	ck_assert_int_gt(n, 0);
	return rivulet_proto_list((int)chance((uint32_t)n / 2) * 2);
}

/* Proves that random packets end at most their own connection. */
START_TEST(random_packets)
{
	uint64_t deadline = rvl_now() + 60 * NSEC_PER_SEC;
	int bystander = raw_open();

	for (int i = 0; i < 400; i++) {
		int sock = raw_open_in_time(), fd = memfd_of(NULL, 64, F_SEAL_SHRINK);
		union rivulet_packet p;
		const struct rivulet_proto_info *info;
		unsigned char raw[sizeof(p)];

		for (int k = 0; k < 6; k++) {
			ssize_t n;

			info = random_request();
			raw_init(&p, info->type);
			memcpy(raw, &p, sizeof(raw));
			for (uint32_t j = chance(6); j; j--)
				raw[chance(info->size)] = (unsigned char)chance(256);
			n = raw_send(sock, raw, chance(10) ? info->size : chance(400) + 1, &fd,
				     chance(4) ? info->max_fds : 1 - info->max_fds);
			if (n < 0)
				break;
		}
		close(fd);
		close(sock);
		if (i % 20 == 0)
			ck_assert_int_eq(raw_ping(bystander), 0);
	}
	ck_assert_int_eq(raw_ping(bystander), 0);
	/* Most packets were invalid. The daemon handles the last of them asynchronously. */
	close(raw_open_in_time());
	while (status_number("\"connections\"", "violations") < 200)
		ck_assert_uint_lt(rvl_now(), deadline);
}
END_TEST

/*
 * Proves that a client that does not read its answers delays only itself, and gets every answer
 * later.
 */
START_TEST(flood)
{
	int sock = raw_open(), bystander = raw_open(), sent = 0;
	union rivulet_packet p;
	uint32_t serial = 0;

	fcntl(sock, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 20000; i++) {
		rivulet_proto_init(&p, RIVULET_MSG_PING, 1, (uint32_t)i + 1);
		if (raw_send(sock, &p, p.h.length, NULL, 0) < 0) {
			if (i - sent > 50)
				break;
			ck_assert_int_eq(raw_ping(bystander), 0);
			i--;
			sent--;
			if (sent < -2000)
				break;
			continue;
		}
		serial = (uint32_t)i + 1;
	}
	ck_assert_int_eq(raw_ping(bystander), 0);
	for (uint32_t i = 1; i <= serial; i++) {
		ck_assert_int_gt(raw_recv(sock, &p, NULL), 0);
		ck_assert_uint_eq(p.h.serial, i);
	}
	ck_assert_uint_gt(serial, 100);
}
END_TEST

/*
 * Proves the errors of RUN: unbound tensors, invalid fields, a deadline that cannot be met, a
 * privileged priority.
 */
START_TEST(bad_runs)
{
	union rivulet_packet p;
	struct ready r;
	uint32_t unbound;

	make_ready(&r);
	unbound = open_instance(r.sock, r.model);
	init_run(&p, unbound);
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -EINVAL);
	ck_assert_str_eq(p.error.text, "input \"image\" is not bound");
	ck_assert_int_eq(bind_fd(r.sock, unbound, 0, r.in, 0, 4096), 0);
	init_run(&p, unbound);
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -EINVAL);
	ck_assert_str_eq(p.error.text, "output \"scores\" is not bound");
	init_run(&p, r.instance);
	p.run.flags = 2;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -EINVAL);
	init_run(&p, r.instance);
	p.run.priority = RIVULET_PRIOS;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -EINVAL);
	init_run(&p, r.instance);
	p.run.min_accuracy = 1000001;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -EINVAL);
	init_run(&p, r.instance);
	p.run.flags = RIVULET_RUN_HARD;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -EINVAL);
	init_run(&p, r.instance);
	p.run.flags = RIVULET_RUN_HARD;
	p.run.deadline = rvl_now() + 10;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -ETIME);
	ck_assert_ptr_nonnull(strstr(p.error.text, "after its deadline"));
	init_run(&p, r.instance);
	p.run.priority = RIVULET_PRIO_HIGH;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -EPERM);
	/* A run that misses a soft deadline succeeds and is marked late. */
	init_run(&p, r.instance);
	p.run.deadline = rvl_now() + 10;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), 0);
	ck_assert_uint_eq(p.run_reply.flags & RIVULET_RAN_LATE, RIVULET_RAN_LATE);
	ck_assert_uint_gt(p.run_reply.cycles, 1000);
	init_run(&p, r.instance);
	p.run.flags = RIVULET_RUN_HARD;
	p.run.deadline = rvl_now() + 100 * NSEC_PER_SEC;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), 0);
	ck_assert_uint_eq(p.run_reply.flags & RIVULET_RAN_LATE, 0);
	ck_assert_uint_eq(status_number("\"scheduler\"", "late"), 1);
	ck_assert_uint_eq(status_number("\"scheduler\"", "runs"), 2);
	ck_assert_uint_eq(status_number("\"scheduler\"", "refused"), 1);
}
END_TEST

/* Receives packets until each of @n serials has its answer. @result gets the errno of each. */
static void collect(int sock, const uint32_t *serial, int *result, int n)
{
	union rivulet_packet p;
	int left = n;

	for (int i = 0; i < n; i++)
		result[i] = 1;
	while (left) {
		ck_assert_int_gt(raw_recv(sock, &p, NULL), 0);
		for (int i = 0; i < n; i++)
			if (p.h.serial == serial[i]) {
				ck_assert_int_eq(result[i], 1);
				result[i] = p.h.type == RIVULET_MSG_ERROR ? p.h.error : 0;
				left--;
			}
	}
}

/*
 * Proves that an instance has at most one run in flight, and that CANCEL, CLOSE and UNLOAD end
 * queued runs.
 */
START_TEST(cancel)
{
	enum { N = 8 };
	uint32_t serial[N + 3];
	uint32_t instance[N];
	int result[N + 3];
	union rivulet_packet p;
	struct ready r;

	make_ready(&r);
	for (int i = 0; i < N; i++) {
		instance[i] = open_instance(r.sock, r.model);
		ck_assert_int_eq(bind_fd(r.sock, instance[i], 0, r.in, 0, 4096), 0);
		ck_assert_int_eq(bind_fd(r.sock, instance[i], 1, r.out, 0, 4096), 0);
	}
	/*
	 * The daemon receives all requests in one batch, so that the runs are queued when CANCEL
	 * and CLOSE arrive.
	 */
	rig_hold();
	for (int i = 0; i < N; i++) {
		init_run(&p, instance[i]);
		serial[i] = p.h.serial;
		raw_send(r.sock, &p, p.h.length, NULL, 0);
	}
	raw_init(&p, RIVULET_MSG_CANCEL);
	p.cancel.run = serial[N - 1];
	serial[N] = p.h.serial;
	raw_send(r.sock, &p, p.h.length, NULL, 0);
	raw_init(&p, RIVULET_MSG_CLOSE);
	p.instance.instance = instance[N - 2];
	serial[N + 1] = p.h.serial;
	raw_send(r.sock, &p, p.h.length, NULL, 0);
	init_run(&p, instance[N - 3]);
	serial[N + 2] = p.h.serial;
	raw_send(r.sock, &p, p.h.length, NULL, 0);
	_Static_assert(N + 3 <= RIG_TURN, "more than the daemon takes in at once");
	rig_go();
	collect(r.sock, serial, result, N + 3);
	for (int i = 0; i < N - 2; i++)
		ck_assert_int_eq(result[i], 0);
	ck_assert_int_eq(result[N - 2], -ECANCELED);
	ck_assert_int_eq(result[N - 1], -ECANCELED);
	ck_assert_int_eq(result[N], 0);
	ck_assert_int_eq(result[N + 1], 0);
	ck_assert_int_eq(result[N + 2], -EBUSY);
	raw_init(&p, RIVULET_MSG_CANCEL);
	p.cancel.run = serial[0];
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -ENOENT);
	ck_assert_uint_eq(status_number("\"scheduler\"", "cancelled"), 2);
}
END_TEST

/* Proves that clients that die with runs and loads in flight leave nothing behind. */
START_TEST(clients_die)
{
	int bystander = raw_open(), before;
	uint64_t deadline = rvl_now() + 60 * NSEC_PER_SEC;
	struct ready warm;

	/*
	 * The first load leaves a program in the cache and a timer in the event loop, so it
	 * precedes the count.
	 */
	make_ready(&warm);
	close(warm.sock);
	raw_barrier(bystander);
	before = rig_quiet_fds();
	for (int i = 0; i < 6; i++) {
		pid_t pid = fork();
		struct ready r;
		union rivulet_packet p;

		if (pid) {
			ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
			ck_assert_int_eq(raw_ping(bystander), 0);
			continue;
		}
		if (i % 2) {
			make_ready(&r);
			init_run(&p, r.instance);
		} else {
			r.sock = raw_open();
			raw_init(&p, RIVULET_MSG_LOAD);
			p.load.size = 1000;
			r.in = memfd_of(NULL, 1000, MODEL_SEALS);
			raw_send(r.sock, &p, p.h.length, &r.in, 1);
			_exit(0);
		}
		raw_send(r.sock, &p, p.h.length, NULL, 0);
		_exit(0);
	}
	while (status_number("\"users\"", "bytes") || status_number("\"users\"", "compiles"))
		ck_assert_uint_lt(rvl_now(), deadline);
	ck_assert_uint_eq(status_number("\"scheduler\"", "queued"), 0);
	rig_settle(before);
}
END_TEST

static void small_limits(void)
{
	rig_start("[Limits]\nSessionsPerUser=4\nModelsPerUser=2\nInstancesPerUser=2\n"
		  "RunsPerUser=1\nMemoryPerUser=2M\nCompilesPerUser=1\nModelSizeMax=100K\n"
		  "[Scheduler]\nParallelRuns=1\n");
}

/* Proves each limit of a user, and that its error names the key. */
START_TEST(limits)
{
	int sock[4], result[2], fd;
	uint32_t instance[2], serial[2];
	union rivulet_packet p;
	struct ready r;
	size_t size;
	char *onnx = read_file("models/lenet.onnx", &size);

	make_ready(&r);
	load_lenet(r.sock);
	ck_assert_int_eq(raw_load(r.sock, onnx, size, 0, &p, NULL), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(p.error.text, "ModelsPerUser=2"));
	instance[0] = r.instance;
	instance[1] = open_instance(r.sock, r.model);
	raw_init(&p, RIVULET_MSG_OPEN);
	p.model.model = r.model;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(p.error.text, "InstancesPerUser=2"));
	fd = memfd_of(NULL, 4 << 20, F_SEAL_SHRINK);
	ck_assert_int_eq(bind_fd(r.sock, instance[1], 0, fd, 0, 3 << 20), -EDQUOT);
	ck_assert_int_eq(bind_fd(r.sock, instance[1], 0, fd, 0, 4096), 0);
	ck_assert_int_eq(bind_fd(r.sock, instance[1], 1, fd, 4096, 4096), 0);
	/* The second run is refused while the first is in flight. */
	rig_hold();
	for (int i = 0; i < 2; i++) {
		init_run(&p, instance[i]);
		serial[i] = p.h.serial;
		raw_send(r.sock, &p, p.h.length, NULL, 0);
	}
	rig_go();
	collect(r.sock, serial, result, 2);
	ck_assert_int_eq(result[0], 0);
	ck_assert_int_eq(result[1], -EDQUOT);
	raw_init(&p, RIVULET_MSG_LOAD);
	p.load.size = 200 << 10;
	ck_assert_int_eq(raw_call(r.sock, &p, fd, NULL), -EPERM);
	for (int i = 1; i < 4; i++)
		sock[i] = raw_open();
	sock[0] = raw_connect();
	raw_init(&p, RIVULET_MSG_HELLO);
	p.hello.max_version = 1;
	ck_assert_int_eq(raw_call(sock[0], &p, -1, NULL), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(p.error.text, "SessionsPerUser=4"));
	ck_assert_int_eq(raw_recv(sock[0], &p, NULL), 0);
	close(sock[3]);
	close(sock[2]);
	/* The daemon notices a closed connection asynchronously. */
	do {
		close(sock[0]);
		sock[0] = raw_connect();
		raw_init(&p, RIVULET_MSG_HELLO);
		p.hello.max_version = 1;
		raw_send(sock[0], &p, p.h.length, NULL, 0);
		ck_assert_int_gt(raw_recv(sock[0], &p, NULL), 0);
	} while (p.h.type == RIVULET_MSG_ERROR);
	free(onnx);
}
END_TEST

/* Proves that connections above a limit use few descriptors, and that each gets the reason. */
START_TEST(above_the_limit)
{
	enum { N = 100 };
	union rivulet_packet p;
	int sock[N], last, before;

	for (int i = 0; i < 4; i++)
		sock[i] = raw_open();
	before = rig_quiet_fds() - 4;
	for (int i = 4; i < N; i++)
		sock[i] = raw_connect();
	last = raw_connect();
	raw_init(&p, RIVULET_MSG_HELLO);
	p.hello.max_version = 1;
	ck_assert_int_eq(raw_call(last, &p, -1, NULL), -EDQUOT);
	ck_assert_int_le(rig_quiet_fds(), before + 4 + 33);
	ck_assert_int_eq(raw_ping(sock[0]), 0);
	for (int i = 0; i < N; i++)
		close(sock[i]);
	rig_settle(before);
}
END_TEST

/* Proves that SIGHUP applies a valid configuration and ignores an invalid one. */
START_TEST(reload)
{
	uint64_t deadline = rvl_now() + 60 * NSEC_PER_SEC;

	ck_assert_uint_eq(hello_models(), 32);
	rig_config("[Limits]\nModelsPerUser=5\n");
	kill(rig.pid, SIGHUP);
	while (hello_models() != 5)
		ck_assert_uint_lt(rvl_now(), deadline);
	rig_config("[Limits]\nModelsPerUser=6\nRunsPerUser=none\n");
	kill(rig.pid, SIGHUP);
	for (int i = 0; i < 20; i++)
		ck_assert_uint_eq(hello_models(), 5);
	rig_config("[Limits]\nModelsPerUser=7\n[Cache]\nMemoryMax=0\n");
	kill(rig.pid, SIGHUP);
	while (hello_models() != 7)
		ck_assert_uint_lt(rvl_now(), deadline);
}
END_TEST

/* Returns the STATUS of @sock, parsed strictly. The caller releases it. */
static struct json_object *status_of(int sock)
{
	static char text[1 << 20];
	struct json_tokener *t = json_tokener_new();
	struct json_object *o;
	union rivulet_packet p;
	int fd = -1;
	ssize_t n;

	raw_init(&p, RIVULET_MSG_STATUS);
	ck_assert_int_eq(raw_call(sock, &p, -1, &fd), 0);
	ck_assert_int_eq(fcntl(fd, F_GET_SEALS), MODEL_SEALS | F_SEAL_SEAL);
	n = pread(fd, text, sizeof(text) - 1, 0);
	ck_assert_int_eq(n, p.status_reply.size);
	text[n] = 0;
	close(fd);
	json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(t, text, (int)n + 1);
	ck_assert_msg(o != NULL, "%s in %s", json_tokener_error_desc(json_tokener_get_error(t)),
		      text);
	json_tokener_free(t);
	return o;
}

static struct json_object *in(struct json_object *o, const char *key)
{
	struct json_object *v = json_object_object_get(o, key);

	ck_assert_msg(v != NULL, "no %s", key);
	return v;
}

/*
 * Proves that STATUS is sealed JSON, also when a client's name has characters that JSON must
 * escape.
 */
START_TEST(status_json)
{
	struct json_object *o, *sessions;
	union rivulet_packet p;
	int sock = raw_connect();
	bool found = false;
	struct ready r;

	make_ready(&r);
	init_run(&p, r.instance);
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), 0);
	raw_init(&p, RIVULET_MSG_HELLO);
	p.hello.max_version = 1;
	strcpy(p.hello.name, "a\"b\\c\xc3\xa9");
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
	o = status_of(sock);
	ck_assert_str_eq(json_object_get_string(in(in(o, "device"), "board")), "zu3eg-64");
	sessions = in(o, "sessions");
	for (size_t i = 0; i < json_object_array_length(sessions); i++)
		found |= !strcmp(json_object_get_string(in(json_object_array_get_idx(sessions, i),
				 "name")), "a\"b\\c\xc3\xa9");
	ck_assert(found);
	json_object_put(o);
}
END_TEST

/* Returns the metrics for a peer that only shuts down its sending side. */
static void read_metrics(char *text, size_t size)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t at = 0;
	ssize_t n;

	snprintf(a.sun_path, sizeof(a.sun_path), "%.80s/metrics.sock", rig.dir);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	shutdown(fd, SHUT_WR);
	while ((n = read(fd, text + at, size - 1 - at)) > 0)
		at += (size_t)n;
	text[at] = 0;
	close(fd);
}

/*
 * Proves that a name that is not valid text is refused at the protocol's edge, and that it reaches
 * neither STATUS, nor the metrics, nor the journal.
 */
START_TEST(bad_names)
{
	static const char *const bad[] = { "\xff", "\xc3", "a\n<3>rivuletd: forged", "\x1b[2J",
					   "\xc2\x85" };
	static char text[1 << 18];
	size_t size;
	void *onnx = read_file("models/lenet.onnx", &size);
	int sock = raw_open(), other, fd;
	union rivulet_packet p;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		other = raw_connect();
		raw_init(&p, RIVULET_MSG_HELLO);
		p.hello.max_version = 1;
		strcpy(p.hello.name, bad[i]);
		ck_assert_int_eq(raw_call(other, &p, -1, NULL), -EINVAL);
		ck_assert_int_eq(raw_recv(other, &p, NULL), 0);
		close(other);
		fd = memfd_of(onnx, size, MODEL_SEALS);
		raw_init(&p, RIVULET_MSG_LOAD);
		p.load.size = size;
		strcpy(p.load.name, bad[i]);
		ck_assert_int_eq(raw_call(sock, &p, fd, NULL), -EINVAL);
		ck_assert_ptr_nonnull(strstr(p.error.text, "name"));
		close(fd);
	}
	load_lenet(sock);
	json_object_put(status_of(sock));
	read_metrics(text, sizeof(text));
	ck_assert_uint_eq(rivulet_proto_text(text, strcspn(text, "\n")), strcspn(text, "\n"));
	ck_assert_ptr_null(strchr(text, '\xff'));
	ck_assert_ptr_nonnull(strstr(text, "# EOF\n"));
	snprintf(text, sizeof(text), "%s/log", rig.dir);
	free(onnx);
	onnx = read_file(text, &size);
	for (char *line = onnx; line < (char *)onnx + size; line = memchr(line, '\n', size) + 1)
		ck_assert_msg(!strncmp(line, "<", 1) && !memmem(line, 20, "forged", 6), "%.80s",
			      line);
	free(onnx);
}
END_TEST

/* Proves that without a device only the requests that need one fail. */
START_TEST(no_device)
{
	union rivulet_packet p;
	int sock = raw_open();

	ck_assert_int_eq(raw_ping(sock), 0);
	ck_assert_int_eq(raw_load(sock, "x", 1, 0, &p, NULL), -ENODEV);
	ck_assert_uint_eq(status_number("{", "schema"), 1);
}
END_TEST

static void default_rig(void)
{
	rig_start("[Scheduler]\nHighPriorityUsers=54321\n");
}

static void rig_with_log(void)
{
	setenv("RIG_LOG", "1", 1);
	rig_start("");
}

static void rig_without_device(void)
{
	rig_start_on("", "/dev/accel/accel-that-is-not-there");
}

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t;

	rig_main(argc, argv, rvl_worker_main);
	s = suite_create("daemon");
	t = add_case(s, "service", 240, default_rig, rig_stop);
	tcase_add_loop_test(t, same_answer, 0, 2);
	tcase_add_test(t, several_clients);
	tcase_add_test(t, versions);
	tcase_add_test(t, tensors);
	tcase_add_test(t, program_files);
	tcase_add_loop_test(t, hostile_programs, 0, (int)ARRAY_SIZE(sources));
	tcase_add_test(t, bad_memory);
	tcase_add_test(t, bad_models);
	tcase_add_test(t, damaged_models);
	tcase_add_test(t, broken_messages);
	tcase_add_test(t, random_packets);
	tcase_add_test(t, flood);
	tcase_add_test(t, bad_runs);
	tcase_add_test(t, cancel);
	tcase_add_test(t, clients_die);
	tcase_add_test(t, reload);
	tcase_add_test(t, status_json);
	t = add_case(s, "names", 240, rig_with_log, rig_stop);
	tcase_add_test(t, bad_names);
	t = add_case(s, "limits", 240, small_limits, rig_stop);
	tcase_add_test(t, limits);
	tcase_add_test(t, above_the_limit);
	t = add_case(s, "absent", 240, rig_without_device, rig_stop);
	tcase_add_test(t, no_device);
	return run_suite(s);
}
