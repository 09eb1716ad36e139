// Starting and watching processes, signals, and the terminal.
#pragma once
#include <stdint.h>
#include <sys/types.h>

/// Starts a program, which is found in PATH when its name has no `/`. Descriptors 0 to 2 are the
/// given ones (-1: /dev/null; inherited when the numbers are equal), and `extra`, unless it is -1,
/// becomes 3. `detached`: the program gets a session of its own. Returns the process id, or a
/// negative errno.
int cl_spawn(const char *program, char *const *arguments, int in, int out, int err, int extra, int detached);
/// Waits for the process. Returns its wait status, or a negative errno.
int cl_wait_process(pid_t process);
int cl_exit_status(int wait_status);                   /* 128 + the signal's number when a signal ended it */
/// Returns a descriptor that becomes readable when the process ends.
int cl_pidfd_open(pid_t process);
/// Makes the kernel send SIGKILL to the caller when the thread that started it ends.
void cl_die_with_parent(void);
/// Blocks SIGTERM and SIGINT in this thread and in those that it starts, so that cl_await_end can
/// take them. Ignores SIGHUP and SIGPIPE.
int cl_hold_signals(void);
/// Waits for one of the blocked signals and returns its number.
int cl_await_end(void);
/// From now on SIGTERM, SIGINT and SIGHUP do not end the process but are remembered, so that the
/// program can clean up unfinished work.
void cl_remember_interrupts(void);
/// Returns the number of the remembered signal, or 0.
int cl_interrupted(void);
/// Returns a descriptor that becomes readable when SIGINT, SIGTERM or SIGHUP arrives. Blocks these
/// signals in this thread and in those that it starts.
int cl_signal_descriptor(void);
/// Returns the number of such a signal, or 0 when there is none, and whether a program sent it. The
/// terminal sends its signals to all processes that run in it.
int cl_take_signal(int descriptor, int *by_program);
/// Returns the number of columns, or 0 when the descriptor is not a terminal.
int cl_terminal_width(int descriptor);
/// Makes the threads of this process share at most this many heaps. Each heap keeps what was once
/// used in it, and glibc makes eight for each processor. Blocks of `large` bytes and more are in no
/// heap: the system gets them back as soon as they are freed. Call it before threads start.
void cl_limit_heaps(int count, int large);
