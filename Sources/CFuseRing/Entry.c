#include "Ring.h"

/* Entries: their memory, their registration, and the list of those that are free. */

int add_slab(struct queue *q) {
    struct fr_ring *ring = q->ring;
    size_t size = SLAB * (ring->page + ring->settings.payload);
    struct slab *slab = calloc(1, sizeof *slab);
    if (!slab) return -ENOMEM;
    slab->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slab->memory == MAP_FAILED) {
        free(slab);
        return -ENOMEM;
    }
    /* A huge page for a small request would waste most of it. */
    madvise(slab->memory, size, MADV_NOHUGEPAGE);
    pthread_mutex_lock(&ring->mutex);
    unsigned number = ring->slab_count;
    if (number < SLABS_MAX) {
        for (unsigned i = 0; i < SLAB; i++) {
            struct entry *e = slab->entries + i;
            e->queue = q;
            e->index = number * SLAB + i;
            e->header = (struct uring_header *)(slab->memory + i * (ring->page + ring->settings.payload));
            e->payload = (char *)e->header + ring->page;
        }
        atomic_store(ring->slabs + number, slab);
        atomic_store(&ring->slab_count, number + 1);
    }
    pthread_mutex_unlock(&ring->mutex);
    if (number >= SLABS_MAX) {
        munmap(slab->memory, size);
        free(slab);
        return -ENOSPC;
    }
    q->slab = slab;
    q->slab_left = SLAB;
    return 0;
}

static void submit(struct entry *e, unsigned operation, uint64_t commit_id, struct iovec *buffers) {
    struct queue *q = e->queue;
    struct io_uring_sqe *s = next_submission(q);
    s->opcode = IORING_OP_URING_CMD;
    s->flags = IOSQE_FIXED_FILE;
    s->fd = 0;
    s->cmd_op = operation;
    s->addr = (uintptr_t)buffers;
    s->len = buffers ? 2 : 0;
    s->user_data = (uintptr_t)e;
    struct uring_command *c = (struct uring_command *)s->cmd;
    c->commit_id = commit_id;
    c->queue = (uint16_t)q->id;
    /* It counts as free from here on; nothing of it is read before the submission is through. */
    atomic_store(&e->state, FREE);
    e->newer = NULL;
    e->older = q->newest;
    if (q->newest) q->newest->newer = e; else q->oldest = e;
    q->newest = e;
    q->free++;
}

void commit(struct entry *e) { submit(e, COMMIT_AND_FETCH, e->commit_id, NULL); }

/* The kernel takes the newest free entry first. If it has taken the oldest, no other was left. */
void take(struct entry *e) {
    struct queue *q = e->queue;
    if (q->oldest == e) q->needs_prod = 1;
    if (e->older) e->older->newer = e->newer; else q->oldest = e->newer;
    if (e->newer) e->newer->older = e->older; else q->newest = e->older;
    q->free--;
    atomic_store(&e->state, TAKEN);
}

/* Entries cannot be taken back from the kernel, but the memory under them can, as long as only the queue's thread uses
   it: while it is FREE, or before any other thread may reply. */
void trim(struct entry *e) {
    madvise(e->header, 2 * e->queue->ring->page, MADV_DONTNEED);
}

/* Registers entries until the queue has enough free ones. Their memory is used only as far as requests fill it. */
void replenish(struct queue *q) {
    struct fr_ring *ring = q->ring;
    struct iovec buffers[SUBMISSIONS / 2][2];
    unsigned n = 0;
    if (q->is_refused) return;
    for (; q->free < ring->settings.depth && n < SUBMISSIONS / 2; n++) {
        if (!q->slab_left && add_slab(q) < 0) {
            q->is_refused = 1;
            break;
        }
        struct entry *e = q->slab->entries + --q->slab_left;
        buffers[n][0] = (struct iovec){ e->header, sizeof *e->header };
        buffers[n][1] = (struct iovec){ e->payload, ring->settings.payload };
        submit(e, REGISTER, 0, buffers[n]);
        q->entries++;
    }
    if (n) enter(q, 0);                     /* while `buffers` exist */
}
