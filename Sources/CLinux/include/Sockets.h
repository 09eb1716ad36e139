// Unix sockets, and what the kernel tells about who is at their other end.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// A listening socket, non-blocking, at a path that must not exist: -ENAMETOOLONG beyond 107 bytes.
int cl_unix_listen(const char *path, int backlog);
/// -ECONNREFUSED: the socket is there and nobody listens.
int cl_unix_connect(const char *path);
/// The next connection, non-blocking.
int cl_accept(int socket);
/// At most `count` supplementary groups of the other end as it was when it connected; the number written.
int cl_peer_groups(int socket, gid_t *groups, int count);
/// Never raises SIGPIPE.
ssize_t cl_send(int socket, const void *bytes, size_t count);
ssize_t cl_receive(int socket, void *buffer, size_t count);
/// poll(2): events of every descriptor come back in `ready`.
int cl_poll(const int *descriptors, const short *wanted, short *ready, int count, int milliseconds);
/// Two ends of a pipe, both close-on-exec.
int cl_pipe(int ends[2]);
/// Whether a user may reach `path` (relative to the directory, no symlinks, nothing above it) and access it in that way
/// (R_OK, W_OK): asked with that user's ids on this thread alone. Only root may ask this about others.
int cl_may_access(int directory, const char *path, int mode, uid_t uid, gid_t gid, const gid_t *groups, int count);
