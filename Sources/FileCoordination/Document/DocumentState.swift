import Foundation

extension Document {
    /// What a program shows about a document. The raw values are Apple's.
    public struct State: OptionSet, Hashable, Sendable, CustomStringConvertible {
        /// The bits of the set.
        public let rawValue: UInt
        /// Makes a set of its bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// The document is open, and no save has failed.
        public static let normal: State = []
        /// The document was not opened or created yet, or that failed, or it was closed. It is not
        /// saved.
        public static let closed = State(rawValue: 1)
        /// There are versions in conflict with the document. The user may go on editing.
        public static let inConflict = State(rawValue: 2)
        /// The last save failed. The user may go on editing; saving is tried again.
        public static let savingError = State(rawValue: 4)
        /// Edits would be lost now. This is the only state in which editing must be disabled.
        public static let editingDisabled = State(rawValue: 8)
        /// The contents are being downloaded; ``Document/progress`` says how far.
        public static let progressAvailable = State(rawValue: 16)

        /// The names of the states in the set, for logs.
        public var description: String {
            let names: [(State, String)] = [
                (.closed, "closed"), (.inConflict, "inConflict"), (.savingError, "savingError"),
                (.editingDisabled, "editingDisabled"), (.progressAvailable, "progressAvailable"),
            ]
            let mine = names.filter { contains($0.0) }.map(\.1)
            return mine.isEmpty ? "normal" : mine.joined(separator: ", ")
        }
    }

    /// Whether a save creates or overwrites a document.
    public enum SaveOperation: Hashable, Sendable {
        /// It makes a new document, or replaces another one, whose presenters then close it.
        case creating
        /// It saves the document itself.
        case overwriting
    }

    /// A change of a document.
    public enum Change: Hashable, Sendable {
        /// The user has changed something.
        case done
        /// The last change was undone.
        case undone
        /// The change that was undone last was redone.
        case redone
        /// The document is what was saved: nothing is unsaved.
        case cleared
        /// A change that is worth saving only together with another one, such as the page that is
        /// shown. It causes no save.
        case discardable
    }
}

/// Why a document could not be opened or saved, where no system call gives the reason.
public struct DocumentError: Error, Hashable, Sendable, LocalizedError, CustomStringConvertible {
    /// The kind of error.
    public enum Code: String, Hashable, Sendable {
        /// The document is not open.
        case closed
        /// The document's class cannot load or write such contents.
        case unsupported
        /// Another program has changed the file since it was read, on a file system that keeps no
        /// versions.
        case changedElsewhere
    }

    /// The kind of error.
    public let code: Code
    /// The reason, as a whole sentence.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The message.
    public var errorDescription: String? { message }
    /// The message.
    public var description: String { message }
}
