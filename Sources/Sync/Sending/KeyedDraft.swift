import Model
import Reconcile

/// The changes of one item that must be sent, with the item's key in the journal.
struct KeyedDraft: Sendable {
    var key: Int64
    var draft: ItemDraft
    var path: String
    /// The name that the change frees at the hub, and the name that it takes there.
    var vacates: HubName?
    var takes: HubName?
    /// The weak package whose changes must be sent together with this one.
    var weakPackage: [Name]?
    /// Whether it deletes a document that had not been saved for a long time.
    var isLongStanding = false
}

/// A name in a directory at the hub.
struct HubName: Hashable, Sendable {
    var parent: Identifier
    var name: String
}
