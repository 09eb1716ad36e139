// A library that a test preloads into the daemon. In the directory `tree` of a store and below it,
// readdir(3) fails with EIO after as many entries as CONCORD_FAIL_READDIR says. It is compiled by
// Tests/SyncTests/UnreadableTreeTests.swift.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_in_tree(DIR *stream) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd(stream));
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, "/store/tree") != NULL;
}

#define FAILING(type, name)                                                          \
    type *name(DIR *stream) {                                                        \
        static __typeof__(&name) next;                                               \
        if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                \
        const char *limit = getenv("CONCORD_FAIL_READDIR");                          \
        /* Offsets grow from 0 on; `.` and `..` count, too. */                       \
        static __thread DIR *last;                                                   \
        static __thread int count;                                                   \
        if (last != stream || telldir(stream) == 0) { last = stream; count = 0; }    \
        if (limit && is_in_tree(stream) && count++ >= atoi(limit)) {                 \
            errno = EIO;                                                             \
            return NULL;                                                             \
        }                                                                            \
        return next(stream);                                                         \
    }

FAILING(struct dirent, readdir)
FAILING(struct dirent64, readdir64)
