import Foundation
import Glibc
import Support
import Testing

private let environment = ProcessInfo.processInfo.environment
private let soakMinutes = environment["CONCORD_SOAK_MINUTES"].flatMap { Double($0) }

/// Two devices edit the same documents at random, at the same time, with automatic merges. Each
/// edit puts a unique word into a line of its own, and no word that was saved may be lost.
@Suite("Two devices edit at random", .serialized) struct RandomEditTests {
    @Test("some edits", arguments: [UInt64(26_112_201)]) func some(seed: UInt64) throws {
        try edit(seed: seed, rounds: 2, editsPerRound: 120, documents: 12)
    }

    @Test(
        "CONCORD_EDITS edits, a million by default", .enabled(if: soakMinutes != nil, "soak")
    )
    func soak() throws {
        let edits = environment["CONCORD_EDITS"].flatMap { Int($0) } ?? 1_000_000
        let seed = environment["CONCORD_SEED"].flatMap { UInt64($0) } ?? .random(in: 1...1 << 40)
        try edit(seed: seed, rounds: max(1, edits / 20_000), editsPerRound: 20_000, documents: 500)
    }

    private func edit(seed: UInt64, rounds: Int, editsPerRound: Int, documents: Int) throws {
        print("random edits: CONCORD_SEED=\(seed)")
        var random = SeededRandom(seed: seed)
        try Fleet.with(2) { fleet in
            for round in 0..<rounds {
                let directory = "round \(round)"
                let names = (0..<documents).map { "\(directory)/\($0).txt" }
                try fleet.shell(0, "mkdir '\(directory)'")
                let start = (1...40).map { "line \($0)\n" }.joined()
                for name in names { try fleet.put(0, name, start) }
                try fleet.expectEqual()
                var words: [String: [String]] = [:]
                let began = Date()
                for number in 0..<editsPerRound {
                    let device = Int.random(in: 0..<2, using: &random)
                    let name = names.randomElement(using: &random)!
                    let word = "w\(round)-\(number)"
                    try insert(
                        word, atLine: .random(in: 0..<40, using: &random),
                        in: "\(fleet.devices[device].path)/\(name)",
                        safely: .random(using: &random))
                    words[name, default: []].append(word)
                    // Sometimes a device goes offline.
                    if Int.random(in: 0..<60, using: &random) == 0 {
                        try fleet.set(device, online: false)
                    } else if Int.random(in: 0..<20, using: &random) == 0 {
                        for index in 0..<2 { try fleet.set(index, online: true) }
                    }
                }
                for index in 0..<2 { try fleet.set(index, online: true) }
                let edited = Date()
                try check(fleet, words)
                let seconds = (edited.timeIntervalSince(began), -edited.timeIntervalSinceNow)
                print(
                    """
                    \((round + 1) * editsPerRound) edits; \(try state(fleet, names)); \
                    \(Int(seconds.0)) s to edit, \(Int(seconds.1)) s to compare
                    """)
            }
            try fleet.expectSound()
        }
    }

    /// Reads a document and saves it some time later, like many programs.
    private func insert(_ word: String, atLine line: Int, in path: String, safely: Bool) throws {
        var lines = try String(contentsOfFile: path, encoding: .utf8).split(
            separator: "\n", omittingEmptySubsequences: false)
        lines[min(line, lines.count - 1)] += " \(word)"
        let data = Data(lines.joined(separator: "\n").utf8)
        try data.write(to: URL(filePath: path), options: safely ? .atomic : [])
    }

    /// Checks that each word is in some version of its document on one of the devices, that the
    /// current and conflict versions are the same on both, and that none of them contains a
    /// conflict marker.
    private func check(_ fleet: Fleet, _ words: [String: [String]]) throws {
        try wait(seconds: 300, for: "merges to end") { () throws -> Bool? in
            try fleet.settle(seconds: 240)
            // Devices may wait some seconds for the other one to merge.
            sleep(6)
            let before = try fleet.devices.map { try fleet.report($0).hub?.head }
            try fleet.settle(seconds: 240)
            return try before == fleet.devices.map { try fleet.report($0).hub?.head } ? true : nil
        }
        try fleet.expectEqual(tries: 5)
        for (name, saved) in words {
            let conflicts = try (0..<2).map { try fleet.conflicts($0, name) }
            if conflicts[0] != conflicts[1] {
                // A merge may still be in progress; only a lasting difference is a failure.
                sleep(60)
                let later = try (0..<2).map { try fleet.conflicts($0, name) }
                #expect(later[0] == later[1], "\(name): \(conflicts), a minute later \(later)")
            }
            // One device may not have recorded a version that the other one has.
            var lost = Set(saved)
            for index in 0..<2 {
                let shown = fleet.text(index, name) ?? ""
                #expect(!shown.contains("<<<<<<<") && !shown.contains(">>>>>>>"), "\(name)")
                if !lost.isEmpty { lost.subtract(try kept(fleet.devices[index].path, name)) }
            }
            #expect(lost.isEmpty, "\(name) has lost \(lost)")
        }
    }

    /// Returns the words in all versions of a document on that device.
    private func kept(_ root: String, _ name: String) throws -> Set<String> {
        let path = name as NSString
        let place = "\(root)/\(path.deletingLastPathComponent)"
        let versions = "\(place)/.versions/\(path.lastPathComponent)"
        var words: Set<String> = []
        for version in try FileManager.default.contentsOfDirectory(atPath: versions) {
            let text = try String(contentsOfFile: "\(versions)/\(version)", encoding: .utf8)
            for word in text.split(whereSeparator: { " \n".contains($0) }) where word.first == "w" {
                words.insert(String(word))
            }
        }
        return words
    }

    /// Describes what must stay small during a soak.
    private func state(_ fleet: Fleet, _ names: [String]) throws -> String {
        let open = try names.reduce(0) { try $0 + fleet.conflicts(0, $1).count }
        let memory = fleet.devices.map { device in
            let status = try? String(contentsOfFile: "/proc/\(device.pid)/status", encoding: .utf8)
            let line = status?.split(separator: "\n").first { $0.hasPrefix("VmRSS") }
            return line.map { $0.split(separator: " ").dropFirst().first ?? "" } ?? ""
        }
        let disk = try fleet.devices.map { try fleet.report($0).storeBytes >> 20 }
        return "\(open) in conflict; memory \(memory) kB, stores \(disk) MB"
    }
}
