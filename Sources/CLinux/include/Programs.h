// Running a program that nobody vouches for: with limits, and with nothing of ours.
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct cl_limits {
    uint64_t seconds;         /* of processor time, each process */
    uint64_t memory;          /* bytes of address space, each process */
    uint64_t file;            /* bytes of the largest file it may write */
};
/// Starts the program at that path (no search) as the leader of a session of its own, without a terminal, in `directory`, with
/// just that environment; its descriptors 0 to 2 are those given, and no other is open. It gets no new privileges (set-user-id
/// programs run as we do) and dies with the thread that started it. Its process id, or a negative errno, also of what kept it
/// from starting.
int cl_start_limited(const char *program, char *const arguments[], char *const environment[], const char *directory,
                     int in, int out, int err, const struct cl_limits *limits);
/// Waits so long for the end of a process started so, then kills it; whatever is left of its group is killed at the end. The
/// wait status, -ETIMEDOUT when it was killed, or another negative errno.
int cl_finish_limited(pid_t process, int milliseconds);
