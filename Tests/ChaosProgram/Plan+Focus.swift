import Support

extension Plan {
    /// Work of which a run can have more than usual, because a certain fault shows only then.
    enum Focus: String, CaseIterable, Sendable {
        /// Contents that have just been saved are evicted.
        case evictions
        /// Old versions that have just been replaced are purged.
        case purges
        /// Contents that are on the disk for certain are overwritten in place.
        case overwriting
        /// All devices save the same documents.
        case meetings
        /// Several users save the same documents, privately or not.
        case users
        /// Many versions of few documents.
        case versions
        /// Files get dates that no clock shows.
        case dates
    }

    /// Actions that directly follow one another.
    mutating func series(_ focus: Focus, _ device: Int) -> [Verb] {
        let path = "\(Plan.ownDirectory(device))/\(random.pick(["a", "b"]))"
        func save(_ path: String, _ way: SavePattern, synced: Bool = false) -> Verb {
            .save(path, way, size: 4_000 + random.below(4_000), synced: synced)
        }
        switch focus {
        case .evictions: return [save(path, .replace), .evict(path), .read(path)]
        case .purges: return [save(path, .replace), save(path, .replace), .purge(path)]
        case .overwriting:
            return [
                save(path, .inPlace), .wait(path, durability: "disk"),
                save(path, .inPlace, synced: true),
            ]
        case .meetings:
            let shared = "\(Plan.sharedDirectory)/\(random.pick(["a", "b"]))"
            return [save(shared, random.pick([.inPlace, .replace]))]
        case .users:
            let name = "\(Plan.ownDirectory(device))/\(User.directory)/a"
            return User.allCases.map {
                .saveAs($0, name, size: 4_000, mode: random.pick([0o600, 0o644]))
            }
        case .dates:
            return [save(path, .replace), .date(path, seconds: random.pick(Plan.dates))]
        case .versions: return [save(path, random.pick([.inPlace, .replace]))]
        }
    }
}
