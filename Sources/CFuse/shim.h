// libfuse3's low-level API, and what Debian's 3.14 lacks of the kernel's protocol 7.45:
// the wire structures of passthrough, statx and prune. Layouts are those of
// include/uapi/linux/fuse.h.
#define FUSE_USE_VERSION 314
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <fuse_lowlevel.h>

enum { CF_OP_INIT = 26, CF_OP_INTERRUPT = 36, CF_OP_SYNCFS = 50, CF_OP_TMPFILE = 51, CF_OP_STATX = 52 };

struct cf_in_header { uint32_t len, opcode; uint64_t unique, nodeid; uint32_t uid, gid, pid; uint16_t extlen, padding; };
struct cf_out_header { uint32_t len; int32_t error; uint64_t unique; };
struct cf_init_in { uint32_t major, minor, max_readahead, flags, flags2, unused[11]; };
struct cf_init_out {
    uint32_t major, minor, max_readahead, flags;
    uint16_t max_background, congestion_threshold;
    uint32_t max_write, time_gran;
    uint16_t max_pages, map_alignment;
    uint32_t flags2, max_stack_depth;
    uint16_t request_timeout, unused[11];
};
struct cf_attr { uint64_t ino, size, blocks, atime, mtime, ctime; uint32_t atimensec, mtimensec, ctimensec, mode, nlink, uid, gid, rdev, blksize, flags; };
struct cf_entry_out { uint64_t nodeid, generation, entry_valid, attr_valid; uint32_t entry_valid_nsec, attr_valid_nsec; struct cf_attr attr; };
struct cf_open_out { uint64_t fh; uint32_t open_flags; int32_t backing_id; };
struct cf_create_out { struct cf_entry_out entry; struct cf_open_out open; };
struct cf_create_in { uint32_t flags, mode, umask, open_flags; };
struct cf_statx_in { uint32_t getattr_flags, reserved; uint64_t fh; uint32_t sx_flags, sx_mask; };
struct cf_sx_time { int64_t tv_sec; uint32_t tv_nsec; int32_t reserved; };
struct cf_statx {
    uint32_t mask, blksize; uint64_t attributes; uint32_t nlink, uid, gid; uint16_t mode, spare0[1];
    uint64_t ino, size, blocks, attributes_mask; struct cf_sx_time atime, btime, ctime, mtime;
    uint32_t rdev_major, rdev_minor, dev_major, dev_minor; uint64_t spare2[14];
};
struct cf_statx_out { uint64_t attr_valid; uint32_t attr_valid_nsec, flags; uint64_t spare[2]; struct cf_statx stat; };
struct cf_ext_header { uint32_t size, type; };
enum { CF_EXT_GROUPS = 32 };
struct cf_backing_map { int32_t fd; uint32_t flags; uint64_t padding; };

enum { CF_FOPEN_DIRECT_IO = 1, CF_FOPEN_KEEP_CACHE = 2, CF_FOPEN_CACHE_DIR = 8, CF_FOPEN_NOFLUSH = 32,
       CF_FOPEN_PARALLEL_DIRECT_WRITES = 64, CF_FOPEN_PASSTHROUGH = 128 };

static const uint64_t CF_PARALLEL_DIROPS = 1ull << 18, CF_ABORT_ERROR = 1ull << 21, CF_HANDLE_KILLPRIV_V2 = 1ull << 28,
    CF_INIT_EXT = 1ull << 30, CF_DIRECT_IO_ALLOW_MMAP = 1ull << 36, CF_PASSTHROUGH = 1ull << 37,
    CF_NO_EXPORT_SUPPORT = 1ull << 38, CF_CREATE_SUPP_GROUP = 1ull << 34, CF_WRITEBACK_CACHE = 1ull << 16,
    CF_OVER_IO_URING = 1ull << 41;

/// Registers the file behind `fd` (O_PATH will do) for passthrough: an id above 0, or a negative
/// errno.
static inline int cf_backing_open(int device, int fd) {
    struct cf_backing_map map = { fd, 0, 0 };
    int id = ioctl(device, _IOW(229, 1, struct cf_backing_map), &map);
    return id < 0 ? -errno : id;
}
static inline void cf_backing_close(int device, uint32_t id) { (void)ioctl(device, _IOW(229, 2, uint32_t), &id); }

static inline void cf_attr_fill(struct cf_attr *a, const struct stat *st) {
    memset(a, 0, sizeof *a);
    a->ino = st->st_ino; a->size = (uint64_t)st->st_size; a->blocks = (uint64_t)st->st_blocks;
    a->atime = (uint64_t)st->st_atim.tv_sec; a->mtime = (uint64_t)st->st_mtim.tv_sec; a->ctime = (uint64_t)st->st_ctim.tv_sec;
    a->atimensec = (uint32_t)st->st_atim.tv_nsec; a->mtimensec = (uint32_t)st->st_mtim.tv_nsec; a->ctimensec = (uint32_t)st->st_ctim.tv_nsec;
    a->mode = st->st_mode; a->nlink = (uint32_t)st->st_nlink; a->uid = st->st_uid; a->gid = st->st_gid;
    a->rdev = (minor(st->st_rdev) & 0xff) | (major(st->st_rdev) << 8) | ((minor(st->st_rdev) & ~0xffu) << 12);
    a->blksize = (uint32_t)st->st_blksize;
}
