import Model

@testable import Hub
@testable import Reconcile

/// The tables by which the hub recognizes operations that it has completed already, beside what the
/// hub in memory knows of them.
final class AnswerTwin {
    /// A planted fault of the tables, to show that it would be found.
    enum Plant: String, CaseIterable, Sendable {
        case ignoresTheEpoch, keepsNoNumber, forgetsTooMuch, answersTheNext
    }

    private let transaction: any LedgerTransaction
    private let plant: Plant?
    /// The number of answers that are kept for each device: so few that older ones are asked for.
    private static let kept: UInt64 = 1

    init(_ transaction: any LedgerTransaction, plant: Plant?) {
        (self.transaction, self.plant) = (transaction, plant)
    }

    private func epoch(_ epoch: UInt32) -> UInt32 { plant == .ignoresTheEpoch ? 1 : epoch }

    private func fingerprint(_ operation: Operation) -> Digest { .sha256(operation.encoded) }

    /// Returns what is wrong, if the device's last number is not this one.
    func check(last: UInt64, of device: Identifier, epoch: UInt32, in volume: Identifier) throws
        -> String?
    {
        let found = try transaction.operations.lastNumber(
            of: device, epoch: self.epoch(epoch), in: volume)
        return found == last ? nil : "the last number of \(device.low) is \(found), not \(last)"
    }

    /// Returns what is wrong with the answer to an operation that comes again.
    ///
    /// - Parameters:
    ///   - old: The operation that had this number; nil if the hub in memory does not know it.
    ///   - last: The device's last number.
    func check(_ old: Operation?, _ id: OperationID, last: UInt64, in volume: Identifier) throws
        -> String?
    {
        let number = plant == .answersTheNext ? id.number + 1 : id.number
        let found = try transaction.operations.answer(
            to: number, of: id.device, epoch: epoch(id.epoch), in: volume)
        let isKept = id.number + Self.kept > last
        guard let old, isKept else {
            return found == nil ? nil : "operation \(id.number) of \(id.device.low) has an answer"
        }
        let isRight = found?.fingerprint == fingerprint(old) && found?.result == result(of: old)
        return isRight ? nil : "the answer to operation \(id.number) of \(id.device.low)"
    }

    private func result(of operation: Operation) -> [UInt8] {
        Array("\(operation.id.number)".utf8)
    }

    /// Notes that an operation was completed.
    func note(_ operation: Operation, in volume: Identifier) throws {
        let id = operation.id
        try transaction.operations.setAnswer(
            to: id.number, of: id.device, epoch: epoch(id.epoch), in: volume,
            fingerprint: fingerprint(operation), result: result(of: operation))
        if plant != .keepsNoNumber {
            try transaction.operations.setLastNumber(
                of: id.device, epoch: epoch(id.epoch), in: volume, id.number)
        }
        guard id.number > Self.kept else { return }
        let isOneMore: UInt64 = plant == .forgetsTooMuch ? 1 : 0
        try transaction.operations.forgetAnswers(
            to: id.device, epoch: epoch(id.epoch), in: volume,
            upTo: id.number - Self.kept + isOneMore)
    }
}
