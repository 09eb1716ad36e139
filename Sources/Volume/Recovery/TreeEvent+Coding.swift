import Model

// The encoding of events in the log. A record is appended in one piece: length and checksum (4
// bytes each, little endian), then sequence, time, kind and the fields. Reading stops at a torn
// record.

extension NotedEvent {
    private static let headerSize = 8
    /// In bytes. A longer record is invalid.
    private static let lengthMax = 1 << 16

    /// Appends the record to `out`.
    func encode(into out: inout [UInt8]) {
        let start = out.count
        out.append(contentsOf: repeatElement(0, count: NotedEvent.headerSize))
        out.append(fixed: sequence)
        out.append(fixed: UInt64(bitPattern: time))
        event.encode(into: &out)
        let payload = out[(start + NotedEvent.headerSize)...]
        let header = UInt64(payload.count) | UInt64(checksum(payload)) << 32
        for index in 0..<NotedEvent.headerSize {
            out[start + index] = UInt8(truncatingIfNeeded: header >> UInt64(8 * index))
        }
    }

    /// Decodes all complete records from the beginning.
    static func decodeAll(_ bytes: [UInt8]) -> [NotedEvent] {
        var events: [NotedEvent] = []
        var reader = EventReader(bytes: bytes[...])
        while let header: UInt64 = reader.fixed() {
            let length = Int(header & 0xFFFF_FFFF)
            guard length <= lengthMax, let payload = reader.take(length),
                checksum(payload) == UInt32(header >> 32)
            else { break }
            var fields = EventReader(bytes: payload)
            guard let sequence: UInt64 = fields.fixed(), let time: UInt64 = fields.fixed(),
                let event = TreeEvent(from: &fields)
            else { break }
            events.append(
                NotedEvent(event: event, time: Int64(bitPattern: time), sequence: sequence))
        }
        return events
    }
}

/// The FNV-1a hash.
private func checksum(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    bytes.withUnsafeBufferPointer { buffer in
        buffer.reduce(2_166_136_261) { ($0 ^ UInt32($1)) &* 16_777_619 }
    }
}

extension TreeEvent {
    fileprivate func encode(into out: inout [UInt8]) {
        switch self {
        case .created(let spot, let snapshot, let isWriting, let actor):
            out.append(isWriting ? 19 : 1)
            out.append(spot)
            out.append(snapshot)
            out.append(actor)
        case .linked(let spot, let snapshot, let actor):
            out.append(2)
            out.append(spot)
            out.append(snapshot)
            out.append(actor)
        case .removed(let spot, let snapshot, let stash, let isUnsaved, let actor):
            out.append(isUnsaved ? 20 : 3)
            out.append(spot)
            out.append(snapshot)
            out.append(text: stash ?? "")
            out.append(actor)
        case .renamed(
            let from, let to, let snapshot, let replaced, let stash, let unseen, let actor):
            out.append(unseen.map { $0.mergesOnlyManually ? 15 : 13 } ?? 4)
            out.append(from)
            out.append(to)
            out.append(snapshot)
            out.append(replaced == nil ? 0 : 1)
            if let replaced { out.append(replaced) }
            out.append(text: stash ?? "")
            out.append(actor)
            if let unseen { out.append(unseen) }
        case .exchanged(let a, let traceA, let b, let traceB, let actor):
            out.append(5)
            out.append(a)
            out.append(traceA)
            out.append(b)
            out.append(traceB)
            out.append(actor)
        case .opened(let inode): out.append(kind: 21, inode)
        case .closed(let inode): out.append(kind: 22, inode)
        case .secured(let inode, let stash, let actor):
            out.append(6)
            out.append(fixed: inode)
            out.append(text: stash)
            out.append(actor)
        case .saved(let inode, let isLate, let actor):
            out.append(isLate ? 7 : 17)
            out.append(fixed: inode)
            out.append(actor)
        case .untouched(let inode): out.append(kind: 8, inode)
        case .packaged(let inode): out.append(kind: 9, inode)
        case .gone(let inode): out.append(kind: 10, inode)
        case .attributes(let inode, let protection):
            out.append(protection == nil ? 11 : 18)
            out.append(fixed: inode)
            if let protection { out.append(protection) }
        case .swapped(let a, let b):
            out.append(12)
            out.append(a)
            out.append(b)
        case .unseen(let inode, let base):
            out.append(base.mergesOnlyManually ? 16 : 14)
            out.append(fixed: inode)
            out.append(base)
        }
    }

    fileprivate init?(from reader: inout EventReader) {
        switch reader.byte() {
        case 1, 2, 19:
            let kind = reader.last
            guard let spot = reader.spot(), let snapshot = reader.snapshot(),
                let actor = reader.actor()
            else { return nil }
            self =
                kind == 2
                ? .linked(spot, snapshot, by: actor)
                : .created(spot, snapshot, isWriting: kind == 19, by: actor)
        case 3, 20:
            let isUnsaved = reader.last == 20
            guard let spot = reader.spot(), let snapshot = reader.snapshot(),
                let stash = reader.text(),
                let actor = reader.actor()
            else { return nil }
            self = .removed(
                spot, snapshot, stash: stash.isEmpty ? nil : stash, isUnsaved: isUnsaved, by: actor)
        case 4, 13, 15:
            guard let event = reader.renamed(kind: reader.last) else { return nil }
            self = event
        case 5:
            guard let a = reader.spot(), let traceA = reader.snapshot(), let b = reader.spot(),
                let traceB = reader.snapshot(), let actor = reader.actor()
            else { return nil }
            self = .exchanged(a, traceA, b, traceB, by: actor)
        case 6:
            guard let inode: UInt64 = reader.fixed(), let stash = reader.text(),
                let actor = reader.actor()
            else { return nil }
            self = .secured(inode: inode, stash: stash, by: actor)
        case 7, 17:
            let isLate = reader.last == 7
            guard let inode: UInt64 = reader.fixed(), let actor = reader.actor() else { return nil }
            self = .saved(inode: inode, isLate: isLate, by: actor)
        case 11:
            guard let inode: UInt64 = reader.fixed() else { return nil }
            self = .attributes(inode: inode)
        case 12:
            guard let a = reader.spot(), let b = reader.spot() else { return nil }
            self = .swapped(a, b)
        case 14, 16:
            let mergesOnlyManually = reader.last == 16
            guard let inode: UInt64 = reader.fixed(),
                let base = reader.base(mergesOnlyManually: mergesOnlyManually)
            else { return nil }
            self = .unseen(inode: inode, base)
        case 18:
            guard let inode: UInt64 = reader.fixed(), let protection = reader.protection() else {
                return nil
            }
            self = .attributes(inode: inode, protection)
        case let kind?:
            guard let event = TreeEvent(ofInode: kind, from: &reader) else { return nil }
            self = event
        case nil: return nil
        }
    }

    /// An event that has only an inode number.
    private init?(ofInode kind: UInt8, from reader: inout EventReader) {
        guard let inode: UInt64 = reader.fixed() else { return nil }
        switch kind {
        case 8: self = .untouched(inode: inode)
        case 9: self = .packaged(inode: inode)
        case 10: self = .gone(inode: inode)
        case 21: self = .opened(inode: inode)
        case 22: self = .closed(inode: inode)
        default: return nil
        }
    }
}

extension [UInt8] {
    /// Appends the base. The kind of the record says whether `mergesOnlyManually` is set.
    fileprivate mutating func append(_ base: NamedBase) {
        append(fixed: UInt64(bitPattern: base.size))
        append(fixed: UInt64(bitPattern: base.modified))
    }

    fileprivate mutating func append(kind: UInt8, _ inode: UInt64) {
        append(kind)
        append(fixed: inode)
    }

    fileprivate mutating func append(fixed value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.littleEndian) { append(contentsOf: $0) }
    }

    fileprivate mutating func append(text: String) {
        append(fixed: UInt16(text.utf8.count))
        append(contentsOf: text.utf8)
    }

    fileprivate mutating func append(_ spot: DirectoryEntry) {
        append(fixed: spot.directory)
        append(fixed: UInt16(spot.name.bytes.count))
        append(contentsOf: spot.name.bytes)
    }

    fileprivate mutating func append(_ snapshot: FileSnapshot) {
        append(fixed: snapshot.inode)
        append(fixed: snapshot.mode)
        append(fixed: snapshot.size)
        append(fixed: snapshot.modified)
        append(fixed: snapshot.changed)
    }

    fileprivate mutating func append(_ protection: Protection) {
        append(fixed: protection.owner)
        append(fixed: protection.group)
        append(fixed: protection.mode)
        append(fixed: UInt16(protection.accessList.count))
        append(contentsOf: protection.accessList)
    }

    fileprivate mutating func append(_ actor: Actor) {
        append(fixed: actor.process)
        append(fixed: actor.uid)
        append(text: actor.signature)
    }
}

private struct EventReader {
    var bytes: ArraySlice<UInt8>
    var last: UInt8 = 0

    init(bytes: ArraySlice<UInt8>) { self.bytes = bytes }

    mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
        guard count <= bytes.count else { return nil }
        defer { bytes = bytes.dropFirst(count) }
        return bytes.prefix(count)
    }

    mutating func byte() -> UInt8? {
        guard let byte = bytes.popFirst() else { return nil }
        last = byte
        return byte
    }

    mutating func fixed<Value: FixedWidthInteger>() -> Value? {
        guard let raw = take(MemoryLayout<Value>.size) else { return nil }
        return raw.withUnsafeBytes { Value(littleEndian: $0.loadUnaligned(as: Value.self)) }
    }

    mutating func text() -> String? {
        guard let count: UInt16 = fixed(), let raw = take(Int(count)) else { return nil }
        return String(decoding: raw, as: UTF8.self)
    }

    mutating func spot() -> DirectoryEntry? {
        guard let directory: UInt64 = fixed(), let count: UInt16 = fixed(),
            let raw = take(Int(count))
        else { return nil }
        return DirectoryEntry(directory: directory, name: Name(bytes: raw))
    }

    mutating func snapshot() -> FileSnapshot? {
        guard let inode: UInt64 = fixed(), let mode: UInt32 = fixed(), let size: Int64 = fixed(),
            let modified: Int64 = fixed(), let changed: Int64 = fixed()
        else { return nil }
        return FileSnapshot(
            inode: inode, mode: mode, size: size, modified: modified, changed: changed)
    }

    mutating func protection() -> Protection? {
        guard let owner: UInt32 = fixed(), let group: UInt32 = fixed(), let mode: UInt16 = fixed(),
            let count: UInt16 = fixed(), let list = take(Int(count))
        else { return nil }
        return Protection(owner: owner, group: group, mode: mode, accessList: Array(list))
    }

    mutating func actor() -> Actor? {
        guard let process: Int32 = fixed(), let uid: UInt32 = fixed(), let signature = text()
        else { return nil }
        return Actor(process: process, uid: uid, signature: signature)
    }

    mutating func base(mergesOnlyManually: Bool) -> NamedBase? {
        guard let size: Int64 = fixed(), let modified: Int64 = fixed() else { return nil }
        return NamedBase(size: size, modified: modified, mergesOnlyManually: mergesOnlyManually)
    }

    mutating func renamed(kind: UInt8) -> TreeEvent? {
        guard let from = spot(), let to = spot(), let moved = snapshot(), let hasReplaced = byte()
        else { return nil }
        var replaced: FileSnapshot?
        if hasReplaced == 1 {
            replaced = snapshot()
            if replaced == nil { return nil }
        }
        guard let stash = text(), let actor = actor() else { return nil }
        var unseen: NamedBase?
        if kind != 4 {
            unseen = base(mergesOnlyManually: kind == 15)
            if unseen == nil { return nil }
        }
        return .renamed(
            from: from, to: to, moved, replaced: replaced, stash: stash.isEmpty ? nil : stash,
            unseen: unseen, by: actor)
    }
}
