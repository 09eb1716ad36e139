/// The one error type of all modules. The message is one sentence or two: what went wrong, with
/// which thing, and what to do.
package struct VolumeError: Error, Hashable, Sendable {
    package enum Code: String, Sendable {
        /// A mount point, store, document or version does not exist.
        case notFound
        /// Another program uses it: a second process on a store, a busy mount point.
        case busy
        /// The request is invalid: a bad argument, a mount point inside the store.
        case invalid
        /// The user may not do this.
        case denied
        /// The journal or a chunk failed its check.
        case damaged
        /// The disk is full.
        case full
        /// The data was written by a newer build.
        case newer
        /// The caller cancelled the request.
        case cancelled
        /// A presenter could not save, or could not give up the document.
        case refused
        /// The operation did not finish in time.
        case timeout
        /// A server that is needed cannot be reached: the hub, for bytes that are not on this
        /// device; the database, for a hub.
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
