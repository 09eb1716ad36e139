// System calls that take a path of the machine and not a descriptor.
#pragma once
#include <stddef.h>
#include <sys/types.h>

/// Opens the path with O_PATH and does not follow a symlink at its end.
int cl_open_path(const char *path);
/// Stores the value of an extended attribute and returns its length. Does not follow a symlink at
/// the end of the path.
ssize_t cl_path_getxattr(const char *path, const char *name, void *value, size_t size);
/// Returns the file system's type (`f_type` of statfs), or a negative errno.
long cl_filesystem_type(const char *path);
enum { CL_FUSE = 0x65735546 };
