import HubProtocol
import Model
import Reconcile

// What a commit reads and what it changes in the operations that it has received.
extension Commit {
    /// The number of operations whose rows are read together.
    static let readTogether = 50
    /// The chunks of an operation whose rows are read together.
    private static let chunksTogether = 64

    /// What operations usually read.
    func reads(
        of entries: ArraySlice<OperationEntry>, _ volume: VolumeRow
    ) -> [LedgerStatement] {
        var reads = [LedgerStatement.account(volume.account)]
        for entry in entries {
            reads += [.alias(entry.item, in: volume.id), .item(entry.item, in: volume.id)]
            if let revision = entry.change.revision {
                reads += ([revision.id] + revision.parents).map { .revision($0, in: volume.id) }
                reads.append(
                    .versionCount(entry.item, upTo: versionLimits.refused + 1, in: volume.id))
            }
            if let place = entry.change.placement {
                let parent = place.parent
                reads += [.alias(parent, in: volume.id), .item(parent, in: volume.id)]
                reads += [place.key, place.spareKey].map {
                    .holder(of: $0, in: parent, volume: volume.id)
                }
            }
            let chunks = entry.content?.chunks.ids ?? []
            if chunks.count <= Commit.chunksTogether {
                reads += chunks.map { .chunkUse($0, in: volume.id) }
            }
        }
        return reads
    }

    /// Replaces the fields of a revision that only the hub may set.
    func own(_ revision: Revision, _ sender: String?) -> Revision {
        var revision = revision
        revision.sequence = 0
        revision.recordedBy = nil
        revision.equals = []
        revision.moment = Moment(
            time: min(revision.moment.time, received), device: caller.device)
        if let sender { revision.note.person = sender }
        revision.note.saved = min(revision.note.saved, received)
        return revision
    }
}

extension Change {
    /// Where the change puts the item.
    fileprivate var placement: Placement? {
        switch self {
        case .create(let creation): creation.placement
        case .move(let placement, _): placement
        case .edit, .delete, .restore, .attribute, .resolve: nil
        }
    }
}
