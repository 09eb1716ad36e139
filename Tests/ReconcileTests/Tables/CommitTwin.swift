import ChunkStore
import HubProtocol
import Model

@testable import Hub
@testable import Reconcile

/// The hub's own commit beside the hub in memory: each request of a device is given to both. It
/// does not follow a hub that is restored from a backup.
final class CommitTwin {
    /// A planted fault of the tables, to show that it would be found.
    enum Plant: String, CaseIterable, Sendable {
        case keepsNoNumber, keepsTheHead
        case forgetsPlaces, forgetsReturns, forgetsCurrents
    }

    /// What the hub in memory has done with a request.
    struct Outcome {
        var answer: HubInMemory.Answer
        var verdicts: [OperationID: Verdict] = [:]
        var refused: Set<OperationID> = []
        var head: UInt64
        var before: Catalogue
        var after: Catalogue
    }

    private let transaction: any LedgerTransaction
    private let plant: Plant?
    private let account = Identifier(high: 6, low: 1)
    private let volume = Identifier(high: 6, low: 2)
    private var known: Set<Identifier> = []
    private var isOver = false
    private let past: PastTwin

    init(_ transaction: any LedgerTransaction, plant: Plant?) {
        (self.transaction, self.plant) = (transaction, plant)
        past = PastTwin(transaction, volume: volume)
    }

    func begin(_ epoch: Identifier) throws {
        guard try transaction.volume(volume) == nil else {
            isOver = true
            return
        }
        try transaction.addAccount(account, name: "user", quota: nil, at: 0)
        let row = VolumeRow(
            id: volume, account: account, name: "volume", epoch: epoch, chunkKey: [], nameKey: [],
            head: 0, collection: 0)
        try transaction.addVolume(row, at: 0)
    }

    /// Returns what is different.
    func commit(
        _ request: HubInMemory.Request, at time: Int64, epochs: (device: UInt32, Identifier),
        _ outcome: Outcome
    ) throws -> String? {
        guard !isOver else { return nil }
        try setEpochs(of: request.device, epochs)
        let objections = outcome.refused.map { ($0.number, "The quota is used up.") }
        let caller = Caller(
            device: request.device, account: account, user: "user", epoch: epochs.device, seen: 0)
        let commit = Commit(
            request: CommitRequest(
                device: request.device, epoch: request.epoch, volumeEpoch: request.volumeEpoch,
                collection: nil, operations: request.operations.map { OperationEntry($0) },
                sent: time),
            objections: Dictionary(uniqueKeysWithValues: objections), caller: caller,
            volume: volume, folder: nil, received: time, clock: { time })
        let step: CommitStep
        do {
            step = try transaction.nested {
                var progress = CommitProgress()
                return try commit.run(in: transaction, &progress)
            }
        } catch let failure as Failure {
            return failure.code == outcome.answer.code
                ? nil : "\(failure.code), and not \(outcome.answer)"
        }
        guard outcome.answer == .done else { return "done, and not \(outcome.answer)" }
        if let text = try compare(step.answer, request, outcome) { return text }
        try spoil(request, outcome)
        return try past.follow(outcome.after, at: outcome.head)
    }

    private func setEpochs(of device: Identifier, _ epochs: (device: UInt32, Identifier)) throws {
        if known.insert(device).inserted {
            _ = try transaction.devices.enrol(device, account: account, name: "device", at: 0)
            try transaction.devices.addToken(.sha256(device.bytes), device: device, expires: .max)
        }
        while try transaction.devices.epoch(of: device) < epochs.device {
            _ = try transaction.devices.newEpoch(of: device)
        }
        try transaction.execute(
            "UPDATE volumes SET epoch = $1 WHERE id = $2", [.id(epochs.1), .id(volume)])
    }

    private func compare(
        _ answer: CommitAnswer, _ request: HubInMemory.Request, _ outcome: Outcome
    ) throws -> String? {
        guard answer.results.count == request.operations.count else {
            return "\(answer.results.count) results of \(request.operations.count)"
        }
        for (operation, result) in zip(request.operations, answer.results) {
            if let verdict = outcome.verdicts[operation.id], result.verdict != verdict {
                return "\(String(describing: result.verdict)), and not \(verdict)"
            }
            if outcome.refused.contains(operation.id), result.refusal == nil {
                return "operation \(operation.id.number) is not refused"
            }
        }
        if answer.head != outcome.head { return "the head \(answer.head), and not \(outcome.head)" }
        for (_, item) in outcome.after.changed(since: outcome.before) {
            let mine = try transaction.item(item.id, in: volume)
            if mine != item { return "\(item.id.low) is \(String(describing: mine)), not \(item)" }
        }
        return nil
    }

    /// Makes the planted fault.
    private func spoil(_ request: HubInMemory.Request, _ outcome: Outcome) throws {
        switch plant {
        case .keepsNoNumber:
            try transaction.operations.setLastNumber(
                of: request.device, epoch: request.epoch, in: volume, 0)
        case .keepsTheHead: try transaction.setHead(of: volume, outcome.head / 2)
        case .forgetsPlaces: try transaction.execute("DELETE FROM past_places", [])
        case .forgetsReturns: try transaction.execute("UPDATE items SET here = NULL", [])
        case .forgetsCurrents: try transaction.execute("DELETE FROM past_currents", [])
        case nil: break
        }
    }
}

extension HubInMemory.Answer {
    fileprivate var code: Failure.Code? {
        switch self {
        case .done: nil
        case .volumeEpoch: .volumeEpoch
        case .deviceEpoch: .deviceEpoch
        case .copied: .copied
        case .gap: .gap
        }
    }
}
