/* mirror_uring: the least a FUSE file system over a plain directory can cost on this machine, over io_uring.
 *
 * A bare mirror of one directory with kernel passthrough, like `mirror`, whose requests are carried by the
 * kernel's FUSE-over-io_uring transport where that is offered (Linux 6.14 or later, /sys/module/fuse/parameters/
 * enable_uring = 1) and by /dev/fuse everywhere else. It runs on the libfuse 3.14 of Debian 12, which knows neither
 * the transport nor passthrough: requests from the rings are handed to fuse_session_process_buf(), and replies are
 * caught on their way out by the writev of fuse_session_custom_io().
 *
 *   gcc -O2 mirror_uring.c -o mirror_uring $(pkg-config fuse3 --cflags --libs) -lpthread
 *   mirror_uring SOURCE MOUNTPOINT [nopass] [nouring] [depth=N] [write=N] [park=MS]      runs in the foreground, as root
 *
 *   nopass      no passthrough: reads and writes come to this program
 *   nouring     /dev/fuse only, as in `mirror`
 *   depth=N     entries kept free in each queue (32)        write=N     largest write, in bytes (1 MiB)
 *   park=MS     opens of files with the sticky bit are answered so much later, by another thread
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <linux/io_uring.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static struct { int nopass, nouring, depth, write, park; } option = { .depth = 32 };
static struct fuse_session *session;
static int device = -1;				/* /dev/fuse */

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

/* ================================================================================================= the mirror ===== */

#define BUCKETS (1 << 20)
#define TIMEOUT 3600.0

struct node { struct node *next; dev_t dev; ino_t ino; int fd; uint64_t lookups; int backing_id, opens, backing_fd; };
static struct node *table[BUCKETS], root;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct backing_map { int32_t fd; uint32_t flags; uint64_t padding; };
#define BACKING_OPEN _IOW(229, 1, struct backing_map)
#define BACKING_CLOSE _IOW(229, 2, uint32_t)

static struct node *node_of(fuse_ino_t ino) { return ino == FUSE_ROOT_ID ? &root : (struct node *)(uintptr_t)ino; }
static unsigned bucket(dev_t dev, ino_t ino) { return (unsigned)((ino * 11400714819323198485ull ^ dev) >> 13) % BUCKETS; }
static void self_path(char *buf, int fd) { sprintf(buf, "/proc/self/fd/%d", fd); }

static int find(fuse_ino_t parent, const char *name, struct fuse_entry_param *e)
{
	memset(e, 0, sizeof *e);
	e->attr_timeout = e->entry_timeout = TIMEOUT;
	int fd = openat(node_of(parent)->fd, name, O_PATH | O_NOFOLLOW);
	if (fd < 0) return errno;
	if (fstatat(fd, "", &e->attr, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0) { int r = errno; close(fd); return r; }
	pthread_mutex_lock(&lock);
	struct node **head = &table[bucket(e->attr.st_dev, e->attr.st_ino)], *n;
	for (n = *head; n && !(n->ino == e->attr.st_ino && n->dev == e->attr.st_dev); n = n->next) ;
	if (n) close(fd);
	else {
		n = calloc(1, sizeof *n);
		n->dev = e->attr.st_dev; n->ino = e->attr.st_ino; n->fd = fd; n->next = *head; *head = n;
	}
	n->lookups++;
	pthread_mutex_unlock(&lock);
	e->ino = (fuse_ino_t)(uintptr_t)n;
	return 0;
}
static void drop(fuse_ino_t ino, uint64_t count)
{
	struct node *n = node_of(ino);
	if (n == &root) return;
	pthread_mutex_lock(&lock);
	if ((n->lookups -= count) == 0) {
		struct node **p = &table[bucket(n->dev, n->ino)];
		while (*p != n) p = &(*p)->next;
		*p = n->next;
		close(n->fd);
		free(n);
	}
	pthread_mutex_unlock(&lock);
}
static void attach(struct node *n)
{
	if (option.nopass) return;
	pthread_mutex_lock(&lock);
	if (n->opens++ == 0) {
		char path[64];
		self_path(path, n->fd);
		n->backing_fd = open(path, O_RDWR);
		if (n->backing_fd < 0) n->backing_fd = open(path, O_RDONLY);
		struct backing_map map = { .fd = n->backing_fd };
		n->backing_id = ioctl(device, BACKING_OPEN, &map);
	}
	reply_backing = n->backing_id;
	pthread_mutex_unlock(&lock);
}
static void detach(struct node *n)
{
	if (option.nopass) return;
	pthread_mutex_lock(&lock);
	if (--n->opens == 0) { uint32_t id = (uint32_t)n->backing_id; ioctl(device, BACKING_CLOSE, &id); close(n->backing_fd); }
	pthread_mutex_unlock(&lock);
}


static void op_init(void *u, struct fuse_conn_info *c)
{
	(void)u;
	reply_init = 1;
	if (option.write) c->max_write = (unsigned)option.write;
}
static void op_lookup(fuse_req_t r, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e;
	int err = find(parent, name, &e);
	if (err == ENOENT) { e.ino = 0; fuse_reply_entry(r, &e); }	/* cached as absent */
	else if (err) fuse_reply_err(r, err); else fuse_reply_entry(r, &e);
}
static void op_forget(fuse_req_t r, fuse_ino_t ino, uint64_t n) { drop(ino, n); fuse_reply_none(r); }
static void op_forget_multi(fuse_req_t r, size_t n, struct fuse_forget_data *f)
{
	for (size_t i = 0; i < n; i++) drop(f[i].ino, f[i].nlookup);
	fuse_reply_none(r);
}
static void op_getattr(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st; (void)fi;
	if (fstatat(node_of(ino)->fd, "", &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0) fuse_reply_err(r, errno);
	else fuse_reply_attr(r, &st, TIMEOUT);
}
static void op_setattr(fuse_req_t r, fuse_ino_t ino, struct stat *a, int set, struct fuse_file_info *fi)
{
	char path[64]; self_path(path, node_of(ino)->fd);
	int e = 0;
	if (set & FUSE_SET_ATTR_MODE) e |= chmod(path, a->st_mode);
	if (set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		e |= chown(path, set & FUSE_SET_ATTR_UID ? a->st_uid : (uid_t)-1, set & FUSE_SET_ATTR_GID ? a->st_gid : (gid_t)-1);
	if (set & FUSE_SET_ATTR_SIZE) e |= fi ? ftruncate((int)fi->fh, a->st_size) : truncate(path, a->st_size);
	if (set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) {
		struct timespec t[2] = { { 0, UTIME_OMIT }, { 0, UTIME_OMIT } };
		if (set & FUSE_SET_ATTR_ATIME) t[0] = a->st_atim;
		if (set & FUSE_SET_ATTR_MTIME) t[1] = a->st_mtim;
		if (set & FUSE_SET_ATTR_ATIME_NOW) t[0].tv_nsec = UTIME_NOW;
		if (set & FUSE_SET_ATTR_MTIME_NOW) t[1].tv_nsec = UTIME_NOW;
		e |= utimensat(AT_FDCWD, path, t, 0);
	}
	if (e) fuse_reply_err(r, errno); else op_getattr(r, ino, fi);
}
static void reply_found(fuse_req_t r, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e;
	int err = find(parent, name, &e);
	if (err) fuse_reply_err(r, err); else fuse_reply_entry(r, &e);
}
static void op_mkdir(fuse_req_t r, fuse_ino_t parent, const char *name, mode_t mode)
{
	if (mkdirat(node_of(parent)->fd, name, mode) < 0) fuse_reply_err(r, errno); else reply_found(r, parent, name);
}
static void op_symlink(fuse_req_t r, const char *to, fuse_ino_t parent, const char *name)
{
	if (symlinkat(to, node_of(parent)->fd, name) < 0) fuse_reply_err(r, errno); else reply_found(r, parent, name);
}
static void op_readlink(fuse_req_t r, fuse_ino_t ino)
{
	char buf[4097]; ssize_t n = readlinkat(node_of(ino)->fd, "", buf, 4096);
	if (n < 0) { fuse_reply_err(r, errno); return; }
	buf[n] = 0; fuse_reply_readlink(r, buf);
}
static void op_unlink(fuse_req_t r, fuse_ino_t p, const char *name) { fuse_reply_err(r, unlinkat(node_of(p)->fd, name, 0) < 0 ? errno : 0); }
static void op_rmdir(fuse_req_t r, fuse_ino_t p, const char *name) { fuse_reply_err(r, unlinkat(node_of(p)->fd, name, AT_REMOVEDIR) < 0 ? errno : 0); }
static void op_rename(fuse_req_t r, fuse_ino_t p, const char *name, fuse_ino_t np, const char *nn, unsigned flags)
{
	fuse_reply_err(r, renameat2(node_of(p)->fd, name, node_of(np)->fd, nn, flags) < 0 ? errno : 0);
}
static void op_create(fuse_req_t r, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct fuse_entry_param e;
	int fd = openat(node_of(parent)->fd, name, (fi->flags | O_CREAT) & ~O_NOFOLLOW, mode);
	if (fd < 0) { fuse_reply_err(r, errno); return; }
	int err = find(parent, name, &e);
	if (err) { close(fd); fuse_reply_err(r, err); return; }
	fi->fh = (uint64_t)fd;
	attach(node_of(e.ino));
	fuse_reply_create(r, &e, fi);
}
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }

/* Opens that wait (option park), in the order in which they came, and the thread that answers them. */
static void finish_open(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi);
struct parked { struct parked *next; fuse_req_t req; fuse_ino_t ino; struct fuse_file_info fi; double due; };
static struct parked *parked, **parked_end = &parked;
static pthread_mutex_t parked_lock = PTHREAD_MUTEX_INITIALIZER;

static void park(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct parked *p = malloc(sizeof *p);
	*p = (struct parked){ NULL, r, ino, *fi, now() + option.park / 1e3 };
	trim(serving);
	pthread_mutex_lock(&parked_lock);
	*parked_end = p; parked_end = &p->next;
	pthread_mutex_unlock(&parked_lock);
}
static void *answer_parked(void *arg)
{
	for (;;) {
		pthread_mutex_lock(&parked_lock);
		struct parked *p = parked && parked->due <= now() ? parked : NULL;
		if (p && !(parked = p->next)) parked_end = &parked;
		pthread_mutex_unlock(&parked_lock);
		if (p) { finish_open(p->req, p->ino, &p->fi); free(p); } else usleep(1000);
	}
	return arg;
}

static void finish_open(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	char path[64]; self_path(path, node_of(ino)->fd);
	int fd = open(path, fi->flags & ~O_NOFOLLOW);
	if (fd < 0) { fuse_reply_err(r, errno); return; }
	fi->fh = (uint64_t)fd;
	attach(node_of(ino));
	fuse_reply_open(r, fi);
}
static void op_open(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;
	if (option.park && fstatat(node_of(ino)->fd, "", &st, AT_EMPTY_PATH) == 0 && st.st_mode & S_ISVTX) park(r, ino, fi);
	else finish_open(r, ino, fi);
}
static void op_release(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi) { close((int)fi->fh); detach(node_of(ino)); fuse_reply_err(r, 0); }
static void op_fsync(fuse_req_t r, fuse_ino_t ino, int data, struct fuse_file_info *fi)
{
	(void)ino; fuse_reply_err(r, (data ? fdatasync((int)fi->fh) : fsync((int)fi->fh)) < 0 ? errno : 0);
}
static void op_read(fuse_req_t r, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	char *buf = serving ? serving->payload : malloc(size);	/* straight into the reply */
	ssize_t n = pread((int)fi->fh, buf, size, off); (void)ino;
	if (n < 0) fuse_reply_err(r, errno); else fuse_reply_buf(r, buf, (size_t)n);
	if (!serving) free(buf);
}
static void op_write_buf(fuse_req_t r, fuse_ino_t ino, struct fuse_bufvec *in, off_t off, struct fuse_file_info *fi)
{
	struct fuse_bufvec out = FUSE_BUFVEC_INIT(fuse_buf_size(in)); (void)ino;
	out.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK; out.buf[0].fd = (int)fi->fh; out.buf[0].pos = off;
	ssize_t n = fuse_buf_copy(&out, in, 0);
	if (n < 0) fuse_reply_err(r, (int)-n); else fuse_reply_write(r, (size_t)n);
}
struct stream { DIR *dir; struct dirent *entry; off_t offset; };
static void op_opendir(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	int fd = openat(node_of(ino)->fd, ".", O_RDONLY | O_DIRECTORY);
	if (fd < 0) { fuse_reply_err(r, errno); return; }
	struct stream *s = calloc(1, sizeof *s);
	s->dir = fdopendir(fd); fi->fh = (uint64_t)(uintptr_t)s; fi->cache_readdir = 1; fi->keep_cache = 1;
	fuse_reply_open(r, fi);
}
static void op_readdirplus(fuse_req_t r, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct stream *s = (struct stream *)(uintptr_t)fi->fh;
	char *buf = malloc(size); size_t used = 0;
	if (off != s->offset) { seekdir(s->dir, off); s->entry = NULL; s->offset = off; }
	for (;;) {
		if (!s->entry && !(s->entry = readdir(s->dir))) break;
		struct fuse_entry_param e; const char *name = s->entry->d_name;
		int dots = !strcmp(name, ".") || !strcmp(name, "..");
		if (dots || find(ino, name, &e)) { memset(&e, 0, sizeof e); e.attr.st_ino = s->entry->d_ino; e.attr.st_mode = (mode_t)s->entry->d_type << 12; }
		size_t need = fuse_add_direntry_plus(r, buf + used, size - used, name, &e, s->entry->d_off);
		if (need > size - used) { if (e.ino) drop(e.ino, 1); break; }
		used += need; s->offset = s->entry->d_off; s->entry = NULL;
	}
	fuse_reply_buf(r, buf, used); free(buf);
}
static void op_releasedir(fuse_req_t r, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stream *s = (struct stream *)(uintptr_t)fi->fh; (void)ino;
	closedir(s->dir); free(s); fuse_reply_err(r, 0);
}
static void op_statfs(fuse_req_t r, fuse_ino_t ino)
{
	struct statvfs st;
	if (fstatvfs(node_of(ino)->fd, &st) < 0) fuse_reply_err(r, errno); else fuse_reply_statfs(r, &st);
}

static const struct fuse_lowlevel_ops ops = {
	.init = op_init, .lookup = op_lookup, .forget = op_forget, .forget_multi = op_forget_multi, .getattr = op_getattr,
	.setattr = op_setattr, .mkdir = op_mkdir, .symlink = op_symlink, .readlink = op_readlink, .unlink = op_unlink,
	.rmdir = op_rmdir, .rename = op_rename, .create = op_create, .open = op_open, .release = op_release, .fsync = op_fsync,
	.read = op_read, .write_buf = op_write_buf, .opendir = op_opendir, .readdirplus = op_readdirplus,
	.releasedir = op_releasedir, .statfs = op_statfs,
};

/* One request from /dev/fuse; with rings that is INIT, and later FORGET and INTERRUPT only. */
static int serve_device(void)
{
	static struct fuse_buf buf;
	int n = fuse_session_receive_buf(session, &buf);
	if (n > 0) fuse_session_process_buf(session, &buf);
	return n == -EINTR ? 1 : n;
}
int main(int argc, char **argv)
{
	int wrong = argc < 3;
	for (int i = 3; i < argc; i++)
		if (!strcmp(argv[i], "nopass")) option.nopass = 1;
		else if (!strcmp(argv[i], "nouring")) option.nouring = 1;
		else if (sscanf(argv[i], "depth=%d", &option.depth) + sscanf(argv[i], "write=%d", &option.write) + sscanf(argv[i], "park=%d", &option.park) < 1) wrong = 1;
	if (wrong) { fprintf(stderr, "usage: mirror_uring SOURCE MOUNTPOINT [nopass] [nouring] [depth=N] [write=N] [park=MS]\n"); return 2; }
	if (option.depth < 2) option.depth = 2;		/* a prod takes one */
	struct rlimit files;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	umask(0);
	root.fd = open(argv[1], O_PATH); root.lookups = 1;
	char *name[] = { argv[0], NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, name);
	session = fuse_session_new(&args, &ops, sizeof ops, NULL);
	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];
	sprintf(options, "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other", device);
	if (root.fd < 0 || !session || mount("limit", argv[2], "fuse.limit", MS_NOSUID | MS_NODEV, options)
	    || fuse_session_custom_io(session, &custom_io, device)) { perror("mirror_uring"); return 1; }
	fuse_set_signal_handlers(session);
	if (option.park) start_thread(answer_parked, NULL);
	int r = serve_device() <= 0;
	if (queue_count) while (!fuse_session_exited(session) && serve_device() > 0) ;
	else if (!r) {
		struct fuse_loop_config *config = fuse_loop_cfg_create();
		fuse_loop_cfg_set_clone_fd(config, 0);
		r = fuse_session_loop_mt(session, config);
	}
	umount2(argv[2], MNT_DETACH);
	return r;
}
