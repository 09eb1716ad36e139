#define _GNU_SOURCE
#include "Processes.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void place(posix_spawn_file_actions_t *actions, int from, int to) {
    if (from < 0) posix_spawn_file_actions_addopen(actions, to, "/dev/null", O_RDWR, 0);
    else posix_spawn_file_actions_adddup2(actions, from, to);  /* when the numbers are equal, this clears close-on-exec */
}
int cl_spawn(const char *program, char *const *arguments, int in, int out, int err, int extra, int detached) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGTERM); sigaddset(&usual, SIGINT); sigaddset(&usual, SIGPIPE); sigaddset(&usual, SIGHUP);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (detached ? POSIX_SPAWN_SETSID : 0)));
    if (extra >= 0) place(&actions, extra, 3);
    place(&actions, in, 0);
    place(&actions, out, 1);
    place(&actions, err, 2);
    pid_t process;
    int r = posix_spawnp(&process, program, &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return r ? -r : process;
}
int cl_wait_process(pid_t process) {
    int status;
    while (waitpid(process, &status, 0) < 0) if (errno != EINTR) return -errno;
    return status;
}
int cl_exit_status(int s) { return WIFEXITED(s) ? WEXITSTATUS(s) : 128 + WTERMSIG(s); }
void cl_die_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }
int cl_pidfd_open(pid_t process) {
    int fd = (int)syscall(SYS_pidfd_open, process, 0);
    return fd < 0 ? -errno : fd;
}
static void held(sigset_t *set) { sigemptyset(set); sigaddset(set, SIGTERM); sigaddset(set, SIGINT); }
int cl_hold_signals(void) {
    sigset_t set;
    held(&set);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    return -pthread_sigmask(SIG_BLOCK, &set, NULL);
}
int cl_await_end(void) {
    sigset_t set;
    int number = 0;
    held(&set);
    while (sigwait(&set, &number) != 0) {}
    return number;
}
static volatile sig_atomic_t remembered;
static void remember(int number) { remembered = number; }
void cl_remember_interrupts(void) {
    struct sigaction action = { .sa_handler = remember };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}
int cl_interrupted(void) { return remembered; }
int cl_signal_descriptor(void) {
    sigset_t set;
    held(&set);
    sigaddset(&set, SIGHUP);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL)) return -EINVAL;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}
int cl_take_signal(int descriptor, int *by_program) {
    struct signalfd_siginfo info;
    if (read(descriptor, &info, sizeof info) != sizeof info) return 0;
    *by_program = info.ssi_code <= 0;
    return (int)info.ssi_signo;
}
int cl_terminal_width(int descriptor) {
    struct winsize size;
    if (!isatty(descriptor)) return 0;
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}
void cl_limit_heaps(int count, int large) {
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, count);
#endif
#ifdef M_MMAP_THRESHOLD
    // Otherwise glibc raises this threshold, up to 32 MiB, when such a block is freed.
    mallopt(M_MMAP_THRESHOLD, large);
#endif
}
