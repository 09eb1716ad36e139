/* Measures the cost of file coordination. DIRECTORY contains a file "document".
 *   turns pair DIRECTORY TIMES OTHER      open, read 64 bytes, close, in both alternately, without coordinating
 *   turns flock DIRECTORY TIMES           open, flock, unlock, close
 *   turns claim DIRECTORY TIMES SOCKET    claim for writing and release, over the control socket
 *   turns hold DIRECTORY COUNT SOCKET     claim COUNT documents, which need not exist; then wait for the end of standard input
 * Each prints microseconds for an operation. `pair` prints medians for each directory, of blocks of BLOCK operations that
 * alternate, so that other work of the machine affects both alike. `hold` prints those of the first and of the last
 * thousand claims. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static void need(int good, const char *what)
{
	if (good) return;
	fprintf(stderr, "turns: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int daemon_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	need(s >= 0 && strlen(path) < sizeof address.sun_path, "socket");
	strcpy(address.sun_path, path);
	need(!connect(s, (struct sockaddr *)&address, sizeof address), path);
	return s;
}

/* Sends one line and reads the reply. */
static void ask(int s, const char *line)
{
	char answer[4096];
	size_t length = strlen(line), count = 0;
	need(write(s, line, length) == (ssize_t)length, "request");
	do {
		ssize_t got = read(s, answer + count, sizeof answer - 1 - count);
		need(got > 0, "answer");
		count += (size_t)got;
	} while (answer[count - 1] != '\n');
	answer[count] = 0;
	if (!strstr(answer, "\"ok\":true")) { fprintf(stderr, "turns: %s", answer); exit(1); }
}

static void claim(int s, int number, const char *path)
{
	char line[512];
	snprintf(line, sizeof line,
		"{\"id\":%d,\"verb\":\"claim\",\"claim\":%d,\"access\":[{\"path\":\"%s\",\"write\":\"update\"}]}\n",
		number, number, path);
	ask(s, line);
}

static void release(int s, int number)
{
	char line[128];
	snprintf(line, sizeof line, "{\"id\":%d,\"verb\":\"release\",\"claim\":%d}\n", number, number);
	ask(s, line);
}

static void hold(int s, int count)
{
	double began = now(), first = 0, last = 0;
	for (int i = 0; i < count; i++) {
		char path[64];
		snprintf(path, sizeof path, "held %d", i);
		claim(s, i + 1, path);
		if (i == 999) first = (now() - began) / 1000;
		if (i == count - 1001) last = now();
	}
	printf("first-thousand %.4f last-thousand %.4f\n", first, (now() - last) / 1000);
	fflush(stdout);
	char byte;
	while (read(0, &byte, 1) > 0) {}
}

enum { BLOCK = 40 };

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double block_of_opens(int directory)
{
	double began = now();
	for (int i = 0; i < BLOCK; i++) {
		char bytes[64];
		int fd = openat(directory, "document", O_RDONLY);
		need(fd >= 0 && read(fd, bytes, sizeof bytes) >= 0, "open");
		close(fd);
	}
	return (now() - began) / BLOCK;
}

static void pair(const char *one, const char *other, int times)
{
	int a = open(one, O_PATH | O_DIRECTORY), b = open(other, O_PATH | O_DIRECTORY), count = times / BLOCK;
	double *first = calloc((size_t)count, sizeof *first), *second = calloc((size_t)count, sizeof *second);
	need(a >= 0 && b >= 0 && first && second, "pair");
	for (int i = 0; i < count; i++) {
		/* The order alternates, too. */
		if (i % 2) first[i] = block_of_opens(a);
		second[i] = block_of_opens(b);
		if (i % 2 == 0) first[i] = block_of_opens(a);
	}
	qsort(first, (size_t)count, sizeof *first, order);
	qsort(second, (size_t)count, sizeof *second, order);
	printf("first %.4f second %.4f\n", first[count / 2], second[count / 2]);
}

int main(int argc, char **argv)
{
	if (argc < 4) { fprintf(stderr, "usage: turns pair|flock|claim|hold DIRECTORY TIMES [OTHER|SOCKET]\n"); return 2; }
	int times = atoi(argv[3]);
	if (!strcmp(argv[1], "pair")) { pair(argv[2], argv[4], times); return 0; }
	int s = argc > 4 ? daemon_at(argv[4]) : -1;
	need(!chdir(argv[2]), argv[2]);
	if (!strcmp(argv[1], "hold")) { hold(s, times); return 0; }
	double began = now();
	for (int i = 0; i < times; i++) {
		int fd;
		if (!strcmp(argv[1], "flock")) {
			need((fd = open("document", O_RDWR)) >= 0 && !flock(fd, LOCK_EX) && !flock(fd, LOCK_UN), "flock");
			close(fd);
		} else {
			claim(s, i + 1, "document");
			release(s, i + 1);
		}
	}
	printf("%s %.4f\n", argv[1], (now() - began) / times);
	return 0;
}
