/// A recorded content of a document. Its content never changes.
package struct Version: Hashable, Sendable {
    package enum Kind: UInt8, Sendable, CaseIterable {
        /// The content that the document's path shows now.
        case current = 1
        /// A content that the path showed before.
        case history = 2
        /// A save that was based on a version that was no longer current. It is kept until somebody
        /// resolves the conflict.
        case conflict = 3
    }

    /// How safe the bytes are.
    package enum Durability: UInt8, Sendable, Comparable {
        /// They survive the end of the program, but perhaps not a loss of power.
        case memory = 1
        /// Bytes, name and journal row have been synced to this disk.
        case disk = 2
        /// The hub that the volume belongs to now has acknowledged them.
        case hub = 3

        package static func < (a: Durability, b: Durability) -> Bool { a.rawValue < b.rawValue }
    }

    package var id: Identifier
    /// Counts from 1 within the document.
    package var number: Int
    package var parents: [Identifier]
    package var kind: Kind
    package var device: Identifier
    /// The name that the device had when it saved.
    package var deviceName: String
    /// The login name of the user whose program saved.
    package var person: String
    /// The name of the program that saved (at most 15 bytes, which is the kernel's limit).
    package var program: String
    /// The session that the program worked in. Nil when it is not known.
    package var session: WorkSession?
    /// The document's name at that time.
    package var name: Name
    /// Bytes.
    package var size: UInt64
    /// When the content was last changed, nanoseconds since 1970.
    package var modified: Int64
    /// When the content was saved, nanoseconds since 1970.
    package var saved: Int64
    /// The digest of the manifest's content form.
    package var content: Digest
    package var durability: Durability
    /// A name that a user gave. A version with a label is kept for ever.
    package var label: String?
    /// True when some hub had the version once, perhaps another hub than the one that `durability`
    /// speaks of. The bytes may exist nowhere else.
    package var wasAtHub: Bool
    /// The document's protection while this version was current. Nil when it was not recorded.
    package var protection: Protection?

    package init(
        id: Identifier = .random(), number: Int, parents: [Identifier] = [], kind: Kind = .current,
        device: Identifier, deviceName: String, person: String, program: String,
        session: WorkSession? = nil, name: Name,
        size: UInt64, modified: Int64, saved: Int64, content: Digest,
        durability: Durability = .disk, label: String? = nil, wasAtHub: Bool? = nil,
        protection: Protection? = nil
    ) {
        self.id = id
        self.number = number
        self.parents = parents
        self.kind = kind
        self.device = device
        self.deviceName = deviceName
        self.person = person
        self.program = program
        self.session = session
        self.name = name
        self.size = size
        self.modified = modified
        self.saved = saved
        self.content = content
        self.durability = durability
        self.label = label
        self.wasAtHub = wasAtHub ?? (durability == .hub)
        self.protection = protection
    }
}

/// What happened to a version of a document: it became a conflict version, it was removed, or its
/// conflict was resolved.
package enum VersionChange: String, Hashable, Sendable { case gained, lost, resolved }
