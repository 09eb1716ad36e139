import Glibc
import Model
import SystemCalls
import Volume

/// A rename that was requested, with what was prepared for it. The names are copies, because those
/// of a request are valid only until its handler returns.
struct Rename: Sendable {
    /// Something that must be done before a rename, while names are not locked.
    enum Preparation {
        /// A placeholder's bytes must be fetched.
        case file(SharedDescriptor)
        /// The bytes of everything below a directory must be fetched.
        case directory(SharedDescriptor)
        /// A file that is about to be replaced must be copied.
        case copy(SharedDescriptor, DirectoryEntry)
    }

    struct End: Sendable {
        let parent: UInt64
        /// Ends with NUL.
        let name: [UInt8]

        init(_ parent: UInt64, _ name: UnsafePointer<CChar>) {
            self.parent = parent
            self.name = terminated(name)
        }
    }

    let from: End
    let to: End
    let flags: UInt32
    /// The replaced file must have these attributes, or the call fails with EBUSY.
    var expected: FileSnapshot?
    /// Everything in the moved directory was fetched.
    var isFetched = false
    /// A copy of the replaced file.
    var copy: ReplacedCopy?
    /// How often one was made.
    var copies = 0

    init(from: End, to: End, flags: UInt32, expected: FileSnapshot? = nil) {
        self.from = from
        self.to = to
        self.flags = flags
        self.expected = expected
    }

    var isExchange: Bool { flags & Flag.renameExchange != 0 }

    /// A file that has changed again and again while it was copied is not copied any more.
    var isLastTry: Bool { copies >= 3 }
}

/// One of the two ends of a rename, as it was found in the tree.
struct RenameEnd {
    let parent: Node
    let directory: SharedDescriptor
    let name: UnsafePointer<CChar>

    var place: Place {
        Place(descriptor: directory.raw, inode: parent.inode, name: name)
    }
}
