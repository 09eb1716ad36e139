#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/// FUSE over io_uring, as Linux offers it since 6.14. The kernel keeps a queue for each possible
/// CPU and puts a request in the queue of the CPU on which its caller runs. Each queue has an
/// io_uring and a thread here. Requests reach the owner as they look when they are read from
/// /dev/fuse, but with a number (`unique`) of ours, by which replies find their way back. /dev/fuse
/// must still be read: FORGET and INTERRUPT come from there.
struct fr_ring;

struct fr_settings {
    int device;                                                    ///< /dev/fuse
    size_t payload;                                                ///< the largest payload, by the reply to INIT
    unsigned depth;                                                ///< how many entries each queue keeps free
    void (*serve)(void *owner, void *request, size_t size);        ///< called on the thread of a queue
    void *owner;
};

/// Creates the queues; the kernel's FUSE knows nothing of them yet. NULL if it is impossible;
/// `error` is then a negative errno.
struct fr_ring *fr_create(const struct fr_settings *settings, int *error);
unsigned fr_queue_count(const struct fr_ring *ring);
/// Serves a queue on the calling thread, which is bound to the queue's CPU. First it prepares
/// everything that can fail and waits for `fr_begin`. Returns 0 at the end of the mount or after
/// `fr_stop`, or a negative errno if the kernel refuses the queue; then requests hang until the
/// connection ends.
int fr_serve_queue(struct fr_ring *ring, unsigned queue);
/// Waits until each queue's thread has prepared it. Returns 0, or a negative errno if one of them
/// cannot be served.
int fr_await_prepared(struct fr_ring *ring);
/// Lets the threads register their queues if the reply to INIT has claimed the rings, or else
/// return.
void fr_begin(struct fr_ring *ring, int is_claimed);
/// Makes the threads return soon.
void fr_stop(struct fr_ring *ring);
/// Releases the kernel's references to /dev/fuse. All threads must have returned.
void fr_close(struct fr_ring *ring);
/// Frees the memory. The connection must have ended, and no request may be answered any more.
void fr_destroy(struct fr_ring *ring);

/// Whether a request's number was given by a ring, not by the kernel.
static inline int fr_is_ours(uint64_t unique) { return (unique & 1ull << 62) != 0; }
/// Answers a request from a ring, on any thread, with what would be written to /dev/fuse. Returns
/// -1 (ENOENT) if no such request waits.
ssize_t fr_reply(struct fr_ring *ring, const struct iovec *pieces, int count);
/// A buffer for the data of the reply to the request that this thread serves: replying with it
/// copies nothing. NULL if there is none of this size.
void *fr_reply_buffer(size_t size);
/// Our number of the request that the kernel calls `unique`, which was interrupted. 0 if no such
/// request is parked: if it is parked later, the interrupt follows it then.
uint64_t fr_interrupted(struct fr_ring *ring, uint64_t unique);
/// How many entries exist, and how many of them hold parked requests.
void fr_count(struct fr_ring *ring, unsigned *entries, unsigned *parked);
