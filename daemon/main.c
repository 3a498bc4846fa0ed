// SPDX-License-Identifier: MIT
/* rivuletd: options, checks of the system, then the event loop. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include "config.h"
#include "intake.h"
#include "log.h"
#include "manager.h"
#include "receiver.h"
#include "rivulet_kernels.h"
#include "util.h"
#include "worker.h"

static const char *arg_root = "";
static const char *arg_socket;
static const char *arg_device;
static const char *arg_reload;
static bool arg_check, arg_show, arg_verbose;

static const char usage[] =
	"usage: rivuletd [OPTIONS]\n"
	"\n"
	"Serves the Rivulet NPU to programs. Started by rivuletd.socket; see rivuletd(8).\n"
	"\n"
	"  --device NODE     a device node, or sim:BOARD for the linked model, instead of Node=\n"
	"  --socket PATH     listen there, without systemd\n"
	"  --config-root DIR read DIR/etc/rivuletd/rivuletd.conf and so on\n"
	"  --check-config    read the configuration, say what is wrong, exit\n"
	"  --reload PID      as --check-config, then make the daemon with this process id read it\n"
	"  --show-config     print the merged configuration, exit\n"
	"  --verbose         log debug messages too\n"
	"  --version, --help\n";

enum option_code { OPT_DEVICE = 1, OPT_SOCKET, OPT_ROOT, OPT_CHECK, OPT_RELOAD, OPT_SHOW,
		   OPT_VERBOSE, OPT_VERSION, OPT_HELP };

static const struct option options[] = {
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "socket", required_argument, NULL, OPT_SOCKET },
	{ "config-root", required_argument, NULL, OPT_ROOT },
	{ "check-config", no_argument, NULL, OPT_CHECK },
	{ "reload", required_argument, NULL, OPT_RELOAD },
	{ "show-config", no_argument, NULL, OPT_SHOW },
	{ "verbose", no_argument, NULL, OPT_VERBOSE },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/* Returns -1 to go on, or the exit status. */
static int apply_option(int opt)
{
	switch (opt) {
	case OPT_DEVICE:
		arg_device = optarg;
		return -1;
	case OPT_SOCKET:
		arg_socket = optarg;
		return -1;
	case OPT_ROOT:
		arg_root = optarg;
		return -1;
	case OPT_CHECK:
		arg_check = true;
		return -1;
	case OPT_RELOAD:
		arg_reload = optarg;
		return -1;
	case OPT_SHOW:
		arg_show = true;
		return -1;
	case OPT_VERBOSE:
		arg_verbose = true;
		return -1;
	case OPT_VERSION:
		puts("rivuletd " RIVULET_VERSION);
		return EXIT_SUCCESS;
	case OPT_HELP:
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	default:
		fputs(usage, stderr);
		return EXIT_FAILURE;
	}
}

static int parse_argv(int argc, char **argv)
{
	int opt, r = -1;

	while (r < 0 && (opt = getopt_long(argc, argv, "", options, NULL)) >= 0)
		r = apply_option(opt);
	if (r < 0 && optind < argc) {
		fprintf(stderr, "rivuletd: unexpected argument \"%s\"\n%s", argv[optind], usage);
		r = EXIT_FAILURE;
	}
	return r;
}

/* @data: the number of unknown sections. */
static void warn_line(enum rvl_config_skipped what, const char *text, void *data)
{
	unsigned int *sections = data;

	*sections += what == RVL_SKIPPED_SECTION;
	rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL, "%s", text);
}

static int check_config(void)
{
	unsigned int unknown_sections = 0;
	struct rvl_config c;
	struct rvl_text err;

	if (rvl_config_load(&c, arg_root, warn_line, &unknown_sections, &err)) {
		rvl_log_last("%s", err.s);
		return EXIT_FAILURE;
	}
	if (arg_show) {
		rvl_config_print(&c, stdout);
		return EXIT_SUCCESS;
	}
	if (unknown_sections) {
		rvl_log_last("unknown sections in the configuration: %u; rivuletd.conf(5) lists those "
			     "that exist", unknown_sections);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

/* For ExecReload=: an invalid configuration fails the reload before the daemon is signalled. */
static int reload(void)
{
	char *end;
	long pid = strtol(arg_reload, &end, 10);
	int r = check_config();

	if (r)
		return r;
	if (*end || pid <= 1 || pid > INT_MAX || kill((pid_t)pid, SIGHUP)) {
		rvl_log_last("cannot make process \"%s\" reload", arg_reload);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

/* ---- what the system must offer, each with its reason ---- */

static int check_memfd(struct rvl_text *err)
{
	_cleanup_close_ int fd = memfd_create("rivulet-check", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE))
		return rvl_say(err, -errno, "no sealed memfds: %m");
	return 0;
}

/* The soft limit is for programs that use select(); this one does not. */
static void raise_file_limit(void)
{
	struct rlimit r;

	if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

static int check_system(struct rvl_text *err)
{
	char why[RVL_WHY_MAX];

	if (rvl_cpu_check(why))
		return rvl_say(err, -EINVAL, "%s", why);
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
		return rvl_say(err, -errno, "no seccomp in the kernel to sandbox models with");
	if (access("/proc/self/fd", X_OK))
		return rvl_say(err, -errno, "/proc is not mounted: %m");
	return check_memfd(err);
}

/* ---- the socket ---- */

static int from_systemd(struct rvl_text *err)
{
	int n = sd_listen_fds(1);

	if (n == 0)
		return rvl_say(err, -ENOENT,
			       "no socket: start rivuletd.socket, or give --socket PATH");
	if (n != 1 || sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_SEQPACKET, 1, NULL, 0) <= 0)
		return rvl_say(err, -EINVAL,
			       "systemd gave %d sockets, not one ListenSequentialPacket=", n);
	return SD_LISTEN_FDS_START;
}

static int make_socket(const char *path, struct rvl_text *err)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;

	if (fd < 0)
		return rvl_say(err, -errno, "socket: %m");
	if (strlen(path) >= sizeof(addr.sun_path))
		return rvl_say(err, -ENAMETOOLONG, "%.200s: longer than %zu bytes", path,
			       sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, path);
	if (!lstat(path, &st) && !S_ISSOCK(st.st_mode))
		return rvl_say(err, -EEXIST, "%s is there and no socket", path);
	unlink(path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, SOMAXCONN))
		return rvl_say(err, -errno, "%s: %m", path);
	return rvl_take_fd(&fd);
}

static int serve(struct rvl_text *err)
{
	struct rvl_options opt = { .config_root = arg_root, .node = arg_device,
				   .exe = "/proc/self/exe" };
	struct rvl_manager *m;
	int fd, r = check_system(err);

	raise_file_limit();
	/* Threads inherit the mask, so signals are blocked before the first one is created. */
	r = r ?: rvl_manager_block_signals();
	if (r)
		return r;
	fd = arg_socket ? make_socket(arg_socket, err) : from_systemd(err);
	if (fd < 0)
		return fd;
	r = rvl_manager_new(&opt, fd, &m, err);
	if (r)
		return r;
	r = rvl_manager_run(m);
	rvl_manager_free(m);
	if (arg_socket)
		unlink(arg_socket);
	return r < 0 ? rvl_say(err, r, "event loop: %s", strerror(-r)) : 0;
}

int main(int argc, char **argv)
{
	struct rvl_text err;
	int r;

	/*
	 * Internal: the daemon starts itself as the compiler's process, as a user's receiver, and
	 * as a process whose end closes a connection.
	 */
	if (argc == 2 && !strcmp(argv[1], "--worker"))
		return rvl_worker_main();
	if (argc == 2 && !strcmp(argv[1], "--receiver"))
		return rvl_receiver_main();
	if (argc == 2 && !strcmp(argv[1], "--end"))
		_exit(rvl_intake_end_main());
	r = parse_argv(argc, argv);
	if (r >= 0)
		return r;
	rvl_log_init(arg_verbose ? LOG_DEBUG : LOG_INFO);
	if (arg_reload)
		return reload();
	if (arg_check || arg_show)
		return check_config();
	if (serve(&err)) {
		rvl_log_last("%s", err.s);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
