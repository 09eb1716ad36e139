import Model

extension Identifier {
    /// The hub's name for the root of every volume.
    package static let root = Identifier(high: 0, low: 0)
}

/// The kind of an item. It never changes: a file that is replaced by a directory is another item.
package enum ItemKind: UInt8, Hashable, Sendable, CaseIterable {
    case file = 1
    case directory = 2
    case package = 3
    case symlink = 4

    /// Whether items of this kind have versions.
    package var isDocument: Bool { self == .file || self == .package }
}

/// Two names in a directory are the same name when their keys are equal. A key is a keyed hash of
/// the folded name, so the hub learns nothing about the name.
package struct NameKey: Hashable, Sendable {
    package var bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// The number of a device's operation. Numbers are assigned once and in order, before the
/// operations are sent.
package struct OperationID: Hashable, Sendable, Comparable {
    package var device: Identifier
    /// Increases when a device finds that its journal was lost, copied or rolled back.
    package var epoch: UInt32
    /// Counts from 1 within the epoch.
    package var number: UInt64

    package init(device: Identifier, epoch: UInt32, number: UInt64) {
        self.device = device
        self.epoch = epoch
        self.number = number
    }

    /// Used when it is unknown which operation made a change.
    package static let unknown = OperationID(device: .root, epoch: 0, number: 0)

    package static func < (a: OperationID, b: OperationID) -> Bool {
        (a.device.high, a.device.low, a.epoch, a.number)
            < (b.device.high, b.device.low, b.epoch, b.number)
    }
}

/// When something happened: nanoseconds since 1970, corrected by the hub's clock. It only serves to
/// choose between two concurrent changes; equal times are ordered by device.
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

    /// Returns the time one nanosecond before this one, in nanoseconds since 1970. A change gets it
    /// if it repeats another device's change of this time, or must come directly before a change of
    /// this time.
    static func before(_ time: Int64) -> Int64 { max(time, .min + 1) - 1 }
}
