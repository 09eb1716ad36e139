/* Sends requests to hubs that were made beforehand, and listens to feeds, as many devices would. One thread does that, and
 * it does not look into what it gets, so that it takes little of the processor that the hubs need.
 *   hubload PLAN IDLE      waits IDLE seconds after the feeds are open, and then sends the requests of the other connections
 * PLAN has, for each connection, the line "feed|line PORT SOURCE PACE COUNT" and COUNT requests: a line with their length,
 * and their bytes. A connection sends a request when the former one was answered, and at least PACE microseconds after it.
 * Prints "ready" when each feed has said its head, and at the end, with times in microseconds:
 *   r CONNECTION START END STATUS HEAD APPLIED     an answer: the head in it, and how many operations were applied
 *   f CONNECTION TIME HEAD                         a hint of a feed with a head
 *   t CPU BYTES IDLEBYTES                          the time of the processor that this program used, what it received, and
 *                                                  what of it while the feeds were idle */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct request { const char *bytes; size_t length; };

struct line {
	int is_feed, port, socket, number;
	char source[32];
	int64_t pace, due, start;
	struct request *requests;
	size_t count, next, sent;
	/* What was received of the answer, or of a feed's line. */
	char *held;
	size_t used, room;
	int is_waiting, wants_to_write;
	uint64_t head;
};

static struct line *lines;
static size_t line_count, feeds_open, lines_left;
static int epoll_descriptor;
static uint64_t received, last_head;
static FILE *report;

static void need(int good, const char *what)
{
	if (good) return;
	fprintf(stderr, "hubload: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static char *contents(const char *path, size_t *size)
{
	struct stat status;
	int file = open(path, O_RDONLY | O_CLOEXEC);
	need(file >= 0 && !fstat(file, &status), path);
	char *bytes = malloc((size_t)status.st_size + 1);
	*size = 0;
	while (*size < (size_t)status.st_size) {
		ssize_t got = read(file, bytes + *size, (size_t)status.st_size - *size);
		need(got > 0, path);
		*size += (size_t)got;
	}
	bytes[*size] = 0;
	close(file);
	return bytes;
}

static void parse(char *at, const char *end)
{
	while (at < end) {
		char kind[8];
		int used = 0;
		lines = realloc(lines, (line_count + 1) * sizeof *lines);
		struct line *line = &lines[line_count];
		memset(line, 0, sizeof *line);
		line->number = (int)line_count++;
		need(sscanf(at, "%7s %d %31s %ld %zu%n", kind, &line->port, line->source, &line->pace, &line->count, &used) == 5,
			"a line of the plan");
		line->is_feed = !strcmp(kind, "feed");
		at += used + 1;
		line->requests = calloc(line->count, sizeof *line->requests);
		for (size_t n = 0; n < line->count; n++) {
			char *rest;
			line->requests[n].length = strtoul(at, &rest, 10);
			line->requests[n].bytes = rest + 1;
			at = rest + 1 + line->requests[n].length;
		}
	}
}

static void watch(struct line *line, int operation)
{
	struct epoll_event event = { .events = EPOLLIN | (line->wants_to_write ? EPOLLOUT : 0), .data.ptr = line };
	need(!epoll_ctl(epoll_descriptor, operation, line->socket, &event), "epoll_ctl");
}

static void open_line(struct line *line)
{
	struct sockaddr_in from = { .sin_family = AF_INET }, to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)line->port) };
	int one = 1;
	inet_pton(AF_INET, line->source, &from.sin_addr);
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	line->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	need(line->socket >= 0, "socket");
	setsockopt(line->socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
	setsockopt(line->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	need(!bind(line->socket, (struct sockaddr *)&from, sizeof from), "bind");
	need(!connect(line->socket, (struct sockaddr *)&to, sizeof to), "connect");
	need(!fcntl(line->socket, F_SETFL, O_NONBLOCK), "fcntl");
	watch(line, EPOLL_CTL_ADD);
}

static void send_more(struct line *line)
{
	struct request *request = &line->requests[line->next];
	while (line->sent < request->length) {
		ssize_t count = send(line->socket, request->bytes + line->sent, request->length - line->sent, MSG_NOSIGNAL);
		if (count < 0 && errno == EAGAIN) break;
		need(count > 0, "send");
		line->sent += (size_t)count;
	}
	int wants = line->sent < request->length;
	if (wants == line->wants_to_write) return;
	line->wants_to_write = wants;
	watch(line, EPOLL_CTL_MOD);
}

static void begin(struct line *line)
{
	line->is_waiting = 1;
	line->sent = line->used = 0;
	line->start = now();
	send_more(line);
}

/* The number after a name, or 0. */
static uint64_t number_after(const char *text, const char *name)
{
	const char *found = strstr(text, name);
	return found ? strtoull(found + strlen(name), NULL, 10) : 0;
}

static void take_hints(struct line *line, int64_t time)
{
	char *start = line->held, *end;
	while ((end = strchr(start, '\n'))) {
		*end = 0;
		uint64_t head = number_after(start, "\"head\":");
		if (head) {
			if (!line->head) feeds_open++;
			line->head = head;
			fprintf(report, "f %d %ld %lu\n", line->number, time, head);
		}
		start = end + 1;
	}
	line->used -= (size_t)(start - line->held);
	memmove(line->held, start, line->used + 1);
}

/* Whether the answer is complete. Chunks are recognized by their last one, which no JSON or packed page ends with. */
static int is_complete(struct line *line, char **body)
{
	char *end = memmem(line->held, line->used, "\r\n\r\n", 4);
	if (!end) return 0;
	*body = end + 4;
	const char *length = strcasestr(line->held, "\r\ncontent-length:");
	if (length && length < end) return line->used - (size_t)(*body - line->held) >= strtoul(length + 17, NULL, 10);
	return line->used >= 7 && !memcmp(line->held + line->used - 7, "\r\n0\r\n\r\n", 7);
}

static void take_answer(struct line *line, int64_t time)
{
	char *body;
	if (!is_complete(line, &body)) return;
	int status = atoi(line->held + 9), applied = 0;
	for (char *at = body; (at = strstr(at, "\"applied\"")); at++) applied++;
	uint64_t head = number_after(body, "\"head\":");
	if (head > last_head) last_head = head;
	fprintf(report, "r %d %ld %ld %d %lu %d\n", line->number, line->start, time, status, head, applied);
	if (status != 200) fprintf(stderr, "hubload: %.*s\n", 600, line->held);
	line->is_waiting = 0;
	line->due = line->start + line->pace;
	if (++line->next == line->count) lines_left--;
}

static void receive(struct line *line)
{
	for (;;) {
		if (line->room - line->used < 4096) line->held = realloc(line->held, line->room = line->room * 2 + 8192);
		size_t room = line->room - line->used - 1;
		ssize_t count = recv(line->socket, line->held + line->used, room, 0);
		if (count < 0 && errno == EAGAIN) break;
		need(count > 0, line->is_feed ? "a feed ended" : "an answer ended");
		line->used += (size_t)count;
		received += (uint64_t)count;
		if ((size_t)count < room) break;
	}
	line->held[line->used] = 0;
	if (line->is_feed) take_hints(line, now()); else take_answer(line, now());
}

static void handle(int milliseconds)
{
	struct epoll_event events[256];
	int count = epoll_wait(epoll_descriptor, events, 256, milliseconds);
	for (int n = 0; n < count; n++) {
		struct line *line = events[n].data.ptr;
		if (events[n].events & EPOLLOUT) send_more(line);
		if (events[n].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(line);
	}
}

/* Sends what is due. Returns for how many milliseconds nothing else will be. */
static int begin_due(void)
{
	int64_t time = now(), next = time + 1000000;
	for (size_t n = 0; n < line_count; n++) {
		struct line *line = &lines[n];
		if (line->is_feed || line->is_waiting || line->next == line->count) continue;
		if (line->due <= time) begin(line);
		else if (line->due < next) next = line->due;
	}
	return (int)((next - time + 999) / 1000);
}

static int all_told(void)
{
	for (size_t n = 0; n < line_count; n++)
		if (lines[n].is_feed && lines[n].head < last_head) return 0;
	return 1;
}

int main(int argc, char **argv)
{
	size_t size, feeds = 0;
	need(argc == 3, "usage: hubload PLAN IDLE");
	char *plan = contents(argv[1], &size), *text;
	size_t text_size;
	parse(plan, plan + size);
	report = open_memstream(&text, &text_size);
	epoll_descriptor = epoll_create1(EPOLL_CLOEXEC);
	for (size_t n = 0; n < line_count; n++) {
		if (!lines[n].is_feed) continue;
		feeds++;
		open_line(&lines[n]);
		begin(&lines[n]);
		/* Hubs accept connections while the next ones are made. */
		handle(0);
	}
	int64_t end = now() + 60000000;
	while (feeds_open < feeds && now() < end) handle(1000);
	need(feeds_open == feeds, "a feed says no head");
	printf("ready\n");
	fflush(stdout);
	uint64_t before = received;
	end = now() + (int64_t)(atof(argv[2]) * 1e6);
	for (int64_t time; (time = now()) < end;) handle((int)((end - time) / 1000) + 1);
	uint64_t idle = received - before;
	/* A hub closes a connection that sends nothing at first. */
	for (size_t n = 0; n < line_count; n++) {
		if (lines[n].is_feed || !lines[n].count) continue;
		lines_left++;
		open_line(&lines[n]);
	}
	while (lines_left) {
		/* Requests with a pace begin at different times. */
		handle(begin_due());
	}
	end = now() + 10000000;
	while (!all_told() && now() < end) handle(100);
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	fclose(report);
	fwrite(text, 1, text_size, stdout);
	printf("t %ld %lu %lu\n", usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_sec * 1000000 +
		usage.ru_stime.tv_usec, received, idle);
	return 0;
}
