import Model
import Reconcile

/// `POST /v1/volumes/{volume}/commit`: operations of one device in their order, without a gap.
package struct CommitRequest: Codable, Hashable, Sendable {
    package var device: Identifier
    /// The device's.
    package var epoch: UInt32
    /// The volume's, as the device knows it.
    package var volumeEpoch: Identifier
    /// Up to where the device has the hub's journal, and the run of that position; nil for a device
    /// that knows nothing of it.
    package var cursor: UInt64?
    package var run: Identifier?
    /// From the answer of `have`; nil where no contents are sent.
    package var collection: UInt64?
    package var operations: [OperationEntry]
    /// The device's clock when it sent this, in nanoseconds since 1970; `time`s are by it.
    package var sent: Int64

    package init(
        device: Identifier, epoch: UInt32, volumeEpoch: Identifier, cursor: UInt64? = nil,
        run: Identifier? = nil, collection: UInt64?, operations: [OperationEntry], sent: Int64
    ) {
        self.device = device
        self.epoch = epoch
        self.volumeEpoch = volumeEpoch
        self.cursor = cursor
        self.run = run
        self.collection = collection
        self.operations = operations
        self.sent = sent
    }
}

package struct OperationEntry: Codable, Hashable, Sendable {
    package var number: UInt64
    package var item: Identifier
    /// Nanoseconds since 1970, corrected by the hub's clock as the device knows it.
    package var time: Int64
    package var base: UInt64
    package var change: Change
    /// Of the change's revision; must be there when the change has one.
    package var content: RevisionContent?
    /// Operations one after the other with the same group are applied all or refused all.
    package var group: UInt64?

    package init(
        _ operation: Operation, content: RevisionContent? = nil, group: UInt64? = nil
    ) {
        number = operation.id.number
        item = operation.item
        time = operation.moment.time
        base = operation.base
        change = operation.change
        self.content = content
        self.group = group
    }

    package func operation(device: Identifier, epoch: UInt32) -> Operation {
        Operation(
            id: OperationID(device: device, epoch: epoch, number: number), item: item,
            moment: Moment(time: time, device: device), base: base, change: change)
    }
}

/// What a revision consists of, as the hub keeps it.
package struct RevisionContent: Codable, Hashable, Sendable {
    /// Opaque to the hub: `Manifest.encoded`.
    package var manifest: Base64
    /// Every chunk that the manifest names, each once.
    package var chunks: PackedIDs

    package init(manifest: [UInt8], chunks: [Digest]) {
        self.manifest = Base64(manifest)
        self.chunks = PackedIDs(chunks)
    }
}

package struct CommitAnswer: Codable, Hashable, Sendable {
    /// One an operation, in their order.
    package var results: [OperationResult]
    package var head: UInt64
    package var volumeEpoch: Identifier
    /// The hub's clock when the request had come and when the answer went, in nanoseconds since
    /// 1970.
    package var received: Int64
    package var answered: Int64

    package init(
        results: [OperationResult], head: UInt64, volumeEpoch: Identifier, received: Int64,
        answered: Int64
    ) {
        self.results = results
        self.head = head
        self.volumeEpoch = volumeEpoch
        self.received = received
        self.answered = answered
    }
}

package struct OperationResult: Codable, Hashable, Sendable {
    package var number: UInt64
    /// Nil: refused.
    package var verdict: Verdict?
    /// Why it was refused. It counts as done and will not pass: the item stays as it is at the hub,
    /// and the device keeps what it has.
    package var refusal: Refusal?
    /// Where it is in the volume's journal; 0 when refused.
    package var sequence: UInt64

    package struct Refusal: Codable, Hashable, Sendable {
        package enum Code: String, Codable, Sendable, CaseIterable {
            /// Over the account's quota. A later try with a new number may pass.
            case quota
            /// A name, kind, size or reference that no item may have.
            case malformed
            /// Another operation of its group was refused.
            case group
        }

        package var code: Code
        /// A sentence.
        package var message: String

        package init(_ code: Code, _ message: String) {
            self.code = code
            self.message = message
        }
    }

    package init(number: UInt64, verdict: Verdict?, refusal: Refusal? = nil, sequence: UInt64) {
        self.number = number
        self.verdict = verdict
        self.refusal = refusal
        self.sequence = sequence
    }
}
