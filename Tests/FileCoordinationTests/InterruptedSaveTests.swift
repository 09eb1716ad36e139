import Foundation
import Support
import Testing

/// A process that ends while it saves a package. What another program has saved there, and the
/// document had not seen, is never lost, and nothing stays beside the package.
@Suite("Saves of packages whose process ends") struct InterruptedSaveTests {
    @Test("at any step: the next program that opens the package finds all of it")
    func anyStep() throws {
        let killer = try StepKiller(program: "turns-program")
        try withTurns([]) { root in
            var calls: [String] = []
            while let call = try interrupt("\(root)/\(calls.count).rtfd", killer, calls.count + 1) {
                calls.append(call)
            }
            // Once it ended between the exchange and the request that makes a conflict version.
            let exchange = try #require(calls.firstIndex(of: "renameat2"))
            #expect(calls[exchange...].contains("connect"), "\(calls)")
        }
    }

    /// Returns the call before which the saving process was ended; nil when the save ended first.
    private func interrupt(_ path: String, _ killer: StepKiller, _ step: Int) throws -> String? {
        let root = URL(filePath: path).deletingLastPathComponent()
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: false)
        for part in ["text", "page"] {
            try Data("old".utf8).write(to: URL(filePath: "\(path)/\(part)"))
        }
        _ = try versions(of: path)
        let editor = try Program("documents", environment: killer.environment)
        for command in ["open a \(path)", "deaf a yes", "type a mine"] { try editor.file(command) }
        try stranger("printf theirs > \(path)/text")
        try editor.file("deaf a no")
        killer.arm(at: step)
        try editor.tell("save a")
        try wait(for: "the save or its end") {
            editor.has("done", "save") != nil || !killer.call.isEmpty ? true : nil
        }
        killer.disarm()
        editor.kill9()

        let next = try Program("documents")
        try next.file("open a \(path)")
        let shown = try #require(try next.file("show a").text)
        #expect(["mine", "theirs"].contains(shown), "\(killer.call)")
        let all = try [shown] + conflicts(of: path)
        #expect(all.contains("theirs"), "\(killer.call): there is \(all)")
        #expect(try drafts(in: root) == [], "\(killer.call)")
        for command in ["type a next", "save a"] { try next.file(command) }
        #expect(try text("\(path)/text") == "next")
        #expect(try drafts(in: root) == [])
        #expect(try conflicts(of: path) == Array(all.dropFirst()))
        try next.file("close a")
        return killer.call.isEmpty ? nil : killer.call
    }

    private func conflicts(of path: String) throws -> [String] {
        let url = URL(filePath: path)
        let root = url.deletingLastPathComponent().path
        return try versions(of: path).versions.filter { $0.kind == "conflict" }.map { version in
            try text("\(root)/.conflicts/\(url.lastPathComponent)/\(version.fileName.text)/text")
        }
    }

    private func drafts(in root: URL) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: root.path).filter {
            $0.hasPrefix(".#")
        }
    }
}
