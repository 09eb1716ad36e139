import Testing

@testable import chaos

/// Histories in which several users work, or time passes.
@Suite("The checker of users and ages") struct UserCheckerTests {
    private func kinds(_ change: (inout HandWrittenHistory) -> Void) -> [Violation.Kind] {
        var told = HandWrittenHistory()
        told.act("dev0", "mkdir own0")
        change(&told)
        told.found("dev0", "own0", nil, "directory 755")
        told.settle()
        return told.violations
    }

    private func isLeak(mode: String, reader: String, after: String? = nil) -> Bool {
        let kinds = kinds { told in
            told.act("dev0", "mkdir own0/users")
            told.act("dev0", "save-as own0/users/a games 4000 \(mode)", content: "U1")
            if let after { told.act("dev0", after) }
            told.add(.readBy, "dev1") {
                ($0.path, $0.content, $0.detail) = ("own0/users/a", "U1", reader)
                $0.verb = ["versions"]
            }
        }
        return kinds.contains(.leaked)
    }

    @Test("finds that a user reads what another one saved privately") func leaked() {
        #expect(isLeak(mode: "600", reader: "news"))
        #expect(!isLeak(mode: "600", reader: "games"))
        #expect(!isLeak(mode: "644", reader: "news"))
        #expect(!isLeak(mode: "600", reader: "news", after: "rewind own0 3"))
    }

    @Test("finds a link that leads to a document after it was revoked, or to other contents")
    func visited() {
        func kinds(_ outcome: String, content: String = "A1", fault: String? = nil)
            -> [Violation.Kind]
        {
            self.kinds { told in
                told.save("dev0", "own0/a", "A1")
                if let fault { told.add(.fault, "hub") { $0.verb = [fault] } }
                told.act("dev0", "visit own0/a", content: content, outcome: outcome)
                for device in ["dev0", "dev1"] { told.found(device, "own0/a", "A1") }
                told.found("dev1", "own0", nil, "directory 755")
            }
        }
        #expect(kinds("ok") == [])
        #expect(kinds("ok", content: "X") == [.invented])
        #expect(kinds("still open") == [.leaked])
        #expect(!kinds("still open", fault: "roll-back").contains(.leaked))
        #expect(kinds("status 404") == [])
    }

    @Test("finds that a user knows of a version, by its id or its number") func told() {
        func kinds(_ reader: String, _ change: (inout Event) -> Void) -> [Violation.Kind] {
            self.kinds { told in
                told.act("dev0", "mkdir own0/users")
                told.act("dev0", "save-as own0/users/a games 4000 600", content: "U1")
                told.add(.version, "dev1") {
                    ($0.path, $0.content, $0.detail) = ("own0/users/a", "U1", "history")
                    ($0.document, $0.version, $0.number) = ("d", "v", 3)
                }
                told.add(.readBy, "dev1") {
                    ($0.path, $0.detail, $0.verb) = ("own0/users/a", reader, ["versions"])
                    change(&$0)
                }
            }
        }
        #expect(kinds("news") { $0.version = "v" }.contains(.leaked))
        #expect(kinds("news") { ($0.document, $0.number) = ("d", 3) }.contains(.leaked))
        #expect(!kinds("games") { $0.version = "v" }.contains(.leaked))
        #expect(!kinds("news") { $0.version = "another" }.contains(.leaked))
        #expect(!kinds("news") { ($0.document, $0.number) = ("d", 4) }.contains(.leaked))
    }

    @Test("retention may remove what is older than a day, but nothing later, and not the newest")
    func thinned() {
        func kinds(_ saves: [String], held: String) -> [Violation.Kind] {
            self.kinds { told in
                for content in saves {
                    if content == "sleep" {
                        told.add(.fault, "all") { $0.verb = ["sleep", "2"] }
                    } else {
                        told.save("dev0", "own0/a", content)
                    }
                }
                told.found("dev0", "own0/a", held)
                told.found("dev1", "own0/a", held)
                told.found("dev1", "own0", nil, "directory 755")
            }
        }
        #expect(kinds(["A1", "A2", "sleep"], held: "A2") == [])
        #expect(kinds(["A1", "sleep", "A2"], held: "A2") == [])
        #expect(kinds(["A1", "A2"], held: "A2") == [.lost])
        #expect(kinds(["sleep", "A1", "A2"], held: "A2") == [.lost])
    }

    @Test("a rewind with a wrong clock may mean another time") func clocks() {
        func kinds(_ isSet: Bool) -> [Violation.Kind] {
            self.kinds { told in
                told.at = 1_000
                told.save("dev0", "own0/a", "A1")
                told.at = 5_000
                told.save("dev0", "own0/a", "A2")
                if isSet { told.add(.fault, "dev0") { $0.verb = ["clock", "-86400"] } }
                told.at = 9_000
                told.add(.began, "dev0") { ($0.action, $0.verb) = (99, ["rewind", "own0/a", "3"]) }
                told.add(.observed, "dev0") {
                    ($0.action, $0.path, $0.detail) = (99, "own0/a", "file")
                    ($0.content, $0.verb) = ("A1", ["rewind", "own0/a", "3"])
                }
                told.add(.did, "dev0") {
                    ($0.action, $0.path, $0.outcome) = (99, "own0/a", "ok")
                    $0.verb = ["rewind", "own0/a", "3"]
                }
                for device in ["dev0", "dev1"] { told.found(device, "own0/a", "A1") }
                told.found("dev1", "own0", nil, "directory 755")
                told.version("dev0", "own0/a", "A2")
            }
        }
        #expect(kinds(false) == [.told])
        #expect(kinds(true) == [])
    }
}
