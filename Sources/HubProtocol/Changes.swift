import Model
import Reconcile

/// The answer of `GET /v1/volumes/{volume}/changes?after=SEQUENCE&limit=COUNT`: the present state
/// of each item that changed after the position `after`. Each item appears once, in the order of
/// last changes.
package struct ChangesAnswer: Codable, Hashable, Sendable {
    package var changes: [ItemChange]
    /// The position from which the next request continues. It equals `head` on the last page.
    package var next: UInt64
    /// The run of the hub that wrote the journal at `next`. The device sends it with `after`, so
    /// that the hub notices when its journal is not the one that the device has read.
    package var run: Identifier?
    package var head: UInt64
    package var volumeEpoch: Identifier
    /// The number of the device's last operation that the hub has completed, in the device's
    /// current epoch. The effects of all operations up to it are in the journal up to `head`.
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

/// JSON: `{"item": …}`, or `{"id": …, "alias": …}` for an item that was unified into another one.
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

/// One line of `GET /v1/volumes/{volume}/feed`. It announces changes up to `head`, or it is a
/// heartbeat that shows that the connection is alive.
package struct Hint: Codable, Hashable, Sendable {
    package var head: UInt64?
    /// Nanoseconds since 1970, by the hub's clock.
    package var beat: Int64?
    /// Why the hub ends the stream: the device was signed out or revoked, or the volume's epoch
    /// changed.
    package var ended: Failure?
    /// Another process that claims to be this device. A process that is still alive answers by
    /// sending this id in the header `HubHeader.otherProcess`.
    package var process: Identifier?
    /// The revision of the volume's leases: 0 if there are none. Each heartbeat has it.
    package var leases: UInt64?

    package init(
        head: UInt64? = nil, beat: Int64? = nil, ended: Failure? = nil, process: Identifier? = nil,
        leases: UInt64? = nil
    ) {
        self.head = head
        self.beat = beat
        self.ended = ended
        self.process = process
        self.leases = leases
    }
}

/// The body of `holding`: the versions whose bytes are all on the device, and in `gone` those whose
/// bytes no longer are.
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

/// The answer of `POST /v1/volumes/{volume}/durability`: for each requested revision, on how many
/// devices all of its bytes are; nil if the hub does not know the revision.
package struct DurabilityAnswer: Codable, Hashable, Sendable {
    package var devices: [Int?]

    package init(devices: [Int?]) { self.devices = devices }
}

/// The answer of `chunks`. The hub has stored all uploaded chunks except those in `bad`.
package struct ChunksAnswer: Codable, Hashable, Sendable {
    package var kept: Int
    package var bad: [BadChunk]

    package struct BadChunk: Codable, Hashable, Sendable {
        package var id: Digest
        /// A sentence that says why the chunk was refused.
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

/// The answer of `GET /v1/volumes/{volume}/wanted`: chunks that versions need and that the hub has
/// lost or found damaged. A device that has them uploads them again.
package struct WantedAnswer: Codable, Hashable, Sendable {
    package var chunks: PackedIDs

    package init(chunks: PackedIDs) { self.chunks = chunks }
}
