#pragma once
#define _GNU_SOURCE
#include "CFuseRing.h"
#include <errno.h>
#include <linux/fuse.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The structures that <linux/fuse.h> declares since 6.14. */
struct uring_header {
    union { struct fuse_in_header in; struct fuse_out_header out; char space[128]; };
    char first_argument[128];               /* of the request; its other arguments are in the payload */
    uint64_t flags, commit_id;
    uint32_t payload_size, padding;
    uint64_t reserved;
};
struct uring_command { uint64_t flags, commit_id; uint16_t queue; uint8_t padding[6]; };
enum { REGISTER = 1, COMMIT_AND_FETCH = 2 };

enum { SUBMISSIONS = 256, COMPLETIONS = 4096, SLAB = 64, SLABS_MAX = 1 << 15, PENDING_INTERRUPTS = 256 };

enum state {
    FREE,       /* the kernel may put a request in it */
    TAKEN,      /* the kernel has put a request in it, which is not looked at yet */
    SERVING,    /* its request is being handled by the queue's thread, which may still read the arguments */
    REPLIED,    /* a reply was made meanwhile; the queue's thread commits it when the handler has returned */
    PARKED,     /* the handler has returned without a reply; some thread will make it */
    ANSWERED,   /* that reply is in the entry; the queue's thread must commit it */
    REFUSED,    /* the kernel did not accept the entry */
};

/* A header and a payload of ours that the kernel knows. It holds one request at a time. */
struct entry {
    struct queue *queue;
    struct uring_header *header;            /* in the page before the payload */
    char *payload;                          /* on a page boundary */
    uint32_t index;                         /* in the ring */
    struct entry *older, *newer;            /* its neighbours among the queue's free entries */
    struct entry *next_answered;
    _Atomic enum state state;
    _Atomic uint64_t commit_id;             /* the kernel's number of the request that it holds */
    _Atomic uint64_t generation;            /* distinguishes the requests that it holds one after the other */
    uint64_t file;                          /* the node id, if the request is about a regular file */
    int has_arguments;                      /* in the payload */
    struct fuse_out_header out;             /* of a reply that was made while SERVING */
    size_t out_size;
    char *copy;                             /* its data, unless they are in the payload already */
    int is_on_heap;                         /* whether `copy` must be freed */
};

struct slab { char *memory; struct entry entries[SLAB]; };

struct queue {
    struct fr_ring *ring;
    unsigned id;                            /* the CPU that it serves */
    int descriptor, enter_by, wake;         /* the io_uring, its index as registered by the thread, an eventfd */
    unsigned enter_flags;
    unsigned *sq_head, *sq_tail, sq_mask, tail, *cq_head, *cq_tail, cq_mask;
    char *rings, *submissions;
    size_t rings_size, submissions_size;
    struct io_uring_cqe *completions;
    int has_ended, result;
    int is_refused;                         /* the last attempt to add entries has failed */

    unsigned free;                          /* entries that the kernel may still fill */
    struct entry *oldest, *newest;          /* those, in the order in which they became free */
    struct entry *_Atomic answered;         /* replied to by other threads, to be committed by this one */
    struct entry *settled;                  /* those of them that were committed in the last turn */
    struct slab *slab;                      /* with room for entries to come */
    unsigned slab_left;
    _Atomic unsigned entries, parked;

    int needs_prod;                         /* requests may be waiting in the kernel for a commit */
    struct entry *probe;                    /* the entry that has just answered a prod */
    struct entry *waiting;                  /* the last one that was parked */
};

struct fr_ring {
    struct fr_settings settings;
    size_t page;
    struct queue *queues;
    unsigned queue_count;
    struct slab *_Atomic *slabs;
    _Atomic unsigned slab_count;
    _Atomic int is_stopping;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned prepared;                      /* threads that have prepared their queues, or failed to */
    int failure;                            /* of the first one that failed, a negative errno */
    int begun;                              /* 1: claimed, -1: not claimed */
    _Atomic unsigned interrupt_count;       /* those of `interrupts` that are not 0 */
    uint64_t interrupts[PENDING_INTERRUPTS];/* kernel numbers of requests that were not parked yet */
    unsigned next_interrupt;
};

#define OUR_BIT (1ull << 62)
#define PROD_BIT (1ull << 61)               /* in the numbers of our own prods */
#define RESULT(call) ({ long r_ = (long)(call); r_ < 0 ? -errno : (int)r_; })

int queue_open(struct queue *q);
void queue_close(struct queue *q);
int enter(struct queue *q, unsigned wait_for);
struct io_uring_sqe *next_submission(struct queue *q);
int add_slab(struct queue *q);
void replenish(struct queue *q);
void take(struct entry *e);
void commit(struct entry *e);
void put_reply(struct entry *e, const struct fuse_out_header *out, const struct iovec *data, int count, size_t size);
void serve(struct entry *e);
void prod(struct queue *q);
void trim(struct entry *e);
int bind_to_cpu(struct queue *q);
