// System calls that Swift's Glibc overlay lacks or cannot call (variadic, raw, per thread).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <dirent.h>
#include "Paths.h"
#include "Processes.h"
#include "Programs.h"
#include "Sockets.h"

/// Every cl_ function returns a result of 0 or more, or a negative errno.

int cl_openat(int dir, const char *name, int flags, mode_t mode);
int cl_fstatat(int dir, const char *name, struct stat *st, int flags);
int cl_fstat(int fd, struct stat *st);                 /* O_PATH descriptors too */
/// What statx(2) adds to stat: the time of birth and the attribute bits.
struct cl_statx { uint32_t mask; uint64_t attributes, attributes_mask; int64_t birth_seconds; uint32_t birth_nanoseconds; };
int cl_statx(int fd, unsigned mask, struct cl_statx *out);
int cl_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int cl_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int cl_link_fd(int fd, int to_dir, const char *to);    /* the file behind a descriptor, O_PATH too */
int cl_unlinkat(int dir, const char *name, int flags);
int cl_mkdirat(int dir, const char *name, mode_t mode);
int cl_symlinkat(const char *target, int dir, const char *name);
int cl_mknodat(int dir, const char *name, mode_t mode, dev_t rdev);
ssize_t cl_readlinkat(int dir, const char *name, char *buf, size_t size);
/// Opens again what a descriptor (O_PATH too) refers to, with other flags.
int cl_reopen(int fd, int flags);
int cl_close(int fd);
ssize_t cl_pread(int fd, void *buf, size_t count, int64_t offset);
ssize_t cl_pwrite(int fd, const void *buf, size_t count, int64_t offset);
/* Where the file ends at that moment, whatever flags it was opened with. */
ssize_t cl_pwrite_end(int fd, const void *buf, size_t count);
int cl_ftruncate(int fd, int64_t length);
int cl_fsync(int fd, int data_only);
int cl_syncfs(int fd);
int cl_fallocate(int fd, int mode, int64_t offset, int64_t length);
int64_t cl_lseek(int fd, int64_t offset, int whence);
/* Where the next bytes lie that were ever written, and where they `end` (INT64_MAX: not known). -ENXIO: nowhere. */
int64_t cl_next_data(int fd, int64_t at, int64_t *end);
int64_t cl_copy_file_range(int in, int64_t in_offset, int out, int64_t out_offset, size_t length);
/// Copies all of `in` to `out` from offset 0: clones where the file system can, else copies inside the kernel, holes kept.
int cl_copy_file(int in, int out, int64_t size);
/// FICLONE only: 0, or a negative errno (EOPNOTSUPP, EXDEV, EINVAL where the file system cannot).
int cl_clone_file(int in, int out);
/// chmod, chown, utimensat of what a descriptor (O_PATH too, symlinks too) refers to.
int cl_chmod_fd(int fd, mode_t mode);
int cl_chown_fd(int fd, uid_t uid, gid_t gid);
int cl_utimens_fd(int fd, const struct timespec times[2]);
int cl_truncate_fd(int fd, int64_t length);
/// xattrs of what a descriptor (O_PATH too, symlinks excluded) refers to.
ssize_t cl_getxattr_fd(int fd, const char *name, void *value, size_t size);
int cl_setxattr_fd(int fd, const char *name, const void *value, size_t size, int flags);
ssize_t cl_listxattr_fd(int fd, char *list, size_t size);
int cl_removexattr_fd(int fd, const char *name);
/// Takes and returns a read lease: 0 when nobody has the file open or mapped for writing, -EAGAIN when somebody has.
int cl_probe_writers(int fd);
/// The same with a write lease: -EAGAIN when anybody but this descriptor, which is open for reading and writing, has it open.
int cl_probe_users(int fd);
/// An exclusive lock that dies with the process (flock): 0 or -EWOULDBLOCK.
int cl_lock(int fd);
/// The effective ids of this thread alone (raw system calls; glibc's would change every thread).
int cl_thread_become(uid_t uid, gid_t gid);
int cl_thread_return(void);
/// The file system ids of this thread alone.
/// Whether writes of this thread leave set-ID bits alone where it has the right to (CAP_FSETID).
int cl_thread_set_fsetid(int on);
void cl_thread_fsids(uid_t uid, gid_t gid);
/// Gives this thread a umask and working directory of its own, and sets the umask to 0.
int cl_thread_unshare(void);
mode_t cl_umask(mode_t mask);
/// This thread runs only when others leave time.
void cl_thread_background(void);
/// Names this thread for ps and gdb (15 bytes).
void cl_thread_name(const char *name);
int cl_thread_id(void);
/// uid, gid and pid of the process at the other end of a Unix socket.
int cl_peer(int socket, uid_t *uid, gid_t *gid, pid_t *pid);
int cl_ignore_signals(void);                           /* SIGPIPE and SIGIO */
int cl_raise_descriptor_limit(void);                   /* to 2^20 where allowed, else to the hard limit; returns it */
int cl_mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data);
int cl_umount(const char *target, int lazily);
/// The same file by a mount of its own, which has no name and keeps access times as they are: O_PATH. Root's.
int cl_clone_without_atime(int fd);
int64_t cl_clock_realtime_ns(void);
int64_t cl_clock_monotonic_ns(void);
int cl_errno(void);
/// Directory entries as the kernel keeps them (struct linux_dirent64), each with the offset behind it.
ssize_t cl_getdents(int fd, void *buf, size_t size);
/// statx(2) as it is: 256 bytes, the layout that FUSE_STATX replies have too.
int cl_statx_whole(int dir, const char *name, int flags, unsigned mask, void *out);
/// ioctl(2) with a pointer.
int cl_ioctl(int fd, unsigned long command, void *argument);
/// Like cl_thread_become, with one supplementary group.
int cl_thread_become_in(uid_t uid, gid_t gid, gid_t group);
/// After cl_thread_become: lets this thread pass permission checks that the kernel has made already. Undone by cl_thread_return.
int cl_thread_override(void);
/// What this thread is serving: the kernel's number of the request, and a supplementary group of its caller (-1: none).
struct cl_request { uint64_t unique; int64_t group; };
void cl_thread_serve(uint64_t unique, int64_t group);
struct cl_request cl_thread_request(void);
/// A buffer of this thread's own, aligned to a page; NULL when there is no memory.
void *cl_thread_buffer(size_t size);
/// A thread in a system call is woken (EINTR) by cl_wake, once cl_wake_prepare was called.
int cl_wake_prepare(void);
int cl_wake(unsigned long thread);
/// Runs a program found in PATH, waits for it: its exit status, or a negative errno.
int cl_run(const char *const arguments[]);
/// Whether a file system of that type is mounted at that very path.
int cl_is_mounted(const char *path, const char *type);
