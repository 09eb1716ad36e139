#define _GNU_SOURCE
#include "Sockets.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int unix_socket(const char *path, struct sockaddr_un *address, int flags) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address->sun_path) return -ENAMETOOLONG;
    strcpy(address->sun_path, path);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    return s < 0 ? -errno : s;
}
int cl_unix_listen(const char *path, int backlog) {
    struct sockaddr_un address;
    int s = unix_socket(path, &address, SOCK_NONBLOCK);
    if (s < 0) return s;
    if (bind(s, (struct sockaddr *)&address, sizeof address) < 0 || listen(s, backlog) < 0) {
        int error = errno;
        close(s);
        return -error;
    }
    return s;
}
int cl_unix_connect(const char *path) {
    struct sockaddr_un address;
    int s = unix_socket(path, &address, 0);
    if (s < 0) return s;
    if (connect(s, (struct sockaddr *)&address, sizeof address) < 0) {
        int error = errno;
        close(s);
        return -error;
    }
    return s;
}
int cl_accept(int socket) {
    int s = accept4(socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return s < 0 ? -errno : s;
}
int cl_peer_groups(int socket, gid_t *groups, int count) {
    socklen_t size = (socklen_t)(sizeof *groups * (size_t)count);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0) return -errno;
    return (int)(size / sizeof *groups);
}
ssize_t cl_send(int socket, const void *bytes, size_t count) {
    ssize_t n = send(socket, bytes, count, MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}
ssize_t cl_receive(int socket, void *buffer, size_t count) {
    ssize_t n = recv(socket, buffer, count, 0);
    return n < 0 ? -errno : n;
}
int cl_poll(const int *descriptors, const short *wanted, short *ready, int count, int milliseconds) {
    struct pollfd set[count > 0 ? count : 1];
    for (int i = 0; i < count; i++) set[i] = (struct pollfd){ descriptors[i], wanted[i], 0 };
    int n = poll(set, (nfds_t)count, milliseconds);
    if (n < 0) return -errno;
    for (int i = 0; i < count; i++) ready[i] = set[i].revents;
    return n;
}
int cl_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0; }

static int reach(int directory, const char *path, int mode) {
    struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
    if (!*path) path = ".";
    int fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
    if (fd < 0) return -errno;
    int r = (int)syscall(SYS_faccessat2, fd, "", mode, AT_EMPTY_PATH | AT_EACCESS) < 0 ? -errno : 0;
    close(fd);
    return r;
}
int cl_may_access(int directory, const char *path, int mode, uid_t uid, gid_t gid, const gid_t *groups, int count) {
    gid_t own[256];
    int n = getgroups(256, own);
    if (n < 0) return -errno;
    /* Raw system calls, because glibc's functions change the ids of every thread of the process. */
    if (syscall(SYS_setgroups, (long)count, groups) < 0) return -errno;
    int r = -EPERM;
    if (syscall(SYS_setresgid, -1, gid, -1) == 0 && syscall(SYS_setresuid, -1, uid, -1) == 0) r = reach(directory, path, mode);
    if (syscall(SYS_setresuid, -1, 0, -1) < 0 || syscall(SYS_setresgid, -1, 0, -1) < 0 || syscall(SYS_setgroups, (long)n, own) < 0)
        abort();                                       /* a thread with the wrong ids must never serve a request */
    return r;
}
