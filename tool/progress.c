// SPDX-License-Identifier: MIT
#include "progress.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "output.h"

#define TERMINAL_EVERY 0.2 /* s */
#define TERMINAL_FIRST 0.5
#define PLAIN_EVERY    10.0

static volatile sig_atomic_t caught;

void rvl_progress_start(struct rvl_progress *p, uint64_t total, const char *unit, const char *fmt, ...)
{
	va_list ap;

	p->unit = unit;
	p->total = total;
	if (p->started <= 0) {
		p->started = p->last = rvl_tool_seconds();
		p->terminal = isatty(STDERR_FILENO);
	}
	va_start(ap, fmt);
	vsnprintf(p->what, sizeof(p->what), fmt, ap);
	va_end(ap);
}

static bool is_due(const struct rvl_progress *p, double now)
{
	double every = p->every > 0 ? p->every : PLAIN_EVERY;

	if (p->terminal)
		return now - p->started >= TERMINAL_FIRST && now - p->last >= TERMINAL_EVERY;
	return now - p->last >= every;
}

void rvl_progress_at(struct rvl_progress *p, uint64_t done)
{
	double now = rvl_tool_seconds();

	if (!is_due(p, now))
		return;
	p->last = now;
	p->shown = true;
	fprintf(stderr, "%s%s: %llu", p->terminal ? "\r\x1b[K" : "rivulet: ", p->what,
		(unsigned long long)done);
	if (p->total)
		fprintf(stderr, " of %llu %s, %llu %%", (unsigned long long)p->total, p->unit,
			(unsigned long long)(done * 100 / p->total));
	else
		fprintf(stderr, " %s", p->unit);
	fprintf(stderr, "%s", p->terminal ? "" : "\n");
	fflush(stderr);
}

void rvl_progress_end(struct rvl_progress *p)
{
	if (p->terminal && p->shown)
		fputs("\r\x1b[K", stderr);
	p->shown = false;
}

/* ---- interrupts ---- */

static const int signals[] = { SIGINT, SIGTERM };

#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

static void on_signal(int number)
{
	caught = number;
	for (size_t i = 0; i < SIGNALS; i++)
		signal(signals[i], SIG_DFL);
}

void rvl_interrupt_catch(void)
{
	struct sigaction a = { .sa_handler = on_signal }, old;

	caught = 0;
	sigemptyset(&a.sa_mask);
	for (size_t i = 0; i < SIGNALS; i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &a, NULL);
}

int rvl_interrupted(void)
{
	return caught;
}

void rvl_interrupt_reset(void)
{
	struct sigaction old;

	caught = 0;
	for (size_t i = 0; i < SIGNALS; i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == on_signal)
			signal(signals[i], SIG_DFL);
}
