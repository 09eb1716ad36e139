// Starting and watching processes, signals, and the terminal.
#pragma once
#include <stdint.h>
#include <sys/types.h>

/// Starts a program (found by PATH when there is no `/` in it) with descriptors 0 to 2 as given (-1: /dev/null; inherited
/// when equal) and, unless -1, `extra` as 3. `detached`: in a session of its own. Its process id, or a negative errno.
int cl_spawn(const char *program, char *const *arguments, int in, int out, int err, int extra, int detached);
/// The wait status, or a negative errno.
int cl_wait_process(pid_t process);
int cl_exit_status(int wait_status);                   /* 128 + the signal's number when a signal ended it */
/// A descriptor that becomes readable when the process ends.
int cl_pidfd_open(pid_t process);
/// The caller gets SIGKILL when the thread that started it ends.
void cl_die_with_parent(void);
/// SIGTERM and SIGINT are held back in this thread and those it starts, for cl_await_end; SIGHUP and SIGPIPE are ignored.
int cl_hold_signals(void);
/// Waits for one of the signals held back; its number.
int cl_await_end(void);
/// Lets SIGTERM, SIGINT and SIGHUP only be remembered from now on, so that unfinished work can be cleaned up.
void cl_remember_interrupts(void);
/// The number of the signal remembered, or 0.
int cl_interrupted(void);
/// A descriptor that becomes readable when SIGINT, SIGTERM or SIGHUP came; this thread and those it starts are spared.
int cl_signal_descriptor(void);
/// The number of such a signal, 0 when there is none, and whether a program sent it; those of the terminal go to all it runs.
int cl_take_signal(int descriptor, int *by_program);
/// Columns, or 0 when it is not a terminal.
int cl_terminal_width(int descriptor);
