// What is known by a path of the machine rather than by a descriptor.
#pragma once
#include <stddef.h>
#include <sys/types.h>

/// A descriptor that stands for the place (O_PATH), the last symlink not followed.
int cl_open_path(const char *path);
/// Bytes of the attribute's value, of what the path names itself.
ssize_t cl_path_getxattr(const char *path, const char *name, void *value, size_t size);
/// The file system's type (`f_type` of statfs), or a negative errno.
long cl_filesystem_type(const char *path);
enum { CL_FUSE = 0x65735546 };
