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

#include "mirror_uring.h"

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
