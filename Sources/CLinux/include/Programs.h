// Runs a program that is not trusted: with limits, and without access to our descriptors and
// environment.
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct cl_limits {
    uint64_t seconds;         /* of processor time, each process */
    uint64_t memory;          /* bytes of address space, each process */
    uint64_t file;            /* bytes of the largest file it may write */
};
/// Starts the program at that path (PATH is not searched) as the leader of a new session, without a
/// terminal, in `directory`, with exactly that environment. Its descriptors 0 to 2 are the given
/// ones, and no other is open. It gets no new privileges (set-user-id programs run with our ids)
/// and is killed when the thread that started it ends. Returns the process id, or a negative errno,
/// also when the program could not be executed.
int cl_start_limited(const char *program, char *const arguments[], char *const environment[], const char *directory,
                     int in, int out, int err, const struct cl_limits *limits);
/// Waits that long for the end of a process that cl_start_limited started, and does not touch it.
/// Returns 1 when it has ended, 0 when the time is over, or a negative errno.
int cl_await_limited(pid_t process, int milliseconds);
/// Waits that long for the end of a process that cl_start_limited started, then kills it. Kills
/// what is left of its process group in any case. Returns the wait status, -ETIMEDOUT when the
/// process was killed, or another negative errno.
int cl_finish_limited(pid_t process, int milliseconds);
