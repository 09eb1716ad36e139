import Model

@testable import Reconcile

/// What the only user made of the tree. Other devices may show something else for a moment, while
/// they tell a hub that came back from a backup what was there before, but not in the end.
struct SoleTree {
    private var images: [Identifier: Image] = [:]

    /// - Parameter before: The tree before the user's act. Only what the act has changed is the
    ///   user's.
    mutating func see(_ ids: [Identifier], _ before: DeviceJournal, _ after: DeviceJournal) {
        for id in ids {
            guard let now = after.images[id], now.isAlive else {
                images[id] = nil
                continue
            }
            guard let then = before.images[id], then.isAlive, var known = images[id] else {
                images[id] = now
                continue
            }
            if !then.isAt(now) { (known.parent, known.name) = (now.parent, now.name) }
            if then.revision != now.revision {
                (known.revision, known.content) = (now.revision, now.content)
            }
            for name in Set(then.attributes.keys).union(now.attributes.keys)
            where then.attributes[name] != now.attributes[name] {
                known.attributes[name] = now.attributes[name]
            }
            images[id] = known
        }
    }

    /// - Parameter hub: An item that took a name which another device had just told the hub for
    ///   another item has its spare name, and a directory is unified with that one.
    func fault(in journal: DeviceJournal, _ hub: Catalogue) -> String? {
        for (id, known) in images.sorted(by: { $0.key.low < $1.key.low })
        where hub.aliases[id] == nil {
            guard let image = journal.images[id], image.isAlive else { return "\(id.low) is gone" }
            let isBounced = hub.item(id)?.isBounced == true
            if !isBounced, !image.isAt(known) {
                return "\(id.low) is at \(image.name), not \(known.name)"
            }
            // A revision with equal contents may stand for the one that the user made.
            if image.revision != known.revision, image.content != known.content {
                return "\(id.low) has other contents"
            }
            if image.attributes != known.attributes { return "\(id.low) has other attributes" }
            if !image.conflicts.isEmpty { return "\(id.low) is in conflict" }
        }
        return nil
    }
}
