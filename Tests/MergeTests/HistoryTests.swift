import Foundation
import Model
import Support
import Testing

@testable import Merge

/// A repository with random history, and the results of `git merge` for its merges.
@Suite("Merging like git") struct HistoryTests {
    private struct Side {
        var texts: [[String]]

        mutating func edit(_ random: inout SeededRandom) {
            for number in texts.indices where !random.oneIn(3) {
                for _ in 0...random.below(3) { texts[number] = Side.edited(texts[number], &random) }
            }
        }

        /// There are few different lines, so that a difference can be expressed in many ways.
        static func line(_ random: inout SeededRandom) -> String {
            random.oneIn(2)
                ? random.pick(["", "}", "    return", "{", "\tx = 1\r"])
                : "line \(random.below(60))"
        }

        private static func edited(_ lines: [String], _ random: inout SeededRandom) -> [String] {
            var lines = lines
            let at = random.below(lines.count + 1)
            let end = min(lines.count, at + random.below(4))
            switch random.below(4) {
            case 0: lines.removeSubrange(at..<end)
            case 1: lines.replaceSubrange(at..<end, with: [line(&random)])
            case 2:
                let moved = Array(lines[at..<end])
                lines.removeSubrange(at..<end)
                lines.insert(contentsOf: moved, at: random.below(lines.count + 1))
            default: lines.insert(contentsOf: [line(&random), line(&random)], at: at)
            }
            return lines
        }

        func write(to directory: TemporaryDirectory) throws {
            for (number, lines) in texts.enumerated() {
                // Every third file ends without a newline.
                let end = number.isMultiple(of: 3) ? "" : "\n"
                try directory.write(lines.joined(separator: "\n") + end, to: "f\(number)")
            }
        }
    }

    @Test("a merge is clean where git's is, with the same bytes; else it is a conflict")
    func merges() throws {
        let repository = try TemporaryDirectory("history")
        let bench = try MergeBench()
        var random = SeededRandom(named: "history", usual: 41)
        func git(_ arguments: String..., ok: Set<Int32> = [0]) throws -> String {
            let names = ["-c", "user.name=c", "-c", "user.email=c", "-c", "commit.gpgsign=false"]
            let result = try Command(
                "git", arguments: ["-C", repository.path] + names + arguments
            ).run()
            #expect(ok.contains(result.status), "\(arguments): \(result.errors)")
            return result.output.trimmingCharacters(in: .newlines)
        }
        func commit(_ side: Side) throws -> String {
            try side.write(to: repository)
            _ = try git("add", "-A")
            _ = try git("commit", "-qm", "c", "--allow-empty")
            return try git("rev-parse", "HEAD")
        }
        func bytes(_ commit: String, _ name: String) throws -> [UInt8] {
            Array(
                try Command("git", "-C", repository.path, "show", "\(commit):\(name)").run()
                    .outputData)
        }
        _ = try git("init", "-q")
        var (clean, conflicts) = (0, 0)
        for _ in 0..<16 {
            let start = (0..<8).map { _ in
                (0..<(5 + random.below(60))).map { _ in Side.line(&random) }
            }
            let base = Side(texts: start)
            let first = try commit(base)
            var (mine, other) = (base, base)
            mine.edit(&random)
            other.edit(&random)
            let theirs = try commit(other)
            _ = try git("checkout", "-q", first)
            let ours = try commit(mine)
            _ = try git("merge", "-q", "--no-edit", "-m", "m", theirs, ok: [0, 1])
            let unmerged = Set(
                try git("diff", "--name-only", "--diff-filter=U").split(separator: "\n"))
            for name in start.indices.map({ "f\($0)" }) {
                let outcome = try bench.merge(
                    name, try bytes(first, name), try bytes(ours, name), try bytes(theirs, name))
                if unmerged.contains(Substring(name)) {
                    conflicts += 1
                    #expect(outcome.isConflict, "\(name) of \(ours) and \(theirs)")
                } else {
                    let found = FileManager.default.contents(atPath: "\(repository.path)/\(name)")
                    guard case .clean(let bytes, _) = outcome else {
                        Issue.record("\(name) of \(ours) and \(theirs): \(outcome)")
                        continue
                    }
                    clean += 1
                    #expect(bytes == found.map { Array($0) }, "\(name) of \(ours) and \(theirs)")
                }
            }
            _ = try git("reset", "-q", "--hard", ours)
        }
        #expect(clean > 30 && conflicts > 15, "\(clean) clean, \(conflicts) in conflict")
        #expect(bench.left.isEmpty)
    }
}
