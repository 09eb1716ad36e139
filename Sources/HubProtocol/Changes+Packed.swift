import Model
import Reconcile

// A page of changes in binary form, which devices prefer because JSON costs the hub much more time.
// All integers are big-endian.
// Header: `[next u64][head u64][volume epoch 16][run 16, zeros if there is none][acknowledged u64]
// [device epoch u32][time i64]`. Each change follows as `[length u32][ItemState.encoded]`; an alias
// is `[0 u32][id 16][target 16]`.
extension ChangesAnswer {
    package var packed: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(68 + changes.count * 400)
        bytes.append(bigEndian: next)
        bytes.append(bigEndian: head)
        bytes += volumeEpoch.bytes
        bytes += run?.bytes ?? [UInt8](repeating: 0, count: 16)
        bytes.append(bigEndian: acknowledged)
        bytes.append(bigEndian: deviceEpoch)
        bytes.append(bigEndian: time)
        for change in changes {
            switch change {
            case .item(let item):
                let encoded = item.encoded
                bytes.append(bigEndian: UInt32(encoded.count))
                bytes += encoded
            case .alias(let id, let target):
                bytes.append(bigEndian: UInt32(0))
                bytes += id.bytes
                bytes += target.bytes
            }
        }
        return bytes
    }

    /// Returns nil if the bytes are not one whole page.
    package init?(packed bytes: [UInt8]) {
        var rest = bytes[...]
        guard let next = rest.takeInteger(UInt64.self), let head = rest.takeInteger(UInt64.self),
            let volumeEpoch = rest.takeIdentifier(), let run = rest.takeIdentifier(),
            let acknowledged = rest.takeInteger(UInt64.self),
            let deviceEpoch = rest.takeInteger(UInt32.self),
            let time = rest.takeInteger(Int64.self)
        else { return nil }
        var changes: [ItemChange] = []
        while !rest.isEmpty {
            guard changes.count < HubLimits.changesTogether,
                let length = rest.takeInteger(UInt32.self)
            else { return nil }
            if length == 0 {
                guard let id = rest.takeIdentifier(), let target = rest.takeIdentifier() else {
                    return nil
                }
                changes.append(.alias(id, of: target))
            } else {
                guard rest.count >= length,
                    let item = ItemState(encoded: Array(rest.prefix(Int(length))))
                else { return nil }
                rest = rest.dropFirst(Int(length))
                changes.append(.item(item))
            }
        }
        self.init(
            changes: changes, next: next, run: run.bytes.allSatisfy { $0 == 0 } ? nil : run,
            head: head, volumeEpoch: volumeEpoch,
            acknowledged: acknowledged, deviceEpoch: deviceEpoch, time: time)
    }
}

extension [UInt8] {
    fileprivate mutating func append(bigEndian value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}

extension ArraySlice<UInt8> {
    fileprivate mutating func takeInteger<Value: FixedWidthInteger>(_: Value.Type) -> Value? {
        let size = Value.bitWidth / 8
        guard count >= size else { return nil }
        defer { self = dropFirst(size) }
        return prefix(size).reduce(0) { $0 << 8 | Value(truncatingIfNeeded: $1) }
    }

    fileprivate mutating func takeIdentifier() -> Identifier? {
        guard count >= 16 else { return nil }
        defer { self = dropFirst(16) }
        return Identifier(bytes: prefix(16))
    }
}
