#include "Ring.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>

/* All that can fail is done before the reply to INIT claims the rings. From then on the kernel holds all requests back
   until every possible CPU has its queue, whether this process may run there or not. */

static unsigned possible_cpus(void) {
    int last = -1, cpu;
    FILE *list = fopen("/sys/devices/system/cpu/possible", "re");
    if (!list) return 0;
    while (fscanf(list, "%d", &cpu) == 1) {
        last = cpu;
        int separator = getc(list);
        if (separator != '-' && separator != ',') break;
    }
    fclose(list);
    return (unsigned)(last + 1);
}

static int map_queue(struct queue *q, const struct io_uring_params *p) {
    size_t sq = p->sq_off.array + p->sq_entries * sizeof(unsigned);
    size_t cq = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    const int access = PROT_READ | PROT_WRITE, how = MAP_SHARED | MAP_POPULATE;
    q->rings_size = sq > cq ? sq : cq;
    q->submissions_size = p->sq_entries * 128;
    char *m = mmap(NULL, q->rings_size, access, how, q->descriptor, IORING_OFF_SQ_RING);
    if (m == MAP_FAILED) return -errno;
    q->rings = m;
    q->sq_head = (unsigned *)(m + p->sq_off.head);
    q->sq_tail = (unsigned *)(m + p->sq_off.tail);
    q->sq_mask = p->sq_entries - 1;
    q->cq_head = (unsigned *)(m + p->cq_off.head);
    q->cq_tail = (unsigned *)(m + p->cq_off.tail);
    q->cq_mask = p->cq_entries - 1;
    q->completions = (struct io_uring_cqe *)(m + p->cq_off.cqes);
    for (unsigned i = 0; i < p->sq_entries; i++) ((unsigned *)(m + p->sq_off.array))[i] = i;
    m = mmap(NULL, q->submissions_size, access, how, q->descriptor, IORING_OFF_SQES);
    if (m == MAP_FAILED) return -errno;
    q->submissions = m;
    return 0;
}

int queue_open(struct queue *q) {
    struct io_uring_params p = { .cq_entries = COMPLETIONS };
    p.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_R_DISABLED
        | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    q->descriptor = q->enter_by = RESULT(syscall(__NR_io_uring_setup, SUBMISSIONS, &p));
    if (q->descriptor < 0) return q->descriptor;
    q->enter_flags = IORING_ENTER_GETEVENTS;
    int device = q->ring->settings.device;
    int r = RESULT(syscall(__NR_io_uring_register, q->descriptor, IORING_REGISTER_FILES, &device, 1));
    if (r < 0) return r;
    q->wake = RESULT(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (q->wake < 0) return q->wake;
    return map_queue(q, &p);
}

void queue_close(struct queue *q) {
    if (q->submissions) munmap(q->submissions, q->submissions_size);
    if (q->rings) munmap(q->rings, q->rings_size);
    if (q->descriptor >= 0) close(q->descriptor);
    if (q->wake >= 0) close(q->wake);
    q->submissions = q->rings = NULL;
    q->descriptor = q->wake = -1;
}

struct fr_ring *fr_create(const struct fr_settings *settings, int *error) {
    struct fr_ring *ring = calloc(1, sizeof *ring);
    unsigned count = possible_cpus();
    *error = count ? -ENOMEM : -ENOENT;
    if (!ring) return NULL;
    ring->settings = *settings;
    ring->page = (size_t)sysconf(_SC_PAGESIZE);
    ring->settings.payload = (settings->payload + ring->page - 1) & ~(ring->page - 1);
    if (ring->settings.depth < 2) ring->settings.depth = 2;         /* a prod needs one */
    pthread_mutex_init(&ring->mutex, NULL);
    pthread_cond_init(&ring->changed, NULL);
    ring->queues = calloc(count ? count : 1, sizeof *ring->queues);
    /* Only what is used of this table takes memory. */
    ring->slabs = calloc(SLABS_MAX, sizeof *ring->slabs);
    for (unsigned i = 0; ring->queues && ring->slabs && i < count; i++) {
        struct queue *q = ring->queues + i;
        q->ring = ring;
        q->id = i;
        q->descriptor = q->wake = -1;
        ring->queue_count = i + 1;
        *error = queue_open(q);
        if (*error < 0) break;
        *error = add_slab(q);
        if (*error < 0) break;
    }
    if (*error == 0) return ring;
    fr_close(ring);
    fr_destroy(ring);
    return NULL;
}

unsigned fr_queue_count(const struct fr_ring *ring) { return ring->queue_count; }

void fr_close(struct fr_ring *ring) {
    for (unsigned i = 0; i < ring->queue_count; i++) queue_close(ring->queues + i);
}

void fr_destroy(struct fr_ring *ring) {
    for (unsigned i = 0; ring->slabs && i < ring->slab_count; i++) {
        struct slab *slab = ring->slabs[i];
        for (unsigned j = 0; j < SLAB; j++)
            if (slab->entries[j].is_on_heap) free(slab->entries[j].copy);
        munmap(slab->memory, SLAB * (ring->page + ring->settings.payload));
        free(slab);
    }
    free(ring->slabs);
    free(ring->queues);
    pthread_cond_destroy(&ring->changed);
    pthread_mutex_destroy(&ring->mutex);
    free(ring);
}

int fr_await_prepared(struct fr_ring *ring) {
    pthread_mutex_lock(&ring->mutex);
    while (ring->prepared < ring->queue_count) pthread_cond_wait(&ring->changed, &ring->mutex);
    int failure = ring->failure;
    pthread_mutex_unlock(&ring->mutex);
    return failure;
}

void fr_begin(struct fr_ring *ring, int is_claimed) {
    pthread_mutex_lock(&ring->mutex);
    ring->begun = is_claimed ? 1 : -1;
    pthread_cond_broadcast(&ring->changed);
    pthread_mutex_unlock(&ring->mutex);
}

void fr_stop(struct fr_ring *ring) {
    atomic_store(&ring->is_stopping, 1);
    for (unsigned i = 0; i < ring->queue_count; i++) eventfd_write(ring->queues[i].wake, 1);
}

void fr_count(struct fr_ring *ring, unsigned *entries, unsigned *parked) {
    *entries = *parked = 0;
    for (unsigned i = 0; i < ring->queue_count; i++) {
        *entries += ring->queues[i].entries;
        *parked += ring->queues[i].parked;
    }
}
