import Model
import Reconcile

// The validators for everything that a hub or a device receives. Both ends call them before they
// use any received number. An objection is a sentence that says why a message is refused; nil means
// that the message is valid.

extension Name {
    /// The objection to an item's name.
    package var objection: String? {
        if !isSafe {
            return "A name has 1 to \(HubLimits.nameBytes) bytes, no slash and no NUL, and is "
                + "not . or .."
        }
        return isReserved ? "The name \(self) is reserved." : nil
    }
}

extension Placement {
    package func objection(of item: Identifier) -> String? {
        if parent == item { return "An item cannot be its own parent." }
        for name in [name, spare] {
            if let objection = Name(name).objection { return objection }
        }
        for key in [key, spareKey] {
            guard (1...HubLimits.nameKeyBytes).contains(key.bytes.count) else {
                return "The key of a name has 1 to \(HubLimits.nameKeyBytes) bytes."
            }
        }
        return nil
    }
}

extension ItemKind {
    /// A symbolic link must have a valid target; other items must have none.
    package func objection(toTarget target: String?) -> String? {
        if (self == .symlink) != (target != nil) {
            return "A symbolic link must have a target, and other items must not."
        }
        guard let target else { return nil }
        guard (1...HubLimits.targetBytes).contains(target.utf8.count), !target.utf8.contains(0)
        else {
            return "A symbolic link's target has 1 to \(HubLimits.targetBytes) bytes and no NUL."
        }
        return nil
    }
}

extension Register {
    /// The objection to an attribute's value. The allowed attributes are the permission bits that
    /// devices share, the modification time, the name of the owner, and extended attributes of the
    /// namespace `user`.
    package static func objection(to name: String, _ value: [UInt8]?) -> String? {
        switch name {
        case "mode":
            guard let value else { return nil }
            let mode = value.prefix(3).reduce(0) { $0 << 8 | Int($1) }
            return value.count == 2 && mode <= SharedMode.mask
                ? nil : "A mode has two bytes, up to 01777: set-ID bits stay on their device."
        case "modified":
            return value.map { $0.count == 8 } ?? true ? nil : "A time has eight bytes."
        case OwnerName.attribute:
            return value.map { OwnerName($0) != nil } ?? true
                ? nil : "An owner is a user name of 1 to 255 bytes without controls, / and :."
        default:
            guard name.hasPrefix("x:"), AttributeList.isSynchronized(name.utf8.dropFirst(2)),
                !name.utf8.contains(0), name.utf8.count <= HubLimits.attributeNameBytes
            else { return "There is no attribute of this name." }
            return value?.count ?? 0 <= HubLimits.attributeBytes
                ? nil : "An attribute has at most \(HubLimits.attributeBytes) bytes."
        }
    }
}

extension Revision {
    package var objection: String? {
        guard size <= HubLimits.documentBytes else {
            return "A document has at most \(HubLimits.documentBytes) bytes."
        }
        guard parents.count <= HubLimits.parents else {
            return "A version has at most \(HubLimits.parents) parents."
        }
        guard !parents.contains(id) else { return "A version is not its parent." }
        guard id != .root, !parents.contains(.root) else {
            return "The id of a version is not zero."
        }
        for text in [note.deviceName, note.person, note.program, note.name]
        where text.utf8.count > HubLimits.noteBytes {
            return "A note has at most \(HubLimits.noteBytes) bytes."
        }
        // It may be longer than a name: bytes that are not UTF-8 have become longer ones.
        guard ![".", ".."].contains(note.name), !note.name.utf8.contains(0),
            !note.name.utf8.contains(UInt8(ascii: "/"))
        else { return "The name in a note is not the name of a document." }
        return sequence.objectionToSequence
    }
}

extension ItemState {
    /// Attributes that are not allowed cause no objection, because a device ignores them.
    package var objection: String? {
        if id != .root, let objection = placement.objection(of: id) { return objection }
        if let objection = kind.objection(toTarget: target) { return objection }
        if !kind.isDocument, current != nil || !conflicts.isEmpty {
            return "Only a document has contents."
        }
        for revision in [current].compactMap(\.self) + conflicts {
            if let objection = revision.objection { return objection }
        }
        if case .trashed(_, let sequence) = life, let objection = sequence.objectionToSequence {
            return objection
        }
        return placedSequence.objectionToSequence ?? sequence.objectionToSequence
    }
}

extension ChangesAnswer {
    /// The objection to a page that was requested with this `after`. It does not examine the states
    /// of items: a device refuses those one by one, because a ledger may have a state that an older
    /// hub accepted, and one such item must not keep all others from the device.
    package func objection(after: UInt64) -> String? {
        if let objection = head.objectionToSequence ?? time.objectionToTime { return objection }
        guard next <= head, next == head || next > after else {
            return "The page makes no progress, or its end is after the head."
        }
        guard next >= after else { return "The page ends before the requested position." }
        for case .alias(let id, let target) in changes where id == target {
            return "Item \(id) is an alias of itself."
        }
        return nil
    }
}

extension CommitAnswer {
    /// The objection to an answer to these operations.
    package func objection(to operations: [OperationEntry]) -> String? {
        guard results.map(\.number) == operations.map(\.number) else {
            return "The results do not match the operations that were sent."
        }
        let sequences = results.map(\.sequence) + [head]
        return sequences.lazy.compactMap(\.objectionToSequence).first ?? received.objectionToTime
            ?? answered.objectionToTime
    }
}

extension EnrolAnswer {
    /// The objection to the answer of a request that named this device.
    package func objection(to asked: Identifier) -> String? {
        guard device == asked else { return "The answer is for another device." }
        if let objection = token.objectionToToken { return objection }
        return user.utf8.count <= HubLimits.noteBytes
            ? nil : "The name of a person has at most \(HubLimits.noteBytes) bytes."
    }
}

extension Hint {
    package var objection: String? {
        head.flatMap(\.objectionToSequence) ?? beat.flatMap(\.objectionToTime)
            ?? leases.flatMap(\.objectionToSequence)
    }
}

extension WantedAnswer {
    package var objection: String? {
        chunks.ids.count <= HubLimits.ids
            ? nil : "At most \(HubLimits.ids) chunks are wanted at once."
    }
}

extension DeviceList {
    package var objection: String? {
        for device in devices {
            if let objection = device.name.objectionToDisplay { return objection }
            if let objection = device.enrolled.objectionToTime ?? device.seen.objectionToTime {
                return objection
            }
        }
        return nil
    }
}

extension VolumeList {
    package var objection: String? {
        volumes.lazy.flatMap { [$0.name, $0.owner].compactMap(\.self) }
            .compactMap(\.objectionToDisplay).first
    }
}

extension MemberList {
    package var objection: String? {
        guard members.count <= HubLimits.members else {
            return "A volume has at most \(HubLimits.members) members."
        }
        for member in members {
            if let objection = member.user.objectionToDisplay ?? member.since.objectionToTime {
                return objection
            }
            guard member.folder?.utf8.count ?? 0 <= HubLimits.folderPathBytes else {
                return "The path of a folder has at most \(HubLimits.folderPathBytes) bytes."
            }
        }
        return nil
    }
}

extension MemberRequest {
    /// The role of the owner cannot be given: the volume's bytes count to the owner's quota.
    package var objection: String? {
        if let objection = user.objectionToDisplay { return objection }
        guard folder == nil || change == .add else {
            return "Only a new member can be limited to a folder: remove the member, and add them "
                + "again."
        }
        switch (change, role) {
        case (.remove, nil), (.add, .reader), (.add, .editor), (.role, .reader), (.role, .editor):
            return nil
        case (.remove, _): return "A member who is removed has no role."
        default: return "The role of a member is editor or reader."
        }
    }
}

extension TokenAnswer {
    package var objection: String? { token.objectionToToken }
}

extension String {
    /// Names of devices, volumes and accounts are shown in terminals.
    var objectionToDisplay: String? {
        utf8.count <= HubLimits.nameBytes
            && !unicodeScalars.contains { $0.value < 32 || (127..<160).contains($0.value) }
            ? nil : "A name has at most \(HubLimits.nameBytes) bytes and no control characters."
    }

    /// A token is sent as a header of each request, so it must have only visible ASCII characters.
    fileprivate var objectionToToken: String? {
        (1...HubLimits.noteBytes).contains(utf8.count)
            && utf8.allSatisfy { (0x21...0x7E).contains($0) }
            ? nil : "A token has 1 to \(HubLimits.noteBytes) visible characters."
    }
}

extension VolumeAnswer {
    package var objection: String? {
        guard chunkKey.bytes.count == 32, nameKey.bytes.count == 32 else {
            return "The keys of a volume have 32 bytes each."
        }
        guard (1...HubLimits.nameBytes).contains(name.utf8.count) else {
            return "The name of a volume has 1 to \(HubLimits.nameBytes) bytes."
        }
        if let objection = owner?.objectionToDisplay { return objection }
        return head.objectionToSequence
    }
}

extension DurabilityAnswer {
    package func objection(toCount count: Int) -> String? {
        devices.count == count && devices.allSatisfy { $0.map { $0 >= 0 } ?? true }
            ? nil : "The answer does not match the revisions that were asked for."
    }
}

extension Manifest {
    /// The objection to a manifest that a device or a hub has sent.
    package var objection: String? { ManifestOutline(self).objection }

    /// Decodes a manifest that a device or a hub has sent. Returns nil if the manifest is not valid
    /// or describes more than `size` bytes; it is not expanded then.
    package init?(received bytes: [UInt8], size: UInt64 = HubLimits.documentBytes) {
        guard let outline = ManifestOutline(encoded: bytes), outline.objection == nil,
            outline.size <= size
        else { return nil }
        self.init(encoded: bytes)
    }
}

extension ManifestOutline {
    /// The bytes of all files. Valid only if there is no objection.
    package var size: UInt64 { entries.reduce(0) { $0 + $1.chunks.bytes } }

    package var objection: String? {
        var (total, count) = (UInt64(0), 0)
        for (entry, chunks) in entries {
            if let objection = entry.objection(to: chunks) { return objection }
            total += entry.size
            count += chunks.count
            guard total <= HubLimits.documentBytes else {
                return "A document has at most \(HubLimits.documentBytes) bytes."
            }
            guard count <= HubLimits.references else {
                return "A manifest names chunks at most \(HubLimits.references) times."
            }
        }
        guard Set(entries.map(\.entry.path)).count == entries.count else {
            return "A manifest names a path twice."
        }
        // A plain file has exactly one entry, whose path is empty.
        guard
            entries.count == 1 && entries[0].entry.kind == .file
                || entries.allSatisfy({ !$0.entry.path.isEmpty })
        else { return "A file has one entry, and the entries of a package have paths." }
        return nil
    }
}

extension Manifest.Entry {
    fileprivate func objection(to chunks: ManifestOutline.Chunks) -> String? {
        let names = path.split(
            separator: UInt8(ascii: "/"), omittingEmptySubsequences: path.isEmpty)
        for name in names where !Name(bytes: name).isSafe || Name(bytes: name).isReserved {
            return "A path in a package has an invalid name."
        }
        guard size <= HubLimits.documentBytes else {
            return "A file has at most \(HubLimits.documentBytes) bytes."
        }
        switch kind {
        case .directory: return chunks.count == 0 ? nil : "A directory has no chunks."
        case .symlink:
            guard chunks.count == 0, (1...HubLimits.targetBytes).contains(target.count),
                !target.contains(0)
            else { return "A symbolic link in a package has an invalid target." }
            return nil
        case .file:
            guard chunks.count == 0 || chunks.shortest > 0,
                chunks.longest <= UInt32(HubLimits.chunkBytes)
            else { return "A chunk has 1 to \(HubLimits.chunkBytes) bytes." }
            return chunks.bytes == size ? nil : "A file's size is not the sum of its chunks."
        }
    }
}

extension Int64 {
    /// Only times from 1970 to 2200 are accepted, in nanoseconds, so that later arithmetic cannot
    /// overflow.
    var objectionToTime: String? {
        (0..<7_258_118_400_000_000_000).contains(self) ? nil : "The time is not in 1970 to 2200."
    }
}

extension UInt64 {
    /// The journals store sequence numbers as signed 64-bit integers.
    var objectionToSequence: String? {
        self <= UInt64(Int64.max) ? nil : "A sequence number has at most 63 bits."
    }
}
