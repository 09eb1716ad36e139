/// What the journal knows of the volume's hub: the states on which both agree, the operations that
/// the hub has not confirmed, and the items that were not compared yet. It is valid as long as its
/// reader.
package struct HubTables {
    let reader: Reader

    /// The tables that are emptied when the volume leaves the hub.
    static let forgotten = ["outbox", "holdings", "grants", "fences"]
}

extension Reader {
    package var hub: HubTables { HubTables(reader: self) }
}
