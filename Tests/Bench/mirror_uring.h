/* The transport of mirror_uring.c: requests over rings, and libfuse between them and the mirror. Only that file includes it. */

/* ============================================================================================== the transport ====
 *
 * The kernel keeps one queue for each possible CPU and puts a request in the queue of the CPU its caller runs on. A
 * queue has entries: a header and a payload buffer of ours, registered once. The kernel writes a request into a free
 * entry and completes its command; we put the reply in the same buffers and submit COMMIT_AND_FETCH, which frees the
 * entry or, if requests are waiting in the queue, brings the next one. An entry whose request is to be answered later
 * is just not committed yet; another is registered in its place. Entries last until the unmount.
 *
 * Here each queue has an io_uring and a thread of its own. Thanks to DEFER_TASKRUN the kernel touches the entries'
 * buffers only while that thread is inside io_uring_enter(). Replies made by other threads are handed to it (`answered`).
 */

/* As <linux/fuse.h> declares them since 6.14. */
struct uring_header {
	union { struct fuse_in_header in; struct fuse_out_header out; char space[128]; };
	char first_argument[128];		/* of the request; its other arguments are in the payload */
	uint64_t flags, commit_id;
	uint32_t payload_size, padding;
	uint64_t reserved;
};
struct uring_command { uint64_t flags, commit_id; uint16_t queue; uint8_t padding[6]; };
enum { REGISTER = 1, COMMIT_AND_FETCH = 2 };

enum { PAGE = 4096, SUBMISSIONS = 256, COMPLETIONS = 4096, SLAB = 64 };

struct entry {
	struct queue *queue;
	struct uring_header *header;		/* in the page before the payload */
	char *payload;				/* on a page boundary */
	struct entry *older, *newer;		/* its neighbours among the queue's free entries */
	struct entry *next_made, *next_answered;
	_Atomic uint64_t commit_id;		/* the kernel's id of the request it holds; 0 when it is free */
	_Atomic uint64_t file;			/* if the request is an OPEN, the file's node id */
	int is_free;
};

struct queue {
	unsigned id;				/* the CPU it serves */
	int ring, enter_by, wake;		/* the io_uring, its index as registered by the thread, an eventfd */
	unsigned enter_flags;
	unsigned *sq_head, *sq_tail, sq_mask, tail, *cq_head, *cq_tail, cq_mask;
	char *submissions;
	struct io_uring_cqe *completions;
	int stopped;

	unsigned free;				/* entries that the kernel may still fill */
	struct entry *oldest, *newest;		/* those, in the order in which they became free */
	struct entry *_Atomic answered;		/* replied to by other threads, for this one to commit */
	char *slab; unsigned slab_left;		/* room for entries yet to be made */

	int needs_prod;				/* requests may be waiting in the kernel for a commit */
	struct entry *probe;			/* the entry that has just answered a prod */
	struct entry *waiting;			/* the last one whose request was not answered at once */
};

static struct queue *queues;
static unsigned queue_count;			/* 0: no rings, /dev/fuse only */
static size_t payload_size;
static struct entry *_Atomic all_entries;
static __thread struct queue *own_queue;	/* the queue that this thread serves */
static __thread struct entry *serving;		/* the entry whose request this thread is handing to libfuse */

/* libfuse is given a handle in place of the kernel's request id: the entry's address and the top bit, which tells it
 * from ids of requests read from /dev/fuse. So a reply finds its entry without a table or a lock. (A file system that
 * handles INTERRUPT must translate the id in it likewise, and tell apart the requests that one entry holds in turn.) */
#define RING_BIT (1ull << 63)
#define PROD_BIT (1ull << 62)			/* in the ids of our own prods, see below */
static uint64_t handle_of(struct entry *e) { return RING_BIT | (uintptr_t)e; }
static struct entry *entry_of(uint64_t handle) { return (struct entry *)(uintptr_t)(handle & ~RING_BIT); }

static int enter(struct queue *q, unsigned wait_for)
{
	__atomic_store_n(q->sq_tail, q->tail, __ATOMIC_RELEASE);
	unsigned pending = q->tail - __atomic_load_n(q->sq_head, __ATOMIC_ACQUIRE);
	return (int)syscall(__NR_io_uring_enter, q->enter_by, pending, wait_for, q->enter_flags, NULL, 0);
}
static struct io_uring_sqe *next_submission(struct queue *q)
{
	while (q->tail - __atomic_load_n(q->sq_head, __ATOMIC_ACQUIRE) > q->sq_mask) enter(q, 0);
	struct io_uring_sqe *s = (struct io_uring_sqe *)(q->submissions + (q->tail++ & q->sq_mask) * 128);
	memset(s, 0, 128);
	return s;
}
static void submit(struct entry *e, unsigned operation, uint64_t commit_id, struct iovec *buffers)
{
	struct queue *q = e->queue;
	struct io_uring_sqe *s = next_submission(q);
	s->opcode = IORING_OP_URING_CMD;
	s->flags = IOSQE_FIXED_FILE; s->fd = 0;
	s->cmd_op = operation;
	s->addr = (uintptr_t)buffers; s->len = buffers ? 2 : 0;
	s->user_data = (uintptr_t)e;
	struct uring_command *c = (struct uring_command *)s->cmd;
	c->commit_id = commit_id; c->queue = (uint16_t)q->id;
	/* It counts as free from here on: nothing of it is looked at before the submission is through. */
	e->is_free = 1; e->newer = NULL; e->older = q->newest;
	if (q->newest) q->newest->newer = e; else q->oldest = e;
	q->newest = e; q->free++;
}
static void commit(struct entry *e) { submit(e, COMMIT_AND_FETCH, atomic_exchange(&e->commit_id, 0), NULL); }

/* The kernel takes the newest free entry first: if it has taken the oldest, there was no other left. */
static void take(struct entry *e)
{
	struct queue *q = e->queue;
	if (q->oldest == e) q->needs_prod = 1;
	if (e->older) e->older->newer = e->newer; else q->oldest = e->newer;
	if (e->newer) e->newer->older = e->older; else q->newest = e->older;
	e->is_free = 0; q->free--;
}

/* Puts a reply in its entry. Any thread that answers the request may do so; committing is for the queue's own. */
static ssize_t reply(struct entry *e, const struct iovec *iov, int count)
{
	struct fuse_out_header out = *(struct fuse_out_header *)iov[0].iov_base;
	size_t size = 0;
	for (int i = 1; i < count; size += iov[i++].iov_len) {
		if (size + iov[i].iov_len > payload_size) { out.error = -EIO; break; }
		if (iov[i].iov_base != e->payload + size) memcpy(e->payload + size, iov[i].iov_base, iov[i].iov_len);
	}
	out.unique = e->commit_id;
	e->header->out = out;
	e->header->payload_size = (uint32_t)size;
	struct queue *q = e->queue;
	if (q == own_queue) { commit(e); return out.len; }
	struct entry *first = atomic_load(&q->answered);
	do e->next_answered = first; while (!atomic_compare_exchange_weak(&q->answered, &first, e));
	if (!first && write(q->wake, &(uint64_t){ 1 }, 8) < 0) perror("mirror_uring: wake");
	return out.len;
}

static void serve(struct entry *e)
{
	struct uring_header *h = e->header;
	atomic_store(&e->commit_id, h->commit_id);
	if (h->commit_id & PROD_BIT) {
		struct fuse_out_header out = { .len = sizeof out };
		e->queue->probe = e;
		reply(e, &(struct iovec){ &out, sizeof out }, 1);
		return;
	}
	/* libfuse wants a request in one piece, so its fixed part is laid right before the payload, which stays put.
	 * The length in the header counts all arguments, the payload's all but the first. */
	size_t first = h->in.len - sizeof h->in - h->payload_size;
	char *request = e->payload - first - sizeof h->in;
	memcpy(request + sizeof h->in, h->first_argument, first);
	memcpy(request, &h->in, sizeof h->in);
	((struct fuse_in_header *)request)->unique = handle_of(e);
	e->file = h->in.opcode == FUSE_OPEN ? h->in.nodeid : 0;
	serving = e;
	fuse_session_process_buf(session, &(struct fuse_buf){ .mem = request, .size = h->in.len });
	serving = NULL;
	if (e->commit_id) e->queue->waiting = e;
}

/* Entries cannot be taken back from the kernel, but the memory under them can. Either by a handler that has copied what
 * it needs of its request and will answer much later, before any other thread may know of the request; or by the
 * queue's thread while the entry is free. */
static void trim(struct entry *e) { if (e) madvise(e->payload - PAGE, 2 * PAGE, MADV_DONTNEED); }

/* Registers entries until a queue has `depth` free. Their memory is used only as far as requests fill it. */
static void replenish(struct queue *q)
{
	struct iovec buffers[SUBMISSIONS][2];
	size_t stride = PAGE + payload_size;
	unsigned n = 0;
	for (; q->free < (unsigned)option.depth && n < SUBMISSIONS; n++) {
		if (!q->slab_left) {
			char *m = mmap(NULL, SLAB * stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
			if (m == MAP_FAILED) { perror("mirror_uring: mmap"); break; }
			madvise(m, SLAB * stride, MADV_NOHUGEPAGE);
			q->slab = m; q->slab_left = SLAB;
		}
		struct entry *e = calloc(1, sizeof *e);
		e->header = (struct uring_header *)(q->slab + --q->slab_left * stride);
		e->payload = (char *)e->header + PAGE;
		e->queue = q;
		e->next_made = atomic_load(&all_entries);
		while (!atomic_compare_exchange_weak(&all_entries, &e->next_made, e)) ;
		buffers[n][0] = (struct iovec){ e->header, sizeof *e->header };
		buffers[n][1] = (struct iovec){ e->payload, payload_size };
		submit(e, REGISTER, 0, buffers[n]);
	}
	if (n) enter(q, 0);	/* while `buffers` are still there */
}

/* A request that finds no entry free waits in the kernel until an entry of its queue is committed; registering another
 * does not fetch it. When all entries hold parked requests there may be no commit for long, so we make one: the kernel
 * answers NOTIFY_RETRIEVE with a request of its own, in the queue of the CPU that we are on, and committing that
 * fetches the first that waits. Once more, until a commit fetches nothing. The notification must name a regular file
 * that the kernel has in memory (a directory does on older kernels only): one whose OPEN is parked is certain to be. */
static void prod(struct queue *q)
{
	static _Atomic uint64_t prods;
	struct { struct fuse_out_header out; struct fuse_notify_retrieve_out arg; } note = {
		.out = { .len = sizeof note, .error = FUSE_NOTIFY_RETRIEVE }, .arg = { .notify_unique = PROD_BIT | ++prods << 1 } };
	struct entry *e = q->waiting;
	if (!e || !e->commit_id || !e->file)
		for (e = atomic_load(&all_entries); e && !(e->queue == q && e->commit_id && e->file); ) e = e->next_made;
	if (!e) return;
	q->waiting = e;
	note.arg.nodeid = e->file;
	q->needs_prod = write(device, &note, sizeof note) < 0;
}

static void listen_to_wake(struct queue *q)
{
	struct io_uring_sqe *s = next_submission(q);
	s->opcode = IORING_OP_POLL_ADD;
	s->fd = q->wake; s->len = IORING_POLL_ADD_MULTI; s->poll32_events = POLLIN;
}
static void *serve_queue(void *arg)
{
	struct queue *q = own_queue = arg;
	struct entry *settled = NULL;		/* committed on behalf of other threads in the last turn */
	cpu_set_t cpu;
	CPU_ZERO(&cpu); CPU_SET(q->id, &cpu);
	sched_setaffinity(0, sizeof cpu, &cpu);	/* Waking a thread of another CPU costs far more. prod() relies on it, too. */
	syscall(__NR_io_uring_register, q->ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
	struct io_uring_rsrc_update self = { .offset = -1u, .data = (uint64_t)q->ring };
	if (syscall(__NR_io_uring_register, q->ring, IORING_REGISTER_RING_FDS, &self, 1) == 1) {
		q->enter_by = (int)self.offset; q->enter_flags |= IORING_ENTER_REGISTERED_RING;
	}
	listen_to_wake(q);
	replenish(q);
	while (!q->stopped) {
		enter(q, !q->probe);		/* after a prod, see what its commit fetched before anything else comes */
		unsigned head = *q->cq_head, tail = __atomic_load_n(q->cq_tail, __ATOMIC_ACQUIRE);
		for (unsigned i = head; i != tail; i++) {	/* first see what was taken, before anything is committed */
			struct io_uring_cqe *c = &q->completions[i & q->cq_mask];
			if (!c->user_data) { if (!(c->flags & IORING_CQE_F_MORE)) listen_to_wake(q); }
			else if (!c->res) take((struct entry *)(uintptr_t)c->user_data);
			else {				/* unmounted, as a rule */
				if (c->res != -ENOTCONN && c->res != -ECONNABORTED) fprintf(stderr, "mirror_uring: queue %u: %s\n", q->id, strerror(-c->res));
				q->stopped = 1;
			}
		}
		if (q->probe && !q->probe->is_free) q->needs_prod = 1;	/* it fetched one: there may be more */
		q->probe = NULL;
		for (struct entry *e = settled; e; e = e->next_answered) if (e->is_free && q->free > (unsigned)option.depth) trim(e);
		for (unsigned i = head; i != tail; i++) {
			struct io_uring_cqe *c = &q->completions[i & q->cq_mask];
			if (c->user_data && !c->res) serve((struct entry *)(uintptr_t)c->user_data);
		}
		__atomic_store_n(q->cq_head, tail, __ATOMIC_RELEASE);
		settled = atomic_exchange(&q->answered, NULL);
		for (struct entry *e = settled; e; e = e->next_answered) commit(e);
		if (q->free < (unsigned)option.depth && !q->stopped) replenish(q);
		if (q->needs_prod && !q->stopped) prod(q);
	}
	return NULL;
}

static int set_up_ring(struct queue *q)
{
	struct io_uring_params p = { .cq_entries = COMPLETIONS };
	p.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
	q->ring = q->enter_by = (int)syscall(__NR_io_uring_setup, SUBMISSIONS, &p);
	if (q->ring < 0) return -1;
	q->enter_flags = IORING_ENTER_GETEVENTS;
	q->wake = eventfd(0, EFD_CLOEXEC);
	if (syscall(__NR_io_uring_register, q->ring, IORING_REGISTER_FILES, &device, 1) < 0) return -1;
	size_t sq = p.sq_off.array + p.sq_entries * sizeof(unsigned), cq = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	char *m = mmap(NULL, sq > cq ? sq : cq, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, q->ring, IORING_OFF_SQ_RING);
	q->submissions = mmap(NULL, p.sq_entries * 128, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, q->ring, IORING_OFF_SQES);
	if (m == MAP_FAILED || q->submissions == MAP_FAILED) return -1;
	q->sq_head = (unsigned *)(m + p.sq_off.head); q->sq_tail = (unsigned *)(m + p.sq_off.tail); q->sq_mask = p.sq_entries - 1;
	q->cq_head = (unsigned *)(m + p.cq_off.head); q->cq_tail = (unsigned *)(m + p.cq_off.tail); q->cq_mask = p.cq_entries - 1;
	q->completions = (struct io_uring_cqe *)(m + p.cq_off.cqes);
	for (unsigned i = 0; i < p.sq_entries; i++) ((unsigned *)(m + p.sq_off.array))[i] = i;
	return 0;
}
/* All that can fail is done before the rings are claimed in the INIT reply: from then on the kernel holds all requests
 * back until every possible CPU has its queue, whether this process may run there or not. */
static int set_up_queues(void)
{
	int last = -1, c;
	FILE *f = fopen("/sys/devices/system/cpu/possible", "r");
	if (!f) return 0;
	while (fscanf(f, "%d", &c) == 1) { last = c; if ((c = getc(f)) != '-' && c != ',') break; }
	fclose(f);
	queues = calloc((size_t)last + 1, sizeof *queues);
	for (int i = 0; i <= last; i++) {
		queues[i].id = (unsigned)i;
		if (set_up_ring(&queues[i]) < 0) { perror("mirror_uring: no rings"); return 0; }
	}
	queue_count = (unsigned)last + 1;
	return last >= 0;
}
static void start_thread(void *(*run)(void *), void *arg)
{
	pthread_t t;
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);	/* signals are for the main thread */
	if (pthread_create(&t, NULL, run, arg)) { perror("mirror_uring: thread"); exit(1); }
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ================================================================================ between libfuse and the kernel == */

static __thread int reply_backing;		/* the backing id that the reply being made must carry */
static int offered, reply_init;			/* INIT offered the rings; its reply is the next */
enum { INIT_EXT = 1 << 30, INIT2_PASSTHROUGH = 1 << 5, INIT2_URING = 1 << 9 };

static ssize_t send_reply(int fd, struct iovec *iov, int count, void *data)
{
	uint64_t unique = ((struct fuse_out_header *)iov[0].iov_base)->unique;
	int start = 0;
	(void)data;
	if (reply_init && count >= 2 && iov[1].iov_len >= 64) {
		uint32_t *out = iov[1].iov_base;	/* struct fuse_init_out */
		size_t pages = (out[7] & 0xffff) * (size_t)PAGE;
		reply_init = 0;
		out[3] |= (uint32_t)INIT_EXT;
		if (!option.nopass) { out[8] |= INIT2_PASSTHROUGH; out[9] = 1; /* max_stack_depth */ }
		payload_size = out[5] > pages ? out[5] : pages;
		if (payload_size < FUSE_MIN_READ_BUFFER) payload_size = FUSE_MIN_READ_BUFFER;
		start = offered && !option.nouring && set_up_queues();
		if (start) out[8] |= INIT2_URING;
	}
	if (reply_backing && count >= 2) {
		uint32_t *out = (uint32_t *)((char *)iov[count - 1].iov_base + iov[count - 1].iov_len - 16);	/* struct fuse_open_out */
		out[2] = (out[2] & ~3u) | 1u << 7;	/* FOPEN_PASSTHROUGH */
		out[3] = (uint32_t)reply_backing;
		reply_backing = 0;
	}
	if (unique & RING_BIT) return reply(entry_of(unique), iov, count);
	ssize_t n = writev(fd, iov, count);
	for (unsigned i = 0; start && n > 0 && i < queue_count; i++) start_thread(serve_queue, &queues[i]);
	return n;
}
static ssize_t receive(int fd, void *buf, size_t size, void *data)
{
	(void)data;
	ssize_t n = read(fd, buf, size);
	struct fuse_in_header *in = buf;
	uint32_t *arg = (uint32_t *)(in + 1);
	if (n >= (ssize_t)sizeof *in + 20 && in->opcode == FUSE_INIT) offered = arg[3] & (uint32_t)INIT_EXT && arg[4] & INIT2_URING;
	return n;
}
static const struct fuse_custom_io custom_io = { .writev = send_reply, .read = receive };

