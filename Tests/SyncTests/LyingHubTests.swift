import Foundation
import HubProtocol
import Model
import Reconcile
import Support
import Testing

/// A hub that was taken over, or is broken, does not take a device down: its invalid answers are
/// refused with a reason, and the device continues when the hub answers correctly again. An invalid
/// state of one item keeps no other item from the device.
@Suite("A hub that lies", .serialized) struct LyingHubTests {
    private struct Lie {
        var name: String
        /// The part of the path whose answers are changed.
        var path: String
        /// A word in the status's reason; nil if the device may stay connected.
        var word: String?
        var tell: @Sendable ([UInt8]) -> [UInt8]
    }

    private static func page(
        _ name: String, _ word: String?, _ change: @escaping @Sendable (inout ChangesAnswer) -> Void
    ) -> Lie {
        Lie(name: name, path: "/changes", word: word) { bytes in
            guard var page = ChangesAnswer(packed: bytes) else { return bytes }
            change(&page)
            return page.packed
        }
    }

    private static func item(
        _ name: String, _ word: String, _ change: @escaping @Sendable (inout ItemState) -> Void
    ) -> Lie {
        page(name, word) { page in
            page.changes = page.changes.map { entry in
                guard case .item(var state) = entry, state.kind == .file else { return entry }
                change(&state)
                return .item(state)
            }
        }
    }

    /// Lies about one item: it alone is refused.
    private static let itemLies: [Lie] = [
        item("a size", "at most") { $0.current?.size = 1 << 63 },
        item("the largest size", "at most") { $0.current?.size = .max },
        item("a name", "A name") { $0.placement.name = "../up" },
        item("an empty name", "A name") { $0.placement.name = "" },
        item("a kind", "contents") { $0.kind = .directory },
        item("a link", "link") { ($0.kind, $0.current) = (.symlink, nil) },
        item("itself", "own parent") { $0.placement.parent = $0.id },
        item("parents", "parents") { state in
            state.current?.parents = (0..<100).map { _ in .random() }
        },
        item("a sequence", "63 bits") { $0.sequence = .max },
        item("a name of the devices' own", "reserved") { $0.placement.name = ".versions" },
    ]

    private static let lies: [Lie] = [
        page("a page without end", "no progress") { ($0.next, $0.head) = (1, $0.head + 1000) },
        page("a journal going back", "position") { ($0.next, $0.head, $0.changes) = (1, 1, []) },
        page("a head", "63 bits") { ($0.next, $0.head) = (.max, .max) },
        page("the end of time", "time") { $0.time = .max },
        page("the beginning of time", "time") { $0.time = .min },
        page("what was done", "has more operations") { $0.acknowledged = 1 << 40 },
        page("another epoch", "has more operations") { $0.deviceEpoch = 77 },
        Lie(name: "no page", path: "/changes", word: "cannot be decoded") { _ in [1, 2, 3] },
        Lie(name: "an endless item", path: "/changes", word: "cannot be decoded") { bytes in
            bytes.prefix(68) + [255, 255, 255, 255, 0]
        },
    ]

    private static let lettersOfOurs: [Lie] = [
        Lie(name: "no verdicts", path: "/commit", word: "results") { _ in
            Array(
                """
                {"results":[],"head":9,"volumeEpoch":"\(Identifier.root)","received":1,"answered":1}
                """.utf8)
        },
        Lie(name: "a verdict at no time", path: "/commit", word: "time") { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            return Array(
                text.replacing(/"answered":\d+/, with: "\"answered\":9223372036854775807").utf8)
        },
        Lie(name: "what is there", path: "/have", word: "have") { _ in [] },
        Lie(name: "no JSON", path: "/commit", word: "cannot be decoded") { _ in [0, 1, 2] },
    ]

    @Test("about anything: the device stays up and says what it refused") func anything() throws {
        try Fleet.with(1) { fleet in
            let liar = try LyingHub(before: fleet.hub)
            defer { liar.stop() }
            let device = try MountedVolume(options: ["name=team"])
            defer { device.cleanUp() }
            func signIn() throws -> Command.Result {
                try Programs.fsctl(
                    "signin", liar.address, "--code", try fleet.hub.invite(), "--at", device.path
                ).run()
            }
            liar.lie { path, body in
                guard path.hasSuffix("/volumes") else { return nil }
                let text = String(decoding: body, as: UTF8.self)
                let other = text.replacing(/"chunkKey":"[^"]*"/, with: "\"chunkKey\":\"AQI=\"")
                return Array(other.utf8)
            }
            let refused = try signIn()
            #expect(refused.status != 0 && refused.errors.contains("32"), "\(refused.errors)")
            liar.lie(nil)
            let signedIn = try signIn()
            #expect(signedIn.status == 0, "\(signedIn.errors)")
            for (number, lie) in Self.itemLies.enumerated() {
                try refuseItem(liar, with: lie, device, fleet, name: "item \(number)")
            }
            for (number, lie) in Self.lies.enumerated() {
                try deceive(liar, with: lie, device, fleet) {
                    try fleet.put(0, "note \(number)", "\(number)")
                }
                try wait(seconds: 60, for: "note \(number) after \(lie.name); \(device.said)") {
                    let path = "\(device.path)/note \(number)"
                    return (try? String(contentsOfFile: path, encoding: .utf8)) == "\(number)"
                        ? true : nil
                }
            }
            for (number, lie) in Self.lettersOfOurs.enumerated() {
                try deceive(liar, with: lie, device, fleet) {
                    try Data("\(number)".utf8).write(
                        to: URL(filePath: "\(device.path)/letter \(number)"))
                }
                try wait(seconds: 60, for: "letter \(number) after \(lie.name); \(device.said)") {
                    fleet.text(0, "letter \(number)") == "\(number)" ? true : nil
                }
            }
            try device.unmount()
        }
    }

    @Test("a refused item is named after a new start, and arrives when the hub tells the truth")
    func withheld() throws {
        try Fleet.with(1) { fleet in
            let liar = try LyingHub(before: fleet.hub)
            defer { liar.stop() }
            let device = try MountedVolume(options: ["name=team"])
            defer { device.cleanUp() }
            try Programs.fsctl(
                "signin", liar.address, "--code", try fleet.hub.invite(), "--at", device.path
            ).succeed()
            func waitForProblem() throws {
                try wait(seconds: 60, for: "the refused item's name") {
                    let problems = try fleet.report(device).hub?.problems.values ?? [:].values
                    return problems.contains { $0.contains("invalid") } ? true : nil
                }
            }
            let lie = Self.itemLies[0]
            liar.lie { path, body in path.contains(lie.path) ? lie.tell(body) : nil }
            try fleet.put(0, "withheld", "first")
            try waitForProblem()
            // The hub cannot be reached, so only the journal can tell.
            liar.refuse(LyingHub.Refusal(path: "/", status: 503, isDone: false))
            try device.remount()
            try waitForProblem()
            liar.refuse(nil)
            liar.lie(nil)
            try device.remount()
            // Nobody changes the item.
            try wait(seconds: 60, for: "the item; \(device.said)") {
                let path = "\(device.path)/withheld"
                return (try? String(contentsOfFile: path, encoding: .utf8)) == "first" ? true : nil
            }
            #expect(try fleet.report(device).hub?.problems.isEmpty == true)
            try device.unmount()
        }
    }

    /// The item is refused, and what comes after it arrives. The status names the item until the
    /// hub sends a valid state of it.
    private func refuseItem(
        _ liar: LyingHub, with lie: Lie, _ device: MountedVolume, _ fleet: Fleet, name: String
    ) throws {
        func arrives(_ name: String, _ text: String) throws {
            try wait(seconds: 60, for: "\(name) after \(lie.name); \(device.said)") {
                let path = "\(device.path)/\(name)"
                return (try? String(contentsOfFile: path, encoding: .utf8)) == text ? true : nil
            }
        }
        func problems() throws -> [String] {
            try fleet.report(device).hub?.problems.values.filter { $0.contains("invalid") } ?? []
        }
        liar.lie { path, body in path.contains(lie.path) ? lie.tell(body) : nil }
        try fleet.put(0, name, "first")
        try wait(seconds: 60, for: "the device to refuse \(lie.name)") {
            try problems().contains { $0.contains(lie.word ?? "") } ? true : nil
        }
        liar.lie(nil)
        try fleet.put(0, "\(name) later", "later")
        try arrives("\(name) later", "later")
        #expect(try fleet.report(device).hub?.state == "up")
        try fleet.put(0, name, "second")
        try arrives(name, "second")
        #expect(try problems() == [])
    }

    private func deceive(
        _ liar: LyingHub, with lie: Lie, _ device: MountedVolume, _ fleet: Fleet,
        _ work: () throws -> Void
    ) throws {
        liar.lie { path, body in path.contains(lie.path) ? lie.tell(body) : nil }
        try work()
        var last = ""
        try wait(seconds: 60, for: "the device to refuse \(lie.name): \(last)") { () -> Bool? in
            let hub = try fleet.report(device).hub
            last = "\(hub?.state ?? "") \(hub?.reason ?? "")"
            guard liar.told > 0 else { return nil }
            guard let word = lie.word, !last.contains(word) else { return true }
            return nil
        }
        liar.lie(nil)
    }
}
