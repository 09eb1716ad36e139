#define _GNU_SOURCE
#include "CLinux.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fiemap.h>
#include <linux/openat2.h>
#include <linux/fs.h>
#include <mntent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define RESULT(call) ({ __typeof__(call) r_ = (call); r_ < 0 ? -errno : r_; })

struct self_path { char text[40]; };
static struct self_path self(int fd) { struct self_path p; snprintf(p.text, sizeof p.text, "/proc/self/fd/%d", fd); return p; }

int cl_errno(void) { return errno; }
int cl_openat(int dir, const char *name, int flags, mode_t mode) { return RESULT(openat(dir, name, flags | O_CLOEXEC, mode)); }
int cl_open_beneath(int root, const char *path, int flags) {
    /* openat2 refuses the flags that openat ignores. */
    if (flags & O_PATH) flags &= O_PATH | O_DIRECTORY;
    struct open_how how = { .flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC), .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
    return RESULT((int)syscall(SYS_openat2, root, path, &how, sizeof how));
}
int cl_fstatat(int dir, const char *name, struct stat *st, int flags) { return RESULT(fstatat(dir, name, st, flags)); }
int cl_fstat(int fd, struct stat *st) { return RESULT(fstatat(fd, "", st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)); }
int cl_statx(int fd, unsigned mask, struct cl_statx *out) {
    struct statx sx;
    if (statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, mask, &sx) < 0) return -errno;
    *out = (struct cl_statx){ sx.stx_mask, sx.stx_attributes, sx.stx_attributes_mask, sx.stx_btime.tv_sec, sx.stx_btime.tv_nsec };
    return 0;
}
int cl_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) { return RESULT(renameat2(from_dir, from, to_dir, to, flags)); }
int cl_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) { return RESULT(linkat(from_dir, from, to_dir, to, flags)); }
int cl_link_fd(int fd, int to_dir, const char *to) { return RESULT(linkat(AT_FDCWD, self(fd).text, to_dir, to, AT_SYMLINK_FOLLOW)); }
int cl_unlinkat(int dir, const char *name, int flags) { return RESULT(unlinkat(dir, name, flags)); }
int cl_mkdirat(int dir, const char *name, mode_t mode) { return RESULT(mkdirat(dir, name, mode)); }
int cl_symlinkat(const char *target, int dir, const char *name) { return RESULT(symlinkat(target, dir, name)); }
int cl_mknodat(int dir, const char *name, mode_t mode, dev_t rdev) { return RESULT(mknodat(dir, name, mode, rdev)); }
ssize_t cl_readlinkat(int dir, const char *name, char *buf, size_t size) { return RESULT(readlinkat(dir, name, buf, size)); }
int cl_reopen(int fd, int flags) {
    int r = RESULT(open(self(fd).text, flags | O_CLOEXEC));
    /* Somebody holds a lease, as cl_probe_writers does for a moment. Without O_NONBLOCK, open(2) waits until it ends. */
    if (r == -EAGAIN) r = RESULT(open(self(fd).text, (flags & ~O_NONBLOCK) | O_CLOEXEC));
    return r;
}
int cl_close(int fd) { return RESULT(close(fd)); }
ssize_t cl_pread(int fd, void *buf, size_t count, int64_t offset) { return RESULT(pread(fd, buf, count, offset)); }
ssize_t cl_pwrite(int fd, const void *buf, size_t count, int64_t offset) { return RESULT(pwrite(fd, buf, count, offset)); }
ssize_t cl_pwrite_end(int fd, const void *buf, size_t count) {
    struct iovec piece = { (void *)buf, count };
    return RESULT(pwritev2(fd, &piece, 1, 0, RWF_APPEND));
}
int cl_ftruncate(int fd, int64_t length) { return RESULT(ftruncate(fd, length)); }
int cl_fsync(int fd, int data_only) { return RESULT(data_only ? fdatasync(fd) : fsync(fd)); }
int cl_syncfs(int fd) { return RESULT(syncfs(fd)); }
void cl_start_writing(int fd, int64_t offset, int64_t length) { sync_file_range(fd, offset, length, SYNC_FILE_RANGE_WRITE); }
int cl_fallocate(int fd, int mode, int64_t offset, int64_t length) { return RESULT(fallocate(fd, mode, offset, length)); }
int64_t cl_lseek(int fd, int64_t offset, int whence) { return RESULT(lseek(fd, offset, whence)); }
int64_t cl_copy_file_range(int in, int64_t in_offset, int out, int64_t out_offset, size_t length) {
    loff_t from = in_offset, to = out_offset;
    return RESULT(copy_file_range(in, &from, out, &to, length, 0));
}
int cl_clone_file(int in, int out) { return RESULT(ioctl(out, FICLONE, in)); }

/* Stores up to `count` extents, from `at` on, in `map`. Returns their number, or 0 when the file system does not support FIEMAP. */
static unsigned extents(int fd, int64_t at, int64_t end, int syncs, struct fiemap *map, unsigned count) {
    memset(map, 0, sizeof *map);
    map->fm_start = (uint64_t)at;
    map->fm_length = (uint64_t)(end - at);
    map->fm_flags = syncs ? FIEMAP_FLAG_SYNC : 0;
    map->fm_extent_count = count;
    return ioctl(fd, FS_IOC_FIEMAP, map) < 0 ? 0 : map->fm_mapped_extents;
}
static int is_unwritten(const struct fiemap_extent *extent) { return (extent->fe_flags & FIEMAP_EXTENT_UNWRITTEN) != 0; }
static int64_t end_of(const struct fiemap_extent *extent) { return (int64_t)(extent->fe_logical + extent->fe_length); }

/* Files of very many extents are not looked through to their end: the rest counts as the file's own. */
int64_t cl_own_bytes(int fd) {
    enum { count = 128, rounds = 64 };
    _Alignas(struct fiemap) char space[sizeof(struct fiemap) + count * sizeof(struct fiemap_extent)];
    struct fiemap *map = (struct fiemap *)space;
    struct stat status;
    if (fstat(fd, &status) < 0) return -errno;
    int64_t own = (int64_t)status.st_blocks * 512, at = 0;
    for (int round = 0; round < rounds; round++) {
        unsigned known = extents(fd, at, INT64_MAX, 0, map, count);
        for (unsigned i = 0; i < known; i++) {
            struct fiemap_extent *extent = map->fm_extents + i;
            if (extent->fe_flags & FIEMAP_EXTENT_SHARED) own -= (int64_t)extent->fe_length;
            at = end_of(extent);
            if (extent->fe_flags & FIEMAP_EXTENT_LAST) return own < 0 ? 0 : own;
        }
        if (known < count) break;
    }
    return own < 0 ? 0 : own;
}

/* For SEEK_DATA, allocated blocks that were never written (fallocate) are data as soon as they are in the page cache.
   A program that reads such a file brings them there itself, by the kernel's read-ahead, and would so read the file to
   its end. The extents distinguish these blocks from data, after dirty pages have been written (FIEMAP_FLAG_SYNC); what
   is between two of them is then a hole. SEEK_HOLE looks through all such blocks that follow, so it is asked only where
   data is. */
int64_t cl_next_data(int fd, int64_t at, int64_t *end) {
    enum { count = 128, rounds = 16 };
    _Alignas(struct fiemap) char space[sizeof(struct fiemap) + count * sizeof(struct fiemap_extent)];
    struct fiemap *map = (struct fiemap *)space;
    for (int round = 1;; round++) {
        int64_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0) return -errno;
        unsigned known = extents(fd, data, INT64_MAX, 0, map, count);
        if (known > 0 && is_unwritten(map->fm_extents)) known = extents(fd, data, INT64_MAX, 1, map, count);
        int64_t past = data;
        unsigned next = 0;
        if (known > 0 && (int64_t)map->fm_extents[0].fe_logical <= data) {
            for (; next < known && is_unwritten(map->fm_extents + next); next++) past = end_of(map->fm_extents + next);
        }
        if (past > data) {
            at = *end = past;
            if (round < rounds) continue;
            return at;
        }
        int64_t hole = lseek(fd, data, SEEK_HOLE);
        *end = hole > data ? hole : INT64_MAX;
        while (next < known && !is_unwritten(map->fm_extents + next)) next += 1;
        int64_t stop = next < known ? (int64_t)map->fm_extents[next].fe_logical : known == count ? end_of(map->fm_extents + known - 1) : *end;
        if (stop > data && stop < *end) *end = stop;
        return data;
    }
}

/* Copies one extent of data inside the kernel, or through this process where the kernel cannot (EXDEV, EINVAL). */
static int copy_extent(int in, int out, int64_t at, int64_t end, const volatile int *stop) {
    static __thread char buffer[1 << 16];
    while (at < end) {
        if (stop && *stop) return -ECANCELED;
        size_t want = end - at > (1 << 25) ? 1 << 25 : (size_t)(end - at);
        int64_t n = cl_copy_file_range(in, at, out, at, want);
        if (n == -EXDEV || n == -EINVAL || n == -EOPNOTSUPP || n == -ENOSYS) {
            n = pread(in, buffer, want < sizeof buffer ? want : sizeof buffer, at);
            if (n > 0 && pwrite(out, buffer, (size_t)n, at) != n) return errno ? -errno : -EIO;
            if (n < 0) n = -errno;
        }
        if (n < 0) return (int)n;
        if (n == 0) return 0;                          /* the file has become shorter in the meantime */
        at += n;
    }
    return 0;
}
int cl_copy_file(int in, int out, int64_t size, const volatile int *stop) {
    if (ioctl(out, FICLONE, in) == 0) return 0;
    int64_t at = 0;
    while (at < size) {
        int64_t hole, data = cl_next_data(in, at, &hole);
        if (data == -ENXIO || data >= size) break;     /* only a hole is left */
        if (data < 0) { data = at; hole = size; }
        if (hole > size) hole = size;
        int r = copy_extent(in, out, data, hole, stop);
        if (r < 0) return r;
        at = hole;
    }
    /* The size is set last: it can reach the disk before the data does. */
    return lseek(out, 0, SEEK_END) == size ? 0 : RESULT(ftruncate(out, size));
}
int cl_chmod_fd(int fd, mode_t mode) { return RESULT(chmod(self(fd).text, mode)); }
int cl_chown_fd(int fd, uid_t uid, gid_t gid) { return RESULT(fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)); }
int cl_utimens_fd(int fd, const struct timespec times[2]) {
    int r = utimensat(fd, "", times, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
    return r < 0 ? -errno : 0;
}
int cl_truncate_fd(int fd, int64_t length) { return RESULT(truncate(self(fd).text, length)); }
ssize_t cl_getxattr_fd(int fd, const char *name, void *value, size_t size) {
    /* A path through /proc takes longer; only a descriptor that was opened with O_PATH needs one. */
    ssize_t r = fgetxattr(fd, name, value, size);
    if (r >= 0 || errno != EBADF) return RESULT(r);
    return RESULT(getxattr(self(fd).text, name, value, size));
}
int cl_setxattr_fd(int fd, const char *name, const void *value, size_t size, int flags) { return RESULT(setxattr(self(fd).text, name, value, size, flags)); }
ssize_t cl_listxattr_fd(int fd, char *list, size_t size) { return RESULT(listxattr(self(fd).text, list, size)); }
int cl_removexattr_fd(int fd, const char *name) { return RESULT(removexattr(self(fd).text, name)); }
int cl_probe_writers(int fd) {
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0) return -errno;
    (void)fcntl(fd, F_SETLEASE, F_UNLCK);
    return 0;
}
int cl_probe_users(int fd) {
    if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0) return -errno;
    (void)fcntl(fd, F_SETLEASE, F_UNLCK);
    return 0;
}
int cl_lock(int fd) { return RESULT(flock(fd, LOCK_EX | LOCK_NB)); }
int cl_thread_become(uid_t uid, gid_t gid) {
    if (syscall(SYS_setgroups, 0, NULL) < 0) return -errno;
    if (syscall(SYS_setresgid, -1, gid, -1) < 0) return -errno;
    return RESULT((int)syscall(SYS_setresuid, -1, uid, -1));
}
int cl_thread_return(void) {
    int r = (int)syscall(SYS_setresuid, -1, 0, -1);
    if (syscall(SYS_setresgid, -1, 0, -1) < 0 || r < 0) return -errno;
    return 0;
}
void cl_thread_fsids(uid_t uid, gid_t gid) { setfsgid(gid); setfsuid(uid); }
void cl_thread_fsuid(uid_t uid) { setfsuid(uid); }
int cl_thread_unshare(void) { int r = RESULT(unshare(CLONE_FS)); umask(0); return r; }
mode_t cl_umask(mode_t mask) { return umask(mask); }
void cl_thread_background(void) {
    struct sched_param none = { 0 };
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10);
    sched_setscheduler(0, SCHED_BATCH, &none);
}
void cl_thread_name(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }
int cl_thread_id(void) { return (int)syscall(SYS_gettid); }
int cl_peer(int socket, uid_t *uid, gid_t *gid, pid_t *pid) {
    struct ucred peer; socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return -errno;
    *uid = peer.uid; *gid = peer.gid; *pid = peer.pid;
    return 0;
}
int cl_ignore_signals(void) { signal(SIGPIPE, SIG_IGN); signal(SIGIO, SIG_IGN); return 0; }
int cl_raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return -errno;
    // Root may raise the hard limit.
    if (limit.rlim_max < 1 << 20) {
        struct rlimit more = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
        if (setrlimit(RLIMIT_NOFILE, &more) == 0) return 1 << 20;
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_max > 1 << 20 ? 1 << 20 : (int)limit.rlim_max;
}
int cl_give_up_reserves(void) {
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2];
    const unsigned bit = 1u << CAP_SYS_RESOURCE;
    if (syscall(SYS_capget, &header, data) < 0) return -errno;
    // Also from those that it may have: returning from another user's id sets them all.
    data[0].effective &= ~bit;
    data[0].permitted &= ~bit;
    return RESULT((int)syscall(SYS_capset, &header, data));
}
int cl_mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data) { return RESULT(mount(source, target, type, flags, data)); }
int cl_clone_without_atime(int fd) {
    int clone = (int)syscall(SYS_open_tree, fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (clone < 0) return -errno;
    struct mount_attr how = {.attr_set = MOUNT_ATTR_NOATIME, .attr_clr = MOUNT_ATTR__ATIME};
    if (syscall(SYS_mount_setattr, clone, "", AT_EMPTY_PATH, &how, sizeof how) == 0) return clone;
    int error = errno;
    close(clone);
    return -error;
}
int cl_umount(const char *target, int lazily) { return RESULT(umount2(target, lazily ? MNT_DETACH : 0)); }
static int64_t clock_ns(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1000000000ll + t.tv_nsec; }
int64_t cl_clock_realtime_ns(void) { return clock_ns(CLOCK_REALTIME); }
int64_t cl_clock_monotonic_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
int64_t cl_clock_boottime_ns(void) { return clock_ns(CLOCK_BOOTTIME); }
ssize_t cl_getdents(int fd, void *buf, size_t size) { return RESULT((ssize_t)syscall(SYS_getdents64, fd, buf, size)); }
int cl_statx_whole(int dir, const char *name, int flags, unsigned mask, void *out) {
    return RESULT(statx(dir, name, flags, mask, (struct statx *)out));
}
int cl_ioctl(int fd, unsigned long command, void *argument) { return RESULT(ioctl(fd, command, argument)); }
int cl_thread_become_in(uid_t uid, gid_t gid, gid_t group) {
    if (syscall(SYS_setgroups, 1, &group) < 0) return -errno;
    if (syscall(SYS_setresgid, -1, gid, -1) < 0) return -errno;
    return RESULT((int)syscall(SYS_setresuid, -1, uid, -1));
}
int cl_thread_override(void) {
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0) return -errno;
    data[0].effective |= 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
    return RESULT((int)syscall(SYS_capset, &header, data));
}
static __thread struct cl_request serving;
void cl_thread_serve(uint64_t unique, int64_t group) { serving = (struct cl_request){ unique, group }; }
struct cl_request cl_thread_request(void) { return serving; }
void *cl_thread_buffer(size_t size) {
    static __thread void *buffer;
    static __thread size_t capacity;
    if (size <= capacity) return buffer;
    void *larger = NULL;
    size_t rounded = (size + 4095) & ~(size_t)4095;
    if (posix_memalign(&larger, 4096, rounded)) return NULL;
    free(buffer);
    capacity = rounded;
    return buffer = larger;
}
static void nothing(int signal) { (void)signal; }
int cl_wake_prepare(void) {
    struct sigaction action = { .sa_handler = nothing };     /* without SA_RESTART, so that system calls return EINTR */
    return RESULT(sigaction(SIGURG, &action, NULL));
}
int cl_wake(unsigned long thread) { return -pthread_kill((pthread_t)thread, SIGURG); }
extern char **environ;
int cl_run(const char *const arguments[]) {
    pid_t pid;
    int status, r = posix_spawnp(&pid, arguments[0], NULL, NULL, (char *const *)arguments, environ);
    if (r) return -r;
    while (waitpid(pid, &status, 0) < 0) if (errno != EINTR) return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
int cl_is_mounted(const char *path, const char *type) {
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    struct mntent entry;
    char text[8192];
    int found = 0;
    if (!mounts) return -errno;
    while (!found && getmntent_r(mounts, &entry, text, sizeof text))
        found = !strcmp(entry.mnt_dir, path) && !strcmp(entry.mnt_type, type);
    endmntent(mounts);
    return found;
}
