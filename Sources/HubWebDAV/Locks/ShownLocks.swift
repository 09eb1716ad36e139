import Model
import Reconcile

/// The locks that are shown of one thing.
struct ShownLocks: Sendable {
    /// The locks that cover it.
    let locks: [Lock]
    /// What the reader's account calls the volume.
    let label: String
    /// The present time.
    let time: Int64

    /// The locks that are shown of one thing. A deep shared lock is repeated for each thing in its
    /// folder, so many of them would make an answer very long.
    static let most = 32

    /// The value of the property `lockdiscovery`.
    var element: String {
        locks.prefix(ShownLocks.most).map { $0.element(label: label, at: time) }.joined()
    }

    /// The value of the property `supportedlock`.
    static let supported = ["exclusive", "shared"].map { scope in
        "<D:lockentry><D:lockscope><D:\(scope)/></D:lockscope>"
            + "<D:locktype><D:write/></D:locktype></D:lockentry>"
    }.joined()

    /// The locks of a member of the folder.
    func ofMember(_ item: ItemState, from all: [Lock]) -> ShownLocks {
        let own = all.filter { $0.item == item.id }
        return ShownLocks(locks: locks.filter(\.isDeep) + own, label: label, time: time)
    }
}
