import Model

// What the verbs answer. `fsctl --json` prints the same, so these keys are a promise: add, never
// change. Times are nanoseconds since 1970, sizes bytes.

/// `status` without a path.
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
    /// Why there is no passthrough; empty when there is.
    package var passthroughReason: String
    /// The working tree is still being compared with the journal.
    package var scanning: Bool
    package var scanned: Int
    package var items: Int
    package var documents: Int
    package var versions: Int
    /// What programs did that the recorder has not understood yet.
    package var pendingEvents: Int
    /// Displaced contents not yet cut into chunks.
    package var waitingToBeCut: Int
    /// Of the store without the tree.
    package var storeBytes: Int64
    /// Of these, the journal's, and what is set aside for it on a full disk.
    package var journalBytes: Int64?
    package var reserveBytes: Int64?
    /// What would give way to programs that need space.
    package var freeableBytes: Int64?
    package var problems: [String]
    /// What a person may want to know though nothing is wrong; left out when there is none.
    package var notices: [String]?
    /// Documents that have versions in conflict.
    package var conflicts: Int?
    /// Left out while the volume belongs to no hub.
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

/// `status` with a path.
package struct DocumentReport: Codable, Hashable, Sendable {
    package var id: String
    /// Where it is; left out unless it was asked for by its id.
    package var path: RawText?
    /// file, package, directory, symlink.
    package var kind: String
    /// current; writing: open for writing, or saved and not yet recorded; uploading: something is
    /// not confirmed by the hub; downloaded: the hub has something newer; dataless, downloading.
    package var state: String
    /// memory, disk or hub; of a directory, what holds for all below it.
    package var durability: String
    /// On how many devices the current version is; left out where the hub has not told.
    package var devices: Int?
    /// Left out while there are none.
    package var conflicts: Int?
    package var versions: Int
    package var size: UInt64
    /// The current version's number; left out while there is none.
    package var current: Int?

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

/// `versions`: a document and its versions, oldest first.
package struct HistoryReport: Codable, Hashable, Sendable {
    package var id: String
    package var package: Bool
    package var state: String
    package var versions: [VersionReport]
    /// Deleted documents that once had the name; left out unless it was asked.
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
    /// current, history, conflict.
    package var kind: String
    package var device: String
    package var deviceName: String
    package var person: String
    package var program: String
    /// The document's name at the time.
    package var name: RawText
    package var size: UInt64
    package var modified: Int64
    package var saved: Int64
    package var content: String
    package var durability: String
    package var label: String?
    /// Whether all its bytes are on this device; left out unless it was asked.
    package var local: Bool?
    /// Its name in `.versions/NAME/`.
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

/// `versions` with `deleted`: what the directory used to have.
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

/// `contents`: what a version is made of; a file document has one entry with an empty path.
package struct ContentsReport: Codable, Hashable, Sendable {
    package var package: Bool
    package var entries: [Entry]
    /// The entry to ask for next; left out at the end.
    package var next: Int?

    package struct Entry: Codable, Hashable, Sendable {
        package var path: RawText
        /// file, directory, symlink.
        package var kind: String
        /// Permission bits.
        package var mode: UInt16
        package var modified: Int64
        package var size: UInt64
        /// Of a symlink.
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

/// `extract`: a piece of one entry's bytes.
package struct PieceReport: Codable, Hashable, Sendable {
    /// Base64.
    package var data: String

    package init(data: String) { self.data = data }
}

/// `doctor`.
package struct DoctorReport: Codable, Hashable, Sendable {
    /// No damage is left.
    package var sound: Bool
    package var findings: [Finding]

    package struct Finding: Codable, Hashable, Sendable {
        /// note, damage, repaired.
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

/// `purge`.
package struct PurgedReport: Codable, Hashable, Sendable {
    package var versions: Int
    /// Replaced or deleted contents that had not been recorded yet.
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

/// `statistics`: counts since the mount.
package struct StatisticsReport: Codable, Hashable, Sendable {
    /// Of FUSE, by operation.
    package var requests: [String: Int]
    /// Transactions, chunk reads, … of the volume.
    package var volume: [String: Int]

    package init(requests: [String: Int], volume: [String: Int]) {
        self.requests = requests
        self.volume = volume
    }
}
