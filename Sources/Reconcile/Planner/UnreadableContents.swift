import Model

/// Decides what becomes of versions that are to be sent and whose contents neither the hub nor this
/// device has. A device that has them sends them again.
package struct UnreadableContents: Sendable {
    let comparison: ItemComparison

    /// Regards the current version, its permissions and its time as agreed on, because neither the
    /// hub nor this device has its contents. What the hub has replaces them. Where the hub does not
    /// have the item, what the hub has at its place does. Returns false if the hub has neither.
    package func withdraw<T: DeviceTable>(current id: Identifier, in table: inout T)
        throws(T.Failure) -> Bool
    {
        guard var mirror = try table.mirror(id), let local = try table.local(id), local.isAlive
        else { return false }
        guard let remote = mirror.remote else { return try giveWay(id, local, mirror, &table) }
        let session = try table.session()
        var base = try comparison.rebased(mirror, id, &table).base ?? Agreement(remote, session)
        (base.image.revision, base.image.content) = (local.revision, local.content)
        // Sent alone, they would hold for the version that the hub has.
        base.image.attributes = base.image.attributes
            .filter { !Image.isOfContents($0.key) }
            .merging(local.attributes.filter { Image.isOfContents($0.key) }) { $1 }
        mirror.base = base
        try table.setMirror(id, mirror)
        return true
    }

    /// Makes a conflict version history on this device, because neither the hub nor this device has
    /// its contents. Otherwise the item would never be sent, and nothing that arrives about it
    /// would be shown.
    package func withdraw<T: DeviceTable>(
        conflict revision: Identifier, of id: Identifier, in table: inout T
    ) throws(T.Failure) {
        try table.makeHistory(revision, of: id)
        guard var mirror = try table.mirror(id),
            !comparison.bugs.contains(.settlesWhatIsWithdrawn)
        else { return }
        // Nobody has settled it. If it comes back, it is a conflict version again.
        mirror.base?.image.conflicts.removeAll { $0 == revision }
        try table.setMirror(id, mirror)
    }

    /// A hub that came back from a backup has lost the item and has another one at its place, which
    /// cannot be brought into the tree as long as this one is there. Nobody can read this one, so
    /// it is handled as if the hub had deleted it, unless conflict versions of it may be readable.
    private func giveWay<T: DeviceTable>(
        _ id: Identifier, _ local: Image, _ mirror: Mirror, _ table: inout T
    ) throws(T.Failure) -> Bool {
        guard local.conflicts.isEmpty, try !table.isInOutbox(id) else { return false }
        for other in try table.notShown(limit: 4096) where other != id {
            guard let image = try table.mirror(other)?.remote.map({ Image($0) }), image.isAlive,
                image.isAt(local)
            else { continue }
            let session = try table.session()
            var mirror = mirror
            mirror.base = Agreement(
                image: local, sequence: session.cursor, volumeEpoch: session.volumeEpoch,
                generation: session.generation)
            mirror.remote = try table.trashed(id, local, unifiedInto: other, session)
            (mirror.since, mirror.state) = (session.cursor, .due)
            try table.setMirror(id, mirror)
            return true
        }
        return false
    }
}
