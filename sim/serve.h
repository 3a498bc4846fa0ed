/* SPDX-License-Identifier: MIT */
/*
 * rivulet-sim's server: the device model behind QEMU's ivshmem-doorbell, or in a page of the
 * machine's memory (platform attachment). On ivshmem, peer 0 is the model. QEMU is the one client
 * at a time, and gets a device after power on with each connection. A platform's device exists from
 * the start.
 */
#ifndef RVL_SIM_SERVE_H
#define RVL_SIM_SERVE_H

#include <stdio.h>

#include "battery.h"
#include "memory.h"
#include "worker.h"

#define RVL_CONTROLS 4		/* control connections at a time */
#define RVL_STALL_MAX_MS 3600000u

/** struct rvl_control - one connection of the control socket and the line it is sending */
struct rvl_control {
	int fd;
	size_t len;
	char line[512];
};

/** struct rvl_platform - the platform attachment */
struct rvl_platform {
	bool on;
	uint64_t window;	/* guest physical address of the window */
	const char *qtest;	/* QEMU's qtest socket; NULL: no interrupt */
	uint32_t spi;		/* shared peripheral interrupt to raise there */
};

/** struct rvl_server_options - strings outlive the server */
struct rvl_server_options {
	struct rivulet_board board;
	struct rvl_inject inject;
	const char *socket;	/* of ivshmem; unused by a platform */
	struct rvl_platform platform;
	struct rvl_battery battery;
	const char *mem;
	const char *control;	/* NULL: none */
	FILE *log;		/* connections and errors of clients; NULL: silent */
	bool trace;		/* also every register that the device writes */
};

/** struct rvl_server - owned by the caller; descriptors are -1 when there is none */
struct rvl_server {
	struct rvl_server_options opt;
	struct rvl_memory mem;
	struct rvl_battery battery;
	struct rvl_worker worker;
	struct rivulet_sim *sim;	/* of the connected client, else NULL */
	void *window;
	int listen_fd;
	int control_listen_fd;
	int signal_fd;
	int client_fd;		/* the machine: ivshmem client, or qtest server */
	int window_fd;
	int doorbell_fd;
	int irq_fd;
	uint16_t client_id;
	uint32_t doorbell;	/* platform: value of DOORBELL at the last poll */
	uint64_t changed_at;	/* host time of its last change */
	uint64_t due;		/* time at which the device must be stepped */
	bool step_due;		/* something else requests a step */
	struct rvl_control control[RVL_CONTROLS];
};

/**
 * rvl_server_open() - bind the sockets and start the worker; SIGTERM and SIGINT must be blocked
 * before
 */
int rvl_server_open(struct rvl_server *s, const struct rvl_server_options *opt, char *err,
		    size_t errsize);
/** rvl_server_run() - serve until SIGTERM or SIGINT; 0 or a negative errno */
int rvl_server_run(struct rvl_server *s);
/** rvl_server_power() - a platform's device is switched off and on; 0 or a negative errno */
int rvl_server_power(struct rvl_server *s);
/**
 * rvl_server_drain() - take the energy that the device used from the battery, and update its page
 */
void rvl_server_drain(struct rvl_server *s);
void rvl_server_close(struct rvl_server *s);

/**
 * rvl_listen() - a listening socket at @path, mode 0600, or -errno
 * It replaces a socket on which no process listens.
 */
int rvl_listen(const char *path);

/* ivshmem.c: greet a new client; 0 or a negative errno */
int rvl_ivshmem_greet(int fd, uint16_t id, int window_fd, int doorbell_fd, int irq_fd);

/*
 * platform.c: map the window (0 or a negative errno); raise the interrupt; whether DOORBELL
 * changed; the time until the next poll; read QEMU's answers (false: QEMU closed the socket)
 */
int rvl_platform_power(struct rvl_server *s);
void rvl_platform_raise(struct rvl_server *s);
bool rvl_platform_rang(struct rvl_server *s);
uint64_t rvl_platform_slice(struct rvl_server *s, uint64_t now);
bool rvl_platform_read(struct rvl_server *s);

/* control.c: accept, serve what came on connection @c */
void rvl_control_accept(struct rvl_server *s);
void rvl_control_read(struct rvl_server *s, struct rvl_control *c);

/** rvl_server_log() - one line, if there is a log */
__attribute__((format(printf, 2, 3))) void rvl_server_log(struct rvl_server *s, const char *fmt,
							   ...);

#endif
