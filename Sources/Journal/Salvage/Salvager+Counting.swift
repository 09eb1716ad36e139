import Model

extension Salvager {
    func count(_ table: String) throws(VolumeError) -> Int {
        try target.first("SELECT count(*) FROM \(table)", []) { Int($0.integer(0)) } ?? 0
    }

    func countResult() throws(VolumeError) {
        result.items.kept = try count("items") - result.items.rebuilt - (recovered == nil ? 0 : 1)
        result.items.lost = try lostCount("items", lost.items.traces.keys, lost.items.isComplete)
        result.versions.kept = try count("versions") - result.versions.rebuilt
        result.versions.lost = try lostCount(
            "versions", lost.versions.traces.keys, lost.versions.isComplete
        ).map { $0 + droppedVersions }
        result.manifests.kept = try count("manifests")
        result.manifests.lost = try lostCount(
            "manifests", lost.manifests.traces.keys, lost.manifests.isComplete)
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

    private func lostCount(
        _ table: String, _ keys: some Sequence<Int64>, _ isComplete: Bool
    ) throws(VolumeError) -> Int? {
        guard broken.contains(table) else { return 0 }
        guard isComplete else { return nil }
        var count = 0
        for key in keys where try !exists(table, key) { count += 1 }
        return count
    }
}
