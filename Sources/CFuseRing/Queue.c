#include "Ring.h"
#include <poll.h>
#include <sched.h>
#include <stdio.h>

/* The thread of a queue. Thanks to DEFER_TASKRUN the kernel uses the entries' buffers only while this thread is in
   io_uring_enter, and one call submits what was answered and waits for what comes. */

int enter(struct queue *q, unsigned wait_for) {
    __atomic_store_n(q->sq_tail, q->tail, __ATOMIC_RELEASE);
    unsigned pending = q->tail - __atomic_load_n(q->sq_head, __ATOMIC_ACQUIRE);
    return RESULT(syscall(__NR_io_uring_enter, q->enter_by, pending, wait_for, q->enter_flags, NULL, 0));
}

struct io_uring_sqe *next_submission(struct queue *q) {
    while (q->tail - __atomic_load_n(q->sq_head, __ATOMIC_ACQUIRE) > q->sq_mask) enter(q, 0);
    struct io_uring_sqe *s = (struct io_uring_sqe *)(q->submissions + (q->tail++ & q->sq_mask) * 128);
    memset(s, 0, 128);
    return s;
}

static void listen_to_wake(struct queue *q) {
    struct io_uring_sqe *s = next_submission(q);
    s->opcode = IORING_OP_POLL_ADD;
    s->fd = q->wake;
    s->len = IORING_POLL_ADD_MULTI;
    s->poll32_events = POLLIN;
}

/* Waking a thread on another CPU costs far more than the request. A prod relies on it, too. */
int bind_to_cpu(struct queue *q) {
    cpu_set_t *set = CPU_ALLOC(q->id + 1);
    if (!set) return -ENOMEM;
    size_t size = CPU_ALLOC_SIZE(q->id + 1);
    CPU_ZERO_S(size, set);
    CPU_SET_S(q->id, size, set);
    int r = RESULT(sched_setaffinity(0, size, set));
    CPU_FREE(set);
    return r;
}

static int is_online(unsigned cpu) {
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u", cpu);
    if (access(path, F_OK) < 0) return 0;
    strcat(path, "/online");
    FILE *file = fopen(path, "re");
    int c = file ? getc(file) : '1';        /* A CPU that cannot be switched off has no such file. */
    if (file) fclose(file);
    return c == '1';
}

/* A request that finds no free entry waits in the kernel until an entry of its queue is committed; registering another
   does not fetch it. When all entries hold parked requests there may be no commit for long, so we cause one: the kernel
   answers NOTIFY_RETRIEVE with a request of its own, in the queue of the CPU that we are on, and committing that
   fetches the first that waits. This is repeated until a commit fetches nothing. The notification must name a regular
   file that the kernel has in memory; one whose request is parked is. */
void prod(struct queue *q) {
    static _Atomic uint64_t prods;
    struct { struct fuse_out_header out; struct fuse_notify_retrieve_out argument; } note = {
        .out = { .len = sizeof note, .error = FUSE_NOTIFY_RETRIEVE },
        .argument = { .notify_unique = PROD_BIT | ++prods << 1 },
    };
    struct entry *e = q->waiting;
    if (!e || e->state != PARKED || !e->file) {
        struct fr_ring *ring = q->ring;
        e = NULL;
        for (unsigned i = 0; i < ring->slab_count && !e; i++)
            for (unsigned j = 0; j < SLAB && !e; j++) {
                struct entry *other = ring->slabs[i]->entries + j;
                if (other->queue == q && other->state == PARKED && other->file) e = other;
            }
    }
    if (!e || ((unsigned)sched_getcpu() != q->id && bind_to_cpu(q) < 0)) return;
    q->waiting = e;
    note.argument.nodeid = e->file;
    q->needs_prod = write(q->ring->settings.device, &note, sizeof note) < 0;
}

static void finished(struct queue *q, const struct io_uring_cqe *c) {
    if (!c->user_data) {
        if (!(c->flags & IORING_CQE_F_MORE)) listen_to_wake(q);
        return;
    }
    struct entry *e = (struct entry *)(uintptr_t)c->user_data;
    take(e);
    if (c->res == 0) return;
    atomic_store(&e->state, REFUSED);
    if (c->res == -ENOTCONN || c->res == -ECONNABORTED) {
        q->has_ended = 1;                   /* unmounted */
    } else if (c->res == -ENOMEM && q->entries > q->ring->settings.depth) {
        q->is_refused = 1;                  /* The entries that the queue has will do. */
    } else {
        q->has_ended = 1;
        q->result = c->res;
    }
}

static void commit_answered(struct queue *q) {
    q->settled = atomic_exchange(&q->answered, NULL);
    if (q->settled) q->is_refused = 0;
    for (struct entry *e = q->settled; e; e = e->next_answered) {
        q->parked--;
        commit(e);
    }
}

/* Gives back the memory of entries that were parked, after the kernel has read their replies. */
static void trim_settled(struct queue *q) {
    for (struct entry *e = q->settled; e; e = e->next_answered)
        if (e->state == FREE && q->free > q->ring->settings.depth) trim(e);
    q->settled = NULL;
}

/* First sees what was taken, before anything is committed; then serves it. */
static void turn(struct queue *q) {
    unsigned head = *q->cq_head, tail = __atomic_load_n(q->cq_tail, __ATOMIC_ACQUIRE);
    for (unsigned i = head; i != tail; i++) finished(q, q->completions + (i & q->cq_mask));
    if (q->probe && q->probe->state != FREE) q->needs_prod = 1;
    q->probe = NULL;
    trim_settled(q);
    for (unsigned i = head; i != tail && !q->has_ended; i++) {
        struct io_uring_cqe *c = q->completions + (i & q->cq_mask);
        if (c->user_data && c->res == 0) serve((struct entry *)(uintptr_t)c->user_data);
    }
    __atomic_store_n(q->cq_head, tail, __ATOMIC_RELEASE);
}

static int prepare(struct queue *q) {
    int r = bind_to_cpu(q);
    if (r < 0 && is_online(q->id)) return r;
    r = RESULT(syscall(__NR_io_uring_register, q->descriptor, IORING_REGISTER_ENABLE_RINGS, NULL, 0));
    if (r < 0) return r;
    struct io_uring_rsrc_update self = { .offset = -1u, .data = (uint64_t)q->descriptor };
    if (syscall(__NR_io_uring_register, q->descriptor, IORING_REGISTER_RING_FDS, &self, 1) == 1) {
        q->enter_by = (int)self.offset;
        q->enter_flags |= IORING_ENTER_REGISTERED_RING;
    }
    listen_to_wake(q);
    r = enter(q, 0);
    return r < 0 ? r : 0;
}

int fr_serve_queue(struct fr_ring *ring, unsigned number) {
    struct queue *q = ring->queues + number;
    int r = prepare(q);
    pthread_mutex_lock(&ring->mutex);
    ring->prepared++;
    if (r < 0 && !ring->failure) ring->failure = r;
    pthread_cond_broadcast(&ring->changed);
    while (!ring->begun) pthread_cond_wait(&ring->changed, &ring->mutex);
    int is_claimed = ring->begun > 0;
    pthread_mutex_unlock(&ring->mutex);
    if (!is_claimed) return 0;
    if (r < 0) return r;
    replenish(q);
    while (!q->has_ended && !ring->is_stopping) {
        /* After a prod, this sees what its commit fetched before anything else comes. */
        enter(q, !q->probe);
        turn(q);
        commit_answered(q);
        if (q->has_ended) break;
        if (q->free < ring->settings.depth) replenish(q);
        if (q->needs_prod) prod(q);
    }
    return q->result;
}
