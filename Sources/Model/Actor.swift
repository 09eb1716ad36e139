/// The program that made a request, as the history of versions records it. (This has nothing to do
/// with Swift's actors.)
package struct Actor: Hashable, Sendable {
    /// The thread id that the kernel names in a request.
    package var process: Int32
    package var uid: UInt32
    /// The command's name, at most 15 bytes. It is empty when it could not be determined.
    package var program: String
    /// Nil if it is not known, and for the daemon's own work.
    package var session: WorkSession?

    package init(process: Int32, uid: UInt32, program: String, session: WorkSession? = nil) {
        self.process = process
        self.uid = uid
        self.program = program
        self.session = session
    }

    /// Parses a program and its session from one text (`Signature`).
    package init(process: Int32, uid: UInt32, signature: String) {
        let (program, session) = Signature.parse(signature)
        self.init(process: process, uid: uid, program: program, session: session)
    }

    package var signature: String { Signature.text(program: program, session) }
}

/// What programs on a device do with a document that they have open, or want to open.
package enum DocumentUse: String, Codable, Hashable, Sendable, CaseIterable, Comparable {
    /// A program presents it.
    case shows
    /// A program waits to open it for writing until another device has let go of it.
    case wants
    /// A program has it open for writing, or holds a write claim on it.
    case edits

    /// What a device does with the document if one program does this and another one does `other`.
    package func combined(with other: DocumentUse) -> DocumentUse { max(self, other) }

    package static func < (a: DocumentUse, b: DocumentUse) -> Bool { a.rank < b.rank }

    private var rank: Int {
        switch self {
        case .shows: 0
        case .wants: 1
        case .edits: 2
        }
    }
}
