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
/// Opens a path below `root`. No component may be a symlink, except that O_PATH opens a symlink at
/// the end itself; and none leads out of `root` (-EXDEV).
int cl_open_beneath(int root, const char *path, int flags);
int cl_fstatat(int dir, const char *name, struct stat *st, int flags);
int cl_fstat(int fd, struct stat *st);                 /* O_PATH descriptors too */
/// What statx(2) adds to stat(2): the time of birth and the attribute bits.
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
/// Opens the file that a descriptor (O_PATH too) refers to once more, with other flags.
int cl_reopen(int fd, int flags);
int cl_close(int fd);
ssize_t cl_pread(int fd, void *buf, size_t count, int64_t offset);
ssize_t cl_pwrite(int fd, const void *buf, size_t count, int64_t offset);
/* Writes at the end that the file has at that moment, whatever flags it was opened with. */
ssize_t cl_pwrite_end(int fd, const void *buf, size_t count);
int cl_ftruncate(int fd, int64_t length);
int cl_fsync(int fd, int data_only);
int cl_syncfs(int fd);
/// Starts writing a range of a file to the disk, and does not wait. An error shows at the next sync.
void cl_start_writing(int fd, int64_t offset, int64_t length);
int cl_fallocate(int fd, int mode, int64_t offset, int64_t length);
int64_t cl_lseek(int fd, int64_t offset, int whence);
/* Returns where the next bytes lie that were ever written, and stores where they `end` (INT64_MAX: unknown). Returns -ENXIO when there are none. */
int64_t cl_next_data(int fd, int64_t at, int64_t *end);
int64_t cl_copy_file_range(int in, int64_t in_offset, int out, int64_t out_offset, size_t length);
/// Copies all of `in` to `out` from offset 0. Clones where the file system can, else copies inside
/// the kernel and keeps holes. Gives up with ECANCELED soon after another thread has set `*stop`,
/// if that is given.
int cl_copy_file(int in, int out, int64_t size, const volatile int *stop);
/// The allocated bytes of a file that no other file shares with it (clones), or a negative errno.
int64_t cl_own_bytes(int fd);
/// Uses FICLONE only. Returns 0, or a negative errno (EOPNOTSUPP, EXDEV, EINVAL when the file
/// system cannot clone).
int cl_clone_file(int in, int out);
/// chmod, chown and utimensat for the file that a descriptor (O_PATH too, symlinks too) refers to.
int cl_chmod_fd(int fd, mode_t mode);
int cl_chown_fd(int fd, uid_t uid, gid_t gid);
int cl_utimens_fd(int fd, const struct timespec times[2]);
int cl_truncate_fd(int fd, int64_t length);
/// Extended attributes of the file that a descriptor (O_PATH too, but not a symlink) refers to.
ssize_t cl_getxattr_fd(int fd, const char *name, void *value, size_t size);
int cl_setxattr_fd(int fd, const char *name, const void *value, size_t size, int flags);
ssize_t cl_listxattr_fd(int fd, char *list, size_t size);
int cl_removexattr_fd(int fd, const char *name);
/// Takes a read lease and gives it back at once. Returns 0 when nobody has the file open or mapped
/// for writing, else -EAGAIN.
int cl_probe_writers(int fd);
/// The same with a write lease. The descriptor must be open for reading and writing. Returns
/// -EAGAIN when the file is open anywhere else.
int cl_probe_users(int fd);
/// Takes an exclusive lock (flock), which ends with the process. Returns 0 or -EWOULDBLOCK.
int cl_lock(int fd);
/// Changes the effective ids of this thread alone (raw system calls, because glibc's functions
/// change every thread). Drops supplementary groups.
int cl_thread_become(uid_t uid, gid_t gid);
/// Makes this thread's effective ids root's again.
int cl_thread_return(void);
/// Sets the file system ids of this thread alone. Others than root's do without the capabilities
/// for files, for example CAP_FSETID.
void cl_thread_fsids(uid_t uid, gid_t gid);
/// As `cl_thread_fsids`, without the group. Costs half as much.
void cl_thread_fsuid(uid_t uid);
/// Gives this thread a umask and working directory of its own, and sets the umask to 0.
int cl_thread_unshare(void);
mode_t cl_umask(mode_t mask);
/// Makes this thread give way to others: it gets a low priority and the scheduling policy
/// SCHED_BATCH.
void cl_thread_background(void);
/// Sets this thread's name, which ps and gdb show (15 bytes).
void cl_thread_name(const char *name);
int cl_thread_id(void);
/// Returns the uid, gid and pid of the process at the other end of a Unix socket.
int cl_peer(int socket, uid_t *uid, gid_t *gid, pid_t *pid);
int cl_ignore_signals(void);                           /* SIGPIPE and SIGIO */
int cl_raise_descriptor_limit(void);                   /* to 2^20 where allowed, else to the hard limit; returns it */
/// Takes CAP_SYS_RESOURCE from this thread and those that it starts. With it, file systems ignore
/// quotas and give away the blocks that they reserve for root.
int cl_give_up_reserves(void);
int cl_mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data);
int cl_umount(const char *target, int lazily);
/// Clones the mount of a file as an anonymous mount that does not update access times. Returns an
/// O_PATH descriptor of the same file. Only root may do this.
int cl_clone_without_atime(int fd);
int64_t cl_clock_realtime_ns(void);
int64_t cl_clock_monotonic_ns(void);
// Also counts the time while the machine is suspended.
int64_t cl_clock_boottime_ns(void);
int cl_errno(void);
/// Reads directory entries in the kernel's form (struct linux_dirent64). Each has the offset of the
/// next one.
ssize_t cl_getdents(int fd, void *buf, size_t size);
/// Calls statx(2) and returns the whole struct: 256 bytes, in the layout that FUSE_STATX replies
/// have, too.
int cl_statx_whole(int dir, const char *name, int flags, unsigned mask, void *out);
/// Calls ioctl(2) with a pointer.
int cl_ioctl(int fd, unsigned long command, void *argument);
/// Like cl_thread_become, with one supplementary group.
int cl_thread_become_in(uid_t uid, gid_t gid, gid_t group);
/// Gives this thread, after cl_thread_become, the capabilities that pass permission checks, because
/// the kernel has made these checks already. cl_thread_return undoes it.
int cl_thread_override(void);
/// What this thread is serving: the FUSE request's number (`unique`), and a supplementary group of
/// its caller (-1: none).
struct cl_request { uint64_t unique; int64_t group; };
void cl_thread_serve(uint64_t unique, int64_t group);
struct cl_request cl_thread_request(void);
/// Returns a buffer that belongs to this thread, aligned to a page, or NULL when there is no
/// memory. It is valid until the next call.
void *cl_thread_buffer(size_t size);
/// After cl_wake_prepare, cl_wake interrupts the system call that a thread is blocked in: the call
/// returns EINTR.
int cl_wake_prepare(void);
int cl_wake(unsigned long thread);
/// Runs a program, which is found in PATH, and waits for it. Returns its exit status, or a negative
/// errno.
int cl_run(const char *const arguments[]);
/// Returns whether a file system of that type is mounted at exactly that path.
int cl_is_mounted(const char *path, const char *type);
