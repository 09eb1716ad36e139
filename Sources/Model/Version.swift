/// An immutable recorded content of a document.
package struct Version: Hashable, Sendable {
    package enum Kind: UInt8, Sendable, CaseIterable {
        /// What the document's name shows now.
        case current = 1
        /// What it showed before.
        case history = 2
        /// A save that was based on something no longer current; kept until a resolution names it.
        case conflict = 3
    }

    /// How safe the bytes are.
    package enum Durability: UInt8, Sendable, Comparable {
        /// They outlive the program, not a loss of power.
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
    /// The name of the device when it saved.
    package var deviceName: String
    /// The login name of the person whose program saved.
    package var person: String
    /// The command that saved (at most 15 bytes, as the kernel keeps it).
    package var program: String
    /// The document's name at the time.
    package var name: Name
    /// Bytes.
    package var size: UInt64
    /// When the content was last changed, nanoseconds since 1970.
    package var modified: Int64
    /// When it was saved, nanoseconds since 1970.
    package var saved: Int64
    /// The digest of the manifest's content form.
    package var content: Digest
    package var durability: Durability
    /// Given by a person; a labelled version is kept for ever.
    package var label: String?
    /// Some hub had it once: another one, perhaps, than the one whose confirmation `durability`
    /// speaks of. Its bytes may be nowhere else.
    package var wasAtHub: Bool
    /// What the document was protected by while this was its current version; nil when nobody has
    /// recorded that.
    package var protection: Protection?

    package init(
        id: Identifier = .random(), number: Int, parents: [Identifier] = [], kind: Kind = .current,
        device: Identifier, deviceName: String, person: String, program: String, name: Name,
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

/// What became of a version of a document: it is there, in conflict with the current one; it was
/// removed; its conflict was settled.
package enum VersionChange: String, Hashable, Sendable { case gained, lost, resolved }
