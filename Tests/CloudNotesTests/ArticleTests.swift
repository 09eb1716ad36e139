import Foundation
import Testing

/// The code in the articles about the programs is the programs' code.
@Suite("Articles of programs") struct ArticleTests {
    private let sources = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "Sources")

    /// The file's text without indentation and empty lines.
    private func text(_ path: String) throws -> String {
        try String(contentsOf: sources.appending(path: path), encoding: .utf8)
            .split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
            .joined(separator: "\n")
    }

    @Test(
        "each piece of code is in the program",
        arguments: [
            ("CloudNotes", ["Note", "Conflict"], 2), ("Shoebox", ["Shoebox"], 3),
        ])
    func pieces(program: String, files: [String], count: Int) throws {
        let code = try files.map { try text("\(program)/\($0).swift") }
        let article = try text("FileCoordination/FileCoordination.docc/\(program).md")
        let shown = article.components(separatedBy: "```swift\n").dropFirst().map {
            $0.components(separatedBy: "\n```")[0]
        }
        #expect(shown.count == count)
        for piece in shown { #expect(code.contains { $0.contains(piece) }, "\(piece)") }
    }

    @Test("the document class of CloudNotes fits one screen") func oneScreen() throws {
        #expect(try text("CloudNotes/Note.swift").split(separator: "\n").count <= 50)
    }
}
