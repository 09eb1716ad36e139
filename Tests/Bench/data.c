/* data: measures reading and writing the bytes of one large file. Everything stays in the page
 * cache, so the way to the cache is measured and not the disk.
 *
 *   gcc -O2 data.c -o data
 *   data DIRECTORY MEGABYTES PART          prints "write-new 61.2 …": microseconds a MiB (sequential,
 *                                          mmap) or an operation (random 4 KiB)
 *
 * The parts come one after the other, and leave the file "large" to the next one:
 *   new         new files
 *   overwrite   the first overwriting of the file in place, and the second in the same open file
 *   keep        the same, but the file is copied first, and the copy synced: the least that keeping old bytes can
 *               cost that were on the disk
 *   rest        everything else; removes the file
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096, RANDOM_OPERATIONS = 50000, PASSES = 3 };
static char buffer[MIB];
static int64_t size;
static uint64_t seed = 42;
static volatile unsigned sum;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}
static void need(int fine, const char *what)
{
	if (fine) return;
	perror(what);
	exit(1);
}
static int64_t somewhere(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (int64_t)((seed >> 20) % (uint64_t)(size / PAGE)) * PAGE;
}

static void sequential(int fd, int writing)
{
	for (int64_t at = 0; at < size; at += MIB) {
		ssize_t count = writing ? pwrite(fd, buffer, MIB, at) : pread(fd, buffer, MIB, at);
		need(count == MIB, writing ? "write" : "read");
	}
}
static void scattered(int fd, int writing)
{
	for (int i = 0; i < RANDOM_OPERATIONS; i++) {
		ssize_t count = writing ? pwrite(fd, buffer, PAGE, somewhere()) : pread(fd, buffer, PAGE, somewhere());
		need(count == PAGE, writing ? "pwrite" : "pread");
	}
}
static void mapped(int fd, int writing)
{
	char *map = mmap(NULL, (size_t)size, writing ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	need(map != MAP_FAILED, "mmap");
	for (int64_t at = 0; at < size; at += PAGE)
		if (writing) map[at]++; else sum += (unsigned char)map[at];
	munmap(map, (size_t)size);
}

/* The fastest of several passes. Each opens the file anew, as programs do. */
static void report(const char *what, int flags, void (*pass)(int, int), int writing, double units)
{
	double best = 0;
	for (int i = 0; i < PASSES; i++) {
		int fd = open("large", flags);
		need(fd >= 0, "large");
		double began = now();
		pass(fd, writing);
		double took = now() - began;
		if (i == 0 || took < best) best = took;
		need(!fsync(fd) && !close(fd), "close");
	}
	printf("%s %.4f ", what, best / units);
	fflush(stdout);
}

static void write_new(void)
{
	double best = 0;
	for (int i = 0; i < PASSES; i++) {
		unlink("large");
		int fd = open("large", O_CREAT | O_EXCL | O_WRONLY, 0644);
		need(fd >= 0, "large");
		double began = now();
		sequential(fd, 1);
		double took = now() - began;
		if (i == 0 || took < best) best = took;
		need(!fsync(fd) && !close(fd), "close");
	}
	printf("write-new %.4f ", best / (double)(size / MIB));
}

static void copy(void)
{
	int from = open("large", O_RDONLY), to = open("copy", O_CREAT | O_EXCL | O_WRONLY, 0644);
	need(from >= 0 && to >= 0, "copy");
	for (int64_t at = 0; at < size; at += MIB)
		need(pread(from, buffer, MIB, at) == MIB && pwrite(to, buffer, MIB, at) == MIB, "copy");
	need(!fdatasync(to) && !close(from) && !close(to) && !unlink("copy"), "copy");
}

static void overwrite(int keeping)
{
	double began = now();
	if (keeping) copy();
	int fd = open("large", O_WRONLY);
	need(fd >= 0, "large");
	sequential(fd, 1);
	double first = now() - began;
	began = now();
	sequential(fd, 1);
	printf("overwrite-first %.4f overwrite-again %.4f ", first / (double)(size / MIB), (now() - began) / (double)(size / MIB));
	need(!fsync(fd) && !close(fd), "close");
}

int main(int argc, char **argv)
{
	if (argc != 4) { fprintf(stderr, "usage: data DIRECTORY MEGABYTES new|overwrite|keep|rest\n"); return 2; }
	need(!chdir(argv[1]), argv[1]);
	size = (int64_t)atoi(argv[2]) * MIB;
	if (size < MIB) { fprintf(stderr, "data: at least one megabyte\n"); return 2; }
	memset(buffer, 5, sizeof buffer);

	if (!strcmp(argv[3], "new")) write_new();
	else if (!strcmp(argv[3], "overwrite")) overwrite(0);
	else if (!strcmp(argv[3], "keep")) overwrite(1);
	else {
		report("rewrite", O_WRONLY, sequential, 1, (double)(size / MIB));
		report("read", O_RDONLY, sequential, 0, (double)(size / MIB));
		report("pread-4k", O_RDONLY, scattered, 0, RANDOM_OPERATIONS);
		report("pwrite-4k", O_RDWR, scattered, 1, RANDOM_OPERATIONS);
		report("mmap-read", O_RDONLY, mapped, 0, (double)(size / MIB));
		report("mmap-write", O_RDWR, mapped, 1, (double)(size / MIB));
		need(!unlink("large"), "large");
	}
	printf("\n");
	return 0;
}
