#define _GNU_SOURCE
#include "Programs.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int limit(int resource, uint64_t most) {
    struct rlimit now;
    if (getrlimit(resource, &now) < 0) return -1;
    if (most > now.rlim_max) most = now.rlim_max;
    now.rlim_cur = now.rlim_max = most;
    return setrlimit(resource, &now);
}
/* Runs in the child of vfork(2), which shares our memory but has its own signal actions, descriptors and limits. It may
   make system calls only. */
static int become(const char *directory, const int descriptors[3], const struct cl_limits *limits, pid_t parent) {
    struct sigaction usual = { .sa_handler = SIG_DFL };
    for (int number = 1; number < NSIG; number++) sigaction(number, &usual, NULL);
    if (setsid() < 0 || chdir(directory) < 0) return -1;
    for (int i = 0; i < 3; i++) if (dup2(descriptors[i], i) < 0) return -1;
    if (syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC) < 0) return -1;
    if (limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_CPU, limits->seconds) < 0 || limit(RLIMIT_AS, limits->memory) < 0
        || limit(RLIMIT_FSIZE, limits->file) < 0) return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) return -1;
    if (getppid() != parent) { errno = ECHILD; return -1; }
    sigset_t none;
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL);
}
int cl_start_limited(const char *program, char *const arguments[], char *const environment[], const char *directory,
                     int in, int out, int err, const struct cl_limits *limits) {
    /* Copies with numbers above 2, so that dup2(2) to 0, 1 or 2 never overwrites one that is still needed. */
    int descriptors[3] = { in, out, err };
    volatile int failure = 0;
    for (int i = 0; i < 3; i++) {
        descriptors[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, 3);
        if (descriptors[i] < 0) {
            failure = errno;
            while (i-- > 0) close(descriptors[i]);
            return -failure;
        }
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t parent = getpid();
    pid_t process = vfork();
    if (process == 0) {
        if (become(directory, descriptors, limits, parent) == 0) execve(program, arguments, environment);
        failure = errno;
        _exit(127);
    }
    if (process < 0) failure = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < 3; i++) close(descriptors[i]);
    if (failure == 0) return process;
    if (process > 0) while (waitpid(process, NULL, 0) < 0 && errno == EINTR) {}
    return -failure;
}
static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}
/* Waits until the pidfd is readable, which means that the process has ended. Returns 1, or 0 when the time is over. */
static int ended(int descriptor, int milliseconds) {
    int64_t end = now() + milliseconds;
    struct pollfd wanted = { .fd = descriptor, .events = POLLIN };
    for (;;) {
        int64_t left = end - now();
        int r = poll(&wanted, 1, left < 0 ? 0 : (int)left);
        if (r >= 0) return r;
        if (errno != EINTR) return -errno;
    }
}
int cl_await_limited(pid_t process, int milliseconds) {
    int descriptor = (int)syscall(SYS_pidfd_open, process, 0);
    int result = descriptor < 0 ? -errno : ended(descriptor, milliseconds);
    if (descriptor >= 0) close(descriptor);
    return result;
}
int cl_finish_limited(pid_t process, int milliseconds) {
    int result = cl_await_limited(process, milliseconds);
    /* waitpid(2) has not been called yet, so this number cannot belong to another process or group. */
    kill(-process, SIGKILL);
    if (result != 1) kill(process, SIGKILL);
    int status;
    while (waitpid(process, &status, 0) < 0) if (errno != EINTR) return -errno;
    return result == 1 ? status : result == 0 ? -ETIMEDOUT : result;
}
