import Glibc

/// An error number of the kernel, thrown.
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

    /// What a path names is not there, or something else is there or on the way: names change while
    /// others walk along them.
    package var isMissing: Bool {
        switch code {
        case ENOENT, ENOTDIR, ELOOP, ESTALE: true
        default: false
        }
    }
}

/// Gives back what a `cl_` function returned, or throws what it refused with.
@discardableResult
@inline(__always)
package func check<Value: SignedInteger>(_ result: Value) throws(Errno) -> Value {
    if result < 0 { throw Errno(Int32(truncatingIfNeeded: -result)) }
    return result
}
