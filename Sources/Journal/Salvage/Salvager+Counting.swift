import Model

extension Salvager {
    func count(_ table: String) throws(VolumeError) -> Int {
        try target.first("SELECT count(*) FROM \(table)", []) { Int($0.integer(0)) } ?? 0
    }

    /// Must be called before anything is rebuilt.
    func gatherReferences() {
        for (key, trace) in lostItems.traces {
            if let parent = trace.parent, parent != key { parentsOfLost.insert(parent) }
        }
        for trace in lostVersions.traces.values {
            guard let item = trace.item, let manifest = trace.manifest else { continue }
            manifestsOfLost[item, default: []].append(manifest)
        }
    }

    func countResult() throws(VolumeError) {
        result.items.kept = try count("items") - result.items.rebuilt - (recovered == nil ? 0 : 1)
        result.items.lost = try lost("items", lostItems.traces.keys, lostItems.isComplete)
        result.versions.kept = try count("versions") - result.versions.rebuilt
        result.versions.lost = try lost(
            "versions", lostVersions.traces.keys, lostVersions.isComplete
        ).map { $0 + droppedVersions }
        result.manifests.kept = try count("manifests")
        result.manifests.lost = try lost(
            "manifests", lostManifests.traces.keys, lostManifests.isComplete)
        result.chunks = Salvage.Rows(
            kept: try count("chunks"), lost: broken.contains("chunks") ? nil : 0)
        result.stash = Salvage.Rows(
            kept: try count("stash"), lost: broken.contains("stash") ? nil : 0)
        result.meta = Salvage.Rows(
            kept: try count("meta"), lost: broken.contains("meta") ? nil : 0)
        result.volume = try target.value("volume")
        result.device = try target.value("device")
        result.logProblem = pages.logProblem
    }

    private func lost(
        _ table: String, _ keys: some Sequence<Int64>, _ isComplete: Bool
    ) throws(VolumeError) -> Int? {
        guard broken.contains(table) else { return 0 }
        guard isComplete else { return nil }
        var count = 0
        for key in keys where try !exists(table, key) { count += 1 }
        return count
    }
}
