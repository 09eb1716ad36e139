import Foundation
import HubProtocol
import Model
import Support
import Testing

@testable import Hub

/// The size that the environment says.
private enum LargeHub {
    static let items = number("CONCORD_MOVE_ITEMS")
    /// Of each item.
    static let bytes = max(number("CONCORD_MOVE_BYTES") / max(items, 1), 16)

    private static func number(_ name: String) -> Int {
        Int(ProcessInfo.processInfo.environment[name] ?? "") ?? 0
    }
}

/// `make bench-move` moves a large hub there and back, while a device saves, and prints for how
/// long it had to wait.
@Suite("Moving a large hub", .enabled(if: LargeHub.items > 0 && MovedHub.obstacle == nil))
struct LargeMoveTests {
    @Test("a hub of the chosen size moves there and back while a device saves")
    func thereAndBack() async throws {
        let site = try MovedHub()
        let (remote, returned) = (
            ["--ledger", site.database, "--blobs", site.bucket], site.returned.path
        )
        var server = try HubProcess(data: site.data)
        try server.hub("user", "add", "anna").succeed()
        let codes = try (0..<2).map { _ in
            try #require(try server.hub("invite", "anna").succeed().split(separator: "\n").last)
        }
        var filler = try await TestDevice(
            url: server.url, code: String(codes[0]), volume: "Documents")
        try await fill(&filler)
        var saver = Saver(
            device: try await TestDevice(
                url: server.url, code: String(codes[1]), volume: "Documents"))
        for words in [
            ["--data", site.data, "--to", site.database, "--blobs", site.bucket],
            ["--data", site.data] + remote + ["--to", returned],
        ] {
            let load = Task { [saver] in await saver.saving() }
            let start = ContinuousClock.now
            let said = try await Self.onThread {
                try Command(Programs.concord, arguments: ["hub", "move"] + words).succeed()
            }
            let end = ContinuousClock.now
            #expect(try server.end() == 5)
            server =
                words.contains(returned)
                ? try HubProcess(data: returned) : try HubProcess(data: site.data, remote)
            load.cancel()
            saver = await load.value
            try await saver.goOn(at: server.url)
            print(said, "the move took \(end - start); \(saver)")
            filler = filler.moved(to: server.url)
            #expect(try await filler.changes(limit: 1).head >= LargeHub.items)
        }
        #expect(try server.stop() == 0)
        let places = [
            ["--data", site.data], ["--data", site.data] + remote, ["--data", returned],
        ]
        for place in places {
            let report = try Command(
                Programs.concord, arguments: ["hub", "check"] + place
            ).succeed()
            print(report)
            #expect(report.contains("sound: 1 volumes"))
        }
        try await saver.expectAnswers(at: try HubProcess(data: returned))
    }

    private func fill(_ device: inout TestDevice) async throws {
        var content = [UInt8](repeating: 0, count: LargeHub.bytes)
        var random = SeededRandom(seed: 1)
        for index in content.indices {
            content[index] = UInt8.random(in: .min ... .max, using: &random)
        }
        let together = min(max((8 << 20) / LargeHub.bytes, 1), 200)
        for start in stride(from: 0, to: LargeHub.items, by: together) {
            let contents = (start..<min(start + together, LargeHub.items)).map { number in
                withUnsafeBytes(of: number) { Array($0) } + content.dropFirst(8)
            }
            try await device.upload(contents)
            try await device.commit(
                contents.indices.map { device.creation("item \(start + $0)", contents[$0]) })
        }
    }

    /// A command blocks the thread that waits for it.
    private static func onThread<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Result(catching: body)) }
        }
    }
}

/// A device that saves one document after the other, and notes how long it waits for each.
private struct Saver: Sendable, CustomStringConvertible {
    var device: TestDevice
    private var answered: [(entry: OperationEntry, result: OperationResult)] = []
    /// What was not answered yet.
    private var sent: (entry: OperationEntry, bytes: [UInt8])?
    private var last = ContinuousClock.now
    private var longest = Duration.zero
    private var change = Duration.zero

    init(device: TestDevice) { self.device = device }

    var description: String {
        "\(answered.count) saves; the longest pause at the old place was \(longest), and that with "
            + "the start of the hub at the new one \(change)"
    }

    /// Saves until the hub ends.
    func saving() async -> Saver {
        var saver = self
        (saver.last, saver.longest) = (.now, .zero)
        while !Task.isCancelled {
            do {
                try await saver.save()
                saver.longest = max(saver.longest, .now - saver.last)
                saver.last = .now
            } catch let failure as Failure where failure.code == .busy {
                try? await Task.sleep(for: .milliseconds(5))
            } catch { break }
        }
        return saver
    }

    /// The first save at the new place.
    mutating func goOn(at url: String) async throws {
        device = device.moved(to: url)
        try await save()
        change = .now - last
    }

    private mutating func save() async throws {
        let text = bytes("\(device.id) \(device.number)")
        let next = sent ?? (device.creation("saved \(device.number)", text), text)
        sent = next
        try await device.upload([next.bytes])
        answered.append((next.entry, try await device.commit([next.entry]).results[0]))
        sent = nil
    }

    func expectAnswers(at hub: HubProcess) async throws {
        let device = device.moved(to: hub.url)
        for part in stride(from: 0, to: answered.count, by: 500) {
            let known = answered[part..<min(part + 500, answered.count)]
            let answer = try await device.commit(known.map(\.entry))
            #expect(answer.results == known.map(\.result))
        }
        #expect(answered.allSatisfy { $0.result.verdict == .applied } && answered.count > 2)
    }
}
