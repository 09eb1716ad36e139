import Foundation

extension Document {
    /// What a program shows of a document: a set. The numbers are Apple's.
    public struct State: OptionSet, Hashable, Sendable, CustomStringConvertible {
        /// The bits.
        public let rawValue: UInt
        /// States by their bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Nothing to report: it is open, and no save has failed.
        public static let normal: State = []
        /// It was not opened or created yet, that failed, or it was closed: it is not saved.
        public static let closed = State(rawValue: 1)
        /// There are versions in conflict with it. It may be edited.
        public static let inConflict = State(rawValue: 2)
        /// The last save failed. It may be edited; saving is tried again.
        public static let savingError = State(rawValue: 4)
        /// What the user would do now would be lost: the only state in which edits are forbidden.
        public static let editingDisabled = State(rawValue: 8)
        /// Its contents are being downloaded: ``Document/progress`` tells how far that is.
        public static let progressAvailable = State(rawValue: 16)

        /// The names of the states, for logs.
        public var description: String {
            let names: [(State, String)] = [
                (.closed, "closed"), (.inConflict, "inConflict"), (.savingError, "savingError"),
                (.editingDisabled, "editingDisabled"), (.progressAvailable, "progressAvailable"),
            ]
            let mine = names.filter { contains($0.0) }.map(\.1)
            return mine.isEmpty ? "normal" : mine.joined(separator: ", ")
        }
    }

    /// What a save is for.
    public enum SaveOperation: Hashable, Sendable {
        /// A new document, or one in the place of another: presenters of what was there close it.
        case creating
        /// The document itself, as it is now.
        case overwriting
    }

    /// What was done to a document.
    public enum Change: Hashable, Sendable {
        /// The user has changed something.
        case done
        /// What was done last was taken back.
        case undone
        /// What was taken back last was done again.
        case redone
        /// It is what is saved: nothing is unsaved.
        case cleared
        /// Something that is worth saving only together with a real change, such as the page that
        /// is shown. It is no reason to save.
        case discardable
    }
}

/// Why a document could not be opened or saved, where no system call says why.
public struct DocumentError: Error, Hashable, Sendable, LocalizedError, CustomStringConvertible {
    /// What kind of trouble it is.
    public enum Code: String, Hashable, Sendable {
        /// It is not open.
        case closed
        /// Its class does not say how such contents are loaded or written.
        case unsupported
        /// Another program has changed the file, outside of any volume, since it was read.
        case changedElsewhere
    }

    /// What kind of trouble it is.
    public let code: Code
    /// A whole sentence.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The sentence.
    public var errorDescription: String? { message }
    /// The sentence.
    public var description: String { message }
}
