// A library that a test preloads into the daemon or another program. It counts the calls by which
// the process changes files or answers the kernel's requests, in another program also those by
// which it connects to a socket, and ends the process with SIGKILL just before the call with a
// given number. It is compiled by Tests/Support/StepKiller.swift.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

// Shared with the test, which maps the same file.
struct control {
    atomic_int is_armed;
    atomic_int count;
    atomic_int kill_at;
    char call[52];
};

static struct control *control;
static char *plant;
static int is_daemon;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CONCORD_KILL_CONTROL");
    // env(1) starts the program.
    const char *name = getenv("CONCORD_KILL_PROGRAM");
    if (!path || !name || strcmp(program_invocation_short_name, name)) return;
    is_daemon = strcmp(name, "concord") == 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED) control = mapped;
    // Only this process is concerned, not those that it starts.
    unsetenv("LD_PRELOAD");
    unsetenv("CONCORD_KILL_CONTROL");
    plant = getenv("CONCORD_KILL_PLANT") ? strdup(getenv("CONCORD_KILL_PLANT")) : NULL;
    unsetenv("CONCORD_KILL_PLANT");
}

static void step(const char *call) {
    if (!control || !atomic_load(&control->is_armed)) return;
    if (atomic_fetch_add(&control->count, 1) + 1 != atomic_load(&control->kill_at)) return;
    strncpy(control->call, call, sizeof control->call - 1);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

// Files, and the device by which the kernel is answered; not sockets and pipes.
static void step_on(int fd, const char *call) {
    struct stat status;
    if (!control || !atomic_load(&control->is_armed) || fstat(fd, &status) < 0) return;
    if (S_ISREG(status.st_mode) || S_ISCHR(status.st_mode)) step(call);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CALL(type, name, parameters, before, ...)  \
    type name parameters {                         \
        static __typeof__(&name) next;             \
        if (!next) next = NEXT(name);              \
        before;                                    \
        return next(__VA_ARGS__);                  \
    }
#define ON(type, name, parameters, fd, ...) CALL(type, name, parameters, step_on(fd, #name), __VA_ARGS__)
#define AT(name, parameters, ...) CALL(int, name, parameters, step(#name), __VA_ARGS__)

ON(ssize_t, write, (int fd, const void *b, size_t n), fd, fd, b, n)
ON(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), fd, fd, b, n, o)
ON(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), fd, fd, b, n, o)
ON(ssize_t, writev, (int fd, const struct iovec *v, int n), fd, fd, v, n)
ON(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t o), fd, fd, v, n, o)
ON(ssize_t, copy_file_range, (int a, off64_t *i, int b, off64_t *o, size_t n, unsigned f), b, a, i, b, o, n, f)
ON(int, ftruncate, (int fd, off_t n), fd, fd, n)
ON(int, ftruncate64, (int fd, off64_t n), fd, fd, n)
ON(int, fallocate, (int fd, int m, off_t o, off_t n), fd, fd, m, o, n)
ON(int, fallocate64, (int fd, int m, off64_t o, off64_t n), fd, fd, m, o, n)
ON(int, fsync, (int fd), fd, fd)
ON(int, fdatasync, (int fd), fd, fd)
AT(syncfs, (int fd), fd)
AT(rename, (const char *a, const char *b), a, b)
AT(renameat, (int d, const char *a, int e, const char *b), d, a, e, b)
AT(unlink, (const char *a), a)
AT(unlinkat, (int d, const char *a, int f), d, a, f)
AT(symlinkat, (const char *t, int d, const char *a), t, d, a)
AT(mkdirat, (int d, const char *a, mode_t m), d, a, m)
AT(mknodat, (int d, const char *a, mode_t m, dev_t n), d, a, m, n)
AT(fchmodat, (int d, const char *a, mode_t m, int f), d, a, m, f)
AT(fchmod, (int fd, mode_t m), fd, m)
AT(fchown, (int fd, uid_t u, gid_t g), fd, u, g)
AT(fchownat, (int d, const char *a, uid_t u, gid_t g, int f), d, a, u, g, f)
AT(futimens, (int fd, const struct timespec t[2]), fd, t)
AT(utimensat, (int d, const char *a, const struct timespec t[2], int f), d, a, t, f)
AT(setxattr, (const char *a, const char *n, const void *v, size_t s, int f), a, n, v, s, f)
AT(fsetxattr, (int fd, const char *n, const void *v, size_t s, int f), fd, n, v, s, f)
AT(removexattr, (const char *a, const char *n), a, n)
AT(fremovexattr, (int fd, const char *n), fd, n)

// The planted fault (CONCORD_KILL_PLANT is a path): a file that is about to be replaced gets its name
// in the stash only after it was replaced. Meanwhile it has only the name CONCORD_KILL_PLANT, where
// no store looks for it. A daemon that is killed in between has lost it; all others have not.
static __thread int late_directory = -1;
static __thread char late_name[256];

int linkat(int d, const char *a, int e, const char *b, int f) {
    static __typeof__(&linkat) next;
    if (!next) next = NEXT(linkat);
    step("linkat");
    // A displaced file: SEQUENCE-d-INODE-...
    const char *kind = strchr(b, '-');
    if (!plant || !kind || strncmp(kind, "-d-", 3)) return next(d, a, e, b, f);
    unlink(plant);
    int result = next(d, a, AT_FDCWD, plant, f);
    if (result == 0) {
        late_directory = e;
        strncpy(late_name, b, sizeof late_name - 1);
    }
    return result;
}

int renameat2(int d, const char *a, int e, const char *b, unsigned f) {
    static __typeof__(&renameat2) next;
    if (!next) next = NEXT(renameat2);
    step("renameat2");
    int result = next(d, a, e, b, f);
    if (late_directory < 0) return result;
    int error = errno;
    step("the late link");
    next(AT_FDCWD, plant, late_directory, late_name, 0);
    late_directory = -1;
    errno = error;
    return result;
}
AT(rmdir, (const char *a), a)
AT(symlink, (const char *t, const char *a), t, a)
AT(link, (const char *a, const char *b), a, b)
AT(mkdir, (const char *a, mode_t m), a, m)
CALL(int, connect, (int fd, __CONST_SOCKADDR_ARG a, socklen_t n), if (!is_daemon) step("connect"), fd, a, n)

#define OPENS(name, parameters, ...)                        \
    int name parameters {                                   \
        static __typeof__(&name) next;                      \
        if (!next) next = NEXT(name);                       \
        if (flags & (O_CREAT | O_TRUNC)) step(#name);       \
        va_list rest;                                       \
        va_start(rest, flags);                              \
        mode_t mode = va_arg(rest, mode_t);                 \
        va_end(rest);                                       \
        return next(__VA_ARGS__, flags, mode);              \
    }

OPENS(open, (const char *path, int flags, ...), path)
OPENS(open64, (const char *path, int flags, ...), path)
OPENS(openat, (int directory, const char *path, int flags, ...), directory, path)
OPENS(openat64, (int directory, const char *path, int flags, ...), directory, path)

int ioctl(int fd, unsigned long request, ...) {
    static __typeof__(&ioctl) next;
    if (!next) next = NEXT(ioctl);
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    step_on(fd, "ioctl");
    return next(fd, request, argument);
}
