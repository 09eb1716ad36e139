import Model
import Volume

/// An order of the daemon to its applier: a system call in the mount, and the claims to hold
/// meanwhile. It is one frame on the applier's standard input, preceded by its length (4 bytes,
/// little endian).
package struct ApplierOrder: Hashable, Sendable {
    package enum Action: Hashable, Sendable {
        /// Renames. If `incoming` is set, the source is this name in the hidden directory, and
        /// `from` is not used.
        case rename(incoming: String?, from: [Name], to: [Name], flags: UInt32)
        case remove([Name], isDirectory: Bool)
        case change([Name], TreeChange)
        /// Removes a name in the hidden directory with everything below it.
        case clear(String)
        /// Closes everything in the mount.
        case rest
        /// Keeps the claims in `accesses` until `letGo`.
        case hold
        case letGo
    }

    package enum Claim: UInt8, Hashable, Sendable {
        case merging = 1
        case moving = 2
        case deleting = 3
        case replacing = 4
        case attributes = 5
    }

    package struct Access: Hashable, Sendable {
        package var claim: Claim
        package var path: [Name]
    }

    package var action: Action
    /// The claims to hold; empty if no claim or presenter concerns the places.
    package var accesses: [Access] = []

    /// Answers of the applier that are not an errno (0 means done).
    package enum Refusal {
        /// The claim was not granted in time.
        package static let notYet: Int32 = -1
        /// The document has moved in the meantime.
        package static let moved: Int32 = -2
        package static let broken: Int32 = -3
    }
}

// MARK: Coding

extension ApplierOrder {
    package var encoded: [UInt8] {
        var out = OrderWriter()
        switch action {
        case .rename(let incoming, let from, let to, let flags):
            out.add(byte: 1)
            out.add(Array((incoming ?? "").utf8))
            out.add(from)
            out.add(to)
            out.add(UInt64(flags))
        case .remove(let path, let isDirectory):
            out.add(byte: 2)
            out.add(path)
            out.add(byte: isDirectory ? 1 : 0)
        case .change(let path, let change):
            out.add(byte: 3)
            out.add(path)
            out.add(UInt64(change.mode.map { UInt64($0) } ?? .max))
            out.add(byte: change.modified == nil ? 0 : 1)
            out.add(UInt64(bitPattern: change.modified ?? 0))
            out.add(UInt64(change.set.count))
            for attribute in change.set {
                out.add(attribute.name)
                out.add(attribute.value)
            }
            out.add(UInt64(change.removed.count))
            for name in change.removed { out.add(name) }
            switch change.owner {
            case nil: out.add(byte: 0)
            case .ofDirectory: out.add(byte: 1)
            case .account(let uid, let gid):
                out.add(byte: 2)
                out.add(UInt64(uid))
                out.add(UInt64(gid))
            }
            out.add(byte: change.includesContents ? 1 : 0)
        case .clear(let name):
            out.add(byte: 4)
            out.add(Array(name.utf8))
        case .rest: out.add(byte: 5)
        case .hold: out.add(byte: 6)
        case .letGo: out.add(byte: 7)
        }
        out.add(UInt64(accesses.count))
        for access in accesses {
            out.add(byte: access.claim.rawValue)
            out.add(access.path)
        }
        return out.bytes
    }

    package init?(encoded bytes: [UInt8]) {
        var reader = OrderReader(bytes: bytes[...])
        guard let kind = reader.byte(), let action = Action(kind, &reader),
            let count = reader.number()
        else { return nil }
        self.init(action: action)
        for _ in 0..<count {
            guard let claim = reader.byte().flatMap(Claim.init), let path = reader.path() else {
                return nil
            }
            accesses.append(Access(claim: claim, path: path))
        }
    }
}

extension ApplierOrder.Action {
    fileprivate init?(_ kind: UInt8, _ reader: inout OrderReader) {
        switch kind {
        case 1:
            guard let incoming = reader.bytesOfText(), let from = reader.path(),
                let to = reader.path(), let flags = reader.number()
            else { return nil }
            let name = incoming.isEmpty ? nil : String(decoding: incoming, as: UTF8.self)
            self = .rename(
                incoming: name, from: from, to: to, flags: UInt32(truncatingIfNeeded: flags))
        case 2:
            guard let path = reader.path(), let isDirectory = reader.byte() else { return nil }
            self = .remove(path, isDirectory: isDirectory == 1)
        case 3:
            guard let path = reader.path(), let change = TreeChange(&reader) else { return nil }
            self = .change(path, change)
        case 4:
            guard let name = reader.bytesOfText() else { return nil }
            self = .clear(String(decoding: name, as: UTF8.self))
        case 5: self = .rest
        case 6: self = .hold
        case 7: self = .letGo
        default: return nil
        }
    }
}

extension TreeChange {
    fileprivate init?(_ reader: inout OrderReader) {
        guard let mode = reader.number(), let hasTime = reader.byte(), let time = reader.number(),
            let count = reader.number()
        else { return nil }
        self.init(mode: mode == .max ? nil : UInt16(truncatingIfNeeded: mode))
        if hasTime == 1 { modified = Int64(bitPattern: time) }
        for _ in 0..<count {
            guard let name = reader.bytesOfText(), let value = reader.bytesOfText() else {
                return nil
            }
            set.append(AttributeList.Attribute(name: name, value: value))
        }
        guard let removals = reader.number() else { return nil }
        for _ in 0..<removals {
            guard let name = reader.bytesOfText() else { return nil }
            removed.append(name)
        }
        guard let kind = reader.byte() else { return nil }
        switch kind {
        case 0: break
        case 1: owner = .ofDirectory
        default:
            guard let uid = reader.number(), let gid = reader.number() else { return nil }
            owner = .account(
                uid: UInt32(truncatingIfNeeded: uid), gid: UInt32(truncatingIfNeeded: gid))
        }
        guard let contents = reader.byte() else { return nil }
        includesContents = contents == 1
    }
}

private struct OrderWriter {
    var bytes: [UInt8] = []

    mutating func add(byte: UInt8) { bytes.append(byte) }

    mutating func add(_ number: UInt64) {
        withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
    }

    mutating func add(_ text: [UInt8]) {
        add(UInt64(text.count))
        bytes += text
    }

    mutating func add(_ path: [Name]) {
        add(UInt64(path.count))
        for name in path { add(name.bytes) }
    }
}

private struct OrderReader {
    var bytes: ArraySlice<UInt8>

    mutating func byte() -> UInt8? { bytes.popFirst() }

    mutating func number() -> UInt64? {
        guard bytes.count >= 8 else { return nil }
        defer { bytes = bytes.dropFirst(8) }
        return bytes.prefix(8).withUnsafeBytes {
            UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self))
        }
    }

    mutating func bytesOfText() -> [UInt8]? {
        guard let count = number(), count <= bytes.count else { return nil }
        defer { bytes = bytes.dropFirst(Int(count)) }
        return Array(bytes.prefix(Int(count)))
    }

    mutating func path() -> [Name]? {
        guard let count = number(), count <= bytes.count else { return nil }
        var path: [Name] = []
        for _ in 0..<count {
            guard let name = bytesOfText() else { return nil }
            path.append(Name(bytes: name))
        }
        return path
    }
}
