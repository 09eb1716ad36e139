import Glibc

/// An error number of the kernel, as a Swift error.
package struct Errno: Error, Hashable, Sendable, CustomStringConvertible {
    package let code: Int32

    package init(_ code: Int32) { self.code = code }

    package var description: String { String(cString: strerror(code)) }

    package static let notFound = Errno(ENOENT)
    package static let exists = Errno(EEXIST)
    package static let stale = Errno(ESTALE)
    package static let io = Errno(EIO)
    package static let noSpace = Errno(ENOSPC)
    package static let invalid = Errno(EINVAL)
    package static let readOnly = Errno(EROFS)
    package static let interrupted = Errno(EINTR)
    package static let again = Errno(EAGAIN)
    package static let denied = Errno(EACCES)

    /// Whether the path does not lead to what was expected: it does not exist, or something else
    /// has taken its place or the place of a directory on the way. Other programs may rename things
    /// while a path is resolved.
    package var isMissing: Bool {
        switch code {
        case ENOENT, ENOTDIR, ELOOP, ESTALE: true
        default: false
        }
    }
}

/// Returns the result of a `cl_` function, or throws its error: these functions return a negative
/// errno.
@discardableResult
@inline(__always)
package func check<Value: SignedInteger>(_ result: Value) throws(Errno) -> Value {
    if result < 0 { throw Errno(Int32(truncatingIfNeeded: -result)) }
    return result
}
