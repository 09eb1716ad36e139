// Unix sockets, and what the kernel knows about the process at their other end.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// Returns a listening, non-blocking socket. The path must not exist and may have at most 107 bytes
/// (else -ENAMETOOLONG).
int cl_unix_listen(const char *path, int backlog);
/// Returns -ECONNREFUSED when the socket exists and nobody listens.
int cl_unix_connect(const char *path);
/// Accepts the next connection; it is non-blocking.
int cl_accept(int socket);
/// Stores at most `count` supplementary groups that the process at the other end had when it
/// connected, and returns their number.
int cl_peer_groups(int socket, gid_t *groups, int count);
/// Sends without ever raising SIGPIPE.
ssize_t cl_send(int socket, const void *bytes, size_t count);
ssize_t cl_receive(int socket, void *buffer, size_t count);
/// Calls poll(2). The events of each descriptor are stored in `ready`.
int cl_poll(const int *descriptors, const short *wanted, short *ready, int count, int milliseconds);
/// Makes a pipe. Both ends are close-on-exec.
int cl_pipe(int ends[2]);
/// Returns whether a user may reach `path` (relative to the directory, without symlinks, never
/// above it) and access it in that way (R_OK, W_OK). The check runs with that user's ids on this
/// thread alone. Only root may ask this about other users.
int cl_may_access(int directory, const char *path, int mode, uid_t uid, gid_t gid, const gid_t *groups, int count);
