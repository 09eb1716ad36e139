/* Adds a delay to each round trip of connections, as a network does.
 *   delay MICROSECONDS TARGET...     a TARGET is a port of 127.0.0.1, or the path of a Unix socket
 * Prints, for each target, the port of 127.0.0.1 where its proxy listens. Bytes to the target wait for the delay, those
 * from it do not. They never wait for each other, so the delay does not limit how many bytes are sent in a second. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Bytes that wait until they are due. */
struct piece { struct piece *next; int64_t due; size_t used, sent; char bytes[]; };

/* One direction of a connection. */
struct flow { struct piece *first, *last; size_t held; int has_ended; };

struct end { struct pair *pair; int socket, is_target; uint32_t events; };

struct pair { struct end client, target; struct flow up, down; struct pair *next; int is_closed; };

struct listener { int socket; const char *target; };

enum { PIECE = 65536, HELD = 4 << 20 };

static int epoll_descriptor;
static int64_t delay;
static struct pair *pairs;

static void need(int good, const char *what)
{
	if (good) return;
	fprintf(stderr, "delay: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int connect_to(const char *target)
{
	if (*target == '/') {
		struct sockaddr_un path = { .sun_family = AF_UNIX };
		strncpy(path.sun_path, target, sizeof path.sun_path - 1);
		int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		return connect(s, (struct sockaddr *)&path, sizeof path) ? (close(s), -1) : s;
	}
	struct sockaddr_in port = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(target)) };
	port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return connect(s, (struct sockaddr *)&port, sizeof port) ? (close(s), -1) : s;
}

/* What this end reads is sent to the other one. */
static struct flow *from(struct end *end) { return end->is_target ? &end->pair->down : &end->pair->up; }
static struct flow *into(struct end *end) { return end->is_target ? &end->pair->up : &end->pair->down; }

static void watch(struct end *end)
{
	struct flow *in = from(end), *out = into(end);
	uint32_t events = (in->has_ended || in->held > HELD ? 0 : EPOLLIN)
		| (out->first && out->first->due <= now() ? EPOLLOUT : 0);
	if (events == end->events) return;
	struct epoll_event event = { .events = events, .data.ptr = end };
	epoll_ctl(epoll_descriptor, EPOLL_CTL_MOD, end->socket, &event);
	end->events = events;
}

/* Sends what is due. */
static void push(struct end *end)
{
	struct flow *flow = into(end);
	for (struct piece *piece; (piece = flow->first) && piece->due <= now();) {
		ssize_t count = send(end->socket, piece->bytes + piece->sent, piece->used - piece->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (count < 0 && errno == EAGAIN) break;
		if (count < 0) { end->pair->is_closed = 1; return; }
		piece->sent += (size_t)count;
		if (piece->sent < piece->used) continue;
		flow->held -= piece->used;
		if (!(flow->first = piece->next)) flow->last = NULL;
		free(piece);
	}
	if (!flow->first && flow->has_ended == 1) {
		shutdown(end->socket, SHUT_WR);
		flow->has_ended = 2;
	}
}

static void pull(struct end *end)
{
	struct flow *flow = from(end);
	struct piece *piece = malloc(sizeof *piece + PIECE);
	ssize_t count = recv(end->socket, piece->bytes, PIECE, MSG_DONTWAIT);
	if (count <= 0) {
		free(piece);
		if (count < 0 && errno == EAGAIN) return;
		if (count < 0) end->pair->is_closed = 1;
		flow->has_ended = 1;
		return;
	}
	piece->next = NULL;
	piece->sent = 0;
	piece->used = (size_t)count;
	piece->due = now() + (end->is_target ? 0 : delay);
	if (flow->last) flow->last->next = piece; else flow->first = piece;
	flow->last = piece;
	flow->held += piece->used;
}

static void add(struct listener *listener)
{
	int one = 1, client = accept4(listener->socket, NULL, NULL, SOCK_CLOEXEC), target;
	if (client < 0) return;
	if ((target = connect_to(listener->target)) < 0) { close(client); return; }
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(target, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	struct pair *pair = calloc(1, sizeof *pair);
	pair->client = (struct end){ pair, client, 0, EPOLLIN };
	pair->target = (struct end){ pair, target, 1, EPOLLIN };
	struct end *ends[] = { &pair->client, &pair->target };
	for (int n = 0; n < 2; n++) {
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = ends[n] };
		need(!epoll_ctl(epoll_descriptor, EPOLL_CTL_ADD, ends[n]->socket, &event), "epoll_ctl");
	}
	pair->next = pairs;
	pairs = pair;
}

static void drop(struct flow *flow)
{
	for (struct piece *piece; (piece = flow->first); free(piece)) flow->first = piece->next;
}

/* Moves what is due, removes connections that have ended, and returns when something will be due. */
static int64_t serve_all(void)
{
	int64_t next = INT64_MAX;
	for (struct pair **at = &pairs, *pair; (pair = *at);) {
		push(&pair->target);
		push(&pair->client);
		if (pair->is_closed || (pair->up.has_ended == 2 && pair->down.has_ended == 2)) {
			close(pair->client.socket);
			close(pair->target.socket);
			drop(&pair->up);
			drop(&pair->down);
			*at = pair->next;
			free(pair);
			continue;
		}
		watch(&pair->client);
		watch(&pair->target);
		struct piece *first = pair->up.first;
		if (first && first->due > now() && first->due < next) next = first->due;
		at = &pair->next;
	}
	return next;
}

int main(int argc, char **argv)
{
	need(argc > 2, "usage: delay MICROSECONDS TARGET...");
	delay = atol(argv[1]);
	/* Otherwise the kernel may add 50 microseconds. */
	prctl(PR_SET_TIMERSLACK, 1000);
	epoll_descriptor = epoll_create1(EPOLL_CLOEXEC);
	int count = argc - 2;
	struct listener *listeners = calloc((size_t)count, sizeof *listeners);
	for (int n = 0; n < count; n++) {
		struct sockaddr_in here = { .sin_family = AF_INET };
		socklen_t size = sizeof here;
		here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		listeners[n] = (struct listener){ socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), argv[n + 2] };
		struct sockaddr *address = (struct sockaddr *)&here;
		need(!bind(listeners[n].socket, address, size) && !listen(listeners[n].socket, 512)
			&& !getsockname(listeners[n].socket, address, &size), "listen");
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = &listeners[n] };
		epoll_ctl(epoll_descriptor, EPOLL_CTL_ADD, listeners[n].socket, &event);
		printf("%d\n", ntohs(here.sin_port));
	}
	fflush(stdout);
	for (int64_t next = INT64_MAX;; next = serve_all()) {
		struct epoll_event events[64];
		int64_t wait = next == INT64_MAX ? 1000000 : next - now();
		if (wait < 0) wait = 0;
		struct timespec timeout = { wait / 1000000, wait % 1000000 * 1000 };
		int found = epoll_pwait2(epoll_descriptor, events, 64, &timeout, NULL);
		for (int n = 0; n < found; n++) {
			void *place = events[n].data.ptr;
			if (place >= (void *)listeners && place < (void *)(listeners + count)) { add(place); continue; }
			struct end *end = place;
			if (events[n].events & (EPOLLERR | EPOLLHUP) && from(end)->has_ended) end->pair->is_closed = 1;
			else if (events[n].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) pull(end);
		}
	}
}
