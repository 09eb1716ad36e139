/// The one error vocabulary of the domain: what went wrong, of which thing, and what to do, in one
/// sentence.
package struct VolumeError: Error, Hashable, Sendable {
    package enum Code: String, Sendable {
        /// A mount point, store, document or version that is not there.
        case notFound
        /// Somebody else holds it: a second process on a store, a busy mount point.
        case busy
        /// The request makes no sense: a bad argument, a mount point inside the store.
        case invalid
        /// Not allowed to this user.
        case denied
        /// Journal or chunk that fails its check.
        case damaged
        /// The disk is full.
        case full
        /// Written by a newer build.
        case newer
        /// Whoever asked does not want it any more.
        case cancelled
        /// A presenter could not save, or could not let go.
        case refused
        /// Did not finish in time.
        case timeout
        /// Bytes that are not here, and the hub cannot be reached.
        case offline
        /// A system call failed.
        case system
    }

    package let code: Code
    package let message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension VolumeError: CustomStringConvertible {
    package var description: String { message }
}
