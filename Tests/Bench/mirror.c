/* mirror: shows a directory at another place through FUSE, and does nothing else. Its cost is the
 * least that FUSE can cost here, so the benchmark compares Concord with it, in the same run.
 *
 * It asks the kernel for the same features as Concord: passthrough of reads, writes and mappings, parallel
 * directory operations, long-lived names and attributes, readdirplus, cached directories. It keeps
 * no journal, no versions and no coordination, and runs as root.
 *
 * It supports extended attributes only with `xattr`. Supporting them costs one more request at the
 * first write of each file, because the kernel looks for security.capability.
 *
 *   gcc -O2 mirror.c -o mirror $(pkg-config fuse3 --cflags --libs) -lpthread
 *   mirror DIRECTORY MOUNTPOINT [xattr]    stays in the foreground; umount(8) ends it
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { WORKERS = 4, SLOTS = 1 << 18, KERNEL_INIT = 26 };
static const double FOR_LONG = 86400.0;

/* Structures of the kernel that Debian's libfuse 3.14 does not have yet. */
struct wire_init_in { uint32_t header[10], major, minor, readahead, flags, flags2; };
struct wire_init_out { uint32_t major, minor, readahead, flags, limits[4], flags2, depth; };
struct wire_attr { uint64_t ino, size, blocks, time[3]; uint32_t nsec[3], mode, nlink, uid, gid, rdev, blksize, flags; };
struct wire_entry { uint64_t nodeid, generation, valid[2]; uint32_t valid_nsec[2]; struct wire_attr attr; };
struct wire_open { uint64_t handle; uint32_t flags; int32_t backing; };
struct wire_create { struct wire_entry entry; struct wire_open open; };
struct wire_backing { int32_t fd; uint32_t flags; uint64_t padding; };
enum { OPEN_PASSTHROUGH = 1 << 7 };
static const uint64_t WANTED = 1ull << 18 /* PARALLEL_DIROPS */ | 1ull << 28 /* HANDLE_KILLPRIV_V2 */
	| 1ull << 30 /* INIT_EXT */ | 1ull << 37 /* PASSTHROUGH */;

/* A file that the kernel knows. `table_lock` guards it, except for the descriptor, which never changes. */
struct node {
	struct node *next;
	dev_t device;
	ino_t number;
	uint64_t known;         /* the kernel's lookup count */
	int path;               /* O_PATH */
	int opens, backing;     /* the passthrough id while it is open */
};

static struct node root, *table[SLOTS];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static int kernel = -1;
static uint64_t offered;

static ssize_t hear(int fd, void *buffer, size_t size, void *data)
{
	ssize_t count = read(fd, buffer, size);
	const struct wire_init_in *in = buffer;
	(void)data;
	if (count >= (ssize_t)sizeof *in && in->header[1] == KERNEL_INIT)
		offered = in->flags | (uint64_t)in->flags2 << 32;
	return count;
}

/* The reply to INIT is the first one. It is completed here while it is being sent. */
static ssize_t say(int fd, struct iovec *parts, int count, void *data)
{
	static atomic_int said;
	(void)data;
	if (count == 2 && !atomic_exchange(&said, 1)) {
		struct wire_init_out *out = parts[1].iov_base;
		uint64_t flags = (out->flags | (uint64_t)out->flags2 << 32 | WANTED) & offered;
		out->flags = (uint32_t)flags;
		out->flags2 = (uint32_t)(flags >> 32);
		out->depth = 1;
	}
	return writev(fd, parts, count);
}

static struct node *node(fuse_ino_t id) { return id == FUSE_ROOT_ID ? &root : (struct node *)(uintptr_t)id; }
static const char *reach(char buffer[32], struct node *n) { sprintf(buffer, "/proc/self/fd/%d", n->path); return buffer; }
static struct node **slot(dev_t device, ino_t number)
{
	return &table[((number ^ device << 32) * 0x9e3779b97f4a7c15ull) >> 46];
}
static void answer(fuse_req_t r, int result) { fuse_reply_err(r, result < 0 ? errno : 0); }

/* Finds or makes the node of a name. Returns 0 or an errno. */
static int meet(fuse_ino_t parent, const char *name, struct fuse_entry_param *e)
{
	*e = (struct fuse_entry_param){ .attr_timeout = FOR_LONG, .entry_timeout = FOR_LONG };
	int path = openat(node(parent)->path, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (path < 0) return errno;
	if (fstat(path, &e->attr) < 0) { int error = errno; close(path); return error; }
	struct node **at = slot(e->attr.st_dev, e->attr.st_ino), *n;
	pthread_mutex_lock(&table_lock);
	for (n = *at; n; n = n->next)
		if (n->number == e->attr.st_ino && n->device == e->attr.st_dev) break;
	int old = n != NULL;
	if (!old) {
		n = calloc(1, sizeof *n);
		*n = (struct node){ *at, e->attr.st_dev, e->attr.st_ino, 0, path, 0, 0 };
		*at = n;
	}
	n->known++;
	pthread_mutex_unlock(&table_lock);
	if (old) close(path);
	e->ino = (uintptr_t)n;
	return 0;
}

static void part(fuse_ino_t id, uint64_t times)
{
	struct node *n = node(id);
	if (n == &root) return;
	pthread_mutex_lock(&table_lock);
	int last = (n->known -= times) == 0;
	if (last) {
		struct node **at = slot(n->device, n->number);
		while (*at != n) at = &(*at)->next;
		*at = n->next;
	}
	pthread_mutex_unlock(&table_lock);
	if (last) { close(n->path); free(n); }
}

static void tell(fuse_req_t r, fuse_ino_t parent, const char *name, int result)
{
	struct fuse_entry_param e;
	int error = result < 0 ? errno : meet(parent, name, &e);
	if (error) fuse_reply_err(r, error); else fuse_reply_entry(r, &e);
}

static void on_lookup(fuse_req_t r, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e;
	int error = meet(parent, name, &e);
	if (error && error != ENOENT) fuse_reply_err(r, error);
	else fuse_reply_entry(r, &e);   /* node 0 makes the kernel cache that the name does not exist */
}
static void on_forget(fuse_req_t r, fuse_ino_t id, uint64_t times) { part(id, times); fuse_reply_none(r); }
static void on_forget_many(fuse_req_t r, size_t count, struct fuse_forget_data *them)
{
	for (size_t i = 0; i < count; i++) part(them[i].ino, them[i].nlookup);
	fuse_reply_none(r);
}
static void on_getattr(fuse_req_t r, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct stat st;
	(void)fi;
	if (fstat(node(id)->path, &st) < 0) fuse_reply_err(r, errno); else fuse_reply_attr(r, &st, FOR_LONG);
}
static void on_setattr(fuse_req_t r, fuse_ino_t id, struct stat *to, int what, struct fuse_file_info *fi)
{
	char name[32];
	const char *path = reach(name, node(id));
	struct timespec times[2] = { { 0, UTIME_OMIT }, { 0, UTIME_OMIT } };
	int result = 0;
	if (what & FUSE_SET_ATTR_MODE) result = chmod(path, to->st_mode);
	if (!result && what & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		result = fchownat(node(id)->path, "", what & FUSE_SET_ATTR_UID ? to->st_uid : (uid_t)-1,
			what & FUSE_SET_ATTR_GID ? to->st_gid : (gid_t)-1, AT_EMPTY_PATH);
	if (!result && what & FUSE_SET_ATTR_SIZE)
		result = fi ? ftruncate((int)fi->fh, to->st_size) : truncate(path, to->st_size);
	if (what & FUSE_SET_ATTR_ATIME) times[0] = to->st_atim;
	if (what & FUSE_SET_ATTR_MTIME) times[1] = to->st_mtim;
	if (what & FUSE_SET_ATTR_ATIME_NOW) times[0].tv_nsec = UTIME_NOW;
	if (what & FUSE_SET_ATTR_MTIME_NOW) times[1].tv_nsec = UTIME_NOW;
	if (!result && what & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME))
		result = utimensat(node(id)->path, "", times, AT_EMPTY_PATH);
	if (result < 0) fuse_reply_err(r, errno); else on_getattr(r, id, fi);
}
static void on_mkdir(fuse_req_t r, fuse_ino_t in, const char *name, mode_t mode)
{
	tell(r, in, name, mkdirat(node(in)->path, name, mode));
}
static void on_mknod(fuse_req_t r, fuse_ino_t in, const char *name, mode_t mode, dev_t device)
{
	tell(r, in, name, mknodat(node(in)->path, name, mode, device));
}
static void on_symlink(fuse_req_t r, const char *to, fuse_ino_t in, const char *name)
{
	tell(r, in, name, symlinkat(to, node(in)->path, name));
}
static void on_link(fuse_req_t r, fuse_ino_t id, fuse_ino_t in, const char *name)
{
	char path[32];
	tell(r, in, name, linkat(AT_FDCWD, reach(path, node(id)), node(in)->path, name, AT_SYMLINK_FOLLOW));
}
static void on_readlink(fuse_req_t r, fuse_ino_t id)
{
	char target[PATH_MAX + 1];
	ssize_t length = readlinkat(node(id)->path, "", target, PATH_MAX);
	if (length < 0) { fuse_reply_err(r, errno); return; }
	target[length] = 0;
	fuse_reply_readlink(r, target);
}
static void on_unlink(fuse_req_t r, fuse_ino_t in, const char *name) { answer(r, unlinkat(node(in)->path, name, 0)); }
static void on_rmdir(fuse_req_t r, fuse_ino_t in, const char *name) { answer(r, unlinkat(node(in)->path, name, AT_REMOVEDIR)); }
static void on_rename(fuse_req_t r, fuse_ino_t in, const char *name, fuse_ino_t to, const char *as, unsigned flags)
{
	answer(r, renameat2(node(in)->path, name, node(to)->path, as, flags));
}

/* All opens of a file share one backing id, as the kernel requires. */
static int enter(struct node *n)
{
	pthread_mutex_lock(&table_lock);
	if (n->opens++ == 0) {
		struct wire_backing map = { n->path, 0, 0 };
		n->backing = ioctl(kernel, _IOW(229, 1, struct wire_backing), &map);
	}
	int id = n->backing;
	pthread_mutex_unlock(&table_lock);
	return id;
}
static void leave(struct node *n)
{
	pthread_mutex_lock(&table_lock);
	uint32_t id = (uint32_t)n->backing;
	if (--n->opens == 0 && n->backing > 0) ioctl(kernel, _IOW(229, 2, uint32_t), &id);
	pthread_mutex_unlock(&table_lock);
}
static struct wire_open opened(struct node *n, int fd)
{
	int id = enter(n);
	return (struct wire_open){ (uint64_t)fd, id > 0 ? OPEN_PASSTHROUGH : 0, id > 0 ? id : 0 };
}
static void on_open(fuse_req_t r, fuse_ino_t id, struct fuse_file_info *fi)
{
	char path[32];
	int fd = open(reach(path, node(id)), fi->flags & ~O_NOFOLLOW);
	if (fd < 0) { fuse_reply_err(r, errno); return; }
	struct wire_open out = opened(node(id), fd);
	fuse_reply_buf(r, (const char *)&out, sizeof out);
}
static void on_create(fuse_req_t r, fuse_ino_t in, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct fuse_entry_param e;
	int fd = openat(node(in)->path, name, fi->flags | O_CREAT, mode);
	if (fd < 0) { fuse_reply_err(r, errno); return; }
	int error = meet(in, name, &e);
	if (error) { close(fd); fuse_reply_err(r, error); return; }
	const struct stat *s = &e.attr;
	struct wire_create out = {
		.entry = { e.ino, 0, { (uint64_t)FOR_LONG, (uint64_t)FOR_LONG }, { 0, 0 }, {
			s->st_ino, (uint64_t)s->st_size, (uint64_t)s->st_blocks,
			{ (uint64_t)s->st_atim.tv_sec, (uint64_t)s->st_mtim.tv_sec, (uint64_t)s->st_ctim.tv_sec },
			{ (uint32_t)s->st_atim.tv_nsec, (uint32_t)s->st_mtim.tv_nsec, (uint32_t)s->st_ctim.tv_nsec },
			s->st_mode, (uint32_t)s->st_nlink, s->st_uid, s->st_gid, 0, (uint32_t)s->st_blksize, 0 } },
		.open = opened(node(e.ino), fd),
	};
	fuse_reply_buf(r, (const char *)&out, sizeof out);
}
static void on_release(fuse_req_t r, fuse_ino_t id, struct fuse_file_info *fi)
{
	close((int)fi->fh);
	leave(node(id));
	fuse_reply_err(r, 0);
}
static void on_fsync(fuse_req_t r, fuse_ino_t id, int data, struct fuse_file_info *fi)
{
	(void)id;
	answer(r, data ? fdatasync((int)fi->fh) : fsync((int)fi->fh));
}
static void on_read(fuse_req_t r, fuse_ino_t id, size_t size, off_t at, struct fuse_file_info *fi)
{
	struct fuse_bufvec from = FUSE_BUFVEC_INIT(size);
	(void)id;
	from.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	from.buf[0].fd = (int)fi->fh;
	from.buf[0].pos = at;
	fuse_reply_data(r, &from, 0);
}
static void on_write(fuse_req_t r, fuse_ino_t id, const char *bytes, size_t size, off_t at, struct fuse_file_info *fi)
{
	ssize_t count = pwrite((int)fi->fh, bytes, size, at);
	(void)id;
	if (count < 0) fuse_reply_err(r, errno); else fuse_reply_write(r, (size_t)count);
}
static void on_fallocate(fuse_req_t r, fuse_ino_t id, int mode, off_t at, off_t length, struct fuse_file_info *fi)
{
	(void)id;
	answer(r, fallocate((int)fi->fh, mode, at, length));
}
static void on_lseek(fuse_req_t r, fuse_ino_t id, off_t at, int whence, struct fuse_file_info *fi)
{
	off_t found = lseek((int)fi->fh, at, whence);
	(void)id;
	if (found < 0) fuse_reply_err(r, errno); else fuse_reply_lseek(r, found);
}

struct listing { DIR *directory; struct dirent *next; off_t at; pthread_mutex_t lock; };
static void on_opendir(fuse_req_t r, fuse_ino_t id, struct fuse_file_info *fi)
{
	int fd = openat(node(id)->path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) { fuse_reply_err(r, errno); return; }
	struct listing *list = calloc(1, sizeof *list);
	list->directory = fdopendir(fd);
	pthread_mutex_init(&list->lock, NULL);
	fi->fh = (uintptr_t)list;
	fi->cache_readdir = fi->keep_cache = 1;
	fuse_reply_open(r, fi);
}
static void list(fuse_req_t r, fuse_ino_t id, size_t size, off_t from, struct fuse_file_info *fi, int plus)
{
	struct listing *list = (struct listing *)(uintptr_t)fi->fh;
	char *buffer = malloc(size);
	size_t used = 0;
	pthread_mutex_lock(&list->lock);
	if (from != list->at) { seekdir(list->directory, from); list->next = NULL; list->at = from; }
	while (list->next || (list->next = readdir(list->directory))) {
		const char *name = list->next->d_name;
		struct fuse_entry_param e = { 0 };
		int dots = name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
		if (!plus || dots || meet(id, name, &e)) {
			e = (struct fuse_entry_param){ .attr.st_ino = list->next->d_ino };
			e.attr.st_mode = (mode_t)DTTOIF(list->next->d_type);
		}
		size_t need = plus
			? fuse_add_direntry_plus(r, buffer + used, size - used, name, &e, list->next->d_off)
			: fuse_add_direntry(r, buffer + used, size - used, name, &e.attr, list->next->d_off);
		if (need > size - used) {
			if (e.ino) part(e.ino, 1);
			break;
		}
		used += need;
		list->at = list->next->d_off;
		list->next = NULL;
	}
	pthread_mutex_unlock(&list->lock);
	fuse_reply_buf(r, buffer, used);
	free(buffer);
}
static void on_readdir(fuse_req_t r, fuse_ino_t id, size_t size, off_t from, struct fuse_file_info *fi) { list(r, id, size, from, fi, 0); }
static void on_readdirplus(fuse_req_t r, fuse_ino_t id, size_t size, off_t from, struct fuse_file_info *fi) { list(r, id, size, from, fi, 1); }
static void on_releasedir(fuse_req_t r, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct listing *list = (struct listing *)(uintptr_t)fi->fh;
	(void)id;
	closedir(list->directory);
	free(list);
	fuse_reply_err(r, 0);
}
static void on_statfs(fuse_req_t r, fuse_ino_t id)
{
	struct statvfs st;
	if (fstatvfs(node(id)->path, &st) < 0) fuse_reply_err(r, errno); else fuse_reply_statfs(r, &st);
}
static void on_getxattr(fuse_req_t r, fuse_ino_t id, const char *name, size_t size)
{
	char path[32], value[65536];
	ssize_t length = getxattr(reach(path, node(id)), name, value, size < sizeof value ? size : sizeof value);
	if (length < 0) fuse_reply_err(r, errno);
	else if (size == 0) fuse_reply_xattr(r, (size_t)length);
	else fuse_reply_buf(r, value, (size_t)length);
}
static void on_setxattr(fuse_req_t r, fuse_ino_t id, const char *name, const char *value, size_t size, int flags)
{
	char path[32];
	answer(r, setxattr(reach(path, node(id)), name, value, size, flags));
}
static void on_listxattr(fuse_req_t r, fuse_ino_t id, size_t size)
{
	char path[32], names[65536];
	ssize_t length = listxattr(reach(path, node(id)), names, size < sizeof names ? size : sizeof names);
	if (length < 0) fuse_reply_err(r, errno);
	else if (size == 0) fuse_reply_xattr(r, (size_t)length);
	else fuse_reply_buf(r, names, (size_t)length);
}
static void on_removexattr(fuse_req_t r, fuse_ino_t id, const char *name)
{
	char path[32];
	answer(r, removexattr(reach(path, node(id)), name));
}

static struct fuse_lowlevel_ops operations = {
	.lookup = on_lookup, .forget = on_forget, .forget_multi = on_forget_many, .getattr = on_getattr,
	.setattr = on_setattr, .mkdir = on_mkdir, .mknod = on_mknod, .symlink = on_symlink, .link = on_link,
	.readlink = on_readlink, .unlink = on_unlink, .rmdir = on_rmdir, .rename = on_rename, .open = on_open,
	.create = on_create, .release = on_release, .fsync = on_fsync, .read = on_read, .write = on_write,
	.fallocate = on_fallocate, .lseek = on_lseek, .opendir = on_opendir, .readdir = on_readdir,
	.readdirplus = on_readdirplus, .releasedir = on_releasedir, .statfs = on_statfs,
	.getxattr = on_getxattr, .setxattr = on_setxattr, .listxattr = on_listxattr,
	.removexattr = on_removexattr,
};

static void *work(void *session)
{
	struct fuse_buf request = { 0 };
	while (!fuse_session_exited(session)) {
		int count = fuse_session_receive_buf(session, &request);
		if (count == -EINTR || count == -EAGAIN || count == -ENOENT) continue;
		if (count <= 0) break;
		fuse_session_process_buf(session, &request);
	}
	free(request.mem);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 3) { fprintf(stderr, "usage: mirror DIRECTORY MOUNTPOINT [xattr]\n"); return 2; }
	if (argc == 3) {
		operations.getxattr = NULL, operations.setxattr = NULL;
		operations.listxattr = NULL, operations.removexattr = NULL;
	}
	struct rlimit files;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	umask(0);
	char *arguments[] = { argv[0], NULL }, options[128];
	struct fuse_args args = FUSE_ARGS_INIT(1, arguments);
	struct fuse_session *session = fuse_session_new(&args, &operations, sizeof operations, NULL);
	const struct fuse_custom_io io = { .read = hear, .writev = say };
	root.path = open(argv[1], O_PATH | O_DIRECTORY);
	kernel = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	sprintf(options, "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other", kernel);
	if (root.path < 0) { perror(argv[1]); return 1; }
	if (!session || mount("mirror", argv[2], "fuse.mirror", MS_NOSUID | MS_NODEV, options)) { perror(argv[2]); return 1; }
	if (fuse_session_custom_io(session, &io, kernel)) return 1;
	pthread_t threads[WORKERS];
	for (int i = 0; i < WORKERS; i++) pthread_create(&threads[i], NULL, work, session);
	for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
	return 0;
}
