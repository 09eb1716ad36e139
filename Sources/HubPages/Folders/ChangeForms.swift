/// The forms that rename, move and delete an item.
struct ChangeForms: Sendable {
    let rename: String
    let move: String
    let delete: String
    /// The name as it is, for the field in which it is changed.
    let present: String

    /// Returns nil if there are none: the account may not use them, the item was deleted, or it is
    /// a whole volume.
    init?(_ place: Place) {
        guard place.hasForms, place.item.life.isAlive, !place.isRoot else { return nil }
        rename = place.address(.rename)
        move = place.address(.move)
        delete = place.address(.delete)
        present = place.item.name
    }
}
