import Model
import Reconcile

/// `GET /v1/volumes/{volume}/changes?after=SEQUENCE&limit=COUNT`: items that changed behind
/// `after`, as they are now, each once, in the order of their last change.
package struct ChangesAnswer: Codable, Hashable, Sendable {
    package var changes: [ItemChange]
    /// Where to go on: all up to here has been told. The head when there is no more.
    package var next: UInt64
    /// The run of the hub that wrote the journal at `next`, which a device sends with `after`: the
    /// hub notices by it when its journal is another one.
    package var run: Identifier?
    package var head: UInt64
    package var volumeEpoch: Identifier
    /// The number of the device's last operation that is done, in its current epoch. All of their
    /// effects stand in the journal up to `head`.
    package var acknowledged: UInt64
    package var deviceEpoch: UInt32
    /// Nanoseconds since 1970, by the hub's clock.
    package var time: Int64

    package init(
        changes: [ItemChange], next: UInt64, run: Identifier? = nil, head: UInt64,
        volumeEpoch: Identifier, acknowledged: UInt64, deviceEpoch: UInt32, time: Int64
    ) {
        self.changes = changes
        self.next = next
        self.run = run
        self.head = head
        self.volumeEpoch = volumeEpoch
        self.acknowledged = acknowledged
        self.deviceEpoch = deviceEpoch
        self.time = time
    }
}

/// `{"item": …}`, or `{"id": …, "alias": …}` for one that was unified into another.
package enum ItemChange: Codable, Hashable, Sendable {
    case item(ItemState)
    case alias(Identifier, of: Identifier)

    private enum Key: CodingKey { case item, id, alias }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        if let item = try values.decodeIfPresent(ItemState.self, forKey: .item) {
            self = .item(item)
        } else {
            self = .alias(
                try values.decode(Identifier.self, forKey: .id),
                of: try values.decode(Identifier.self, forKey: .alias))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        switch self {
        case .item(let item): try values.encode(item, forKey: .item)
        case .alias(let id, let target):
            try values.encode(id, forKey: .id)
            try values.encode(target, forKey: .alias)
        }
    }
}

/// A line of `GET /v1/volumes/{volume}/feed`: there is something up to `head`; or nothing new, and
/// the line still stands.
package struct Hint: Codable, Hashable, Sendable {
    package var head: UInt64?
    /// Nanoseconds since 1970, by the hub's clock.
    package var beat: Int64?
    /// The device is signed out or revoked, or the volume's epoch changed: the stream ends.
    package var ended: Failure?
    /// Another process that says it is this device. One that still is says so in return:
    /// `HubHeader.otherProcess`.
    package var process: Identifier?

    package init(
        head: UInt64? = nil, beat: Int64? = nil, ended: Failure? = nil, process: Identifier? = nil
    ) {
        self.head = head
        self.beat = beat
        self.ended = ended
        self.process = process
    }
}

/// The body of `holding`: versions all of whose bytes are on the device, and those of which they
/// are not any more.
package struct HoldingRequest: Codable, Hashable, Sendable {
    package var revisions: [Identifier]
    package var gone: [Identifier]?

    package init(revisions: [Identifier], gone: [Identifier]? = nil) {
        self.revisions = revisions
        self.gone = gone
    }
}

/// The body of `manifests` and `durability`.
package struct RevisionList: Codable, Hashable, Sendable {
    package var revisions: [Identifier]

    package init(revisions: [Identifier]) { self.revisions = revisions }
}

/// `POST /v1/volumes/{volume}/durability`: on how many devices each revision is, whole; nil for one
/// that the hub does not have.
package struct DurabilityAnswer: Codable, Hashable, Sendable {
    package var devices: [Int?]

    package init(devices: [Int?]) { self.devices = devices }
}

/// The answer of `chunks`: those which are now kept are all but these.
package struct ChunksAnswer: Codable, Hashable, Sendable {
    package var kept: Int
    package var bad: [BadChunk]

    package struct BadChunk: Codable, Hashable, Sendable {
        package var id: Digest
        /// A sentence.
        package var message: String

        package init(id: Digest, message: String) {
            self.id = id
            self.message = message
        }
    }

    package init(kept: Int, bad: [BadChunk]) {
        self.kept = kept
        self.bad = bad
    }
}

/// `GET /v1/volumes/{volume}/wanted`: chunks that versions need and the hub has lost or found
/// damaged; a device which has them uploads them, and they are whole again.
package struct WantedAnswer: Codable, Hashable, Sendable {
    package var chunks: PackedIDs

    package init(chunks: PackedIDs) { self.chunks = chunks }
}
