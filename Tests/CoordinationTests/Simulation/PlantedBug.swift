@testable import Coordination

/// Bugs that a machine like this one could have. The schedules must find each of them.
enum PlantedBug: String, CaseIterable, Sendable {
    case losesAWakeUp
    case grantsEarly
    case servesTheLastFirst
    case reacquiresAfterTheNextAsk
    case losesAReacquire
    case reacquiresTwice
    case savesBeforeAllHaveLetGo
    case forgetsADeath
    case forgetsAnEndedPresenter
    case takesALateAnswerForAnother
    case takesAFailureForSuccess
    case locksItemsOfAPackageApart
    case updatesADirectoryDeeply
    case movesADirectoryShallowly
    case replacesWhereTheItemWent
    case tellsTheOneBehindIt
    case ignoresPurposes
    case lendsNobodyTheTurn
    case waitsForPresentersThatWait
    case waitsWhereItOnlyTries
    case ignoresCancel
    case letsPlainProgramsWaitForEver
    case blocksByPlainPrograms
    case tellsDirectoriesOfChanges
    case spareVersionsToTheirAuthor
}

/// The machine with one of the bugs.
struct Tampered: Steppable {
    let bug: PlantedBug
    private var machine = Coordination()
    /// Where items have moved, for a claim that should have stayed.
    private var moves: [(from: Path, to: Path)] = []

    init(_ bug: PlantedBug) { self.bug = bug }

    var isEmpty: Bool { machine.isEmpty }

    mutating func step(_ event: Event) -> [Effect] {
        switch bug {
        case .servesTheLastFirst: backwards(event)
        case .grantsEarly, .lendsNobodyTheTurn, .waitsForPresentersThatWait:
            tamperedState(event)
        default: tampered(machine.step(tampered(event)), event)
        }
    }

    // MARK: What it hears

    private mutating func tampered(_ event: Event) -> Event {
        switch (bug, event) {
        case (.forgetsADeath, .ended), (.forgetsAnEndedPresenter, .retired),
            (.ignoresCancel, .cancelled), (.letsPlainProgramsWaitForEver, .overdue):
            return .ended(ClientSession(.max))
        case (.takesALateAnswerForAnother, .answered(let presenter, let id, let failure)):
            if machine.tables.claims[id]?.outstanding.contains(presenter) != true,
                let other = machine.tables.presenters[presenter]?.asks.min()
            {
                return .answered(presenter, other, failure: failure)
            }
        case (.takesAFailureForSuccess, .answered(let presenter, let id, _)):
            return .answered(presenter, id, failure: nil)
        case (.replacesWhereTheItemWent, .moved(let from, let to, _)): moves.append((from, to))
        case (.tellsDirectoriesOfChanges, .presented(let id, var presenter)):
            presenter.isDirectory = false
            return .presented(id, presenter)
        case (_, .requested(let id, let request)): return .requested(id, tampered(request))
        default: break
        }
        return event
    }

    private func tampered(_ request: Request) -> Request {
        var request = request
        switch bug {
        case .locksItemsOfAPackageApart:
            for index in request.targets.indices {
                for step in request.targets[index].path.steps.indices {
                    request.targets[index].path.steps[step].isPackage = false
                }
            }
        case .updatesADirectoryDeeply, .movesADirectoryShallowly:
            let from: Access.WritingOption = bug == .updatesADirectoryDeeply ? .update : .moving
            let to: Access.WritingOption = bug == .updatesADirectoryDeeply ? .moving : .update
            for index in request.targets.indices
            where request.targets[index].access == .write(from) {
                request.targets[index].access = .write(to)
            }
        case .tellsTheOneBehindIt: request.presenters = []
        case .ignoresPurposes: request.purposes = []
        case .waitsWhereItOnlyTries: request.isTry = false
        case .blocksByPlainPrograms:
            if case .plain = request.manner { request.manner = .coordinated }
        default: break
        }
        return request
    }

    // MARK: What it says

    private func tampered(_ effects: [Effect], _ event: Event) -> [Effect] {
        switch (bug, event) {
        case (.losesAWakeUp, .released): effects.filter { !$0.isGrant }
        case (.reacquiresAfterTheNextAsk, _):
            effects.filter { !$0.isReacquire } + effects.filter(\.isReacquire)
        case (.losesAReacquire, .cancelled), (.losesAReacquire, .answered):
            effects.filter { !$0.isReacquire }
        case (.reacquiresTwice, _): effects + effects.filter(\.isReacquire).prefix(1)
        case (.savesBeforeAllHaveLetGo, _): effects.flatMap(savingAtOnce)
        case (.replacesWhereTheItemWent, _): effects.map(following)
        case (.spareVersionsToTheirAuthor, .version): Array(effects.dropLast())
        default: effects
        }
    }

    private func savingAtOnce(_ effect: Effect) -> [Effect] {
        guard case .told(let presenter, .relinquishToReader(let id)) = effect,
            machine.tables.presenters[presenter]?.presenter.hears.contains(.save) == true
        else { return [effect] }
        return [effect, .told(presenter, .save(id))]
    }

    private func following(_ effect: Effect) -> Effect {
        guard case .granted(let id, var paths) = effect, let claim = machine.tables.claims[id]
        else {
            return effect
        }
        for (index, target) in claim.targets.enumerated()
        where target.access == .write(.replacing) {
            if let move = moves.last(where: { $0.from.names == paths[index].names }) {
                paths[index] = move.to
            }
        }
        return .granted(id, paths)
    }

    // MARK: What it knows

    private mutating func tamperedState(_ event: Event) -> [Effect] {
        var effects = machine.step(event)
        switch (bug, event) {
        case (.grantsEarly, .requested(let id, _)):
            guard case .waiting = machine.tables.claims[id]?.phase else { break }
            machine.grant(id)
            effects += machine.effects
            machine.effects = []
        case (.lendsNobodyTheTurn, _): machine.tables.responses = []
        case (.waitsForPresentersThatWait, _):
            for (id, claim) in machine.tables.claims {
                for presenter in claim.ignoredAnswers.keys where !claim.isGranted {
                    machine.tables.claims[id]!.outstanding.insert(presenter)
                    machine.tables.presenters[presenter]?.asks.insert(id)
                }
            }
        default: break
        }
        return effects
    }

    /// New claims go before old ones, because the numbers count down.
    private mutating func backwards(_ event: Event) -> [Effect] {
        func turned(_ id: ClaimID) -> ClaimID { ClaimID(1_000_000 - id.number) }
        let event: Event =
            switch event {
            case .requested(let id, let request): .requested(turned(id), request)
            case .released(let id): .released(turned(id))
            case .cancelled(let id): .cancelled(turned(id))
            case .overdue(let id): .overdue(turned(id))
            case .yieldExpired(let id): .yieldExpired(turned(id))
            case .answered(let presenter, let id, let failure):
                .answered(presenter, turned(id), failure: failure)
            default: event
            }
        return machine.step(event).map { effect in
            switch effect {
            case .granted(let id, let paths): .granted(turned(id), paths)
            case .refused(let id, let why): .refused(turned(id), why)
            case .told(let presenter, let message): .told(presenter, message.mapped(turned))
            }
        }
    }
}

extension Effect {
    fileprivate var isGrant: Bool { if case .granted = self { true } else { false } }
    fileprivate var isReacquire: Bool {
        if case .told(_, .reacquire) = self { true } else { false }
    }
}

extension Message {
    fileprivate func mapped(_ map: (ClaimID) -> ClaimID) -> Message {
        switch self {
        case .relinquishToReader(let id): .relinquishToReader(map(id))
        case .relinquishToWriter(let id): .relinquishToWriter(map(id))
        case .save(let id): .save(map(id))
        case .accommodateDeletion(let id): .accommodateDeletion(map(id))
        case .accommodateSubitemDeletion(let id, let path):
            .accommodateSubitemDeletion(map(id), path)
        case .reacquire(let id): .reacquire(map(id))
        default: self
        }
    }
}
