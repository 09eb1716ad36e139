import Foundation
import Testing

/// The article Rows, and the tests that it names.
@Suite("Rows of the sessions") struct RowsTests {
    private static let repository = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().path

    /// By row: where the article says that the row is tested.
    private func rows() throws -> [String: String] {
        let article = "Sources/FileCoordination/FileCoordination.docc/Rows.md"
        var rows: [String: String] = [:]
        for line in try text("\(Self.repository)/\(article)").split(separator: "\n") {
            let cells = line.split(separator: "|").map {
                $0.trimmingCharacters(in: .whitespaces)
            }
            let isRow = cells.first?.wholeMatch(of: /[AB]\d+(\.\d+)?/) != nil
            if cells.count == 3, isRow { rows[cells[0]] = cells[2] }
        }
        return rows
    }

    /// By row: the suites with a test whose title has the row's number.
    private func tests() throws -> [String: Set<String>] {
        var tests: [String: Set<String>] = [:]
        let directory = "\(Self.repository)/Tests"
        for name in try FileManager.default.subpathsOfDirectory(atPath: directory)
        where name.hasSuffix("Tests.swift") {
            let suite = URL(filePath: name).deletingPathExtension().lastPathComponent
            let code = try text("\(directory)/\(name)")
            for title in code.matches(of: /@Test\(\s*"([^"]*)"/) {
                for row in title.1.matches(of: /\b[AB]\d+(\.\d+)?\b/) {
                    tests[String(row.0), default: []].insert(suite)
                }
            }
        }
        return tests
    }

    @Test("each row names its tests, and they name it; or it is advice") func named() throws {
        let (rows, tests) = (try rows(), try tests())
        for (chapter, count) in [17: 8, 18: 28, 19: 6, 20: 7, 21: 1, 22: 7] {
            for number in 1...count {
                let row = "A\(chapter).\(number)"
                #expect(rows[row] != nil, "\(row)")
            }
        }
        #expect(rows["A23"] != nil)
        for (row, place) in rows where !place.hasPrefix("advice: ") {
            let suites = place.matches(of: /[A-Za-z]+Tests\b/).map { String($0.0) }
                .filter { $0 != "SyncTests" }
            #expect(!suites.isEmpty, "\(row)")
            for suite in suites { #expect(tests[row]?.contains(suite) == true, "\(row): \(suite)") }
        }
    }

    @Test("each row that code or a test cites exists") func cited() throws {
        let rows = try rows()
        for directory in ["Sources", "Tests"] {
            let directory = "\(Self.repository)/\(directory)"
            for name in try FileManager.default.subpathsOfDirectory(atPath: directory)
            where name.hasSuffix(".swift") {
                for row in try text("\(directory)/\(name)").matches(of: /\b[AB]\d+\.\d+\b/) {
                    #expect(rows[String(row.0)] != nil, "\(name): \(row.0)")
                }
            }
        }
    }
}
