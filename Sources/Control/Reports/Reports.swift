import Model

// The results of verbs. `fsctl --json` prints them, too, so keys may be added but never changed.
// Times are nanoseconds since 1970, and sizes are bytes.

/// The result of `status` without a path.
package struct VolumeReport: Codable, Hashable, Sendable {
    package var volume: String
    package var device: String
    package var name: String
    package var store: RawText
    package var tree: RawText
    package var mountPoint: RawText
    /// The daemon's process id.
    package var process: Int32
    package var passthrough: Bool
    /// Why there is no passthrough; empty if there is.
    package var passthroughReason: String
    /// What carries the kernel's requests: io_uring or /dev/fuse.
    package var transport: String?
    /// Why it is not io_uring; empty if it is.
    package var transportReason: String?
    /// Whether the working tree is still being compared with the journal.
    package var scanning: Bool
    package var scanned: Int
    package var items: Int
    package var documents: Int
    package var versions: Int
    /// The number of file system events that the recorder has not processed.
    package var pendingEvents: Int
    /// The number of replaced or deleted contents that are not cut into chunks yet.
    package var waitingToBeCut: Int
    /// The store's size without the tree.
    package var storeBytes: Int64
    /// The journal's part of it, and the part that is reserved for the journal on a full disk.
    package var journalBytes: Int64?
    package var reserveBytes: Int64?
    /// The bytes that can be freed if programs need space.
    package var freeableBytes: Int64?
    package var problems: [String]
    /// Facts worth knowing although nothing is wrong; left out if there are none.
    package var notices: [String]?
    /// The number of documents with conflict versions.
    package var conflicts: Int?
    /// The number of those that may still be merged without a person.
    package var unexaminedConflicts: Int?
    /// Left out if the volume belongs to no hub.
    package var hub: HubReport?

    package init(volume: String, device: String, name: String, store: RawText, tree: RawText) {
        (self.volume, self.device, self.name) = (volume, device, name)
        (self.store, self.tree) = (store, tree)
        mountPoint = RawText("")
        process = 0
        passthrough = false
        passthroughReason = ""
        scanning = false
        (scanned, items, documents, versions, pendingEvents) = (0, 0, 0, 0, 0)
        (waitingToBeCut, storeBytes) = (0, 0)
        problems = []
    }
}

/// The result of `status` with a path.
package struct DocumentReport: Codable, Hashable, Sendable {
    package var id: String
    /// The document's path; left out unless it was named by its id.
    package var path: RawText?
    /// One of: file, package, directory, symlink.
    package var kind: String
    /// One of: current; writing (open for writing, or saved and not recorded yet); uploading
    /// (something is not confirmed by the hub); downloaded (the hub has something newer); dataless;
    /// downloading.
    package var state: String
    /// One of: memory, disk, hub. For a directory, the lowest level of all items below it.
    package var durability: String
    /// The number of devices that have the current version; left out if the hub has not told.
    package var devices: Int?
    /// The number of conflict versions; left out if there are none.
    package var conflicts: Int?
    package var versions: Int
    package var size: UInt64
    /// The current version's number; left out if there is none.
    package var current: Int?
    /// Who has it open on other devices; left out if nobody is known to.
    package var elsewhere: [WhoReport.Lease]?
    /// Left out unless the rules say `lock=hard` about it.
    package var lock: LockReport?

    package init(
        id: String, kind: String, state: String, durability: String, versions: Int, size: UInt64,
        current: Int?
    ) {
        self.id = id
        self.kind = kind
        self.state = state
        self.durability = durability
        self.versions = versions
        self.size = size
        self.current = current
    }
}

/// A document that only one device may edit.
package struct LockReport: Codable, Hashable, Sendable {
    /// One of: granted (this device may edit it now); free (it must be asked for first); refused
    /// (when a program last asked).
    package var state: String
    /// Why it was refused: busy (another device has it), arriving (a newer version is on its way
    /// here), offline (the hub could not be asked), reader (the account may only read).
    package var reason: String?
    /// When it was refused: nanoseconds since 1970.
    package var since: Int64?
    /// Who had it, if the hub has told.
    package var user: String?
    package var deviceName: String?

    package init(state: String) { self.state = state }
}

/// The result of `status` with `entries`: the states of what is in a directory, without what is
/// local.
package struct EntriesReport: Codable, Hashable, Sendable {
    /// Entries with equal states.
    package struct Group: Codable, Hashable, Sendable {
        /// `kind`, `state` and `durability` as in `DocumentReport`.
        package var kind: String
        package var state: String
        package var durability: String
        /// Whether they have conflict versions.
        package var conflicts: Bool
        package var names: [RawText]

        package init(
            kind: String, state: String, durability: String, conflicts: Bool, names: [RawText] = []
        ) {
            (self.kind, self.state, self.durability) = (kind, state, durability)
            (self.conflicts, self.names) = (conflicts, names)
        }
    }

    package var groups: [Group]
    package init(groups: [Group]) { self.groups = groups }
}

/// The result of `versions`: a document and its versions, oldest first.
package struct HistoryReport: Codable, Hashable, Sendable {
    package var id: String
    package var package: Bool
    package var state: String
    package var versions: [VersionReport]
    /// Deleted documents that once had the name; left out unless requested.
    package var earlier: [DeletedReport.Document]?

    package init(id: String, package: Bool, state: String, versions: [VersionReport]) {
        self.id = id
        self.package = package
        self.state = state
        self.versions = versions
    }
}

package struct VersionReport: Codable, Hashable, Sendable {
    package var number: Int
    package var id: String
    package var parents: [String]
    /// One of: current, history, conflict.
    package var kind: String
    package var device: String
    package var deviceName: String
    package var person: String
    package var program: String
    /// What the program worked in: a terminal, a service, an agent. Left out where nobody knows.
    package var session: String?
    /// The document's name when the version was saved.
    package var name: RawText
    package var size: UInt64
    package var modified: Int64
    package var saved: Int64
    package var content: String
    package var durability: String
    package var label: String?
    /// Whether all of its contents are on this device; left out unless requested.
    package var local: Bool?
    /// Its file name in `.versions/NAME/`.
    package var fileName: RawText

    package init(_ version: Version, fileName: Name) {
        number = version.number
        id = version.id.description
        parents = version.parents.map(\.description)
        kind = "\(version.kind)"
        device = version.device.description
        deviceName = version.deviceName
        person = version.person
        program = version.program
        session = version.session?.text
        name = RawText(version.name)
        size = version.size
        modified = version.modified
        saved = version.saved
        content = version.content.description
        durability = "\(version.durability)"
        label = version.label
        self.fileName = RawText(fileName)
    }
}

/// The result of `versions` with `deleted`: the deleted documents of a directory.
package struct DeletedReport: Codable, Hashable, Sendable {
    package var documents: [Document]

    package struct Document: Codable, Hashable, Sendable {
        package var id: String
        package var name: RawText
        package var deleted: Int64
        package var versions: Int
        package var size: UInt64

        package init(id: String, name: RawText, deleted: Int64, versions: Int, size: UInt64) {
            self.id = id
            self.name = name
            self.deleted = deleted
            self.versions = versions
            self.size = size
        }
    }

    package init(documents: [Document]) { self.documents = documents }
}

/// The result of `contents`: the entries of a version. An ordinary file has one entry with an empty
/// path.
package struct ContentsReport: Codable, Hashable, Sendable {
    package var package: Bool
    package var entries: [Entry]
    /// The number of the next entry to request; left out on the last page.
    package var next: Int?

    package struct Entry: Codable, Hashable, Sendable {
        package var path: RawText
        /// One of: file, directory, symlink.
        package var kind: String
        /// The permission bits.
        package var mode: UInt16
        package var modified: Int64
        package var size: UInt64
        /// The target of a symbolic link.
        package var target: RawText?

        package init(_ entry: Manifest.Entry) {
            path = RawText(bytes: entry.path)
            kind = "\(entry.kind)"
            mode = entry.mode
            modified = entry.modified
            size = entry.size
            target = entry.kind == .symlink ? RawText(bytes: entry.target) : nil
        }
    }

    package init(package: Bool, entries: [Entry], next: Int?) {
        self.package = package
        self.entries = entries
        self.next = next
    }
}

/// The result of `extract`: a piece of one entry's contents.
package struct PieceReport: Codable, Hashable, Sendable {
    /// The bytes in base64.
    package var data: String

    package init(data: String) { self.data = data }
}

/// The result of `doctor`.
package struct DoctorReport: Codable, Hashable, Sendable {
    /// Whether no damage is left.
    package var sound: Bool
    package var findings: [Finding]

    package struct Finding: Codable, Hashable, Sendable {
        /// One of: note, damage, repaired.
        package var severity: String
        package var subject: String
        package var message: String

        package init(severity: String, subject: String, message: String) {
            self.severity = severity
            self.subject = subject
            self.message = message
        }
    }

    package init(findings: [Finding]) {
        sound = !findings.contains { $0.severity == "damage" }
        self.findings = findings
    }
}

/// The result of `purge`.
package struct PurgedReport: Codable, Hashable, Sendable {
    package var versions: Int
    /// The number of replaced or deleted contents that had not been recorded yet.
    package var contents: Int
    package var bytes: Int64
    package var kept: [Kept]

    package struct Kept: Codable, Hashable, Sendable {
        package var count: Int
        package var reason: String

        package init(count: Int, reason: String) { (self.count, self.reason) = (count, reason) }
    }

    package init(versions: Int, contents: Int, bytes: Int64, kept: [Kept]) {
        (self.versions, self.contents, self.bytes) = (versions, contents, bytes)
        self.kept = kept
    }
}

/// The result of `statistics`: counts since the mount.
package struct StatisticsReport: Codable, Hashable, Sendable {
    /// The FUSE requests, by operation.
    package var requests: [String: Int]
    /// Transactions, chunk reads and other operations of the volume, by name.
    package var volume: [String: Int]

    package init(requests: [String: Int], volume: [String: Int]) {
        self.requests = requests
        self.volume = volume
    }
}
