import Model
import Reconcile

/// The body of `POST /v1/volumes/{volume}/commit`: operations of one device, in order and without a
/// gap in their numbers.
package struct CommitRequest: Codable, Hashable, Sendable {
    package var device: Identifier
    /// The device's epoch.
    package var epoch: UInt32
    /// The volume's epoch as the device knows it.
    package var volumeEpoch: Identifier
    /// The position up to which the device has read the hub's journal, and the run of that
    /// position. Both are nil if the device has read nothing yet.
    package var cursor: UInt64?
    package var run: Identifier?
    /// The collection that the answer of `have` named; nil if no operation has contents.
    package var collection: UInt64?
    package var operations: [OperationEntry]
    /// The device's clock when it sent the request, in nanoseconds since 1970. The times of the
    /// operations are by the same clock.
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
    /// Nanoseconds since 1970 by the device's clock, corrected by its known offset from the hub's.
    package var time: Int64
    package var base: UInt64
    package var change: Change
    /// The contents of the change's revision. It is required if the change has a revision.
    package var content: RevisionContent?
    /// Consecutive operations with the same group are all applied or all refused.
    package var group: UInt64?
    /// The fencing token of the grant under which the edit was begun; left out if there was none.
    package var fence: UInt64?

    package init(
        _ operation: Operation, content: RevisionContent? = nil, group: UInt64? = nil,
        fence: UInt64? = nil
    ) {
        number = operation.id.number
        item = operation.item
        time = operation.moment.time
        base = operation.base
        change = operation.change
        self.content = content
        self.group = group
        self.fence = fence
    }

    package func operation(device: Identifier, epoch: UInt32) -> Operation {
        Operation(
            id: OperationID(device: device, epoch: epoch, number: number), item: item,
            moment: Moment(time: time, device: device), base: base, change: change)
    }
}

/// What a revision consists of, as the hub keeps it.
package struct RevisionContent: Codable, Hashable, Sendable {
    /// The manifest in its encoded form (`Manifest.encoded`). The hub checks that devices can use
    /// it, and keeps it as it is.
    package var manifest: Base64
    /// All chunks that the manifest names, without duplicates.
    package var chunks: PackedIDs

    package init(manifest: [UInt8], chunks: [Digest]) {
        self.manifest = Base64(manifest)
        self.chunks = PackedIDs(chunks)
    }
}

package struct CommitAnswer: Codable, Hashable, Sendable {
    /// One result for each operation, in the same order.
    package var results: [OperationResult]
    package var head: UInt64
    package var volumeEpoch: Identifier
    /// The hub's clock when it received the request and when it sent the answer, in nanoseconds
    /// since 1970.
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
    /// Nil if the operation was refused.
    package var verdict: Verdict?
    /// Why the operation was refused. A refused operation is complete and must not be sent again:
    /// the item at the hub does not change, and the device keeps its own state.
    package var refusal: Refusal?
    /// The position of the operation in the volume's journal; 0 if it was refused.
    package var sequence: UInt64

    package struct Refusal: Codable, Hashable, Sendable {
        package enum Code: String, Codable, Sendable, CaseIterable {
            /// The account's quota would be exceeded. The device may try again later with a new
            /// number.
            case quota
            /// The operation has a name, kind, size or reference that is not allowed.
            case malformed
            /// Another operation of its group was refused.
            case group
        }

        package var code: Code
        /// A sentence that says why the operation was refused.
        package var message: String
        /// The operation's version, if it is refused because its id is that of another version or
        /// of another item's. The device sends the contents again as a version with a new id.
        package var takenVersion: Identifier?
        /// The operation's item, if it is refused because the folder that the account sees does not
        /// have it: it has left the folder, or never was there. The device sends what it has as a
        /// new item.
        package var takenItem: Identifier?

        package init(
            _ code: Code, _ message: String, takenVersion: Identifier? = nil,
            takenItem: Identifier? = nil
        ) {
            self.code = code
            self.message = message
            self.takenVersion = takenVersion
            self.takenItem = takenItem
        }
    }

    package init(number: UInt64, verdict: Verdict?, refusal: Refusal? = nil, sequence: UInt64) {
        self.number = number
        self.verdict = verdict
        self.refusal = refusal
        self.sequence = sequence
    }
}
