import Foundation
import Glibc
import Support
import Synchronization
import Testing

@testable import FileCoordination

/// The program of the article Documents.
@Suite("The documented notes program") struct NotesProgramTests {
    @Test("it is what the article shows, and has fifty lines")
    func article() throws {
        let here = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent()
        let code = try text(here.appending(path: "NotesProgram/main.swift").path)
        let article = here.deletingLastPathComponent().appending(
            path: "Sources/FileCoordination/FileCoordination.docc/Documents.md")
        #expect(try text(article.path).contains("```swift\n\(code)```\n"))
        #expect(code.split(separator: "\n", omittingEmptySubsequences: false).count <= 51)
    }

    @Test("A18.1, A18.28: two programs show the same note, and each shows the other's text")
    func two() throws {
        try withTurns([]) { root in
            let path = "\(root)/letter.txt"
            let one = try NotesProgram(path)
            try wait(for: "the note") { FileManager.default.fileExists(atPath: path) ? true : nil }
            let (two, other) = (try NotesProgram(path), try Program())
            try two.wait(for: "(green)")
            try one.type("dear reader")
            // It saves for a reader earlier than it would by itself.
            try wait(for: "the text") {
                try other.claim("r", "read:\(path)")
                let read = try other.file("get \(path)").text
                try other.end("r")
                return read == "dear reader\n" ? true : nil
            }
            try two.wait(for: "---\ndear reader\n---")
            try two.type("dear writer")
            try one.wait(for: "---\ndear reader\ndear writer\n---")
            try one.quit()
            try two.quit()
            #expect(try text(path) == "dear reader\ndear writer\n")
        }
    }

    @Test(
        "a signal that ends the program saves first; the second one ends it at once",
        arguments: [SIGTERM, SIGINT, SIGHUP])
    func ended(_ number: Int32) throws {
        try withTurns(["a.txt"]) { root in
            let path = "\(root)/a.txt"
            let blocked = try Unsaved(path, "block\n")
            for word in ["unsaved", "blocked"] { try blocked.wait(for: word) }
            blocked.child.send(number)
            // The kernel keeps only one signal of each number until it is handled.
            try wait(for: "the first signal") {
                let status = try text("/proc/\(blocked.child.pid)/status")
                return status.contains("ShdPnd:\t0000000000000000") ? true : nil
            }
            blocked.child.send(number)
            #expect(try blocked.child.waitForEnd(seconds: 60) == 128 + number)
            #expect(try text(path) == "old")
            let document = try Unsaved(path, "")
            try document.wait(for: "unsaved")
            document.child.send(number)
            #expect(try document.child.waitForEnd(seconds: 60) == 128 + number)
            #expect(try text(path) == "unsaved")
        }
    }

    @Test("code continues on the main actor after an await, also when optimized")
    func homecoming() throws {
        try withTurns([]) { root in
            let result = try Command("\(Programs.directory)/turns-program", "home", root).run()
            #expect(result.output == "{\"at\":\"home\",\"name\":\"all\"}\n")
            #expect(result.status == 0, "\(result.errors)")
        }
    }
}

/// A running `turns-program unsaved`.
private final class Unsaved {
    let child: ChildProcess
    private let output = Pipe()

    init(_ path: String, _ typed: String) throws {
        let input = Pipe()
        child = try ChildProcess(
            Programs.path("turns-program"), ["unsaved", path],
            input: input.fileHandleForReading.fileDescriptor,
            output: output.fileHandleForWriting.fileDescriptor, errors: 2)
        try input.fileHandleForWriting.write(contentsOf: Data(typed.utf8))
        try input.fileHandleForWriting.close()
    }

    deinit { child.killGroup() }

    /// Reads its next line.
    func wait(for word: String) throws {
        var line = Data()
        while line.last != 0x0A {
            guard let byte = try output.fileHandleForReading.read(upToCount: 1) else { break }
            line += byte
        }
        #expect(String(decoding: line, as: UTF8.self).contains(word))
    }
}

/// A running notes program, and its output.
private final class NotesProgram {
    private let child: ChildProcess
    private let input = Pipe()
    private let output: String
    private let home: TemporaryDirectory

    init(_ path: String) throws {
        home = try TemporaryDirectory("notes")
        output = "\(home.path)/said"
        try Data().write(to: URL(filePath: output))
        let said = try FileHandle(forWritingTo: URL(filePath: output))
        // The output goes to a terminal, because a pipe would be buffered until the program ends.
        child = try ChildProcess(
            "stdbuf", ["-oL", Programs.path("notes-program"), path],
            input: input.fileHandleForReading.fileDescriptor,
            output: said.fileDescriptor, errors: said.fileDescriptor)
    }

    deinit { child.killGroup() }

    func type(_ line: String) throws {
        try input.fileHandleForWriting.write(contentsOf: Data("\(line)\n".utf8))
    }

    func wait(for shown: String) throws {
        let said = { try text(self.output) }
        try Support.wait(for: "\(shown); it said \((try? said()) ?? "")") {
            try said().contains(shown) ? true : nil
        }
    }

    /// Ends its input.
    func quit() throws {
        try input.fileHandleForWriting.close()
        guard try child.waitForEnd(seconds: 30) == 0 else {
            throw SupportError("the notes program failed: \(try text(output))")
        }
    }
}
