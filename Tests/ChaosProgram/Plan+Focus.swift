import Support

extension Plan {
    /// Work of which a run can have more than usual, because a certain fault shows only then.
    enum Focus: String, CaseIterable, Sendable {
        /// Contents that have just been saved are evicted.
        case evictions
        /// A document that is not on the device is moved over another one.
        case placeholders
        /// A store is rolled back to a time before a save of which the hub had been waited for
        /// while it could not be reached.
        case promises
        /// Old versions of which the hub has not confirmed anything yet are purged.
        case purges
        /// Contents that are on the disk for certain are overwritten in place, and the power is
        /// lost as soon as the program has been told that the new ones are there.
        case overwriting
        /// Two devices save the same document while one of them does not reach the hub.
        case meetings
        /// A device saves a document while it still waits for the contents that another device has
        /// saved.
        case arrivals
        /// Several users save the same documents, privately or not.
        case users
        /// Many versions of one document, and then a clock that is a year ahead.
        case wrongClocks
        /// Files get dates that no clock shows.
        case dates
        /// The quota is used up between the upload of contents and the operation that names them.
        case quotas
        /// The hub is replaced by an older copy of itself, with and without operations that it has
        /// not answered.
        case olderHubs
    }

    /// One step of a scene: a program of the device does something, or a fault happens right after
    /// what its programs have done.
    struct Step {
        let device: Int
        let verb: Verb
        var isAtHub = false
        /// Milliseconds after the beginning of the scene.
        var time = 0

        func action(_ number: Int, after beginning: Int) -> Action {
            Action(
                number, at: beginning + time, isAtHub ? "hub" : "dev\(device)", verb,
                inOrderOf: verb.isFault ? "dev\(device)" : nil)
        }
    }

    /// Returns actions that follow one another. Those of one device are done in this order. After a
    /// bad line a device waits until it is in step, because the next scene needs a device that is.
    /// - Parameter number: The number of the first action, after which new files are named.
    mutating func scene(of focus: Focus, _ device: Int, _ number: Int) -> [Step] {
        let path = "\(Plan.ownDirectory(device))/\(random.pick(["a", "b"]))"
        let new = "\(Plan.ownDirectory(device))/n\(number)"
        let verbs: [Verb]
        switch focus {
        case .evictions: verbs = [save(path), .evict(path), .read(path)]
        case .placeholders:
            verbs =
                [save(new), save(new + "b")]
                + [.wait(new, durability: "hub"), .wait(new + "b", durability: "hub")]
                + [.evict(new), .evict(new + "b"), .rename(new + "b", new)]
        case .promises:
            verbs = [
                .keep, .line(.stall), save(new), .wait(new, durability: "hub"), .rollBack,
                .line(.open),
            ]
        case .purges:
            verbs =
                [.line(.commitsWait), save(new), .wait(new, durability: "disk")]
                + [.think(milliseconds: 300), save(new), .wait(new, durability: "disk")]
                + [.purge(new), .line(.reset), .wait(new, durability: "hub")]
        case .overwriting:
            verbs = [
                save(new, .inPlace), .wait(new, durability: "disk"),
                save(new, .inPlace, synced: true), .losePower, .start,
            ]
        case .meetings: return meeting(device, number)
        case .arrivals: return arrival(device, "\(Plan.sharedDirectory)/m\(number)")
        case .users:
            let name = "\(Plan.ownDirectory(device))/\(User.directory)/a"
            verbs = User.allCases.map {
                .saveAs($0, name, size: 4_000, mode: random.pick([0o600, 0o644]))
            }
        case .dates: verbs = [save(path), .date(path, seconds: random.pick(Plan.dates))]
        case .wrongClocks:
            verbs =
                (0..<4).flatMap { _ in [save(new), .wait(new, durability: "disk")] }
                + [save(new), .wait(new, durability: "hub")]
                + [.clock(ahead: 400 * 86_400), .kill, .start]
        case .quotas: return refusal(device, new)
        case .olderHubs: return returnOfAnOlderHub(device, new)
        }
        return verbs.map { Step(device: device, verb: $0) }
    }

    private mutating func save(
        _ path: String, _ way: SavePattern = .replace, synced: Bool = false
    ) -> Verb {
        .save(path, way, size: 4_000 + random.below(4_000), synced: synced)
    }

    /// The two devices have the document already, or both create it.
    private mutating func meeting(_ device: Int, _ number: Int) -> [Step] {
        let name = random.oneIn(2) ? random.pick(["a", "b"]) : "m\(number)"
        let path = "\(Plan.sharedDirectory)/\(name)"
        let other = (device + 1) % devices
        let way = random.pick([SavePattern.inPlace, .replace])
        return [
            Step(device: device, verb: .line(.stall)),
            Step(device: device, verb: save(path, way)),
            Step(device: other, verb: save(path, way), time: 50),
            Step(device: device, verb: .think(milliseconds: 400), time: 50),
            Step(device: device, verb: .line(.open), time: 50),
        ]
    }

    /// Both devices have the document when the other one saves it.
    private mutating func arrival(_ device: Int, _ path: String) -> [Step] {
        let other = (device + 1) % devices
        let way = random.pick([SavePattern.inPlace, .replace])
        return [
            Step(device: device, verb: save(path, way)),
            Step(device: device, verb: .wait(path, durability: "hub")),
            Step(device: device, verb: .think(milliseconds: 500)),
            Step(device: device, verb: .line(.readsWait)),
            Step(device: other, verb: save(path, way), time: 1_500),
            Step(device: other, verb: .wait(path, durability: "hub"), time: 1_500),
            Step(device: device, verb: .think(milliseconds: 1_000), time: 1_500),
            Step(device: device, verb: save(path, way), time: 1_500),
            Step(device: device, verb: .wait(path, durability: "disk"), time: 1_500),
            Step(device: device, verb: .line(.open), time: 1_500),
        ]
    }

    private mutating func refusal(_ device: Int, _ path: String) -> [Step] {
        [
            Step(device: device, verb: .line(.commitsWait)),
            Step(device: device, verb: save(path)),
            Step(device: device, verb: .wait(path, durability: "disk")),
            Step(device: device, verb: .think(milliseconds: 300)),
            Step(device: device, verb: .quota(bytes: 1), isAtHub: true),
            Step(device: device, verb: .line(.open)),
            Step(device: device, verb: .think(milliseconds: 300)),
            Step(device: device, verb: .quota(bytes: nil), isAtHub: true),
            Step(device: device, verb: .wait(path, durability: "hub")),
        ]
    }

    private mutating func returnOfAnOlderHub(_ device: Int, _ path: String) -> [Step] {
        let unanswered: [Verb] = [
            .line(.commitsWait), save(path + "c"), .wait(path + "c", durability: "disk"),
            .think(milliseconds: 300),
        ]
        let before = [save(path), .wait(path, durability: "hub")]
        let after = [save(path), save(path + "b"), .wait(path, durability: "hub")]
        let programs = random.oneIn(2) ? after + unanswered : after
        return before.map { Step(device: device, verb: $0) }
            + [Step(device: device, verb: .keep, isAtHub: true)]
            + programs.map { Step(device: device, verb: $0) }
            + [
                Step(device: device, verb: .rollBack, isAtHub: true),
                Step(device: device, verb: .line(.open)),
                Step(device: device, verb: .wait(path, durability: "hub")),
            ]
    }
}
