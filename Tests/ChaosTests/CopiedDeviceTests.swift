import Testing

@testable import chaos

/// A device and a copy of it work like two devices, so what the one does later can be in conflict
/// with what the other one has.
@Suite("Copied devices") struct CopiedDeviceTests {
    /// What both had when the store was copied is still in conflict after the device has read it.
    @Test("a read is no newer save", arguments: ["copy-store", "kill"])
    func read(fault: String) {
        var told = HandWrittenHistory()
        told.save("dev0", "own0/a", "A1")
        told.add(.fault, "dev0") { $0.verb = [fault] }
        told.act("dev0", "hold own0/a 100", content: "A1")
        told.save("dev0", "own0/a", "A2", base: "A1")
        settle(&told, "own0/a", conflict: "A1", current: "A2")
        #expect(told.violations.contains(.conflict) == (fault == "kill"))
    }

    /// The log of a database is copied, too, and a program applies it on each of the two.
    @Test("rows of which a program was told nothing count", arguments: ["copy-store", "kill"])
    func rows(fault: String) {
        var told = HandWrittenHistory()
        let path = "own0/data.sqlite"
        func add(_ kind: Event.Kind, _ rows: [String], _ outcome: String? = nil) {
            told.add(kind, "dev0") {
                ($0.path, $0.verb, $0.rows) = (path, ["transact", path, "2"], rows)
                $0.outcome = outcome
            }
        }
        add(.began, ["r1", "r2"])
        told.add(.fault, "dev0") { $0.verb = [fault] }
        add(.did, [], "refused")
        add(.began, ["r3"])
        add(.did, ["r3"], "ok")
        settle(&told, path, conflict: "D2", ["r1", "r3"], current: "D1", ["r1"])
        #expect(told.violations.contains(.conflict) == (fault == "kill"))
    }

    /// The device had saved B1, but not recorded it when its store was copied.
    @Test("a content that both have recorded is no conflict with what was made from it")
    func recordedTwice() {
        func told(_ fault: String, parent: String) -> [Violation.Kind] {
            var told = HandWrittenHistory()
            told.save("dev0", "shared/b", "B1")
            told.add(.fault, "dev0") { $0.verb = [fault] }
            told.act("dev0", "change shared/b append 10", content: "B2", base: "B1")
            settle(&told, "shared/b", conflict: "B1", current: "B2", parents: [parent])
            return told.violations
        }
        #expect(told("copy-store", parent: "B1 of the device") == [])
        #expect(told("copy-store", parent: "B1") == [.conflict])
        #expect(told("sign-out", parent: "B1 of the device") == [.conflict])
    }

    /// A rewind has given the document contents that were replaced before, on one of the devices.
    @Test("contents that were brought back are a version that nobody had seen")
    func broughtBack() {
        func told(parents: [String]) -> [Violation.Kind] {
            var told = HandWrittenHistory()
            told.save("dev0", "shared/b", "B1")
            told.save("dev0", "shared/b", "B3", base: "B1")
            told.act("dev0", "change shared/b append 10", content: "B2", base: "B1")
            for actor in ["dev0", "dev1"] { told.version(actor, "shared/b", "B3") }
            settle(
                &told, "shared/b", conflict: "B1", current: "B2", parents: ["B3"],
                conflictParents: parents)
            return told.violations.filter { $0 == .conflict }
        }
        #expect(told(parents: ["B3"]) == [])
        #expect(told(parents: []) == [.conflict])
    }

    /// Each device had another state of a document when it saved it and kept the former one.
    @Test("the backups that two devices make are two documents")
    func backups() {
        func told(parents: [String]) -> [Violation.Kind] {
            var told = HandWrittenHistory()
            told.save("dev0", "shared/b", "B1")
            told.act("dev0", "change shared/b append 10", content: "B2", base: "B1")
            for content in ["B1", "B2"] { told.version("dev0", "shared/b", content) }
            settle(&told, "shared/b~", conflict: "B1", current: "B2", parents: parents)
            return told.violations.filter { $0 == .conflict }
        }
        #expect(told(parents: []) == [])
        #expect(told(parents: ["B0"]) == [.conflict])
    }

    private func settle(
        _ told: inout HandWrittenHistory, _ path: String, conflict: String, _ rows: [String] = [],
        current: String, _ currentRows: [String] = [], parents: [String] = [],
        conflictParents: [String] = []
    ) {
        for actor in ["dev0", "dev1"] {
            told.found(actor, path, current)
            for (content, kind, rows) in [
                (conflict, "conflict", rows), (current, "current", currentRows),
            ] {
                told.add(.version, actor) {
                    ($0.path, $0.content, $0.writers, $0.detail) = (path, content, content, kind)
                    ($0.document, $0.version, $0.rows) = ("document of \(path)", content, rows)
                    $0.parents = kind == "current" ? parents : conflictParents
                }
            }
        }
        told.settle()
    }
}
