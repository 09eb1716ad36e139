#include "Ring.h"

/* From a request in an entry to the reply in it. */

static __thread struct entry *serving;      /* the entry whose request this thread is handling */

/* The number by which the owner knows the request that an entry holds: our bit, the generation, the entry, and 0 in the
   lowest bit, which marks interrupts. */
static uint64_t number_of(const struct entry *e, uint64_t generation) {
    return OUR_BIT | (generation << 25 & (OUR_BIT - 1)) | (uint64_t)e->index << 1;
}

static struct entry *entry_of(struct fr_ring *ring, uint64_t number) {
    unsigned index = (unsigned)(number & ((1u << 25) - 1)) >> 1;
    if (index / SLAB >= atomic_load(&ring->slab_count)) return NULL;
    struct entry *e = ring->slabs[index / SLAB]->entries + index % SLAB;
    return number_of(e, e->generation) == number ? e : NULL;
}

/* The room between the header and the place of the first argument. */
static char *small_room(struct entry *e) { return (char *)e->header + 512; }
static size_t small_size(struct entry *e) { return e->queue->ring->page - 1024; }

void put_reply(struct entry *e, const struct fuse_out_header *out, const struct iovec *data, int count, size_t size) {
    size_t at = 0;
    for (int i = 0; i < count; at += data[i++].iov_len)
        if (at + data[i].iov_len <= size && data[i].iov_base != e->payload + at)
            memcpy(e->payload + at, data[i].iov_base, data[i].iov_len);
    e->header->out = *out;
    e->header->out.unique = e->commit_id;
    e->header->payload_size = (uint32_t)size;
}

/* Keeps a reply that is made while the handler may still read the arguments, which lie where the reply must go. */
static void keep_reply(
    struct entry *e, const struct fuse_out_header *out, const struct iovec *data, int count, size_t size) {
    e->out = *out;
    e->out_size = size;
    e->copy = NULL;
    e->is_on_heap = 0;
    if (size == 0) return;
    if (serving == e && !e->has_arguments) {
        put_reply(e, out, data, count, size);
        return;
    }
    /* Another thread does not use the header's page, whose contents may be discarded at any moment. */
    e->is_on_heap = serving != e || size > small_size(e);
    e->copy = e->is_on_heap ? malloc(size) : small_room(e);
    if (!e->copy) {
        e->out = (struct fuse_out_header){ .len = sizeof *out, .error = -ENOMEM };
        e->is_on_heap = 0;
        e->out_size = 0;
        return;
    }
    size_t at = 0;
    for (int i = 0; i < count; at += data[i++].iov_len) memcpy(e->copy + at, data[i].iov_base, data[i].iov_len);
}

/* Commits a reply that was kept. */
static void commit_kept(struct entry *e) {
    struct iovec data = { e->copy, e->copy ? e->out_size : 0 };
    put_reply(e, &e->out, &data, e->copy ? 1 : 0, e->out_size);
    if (e->is_on_heap) free(e->copy);
    e->copy = NULL;
    e->is_on_heap = 0;
    commit(e);
}

ssize_t fr_reply(struct fr_ring *ring, const struct iovec *pieces, int count) {
    struct fuse_out_header out;
    memcpy(&out, pieces[0].iov_base, sizeof out);
    const ssize_t length = out.len;
    struct entry *e = entry_of(ring, out.unique);
    if (!e) {
        errno = ENOENT;
        return -1;
    }
    size_t size = 0;
    for (int i = 1; i < count; i++) size += pieces[i].iov_len;
    if (size > ring->settings.payload) {
        out = (struct fuse_out_header){ .len = sizeof out, .error = -EIO };
        size = 0;
        count = 1;
    }
    if (atomic_load(&e->state) == SERVING) {
        enum state expected = SERVING;
        keep_reply(e, &out, pieces + 1, count - 1, size);
        if (atomic_compare_exchange_strong(&e->state, &expected, REPLIED)) return length;
        /* Meanwhile the handler has returned. */
        if (e->is_on_heap) free(e->copy);
        e->is_on_heap = 0;
    }
    enum state expected = PARKED;
    if (!atomic_compare_exchange_strong(&e->state, &expected, ANSWERED)) {
        errno = ENOENT;
        return -1;
    }
    put_reply(e, &out, pieces + 1, count - 1, size);
    struct queue *q = e->queue;
    struct entry *first = atomic_load(&q->answered);
    do e->next_answered = first; while (!atomic_compare_exchange_weak(&q->answered, &first, e));
    if (!first && write(q->wake, &(uint64_t){ 1 }, 8) < 0 && errno != EAGAIN) return -1;
    return length;
}

void *fr_reply_buffer(size_t size) {
    struct entry *e = serving;
    return e && !e->has_arguments && size <= e->queue->ring->settings.payload ? e->payload : NULL;
}

/* ---- Interrupts. libfuse finds the interrupted request in its list, in which a parked request is for certain. */

static int take_interrupt(struct fr_ring *ring, uint64_t unique) {
    int is_there = 0;
    pthread_mutex_lock(&ring->mutex);
    for (unsigned i = 0; i < PENDING_INTERRUPTS && !is_there; i++)
        if (ring->interrupts[i] == unique) {
            ring->interrupts[i] = 0;
            ring->interrupt_count--;
            is_there = 1;
        }
    pthread_mutex_unlock(&ring->mutex);
    return is_there;
}

/* An interrupt of a request that is answered already stays here until newer ones displace it. */
static void keep_interrupt(struct fr_ring *ring, uint64_t unique) {
    pthread_mutex_lock(&ring->mutex);
    uint64_t *place = ring->interrupts + ring->next_interrupt++ % PENDING_INTERRUPTS;
    if (!*place) ring->interrupt_count++;
    *place = unique;
    pthread_mutex_unlock(&ring->mutex);
}

uint64_t fr_interrupted(struct fr_ring *ring, uint64_t unique) {
    keep_interrupt(ring, unique);
    for (unsigned i = 0; i < atomic_load(&ring->slab_count); i++)
        for (unsigned j = 0; j < SLAB; j++) {
            struct entry *e = ring->slabs[i]->entries + j;
            uint64_t generation = e->generation;
            if (e->commit_id != unique || e->state != PARKED) continue;
            /* If it has changed meanwhile, the request was answered. */
            return e->generation == generation && take_interrupt(ring, unique) ? number_of(e, generation) : 0;
        }
    return 0;
}

static void deliver_interrupt(struct entry *e) {
    struct fr_ring *ring = e->queue->ring;
    if (!atomic_load(&ring->interrupt_count) || !take_interrupt(ring, e->commit_id)) return;
    struct { struct fuse_in_header in; struct fuse_interrupt_in argument; } message = {
        .in = { .len = sizeof message, .opcode = FUSE_INTERRUPT, .unique = e->commit_id | 1 },
        .argument = { .unique = number_of(e, e->generation) },
    };
    ring->settings.serve(ring->settings.owner, &message, sizeof message);
}

/* ---- Serving */

/* Whether a request of this kind always names a regular file that the kernel has in memory. */
static int is_about_file(uint32_t opcode) {
    return opcode == FUSE_OPEN || opcode == FUSE_READ || opcode == FUSE_WRITE || opcode == FUSE_FSYNC;
}

static void park(struct entry *e) {
    struct queue *q = e->queue;
    if (q->parked > q->ring->settings.depth) trim(e);
    enum state expected = SERVING;
    q->parked++;
    if (!atomic_compare_exchange_strong(&e->state, &expected, PARKED)) {
        q->parked--;
        commit_kept(e);
        return;
    }
    q->waiting = e;
    deliver_interrupt(e);
}

void serve(struct entry *e) {
    struct uring_header *h = e->header;
    struct fr_ring *ring = e->queue->ring;
    e->commit_id = h->commit_id;
    if (h->commit_id & PROD_BIT) {
        e->queue->probe = e;
        put_reply(e, &(struct fuse_out_header){ .len = sizeof(struct fuse_out_header) }, NULL, 0, 0);
        commit(e);
        return;
    }
    /* The owner gets the request in one piece: its fixed part is laid right before the payload, which stays where it
       is. The length in the header counts all arguments, that of the payload all but the first. */
    size_t length = h->in.len, first = length - sizeof h->in - h->payload_size;
    char *request = e->payload - first - sizeof h->in;
    memcpy(request + sizeof h->in, h->first_argument, first);
    memcpy(request, &h->in, sizeof h->in);
    e->file = is_about_file(h->in.opcode) ? h->in.nodeid : 0;
    e->has_arguments = h->payload_size > 0;
    e->generation++;
    ((struct fuse_in_header *)request)->unique = number_of(e, e->generation);
    atomic_store(&e->state, SERVING);
    serving = e;
    ring->settings.serve(ring->settings.owner, request, length);
    serving = NULL;
    if (atomic_load(&e->state) == REPLIED) commit_kept(e); else park(e);
}
