import Foundation
import Glibc
import Support
import SystemCalls
import Testing

@testable import chaos

/// A plain directory behaves as the checker expects of POSIX.
@Suite("The model of a tree") struct OwnTreeTests {
    @Test("behaves like a directory on a disk", arguments: [UInt64(11), 12, 13])
    func same(seed: UInt64) throws {
        let home = try TemporaryDirectory("own")
        var plan = Plan(seed: seed, devices: 1, actions: 600)
        var tree = OwnTree()
        for action in plan.round() where action.verb.paths.first?.hasPrefix("own0") == true {
            guard let (outcome, content) = try perform(action, in: home.path) else { continue }
            let answer = tree.apply(action.verb, content: content)
            #expect(answer == (outcome == "ok" ? .ok : .refused(outcome)), "\(action)")
        }
        let found = try FileManager.default.subpathsOfDirectory(atPath: home.path)
        let names = found.filter { !Package.isInside($0) }
        #expect(names.sorted() == tree.nodes.keys.filter { !$0.isEmpty }.sorted())
        for path in found {
            guard case .some(.some(let expected)) = tree.content(path) else { continue }
            if Package.isNamed(path) {
                #expect(try Package.content(at: "\(home.path)/\(path)").name == expected)
                continue
            }
            let bytes = try Data(contentsOf: URL(filePath: "\(home.path)/\(path)"))
            #expect(Content.name(bytes) == expected, "\(path)")
        }
    }

    @Test("a save of a package removes the draft of an interrupted one") func draft() {
        var tree = OwnTree()
        tree.observe("p.rtfd.draft", "directory", nil)
        #expect(tree.apply(.package("p.rtfd", .exchange, size: 9), content: "P1") == .ok)
        #expect(Set(tree.nodes.keys) == ["", "p.rtfd"])
        tree.observe("p.rtfd.draft", "directory", nil)
        #expect(tree.apply(.package("p.rtfd", .members, size: 9), content: "P2") == .ok)
        #expect(tree.nodes["p.rtfd.draft"] == .directory)
    }

    /// Returns nil for verbs that only Concord has.
    private func perform(_ action: Action, in root: String) throws -> (String, String?)? {
        var content: String?
        do throws(Errno) {
            guard try did(action, in: root, &content) else { return nil }
            return ("ok", content)
        } catch { return (ProgramCalls.name(error), content) }
    }

    private func did(
        _ action: Action, in root: String, _ content: inout String?
    ) throws(Errno) -> Bool {
        switch action.verb {
        case .save(let path, let way, let size, _):
            let whole = WholeContent(writer: "dev0", sequence: action.number)
            let bytes = whole.bytes(length: size)
            content = Content.name(bytes)
            try way.save(bytes, to: "\(root)/\(path)", synced: false)
        case .change(let path, let way, let size):
            var new: String?
            defer { content = new }
            try ProgramCalls.change(
                "\(root)/\(path)", way, writer: "dev0", number: action.number, size: size
            ) { new = Content.name($1) }
        case .package(let path, let way, let size):
            let package = Package(writer: "dev0", number: action.number, size: size)
            content = package.content.name
            try package.save(to: "\(root)/\(path)", way)
        case .transact(let path, let rows):
            let database = Database(path: "\(root)/\(path)")
            let added = database.rows(of: "dev0.\(action.number)", count: rows)
            let done = database.insert(added)
            #expect(done.rows.sorted() == added && done.errors == "", "\(done)")
        case .saveAs(_, let path, let size, _):
            // Other users cannot reach this directory; for the tree it makes no difference.
            let whole = WholeContent(writer: "dev0", sequence: action.number)
            content = Content.name(whole.bytes(length: size))
            try SavePattern.replace.save(
                whole.bytes(length: size), to: "\(root)/\(path)", synced: false)
        case .read(let path): content = Content.name(try ProgramCalls.read("\(root)/\(path)"))
        case .wait, .restore, .evict, .pin, .unpin, .hold, .rewind, .purge: return false
        default: try ProgramCalls.changeNames(action.verb, in: root)
        }
        return true
    }
}
