/* items: creates COUNT small files in a directory, a thousand in each subdirectory, as fast as possible.
 *
 *   gcc -O2 items.c -o items
 *   items DIRECTORY COUNT
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PER_DIRECTORY = 1000 };

static void need(int fine, const char *what)
{
	if (fine) return;
	perror(what);
	exit(1);
}

int main(int argc, char **argv)
{
	if (argc != 3) { fprintf(stderr, "usage: items DIRECTORY COUNT\n"); return 2; }
	int count = atoi(argv[2]), directory = -1;
	char name[64], text[128];
	need(!chdir(argv[1]), argv[1]);
	for (int i = 0; i < count; i++) {
		if (i % PER_DIRECTORY == 0) {
			if (directory >= 0) close(directory);
			snprintf(name, sizeof name, "folder %04d", i / PER_DIRECTORY);
			need(!mkdir(name, 0755), name);
			directory = open(name, O_RDONLY | O_DIRECTORY);
			need(directory >= 0, name);
		}
		snprintf(name, sizeof name, "document %07d.txt", i);
		int fd = openat(directory, name, O_CREAT | O_EXCL | O_WRONLY, 0644);
		need(fd >= 0, name);
		int length = snprintf(text, sizeof text, "This is document number %d.\n", i);
		need(write(fd, text, (size_t)length) == length && !close(fd), name);
	}
	return 0;
}
