/* names: measures operations on names and small files in a directory, in microseconds each.
 *
 *   gcc -O2 names.c -o names
 *   names DIRECTORY COUNT [ROUNDS]         prints "create 70.12 save 80.00 …", medians of the rounds
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 4096, ROUNDS_MAX = 99 };
enum kind { CREATE, STAT, STAT_AGAIN, READ, LIST, SAVE, CLOSE, REPLACE, RENAME, UNLINK, KINDS };
static const char *const names[KINDS] = {
	"create", "stat", "stat-again", "open-read-close", "readdir",
	"save-in-place", "close-after-save", "save-by-rename", "rename", "unlink" };
static double spent[KINDS][ROUNDS_MAX], began;
static char bytes[SIZE];
static const char *directory;
static int count, round_number;

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
static void done(enum kind kind) { spent[kind][round_number] = (now() - began) / count; began = now(); }
static const char *file(char buffer[64], char prefix, int number)
{
	snprintf(buffer, 64, "%c%d.txt", prefix, number);
	return buffer;
}

/* Writes a whole file and closes it. Returns the time of the close. */
static double write_file(const char *name, int flags, char fill)
{
	int fd = open(name, O_WRONLY | flags, 0644);
	need(fd >= 0, name);
	memset(bytes, fill, sizeof bytes);
	need(write(fd, bytes, SIZE) == SIZE, name);
	double before = now();
	need(close(fd) == 0, name);
	return now() - before;
}

static void look(void)
{
	char name[64];
	struct stat st;
	for (enum kind kind = STAT; kind <= STAT_AGAIN; kind++) {
		for (int i = 0; i < count; i++) need(!stat(file(name, 'a', i), &st) && st.st_size == SIZE, name);
		done(kind);
	}
	for (int i = 0; i < count; i++) {
		int fd = open(file(name, 'a', i), O_RDONLY);
		need(fd >= 0 && read(fd, bytes, SIZE) == SIZE && close(fd) == 0, name);
	}
	done(READ);
	int seen = 0;
	DIR *list = opendir(".");
	need(list != NULL, directory);
	while (readdir(list)) seen++;
	closedir(list);
	if (seen != count + 2) { fprintf(stderr, "%s: %d names of %d\n", directory, seen, count + 2); exit(1); }
	done(LIST);
}

static void measure(void)
{
	char name[64], other[64];
	double closing = 0;
	began = now();
	for (int i = 0; i < count; i++) write_file(file(name, 'a', i), O_CREAT | O_EXCL, 1);
	done(CREATE);
	look();
	for (int i = 0; i < count; i++) closing += write_file(file(name, 'a', i), O_TRUNC, 2);
	done(SAVE);
	spent[CLOSE][round_number] = closing / count;
	for (int i = 0; i < count; i++) {
		write_file(file(other, 'n', i), O_CREAT | O_EXCL, 3);
		need(!rename(other, file(name, 'a', i)), other);
	}
	done(REPLACE);
	for (int i = 0; i < count; i++) need(!rename(file(name, 'a', i), file(other, 'b', i)), name);
	done(RENAME);
	for (int i = 0; i < count; i++) need(!unlink(file(name, 'b', i)), name);
	done(UNLINK);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	if (argc < 3) { fprintf(stderr, "usage: names DIRECTORY COUNT [ROUNDS]\n"); return 2; }
	directory = argv[1];
	count = atoi(argv[2]);
	int rounds = argc > 3 ? atoi(argv[3]) : 5;
	if (count < 1 || rounds < 1 || rounds > ROUNDS_MAX) { fprintf(stderr, "names: at least 1, at most %d rounds\n", ROUNDS_MAX); return 2; }
	need(!chdir(directory), directory);
	for (round_number = 0; round_number < rounds; round_number++) {
		char own[64];
		snprintf(own, sizeof own, "names.%d.%d", (int)getpid(), round_number);
		need(!mkdir(own, 0755) && !chdir(own), own);
		measure();
		need(!chdir("..") && !rmdir(own), own);
	}
	for (int kind = 0; kind < KINDS; kind++) {
		qsort(spent[kind], (size_t)rounds, sizeof(double), ascending);
		printf("%s %.3f%c", names[kind], spent[kind][rounds / 2], kind + 1 < KINDS ? ' ' : '\n');
	}
	return 0;
}
