// SPDX-License-Identifier: MIT
#include "log.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "rivulet_proto.h"
#include "util.h"

#define FIELD_MAX 640
#define FIELDS 14

static bool to_journal;
static int max_priority = LOG_INFO;

static const char *const message_ids[] = {
#define ID_STRING(name, id, doc) [RVL_LOG_##name] = id,
	RVL_LOG_IDS(ID_STRING)
};

const char *rvl_log_message_id(enum rvl_log_id id)
{
	return message_ids[id];
}

/* $JOURNAL_STREAM has device and inode of the stream that systemd connected to stderr. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	       !fstat(STDERR_FILENO, &st) && st.st_dev == dev && st.st_ino == ino;
}

void rvl_log_init(int max)
{
	to_journal = stderr_is_journal();
	max_priority = max;
}

struct entry {
	char text[FIELDS][FIELD_MAX];
	struct iovec iov[FIELDS];
	int n;
};

__attribute__((format(printf, 2, 3)))
static void add(struct entry *e, const char *fmt, ...)
{
	va_list ap;
	int len;

	if (e->n == FIELDS)
		return;
	va_start(ap, fmt);
	len = vsnprintf(e->text[e->n], FIELD_MAX, fmt, ap);
	va_end(ap);
	if (len < 0)
		return;
	e->iov[e->n].iov_base = e->text[e->n];
	e->iov[e->n].iov_len = len < FIELD_MAX ? (size_t)len : FIELD_MAX - 1;
	e->n++;
}

static void add_about(struct entry *e, const struct rvl_about *about)
{
	if (about->device && *about->device)
		add(e, "RIVULET_DEVICE=%s", about->device);
	if (about->model && *about->model)
		add(e, "RIVULET_MODEL=%s", about->model);
	if (about->job)
		add(e, "RIVULET_JOB=%u", about->job);
	if (about->have_level)
		add(e, "RIVULET_LEVEL=%d", about->level);
	if (about->have_charge)
		add(e, "RIVULET_CHARGE=%u.%04u", about->charge / 10000, about->charge % 10000);
	if (about->reason)
		add(e, "RIVULET_REASON=%s", about->reason);
	if (about->client && *about->client)
		add(e, "RIVULET_CLIENT=%s", about->client);
	if (about->pid > 0) {
		add(e, "RIVULET_PID=%d", about->pid);
		add(e, "RIVULET_UID=%u", about->uid);
	}
}

static void send_journal(int priority, enum rvl_log_id id, const struct rvl_about *about,
			 const char *text)
{
	struct entry e = { .n = 0 };

	add(&e, "MESSAGE=%s", text);
	add(&e, "PRIORITY=%d", priority);
	add(&e, "SYSLOG_IDENTIFIER=rivuletd");
	if (id != RVL_LOG_NONE)
		add(&e, "MESSAGE_ID=%s", message_ids[id]);
	if (about)
		add_about(&e, about);
	sd_journal_sendv(e.iov, e.n);
}

void rvl_log(int priority, enum rvl_log_id id, const struct rvl_about *about, const char *fmt, ...)
{
	char raw[FIELD_MAX - sizeof("MESSAGE=")], text[sizeof(raw)];
	uint64_t suppressed;
	va_list ap;

	if (priority > max_priority)
		return;
	if (about && about->rate) {
		if (!rvl_rate_allows(about->rate, &suppressed))
			return;
		if (suppressed)
			rvl_log(LOG_NOTICE, RVL_LOG_NONE, NULL, "%llu entries about user %u were suppressed",
				(unsigned long long)suppressed, about->uid);
	}
	va_start(ap, fmt);
	vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	/* Names of layers and tensors come from the files of clients: they must not forge an entry. */
	rivulet_proto_name(text, sizeof(text), raw);
	if (to_journal)
		send_journal(priority, id, about, text);
	else if (about && about->pid > 0)
		fprintf(stderr, "<%d>rivuletd: [%d %s] %s\n", priority, about->pid,
			about->client ? about->client : "", text);
	else
		fprintf(stderr, "<%d>rivuletd: %s\n", priority, text);
}

void rvl_log_last(const char *fmt, ...)
{
	char text[FIELD_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "<%d>%s%s\n", LOG_ERR, to_journal ? "" : "rivuletd: ", text);
}
