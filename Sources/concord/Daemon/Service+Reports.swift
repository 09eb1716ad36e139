import Control
import Model
import Volume

// Converts the volume's values to those of the control protocol.

extension VolumeReport {
    mutating func take(_ status: VolumeStatus) {
        scanning = status.scanning
        scanned = status.scanned
        (items, documents, versions) = (status.items, status.documents, status.versions)
        pendingEvents = status.pendingEvents
        waitingToBeCut = status.waitingToBeCut
        storeBytes = status.storeBytes
        (journalBytes, reserveBytes) = (status.journalBytes, status.reserveBytes)
        freeableBytes = status.freeableBytes
        problems = status.problems
        notices = status.notices.isEmpty ? nil : status.notices
    }

    /// Leaves out what a user other than the owner may not know: the paths that `isHidden` selects,
    /// and sentences about the volume, which may name any path.
    mutating func leaveOut(_ isHidden: ([Name]) -> Bool) {
        if !problems.isEmpty {
            problems = ["There are problems that only the volume's owner sees (fsctl status)."]
        }
        notices = nil
        hub?.leaveOut(isHidden)
    }
}

extension HubReport {
    fileprivate mutating func leaveOut(_ isHidden: ([Name]) -> Bool) {
        waiting.removeAll { $0.path.path.map(isHidden) ?? true }
        // These two have their paths as text. The text of a path that is not UTF-8 names something
        // that does not exist, which counts as hidden.
        moving.removeAll { RawText($0.path).path.map(isHidden) ?? true }
        problems = problems.filter { !(RawText($0.key).path.map(isHidden) ?? true) }
    }
}

extension DocumentReport {
    init(_ status: DocumentStatus, devices: Int?) {
        self.init(
            id: status.id.description, kind: "\(status.kind)", state: status.state.rawValue,
            durability: "\(status.durability)", versions: status.versions, size: status.size,
            current: status.currentVersion)
        self.devices = devices
        conflicts = status.conflicts > 0 ? status.conflicts : nil
    }
}

extension VersionImporter.Relation {
    /// What the contents are that a request adds.
    init(_ request: Control.Request) throws(VolumeError) {
        guard let text = request.base else {
            self = request.conflict == true ? .conflict : .older
            return
        }
        guard let base = NamedBase(text.utf8) else {
            throw VolumeError(
                .invalid,
                "\(text) is not the size and the time of contents: give the size in bytes, and the "
                    + "seconds and nanoseconds of the modification time")
        }
        self = .unseen(base: base)
    }
}

extension EntriesReport {
    /// The entries that this user could ask about one by one.
    init(_ volume: Volume, _ request: Control.Request, _ peer: Peer) throws(VolumeError) {
        let path = try request.components()
        var groups: [Group: [RawText]] = [:]
        for entry in try volume.states.statuses(in: path)
        where volume.covers(peer, path + [entry.name], write: false) {
            let group = Group(
                kind: "\(entry.kind)", state: entry.state.rawValue,
                durability: "\(entry.durability)", conflicts: entry.isConflicted)
            groups[group, default: []].append(RawText(entry.name))
        }
        self.init(
            groups: groups.map { group, names in
                var group = group
                group.names = names
                return group
            })
    }
}

extension HistoryReport {
    init(_ history: DocumentHistory) {
        self.init(
            id: history.id.description, package: history.isPackage, state: history.state.rawValue,
            versions: zip(history.versions, history.fileNames).map {
                VersionReport($0, fileName: $1)
            })
    }
}

extension DeletedReport.Document {
    init(_ document: DeletedDocument) {
        self.init(
            id: document.id.description, name: RawText(document.name), deleted: document.deletedAt,
            versions: document.versions, size: document.size)
    }
}

extension DoctorReport.Finding {
    init(_ finding: Finding) {
        self.init(
            severity: finding.severity.rawValue, subject: finding.subject, message: finding.message)
    }
}

extension Version.Durability {
    init(named name: String) throws(VolumeError) {
        switch name {
        case "memory": self = .memory
        case "disk": self = .disk
        case "hub": self = .hub
        default:
            throw VolumeError(
                .invalid, "\"\(name)\" is not a durability; write memory, disk or hub")
        }
    }
}
