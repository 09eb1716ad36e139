import Testing

@testable import chaos

/// Histories with packages, databases, rewinds and lost state.
@Suite("The checker of documents") struct DocumentCheckerTests {
    private func told(_ body: (inout HandWrittenHistory) -> Void) -> [Violation.Kind] {
        var told = HandWrittenHistory()
        told.act("dev0", "mkdir own0")
        body(&told)
        for actor in ["dev0", "dev1"] { told.found(actor, "own0", nil, "directory 755") }
        told.settle()
        return told.violations
    }

    private func found(
        _ told: inout HandWrittenHistory, _ path: String, _ content: String, _ kind: String
    ) {
        for actor in ["dev0", "dev1"] { told.found(actor, path, content, "\(kind) 644") }
        told.version("dev0", path, content, "current")
    }

    private func package(_ told: inout HandWrittenHistory, _ content: String) {
        told.act("dev0", "package own0/p.rtfd exchange 9", content: content)
    }

    @Test("a package's save is owed when it was waited for, or is the last") func packages() {
        func kinds(isPromised: Bool, last: String) -> [Violation.Kind] {
            told { told in
                package(&told, "P1")
                if isPromised {
                    told.add(.promised, "dev0") {
                        ($0.path, $0.content, $0.detail) = ("own0/p.rtfd", "P1", "disk")
                    }
                }
                package(&told, "P2")
                found(&told, "own0/p.rtfd", last, "package")
            }
        }
        #expect(kinds(isPromised: false, last: "P2") == [])
        #expect(kinds(isPromised: true, last: "P2") == [.lost])
        #expect(kinds(isPromised: false, last: "P1") == [.tree])
    }

    @Test("a package with files of two saves is invented, unless a fault interrupted one")
    func mixtures() {
        func kinds(_ fault: String?, of actor: String = "dev0") -> [Violation.Kind] {
            told { told in
                package(&told, "P1")
                package(&told, "P2")
                if let fault { told.add(.fault, actor) { $0.verb = [fault] } }
                found(&told, "own0/p.rtfd", "P2", "package")
                told.version("dev0", "own0/p.rtfd", "P1/P2…")
            }
        }
        #expect(kinds(nil) == [.invented])
        #expect(kinds("kill") == [])
        #expect(kinds("kill", of: "dev1") == [.invented])
        #expect(kinds("sleep", of: "all") == [])
    }

    private func transact(_ told: inout HandWrittenHistory, committed: [String]) {
        for kind in [Event.Kind.began, .did] {
            told.add(kind, "dev0") {
                ($0.path, $0.verb) = ("own0/data.sqlite", ["transact", "own0/data.sqlite", "2"])
                $0.action = 9
                $0.rows = kind == .began ? ["1", "2"] : committed
                if kind == .did { $0.outcome = "ok" }
            }
        }
    }

    @Test("committed rows are owed, and a database is whole") func databases() {
        func kinds(_ rows: [String], content: String = "D") -> [Violation.Kind] {
            told { told in
                transact(&told, committed: ["1"])
                for actor in ["dev0", "dev1"] {
                    told.add(.item, actor) {
                        ($0.path, $0.content, $0.detail) = ("own0/data.sqlite", content, "file 644")
                        $0.rows = rows
                    }
                }
            }
        }
        #expect(kinds(["1"]) == [])
        #expect(kinds(["1", "2"]) == [])
        #expect(kinds(["2"]) == [.lost])
        #expect(kinds(["1", "3"]) == [.invented])
        #expect(Set(kinds(["1"], content: "damaged")) == [.invented])
    }

    private func rewound(to content: String?, _ seconds: Int) -> [Violation.Kind] {
        var told = HandWrittenHistory()
        told.act("dev0", "mkdir own0")
        told.at = 10_000
        told.save("dev0", "own0/a", "A1")
        told.at = 20_000
        told.save("dev0", "own0/a", "A2", base: "A1")
        told.at = 30_000
        let verb = ["rewind", "own0/a", "\(seconds)"]
        told.add(.began, "dev0") { ($0.action, $0.verb, $0.path) = (99, verb, "own0/a") }
        told.add(.observed, "dev0") {
            ($0.action, $0.verb, $0.path, $0.content) = (99, verb, "own0/a", content)
            $0.detail = content == nil ? "nothing" : "file"
        }
        told.add(.did, "dev0") {
            ($0.action, $0.verb, $0.path, $0.outcome) = (99, verb, "own0/a", "ok")
        }
        for actor in ["dev0", "dev1"] {
            told.found(actor, "own0", nil, "directory 755")
            if let content { told.found(actor, "own0/a", content) }
        }
        for content in ["A1", "A2"] { told.version("dev0", "own0/a", content) }
        told.settle()
        return told.violations
    }

    @Test("a rewind gives a file what it had then, removes nothing and invents nothing")
    func rewinds() {
        #expect(rewound(to: "A1", 15) == [])
        #expect(rewound(to: "A2", 5) == [])
        #expect(rewound(to: "A2", 15) == [.told])
        #expect(rewound(to: "A1", 5) == [.told])
        #expect(rewound(to: nil, 15) == [.tree])
        #expect(Set(rewound(to: "X", 15)) == [.told, .invented])
    }

    @Test("a rewind may show half of a save of a package if a fault interrupted the program")
    func rewindsToHalf() {
        func kinds(_ fault: String?) -> [Violation.Kind] {
            var told = HandWrittenHistory()
            told.act("dev0", "mkdir own0")
            told.act("dev0", "package own0/p.rtfd members 4000", content: "A1")
            if let fault { told.add(.fault, "dev0") { $0.verb = [fault] } }
            let verb = ["rewind", "own0/p.rtfd", "1"]
            told.add(.began, "dev0") { ($0.action, $0.verb, $0.path) = (99, verb, "own0/p.rtfd") }
            told.add(.observed, "dev0") {
                ($0.action, $0.verb, $0.path, $0.detail) = (99, verb, "own0/p.rtfd", "package")
                ($0.content, $0.writers) = ("half", "A0/A1…")
            }
            told.add(.did, "dev0") {
                ($0.action, $0.verb, $0.path, $0.outcome) = (99, verb, "own0/p.rtfd", "ok")
            }
            told.settle()
            return told.violations
        }
        #expect(!kinds("kill").contains(.told))
        #expect(kinds(nil).contains(.told))
    }

    @Test("what came back with a restored hub takes the name, and no rewind removed the other one")
    func rewindsAfterRestore() {
        func kinds(isRestored: Bool, isMarked: Bool) -> [Violation.Kind] {
            var told = HandWrittenHistory()
            for words in ["mkdir own0", "mkdir own0/d"] { told.act("dev0", words) }
            told.save("dev0", "own0/d/a", "A1")
            if isRestored { told.add(.fault, "hub") { $0.verb = ["roll-back"] } }
            let verb = ["rewind", "own0/d", "1"]
            told.add(.began, "dev0") { ($0.action, $0.verb, $0.path) = (99, verb, "own0/d") }
            told.add(.observed, "dev0") {
                ($0.action, $0.verb, $0.path, $0.detail) = (99, verb, "own0/d", "directory")
            }
            told.add(.did, "dev0") {
                ($0.action, $0.verb, $0.path, $0.outcome) = (99, verb, "own0/d", "ok")
            }
            let marked = "own0/d (dev0 2026-11-29 05.00.00)"
            for actor in ["dev0", "dev1"] {
                for path in ["own0", "own0/d"] + (isMarked ? [marked] : []) {
                    told.found(actor, path, nil, "directory 755")
                }
                if isMarked { told.found(actor, marked + "/a", "A1") }
            }
            told.version("dev0", "own0/d/a", "A1")
            told.settle()
            return told.violations
        }
        #expect(kinds(isRestored: true, isMarked: true) == [])
        #expect(kinds(isRestored: true, isMarked: false) == [.tree])
        #expect(kinds(isRestored: false, isMarked: true).contains(.tree))
    }

    @Test("what came back takes the name of a directory, and a program saves in either of the two")
    func savesAfterReturn() {
        func kinds(hasReturned: Bool) -> [Violation.Kind] {
            var told = HandWrittenHistory()
            for words in ["mkdir own0", "mkdir own0/d"] { told.act("dev0", words) }
            told.save("dev0", "own0/d/a", "A1")
            if hasReturned { told.add(.fault, "dev0") { $0.verb = ["sign-out"] } }
            // The backup of what was there before is in neither of them.
            told.act("dev0", "save own0/d/a backup 4000 unsynced", content: "A2")
            let marked = "own0/d (dev0 2026-11-29 05.00.00)"
            for actor in ["dev0", "dev1"] {
                for path in ["own0", "own0/d", marked] {
                    told.found(actor, path, nil, "directory 755")
                }
                told.found(actor, marked + "/a", "A1")
                told.found(actor, "own0/d/a", "A2")
            }
            told.settle()
            return told.violations
        }
        #expect(kinds(hasReturned: true) == [])
        #expect(kinds(hasReturned: false).contains(.tree))
    }

    @Test("a loss of power takes only what was not promised to be on the disk") func power() {
        func kinds(isPromised: Bool) -> [Violation.Kind] {
            told { told in
                told.save("dev0", "own0/a", "A1")
                if isPromised {
                    told.add(.promised, "dev0") {
                        ($0.path, $0.content, $0.detail) = ("own0/a", "A1", "disk")
                    }
                }
                told.add(.fault, "dev0") {
                    $0.verb = ["lose-power"]
                    $0.at = 1
                }
            }
        }
        #expect(kinds(isPromised: true).contains(.lost))
        #expect(!kinds(isPromised: false).contains(.lost))
    }

    @Test("a purge removes what is not current, and nothing that was saved later") func purges() {
        func kinds(_ saves: [String], _ held: [String]) -> [Violation.Kind] {
            told { told in
                for content in saves {
                    if content == "purge" {
                        told.act("dev0", "purge own0")
                    } else {
                        told.save("dev0", "own0/a", content)
                    }
                }
                found(&told, "own0/a", held[held.count - 1], "file")
                for content in held.dropLast() { told.version("dev0", "own0/a", content) }
            }
        }
        #expect(kinds(["A1", "A2", "purge"], ["A2"]) == [])
        #expect(kinds(["A1", "purge", "A2"], ["A2"]) == [])
        #expect(kinds(["A1", "purge", "A2", "A3"], ["A3"]) == [.lost])
    }
}
