#define _GNU_SOURCE
#include "Paths.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

int cl_open_path(const char *path) {
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}
ssize_t cl_path_getxattr(const char *path, const char *name, void *value, size_t size) {
    ssize_t n = lgetxattr(path, name, value, size);
    return n < 0 ? -errno : n;
}
long cl_filesystem_type(const char *path) {
    struct statfs facts;
    return statfs(path, &facts) < 0 ? -errno : (long)facts.f_type;
}
