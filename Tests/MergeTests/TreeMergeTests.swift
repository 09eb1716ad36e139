import Model
import Support
import Testing

@testable import Merge

private typealias Entry = TreeEntry<String>
private typealias Step = TreeMerge<String>.Step

private func file(_ path: String, _ content: String, _ attributes: [UInt8] = [6, 4, 4]) -> Entry {
    Entry(path: components(path), kind: .file(content), attributes: attributes)
}

private func directory(_ path: String) -> Entry { Entry(path: components(path), kind: .directory) }

private func directory(path: [Name]) -> Entry { Entry(path: path, kind: .directory) }

private func link(_ path: String, _ target: String) -> Entry {
    Entry(path: components(path), kind: .symlink(target: Array(target.utf8)))
}

@Suite("Merging packages") struct TreeMergeTests {
    private func steps(_ base: [Entry], _ ours: [Entry], _ theirs: [Entry]) -> [String] {
        TreeMerge(base: base, ours: ours, theirs: theirs).steps.map { step in
            let path = step.path.map(\.text).joined(separator: "/")
            let action =
                switch step.action {
                case .place(let side): "\(side)"
                case .remove: "remove"
                case .combine(.side(let side), let attributes): "\(side)+\(attributes)"
                case .combine(.merged, let attributes): "merge+\(attributes)"
                case .conflict: "conflict"
                }
            return "\(path) \(action)"
        }
    }

    @Test("the changes of each side are taken") func disjoint() {
        let base = [file("a", "1"), file("b", "1"), file("c", "1"), file("d", "1"), file("e", "1")]
        let ours = [file("a", "2"), file("b", "1"), file("d", "1"), file("e", "1"), file("f", "1")]
        let theirs = [
            file("a", "1"), file("b", "2"), file("c", "1"), file("e", "1"), file("g", "1"),
        ]
        #expect(
            steps(base, ours, theirs) == [
                "a ours", "b theirs", "c remove", "d remove", "e ours", "f ours", "g theirs",
            ])
    }

    @Test(
        "one entry, changed in every way",
        arguments: [
            (file("a", "0"), file("a", "1"), file("a", "2"), "merge+ours"),
            (file("a", "0"), file("a", "1"), file("a", "1"), "ours"),
            (file("a", "0", [1]), file("a", "1", [1]), file("a", "0", [2]), "ours+theirs"),
            (file("a", "0", [1]), file("a", "0", [2]), file("a", "1", [1]), "theirs+ours"),
            (file("a", "0", [1]), file("a", "1", [1]), file("a", "2", [2]), "merge+theirs"),
            (file("a", "0", [1]), file("a", "0", [2]), file("a", "0", [3]), "conflict"),
            (file("a", "0"), nil, file("a", "1"), "conflict"),
            (file("a", "0"), file("a", "1"), nil, "conflict"),
            (file("a", "0"), nil, nil, "remove"), (nil, file("a", "1"), file("a", "1"), "ours"),
            (nil, file("a", "1"), file("a", "2"), "conflict"),
            (file("a", "0"), directory("a"), file("a", "0"), "ours"),
            (file("a", "0"), directory("a"), file("a", "1"), "conflict"),
            (link("a", "x"), link("a", "y"), link("a", "x"), "ours"),
            (link("a", "x"), link("a", "y"), link("a", "z"), "conflict"),
            (link("a", "x"), link("a", "x"), link("a", "z"), "theirs"),
        ] as [(TreeEntry<String>?, TreeEntry<String>?, TreeEntry<String>?, String)])
    func entry(
        base: TreeEntry<String>?, ours: TreeEntry<String>?, theirs: TreeEntry<String>?,
        action: String
    ) {
        #expect(
            steps([base].compactMap(\.self), [ours].compactMap(\.self), [theirs].compactMap(\.self))
                == ["a \(action)"])
    }

    @Test("no entry remains in something that is not a directory any more") func structure() {
        let base = [directory("d"), file("d/a", "1")]
        #expect(
            steps(base, [], base + [file("d/b", "1")])
                == ["d remove", "d/a remove", "d/b conflict"])
        #expect(
            steps(base, [file("d", "1")], base + [directory("d/e"), file("d/e/f", "1")])
                == ["d ours", "d/a remove", "d/e conflict", "d/e/f conflict"])
        #expect(
            steps([], [directory("d"), file("d/a", "1")], [directory("d"), file("d/b", "1")])
                == ["d ours", "d/a ours", "d/b theirs"])
        #expect(steps(base, [], base) == ["d remove", "d/a remove"])
    }

    @Test("exchanging the sides exchanges the steps") func symmetry() {
        var random = SeededRandom(named: "packages", usual: 5)
        let paths = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/f"]
        func tree(from old: [Entry]) -> [Entry] {
            var entries: [Entry] = []
            for path in paths {
                var entry = old.first { $0.path == components(path) }
                if random.oneIn(3) {
                    let new = random.pick([0, 1, 2])
                    entry = [nil, file(path, "\(random.below(3))"), directory(path)][new]
                }
                // Only a directory may contain entries.
                let above = Array(components(path).dropLast())
                let hasPlace = above.isEmpty || entries.contains(directory(path: above))
                if let entry, hasPlace { entries.append(entry) }
            }
            return entries
        }
        var conflicts = 0
        for _ in 0..<2000 {
            let base = tree(from: [])
            let (ours, theirs) = (tree(from: base), tree(from: base))
            let merged = TreeMerge(base: base, ours: ours, theirs: theirs)
            let mirrored = TreeMerge(base: base, ours: theirs, theirs: ours)
            #expect(merged.conflicts.map(\.path) == mirrored.conflicts.map(\.path))
            conflicts += merged.conflicts.count
            #expect(Set(merged.steps.map(\.path)) == Set((base + ours + theirs).map(\.path)))
            #expect(TreeMerge(base: base, ours: ours, theirs: base).conflicts.isEmpty)
            #expect(TreeMerge(base: base, ours: base, theirs: theirs).conflicts.isEmpty)
        }
        #expect(conflicts > 100)
    }

    @Test("files of a package are merged by the rules; one conflict makes the package one")
    func package() throws {
        let bench = try MergeBench(rules: "*.off automerge=off\n*.pkg/ask automerge=ask\n")
        func outcome(
            _ names: [String], _ change: (String) -> (String, String), path: String = "x.pkg"
        )
            throws -> String
        {
            let base = names.map { file($0, "1\n2\n3\n4\n") }
            let outcome = try bench.merger.merge(
                package: components(path), base: base,
                ours: names.map { file($0, change($0).0) },
                theirs: names.map { file($0, change($0).1) }
            ) { entry throws(VolumeError) in
                guard case .file(let text) = entry.kind else {
                    throw VolumeError(.invalid, "no file")
                }
                return .bytes(Array(text.utf8))
            }
            switch outcome {
            case .clean(_, let merged):
                return merged.sorted { $0.key.lexicographicallyPrecedes($1.key) }
                    .map { "\($0.key[0]): \(String(decoding: $0.value, as: UTF8.self))" }.joined()
            case .conflict(let why): return "conflict: \(why)"
            case .unmergeable(let why): return "unmergeable: \(why)"
            case .ask: return "ask"
            }
        }
        let clean = ("X\n2\n3\n4\n", "1\n2\n3\nY\n")
        #expect(
            try outcome(["a", "b"]) { _ in clean }
                == "a: X\n2\n3\nY\nb: X\n2\n3\nY\n")
        #expect(
            try outcome(["a", "b"]) { $0 == "a" ? clean : ("8", "9") }
                .hasPrefix("conflict: In the package, “b”: By text"))
        #expect(try outcome(["a", "ask"]) { _ in clean } == "ask")
        #expect(try outcome(["a"], { _ in clean }, path: "x.off").contains("line 1 turns"))
        #expect(
            try outcome(["a"]) { _ in ("\0", "\u{1}") }.hasPrefix(
                "unmergeable: In the package, “a”"))
    }
}
