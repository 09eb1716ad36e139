import CLinux
import Glibc
import SystemCalls

/// The value of an extended attribute of a file, by any descriptor, O_PATH too. Most values are
/// small: a buffer for the largest is made only when it is needed.
///
/// - Throws: ENODATA when the file has no such attribute, EOPNOTSUPP when its file system has none.
func extendedAttribute(_ name: UnsafePointer<CChar>, of file: Int32) throws(Errno) -> [UInt8] {
    var value = [UInt8](repeating: 0, count: 256)
    var count = cl_getxattr_fd(file, name, &value, value.count)
    if count == -Int(ERANGE) {
        value = [UInt8](repeating: 0, count: 1 << 16)
        count = cl_getxattr_fd(file, name, &value, value.count)
    }
    guard count >= 0 else { throw Errno(Int32(-count)) }
    return Array(value.prefix(count))
}
