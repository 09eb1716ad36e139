import Foundation
import Testing

/// The dependencies are listed with the versions that a build uses, and can be checked for
/// advisories.
@Suite("Dependencies") struct SupplyTests {
    private struct Resolved: Decodable {
        struct Pin: Decodable {
            struct State: Decodable { var version: String? }
            var identity: String
            var location: String
            var state: State
        }
        var pins: [Pin]
    }

    private static func text(_ name: String) throws -> String {
        try String(contentsOf: Repository.root.appending(path: name), encoding: .utf8)
    }

    /// The rows of THIRD-PARTY.md, as `[name](location) version`.
    private static func rows() throws -> [(row: String, licence: String)] {
        try text("THIRD-PARTY.md").split(separator: "\n").compactMap { line in
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: [" "]) }
            guard cells.count == 4, cells[0].hasPrefix("[") else { return nil }
            return ("\(cells[0]) \(cells[1])", cells[2])
        }
    }

    @Test("every package of a build is in the list with its version and licence")
    func listed() throws {
        let file = Data(try Self.text("Package.resolved").utf8)
        let pins = try JSONDecoder().decode(Resolved.self, from: file).pins
        let used = pins.map { pin in
            let end = pin.location.hasSuffix(".git") ? 4 : 0
            let place = pin.location.dropLast(end)
            return "[\(pin.identity)](\(place)) \(pin.state.version ?? "no version")"
        }
        let rows = try Self.rows()
        #expect(rows.map(\.row).sorted() == used.sorted())
        #expect(rows.allSatisfy { $0.licence.hasPrefix("Apache-2.0") || $0.licence == "MIT" })
    }

    @Test("each package in Package.swift has one exact version")
    func exact() throws {
        let manifest = try Self.text("Package.swift")
        let named = manifest.components(separatedBy: "url: \"https://").count - 1
        #expect(named > 0)
        #expect(manifest.components(separatedBy: "exact: \"").count - 1 == named)
        #expect(!manifest.contains("from: \""))
    }

    private func asked(_ answers: [String]?) throws -> (status: Int32, said: String) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "python3", Repository.root.appending(path: "Packaging/advisories").path,
        ]
        let file = FileManager.default.temporaryDirectory
            .appending(path: "answers-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        if let answers {
            try Data("[\(answers.joined(separator: ","))]".utf8).write(to: file)
            process.arguments? += ["--answers", file.path]
        } else {
            // No proxy listens at this address.
            process.environment = ProcessInfo.processInfo.environment.merging(
                ["https_proxy": "http://127.0.0.1:9"]) { $1 }
        }
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let said = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: said, as: UTF8.self))
    }

    @Test("advisories: an answer, no answer and an invalid answer are all reported")
    func advisories() throws {
        let count = try Self.rows().count
        func page(_ first: String, others: String = "{}", count: Int) -> String {
            let results = [first] + Array(repeating: others, count: count - 1)
            return "{\"results\": [\(results.joined(separator: ","))]}"
        }
        let none = try asked([page("{}", count: count)])
        #expect(none.status == 0 && none.said.contains("No advisory is known for the \(count)"))

        let token = "{\"vulns\": [{\"id\": \"GHSA-1\"}], \"next_page_token\": \"more\"}"
        let two = try asked([
            page(token, count: count), page("{\"vulns\": [{\"id\": \"GHSA-2\"}]}", count: 1),
        ])
        #expect(two.status == 1)
        let lines = two.said.split(separator: "\n")
        #expect(lines.count == 2 && lines.allSatisfy { $0.hasPrefix("github.com/") })
        #expect(lines[0].hasSuffix("/GHSA-1") && lines[1].hasSuffix("/GHSA-2"))

        for wrong in ["{}", "[]", page("{}", count: count + 1), page("5", count: count)] {
            let answer = try asked([wrong])
            #expect(answer.status == 1 && answer.said.contains("cannot be understood"), "\(wrong)")
        }
        let silent = try asked(nil)
        #expect(silent.status == 0 && silent.said.contains("cannot be reached"), "\(silent.said)")
        #expect(!silent.said.contains("No advisory"))
    }
}
