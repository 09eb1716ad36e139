import Testing

@testable import chaos

/// Both devices save the same document, and the second one has not seen the first one's save.
@Suite("Lineage") struct LineageTests {
    private func told(
        _ first: String, second parents: [String], onTheOther: String? = nil,
        _ change: (inout HandWrittenHistory) -> Void = { _ in }
    ) -> [Violation.Kind] {
        var told = HandWrittenHistory()
        told.save("dev0", "shared/b", "B1")
        told.save("dev0", "shared/b", "B2", base: "B1")
        told.save("dev1", "shared/b", "B3", base: "B1")
        change(&told)
        for actor in ["dev0", "dev1"] {
            told.found(actor, "shared/b", "B3")
            told.version(actor, "shared/b", "B1")
            let kind = actor == "dev0" ? first : onTheOther ?? first
            told.version(actor, "shared/b", "B2", kind, parents: ["B1"])
            told.version(actor, "shared/b", "B3", "current", parents: parents)
        }
        told.settle()
        return told.violations
    }

    @Test("finds a save that was replaced by somebody who had not seen it") func replaced() {
        #expect(told("history", second: ["B1"]) == [.replaced])
    }

    @Test("accepts a conflict, a merge, and a save that was made from the other one")
    func kept() {
        #expect(told("conflict", second: ["B1"]) == [])
        #expect(told("history", second: ["B1", "B2"]) == [])
        #expect(told("history", second: ["B2"]) == [])
    }

    /// The hub believes what dev1 says of its save; dev1 itself knows better, and never had B2.
    @Test("knows that a device makes nothing from a version that it never had")
    func impossibleParent() {
        func kinds(fault: String? = nil) -> [Violation.Kind] {
            var told = HandWrittenHistory()
            told.save("dev0", "shared/b", "B1")
            told.save("dev0", "shared/b", "B2", base: "B1")
            if let fault { told.add(.fault, "dev1") { $0.verb = [fault] } }
            told.save("dev1", "shared/b", "B3", base: "B1")
            for actor in ["dev0", "dev1"] {
                told.found(actor, "shared/b", "B3")
                told.version(actor, "shared/b", "B1")
            }
            told.version("dev0", "shared/b", "B2", parents: ["B1"])
            told.version("dev0", "shared/b", "B3", "current", parents: ["B2"])
            told.version("dev1", "shared/b", "B3", "current", parents: ["B1"])
            told.settle()
            return told.violations
        }
        #expect(kinds() == [.replaced])
        // A full disk may have removed it.
        #expect(kinds(fault: "fill") == [])
    }

    /// The device had saved B2 and gone back to B1, which is what all agreed on.
    @Test("accepts that somebody went back from a save", arguments: [true, false])
    func wentBack(wasRewound: Bool) {
        var told = HandWrittenHistory()
        told.save("dev1", "shared/b", "B1")
        told.save("dev0", "shared/b", "B2", base: "B1")
        if wasRewound {
            told.add(.observed, "dev0") {
                ($0.verb, $0.path) = (["rewind", "shared", "1"], "shared/b")
                $0.content = "B1"
            }
        }
        told.save("dev1", "shared/b", "B3", base: "B1")
        told.version("dev0", "shared/b", "B2", parents: ["B1"])
        told.add(.version, "dev0") {
            ($0.path, $0.document, $0.version) = ("shared/b", "document of shared/b", "B1 again")
            ($0.content, $0.writers, $0.detail) = ("B1", "B1", "history")
            $0.parents = ["B2", "B1"]
        }
        for actor in ["dev0", "dev1"] {
            told.found(actor, "shared/b", "B3")
            told.version(actor, "shared/b", "B1")
            told.version(actor, "shared/b", "B3", "current", parents: ["B1"])
        }
        told.settle()
        #expect(told.violations == (wasRewound ? [] : [.replaced]))
    }

    @Test("finds a conflict that only one device has") func conflictOfOne() {
        #expect(told("conflict", second: ["B2"], onTheOther: "history") == [.conflict])
    }

    @Test(
        "says nothing where versions are missing, or a document or a device went back",
        arguments: [["roll-back"], ["sign-out"], ["copy-store"], ["lose-power"], ["sleep", "2"]])
    func interrupted(fault: [String]) {
        let kinds = told("history", second: ["B1"]) { told in
            told.add(.fault, "dev1") { $0.verb = fault }
        }
        #expect(kinds == [])
        let purged = told("history", second: ["B1"]) { $0.act("dev1", "purge shared/b") }
        #expect(purged == [])
        let removed = told("history", second: ["B1"]) { $0.act("dev0", "remove shared/b") }
        #expect(removed == [])
        let deleted = told("history", second: ["B1"]) { told in
            told.add(.version, "dev1") {
                ($0.path, $0.document, $0.version) = ("shared/b", "document of shared/b", "B4")
                ($0.content, $0.writers, $0.detail) = ("B2", "B2", "current")
            }
        }
        #expect(deleted == [])
    }
}
