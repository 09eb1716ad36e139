import Model

// Conflict versions whose contents the hub cannot take for now (`DeviceTable.isHeldBack`).
extension Mirror {
    /// The item's conflict versions that the hub does not know and cannot take.
    func heldBack<T: DeviceTable>(_ local: Image?, _ table: inout T) throws(T.Failure)
        -> [Identifier]
    {
        let known = (base?.image.conflicts ?? []) + (remote?.conflicts.map(\.id) ?? [])
        var heldBack: [Identifier] = []
        for id in local?.conflicts ?? [] where !known.contains(id) {
            if try table.isHeldBack(id) { heldBack.append(id) }
        }
        return heldBack
    }

    /// The image without these conflict versions: the hub does not have them, which does not mean
    /// that somebody has settled them.
    func withoutHeldBack<T: DeviceTable>(
        _ local: Image?, _ bugs: Set<SyncPlanner.Bug>, _ table: inout T
    ) throws(T.Failure) -> Image? {
        guard var image = local, !image.conflicts.isEmpty, !bugs.contains(.settlesWhatIsHeldBack)
        else { return local }
        let heldBack = try heldBack(image, &table)
        image.conflicts.removeAll { heldBack.contains($0) }
        return image
    }
}
