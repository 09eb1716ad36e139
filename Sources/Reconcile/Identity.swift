import Model

extension Identifier {
    /// The hub's name for the root of every volume.
    package static let root = Identifier(high: 0, low: 0)
}

/// An item's kind. It never changes: a file that becomes a directory is another item.
package enum ItemKind: UInt8, Hashable, Sendable, CaseIterable {
    case file = 1
    case directory = 2
    case package = 3
    case symlink = 4

    /// Whether it has versions.
    package var isDocument: Bool { self == .file || self == .package }
}

/// What makes two names in a directory the same name: a keyed hash of the folded name, opaque to
/// the hub.
package struct NameKey: Hashable, Sendable {
    package var bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// A device's operations, counted: given once and in order, before they are sent.
package struct OperationID: Hashable, Sendable, Comparable {
    package var device: Identifier
    /// Grows when a device finds that its journal was lost, copied or rolled back.
    package var epoch: UInt32
    /// Counts from 1 within the epoch.
    package var number: UInt64

    package init(device: Identifier, epoch: UInt32, number: UInt64) {
        self.device = device
        self.epoch = epoch
        self.number = number
    }

    /// Of what nobody knows who did it.
    package static let unknown = OperationID(device: .root, epoch: 0, number: 0)

    package static func < (a: OperationID, b: OperationID) -> Bool {
        (a.device.high, a.device.low, a.epoch, a.number)
            < (b.device.high, b.device.low, b.epoch, b.number)
    }
}

/// When something happened, as far as choosing between two of them goes: hub-corrected nanoseconds
/// since 1970, ties by device.
package struct Moment: Hashable, Sendable, Comparable {
    package var time: Int64
    package var device: Identifier

    package init(time: Int64, device: Identifier) {
        self.time = time
        self.device = device
    }

    package static func < (a: Moment, b: Moment) -> Bool {
        (a.time, a.device.high, a.device.low) < (b.time, b.device.high, b.device.low)
    }
}
