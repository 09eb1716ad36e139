import Foundation
import Testing

@testable import chaos

/// Histories with known violations.
@Suite("The checker") struct CheckerTests {
    /// A history without violations: one device saves twice in its own directory, and both save in
    /// the shared one.
    private func clean(_ change: (inout HandWrittenHistory) -> Void = { _ in })
        -> HandWrittenHistory
    {
        var told = HandWrittenHistory()
        told.act("dev0", "mkdir own0")
        told.save("dev0", "own0/a", "A1")
        told.save("dev0", "own0/a", "A2", base: "A1")
        told.save("dev0", "shared/b", "B1")
        told.act("dev1", "change shared/b append 10", content: "B2", base: "B1")
        told.act("dev1", "read own0/a", content: "A2")
        change(&told)
        for actor in ["dev0", "dev1"] {
            told.found(actor, "own0", nil, "directory 755")
            told.found(actor, "own0/a", "A2")
            told.found(actor, "shared/b", "B2")
        }
        told.version("dev0", "own0/a", "A1")
        told.version("dev0", "own0/a", "A2", "current", parents: ["A1"])
        told.version("dev0", "shared/b", "B1")
        told.version("dev1", "shared/b", "B2", "current", parents: ["B1"])
        told.settle()
        return told
    }

    @Test("finds nothing in a correct history") func nothing() {
        #expect(clean().violations == [])
    }

    @Test("finds a save that is nowhere") func lost() {
        let told = clean { $0.save("dev1", "shared/b", "B3") }
        #expect(told.violations == [.lost])
    }

    @Test("accepts the loss of what was evicted if the hub came back as an older copy")
    func evicted() {
        func violations(_ verb: String, isRestored: Bool) -> [Violation.Kind] {
            clean {
                $0.save("dev1", "shared/b", "B3")
                if isRestored { $0.add(.fault, "hub") { $0.verb = ["roll-back"] } }
                $0.act("dev1", "\(verb) shared/b")
            }.violations
        }
        #expect(!violations("evict", isRestored: true).contains(.lost))
        #expect(violations("evict", isRestored: false).contains(.lost))
        #expect(violations("pin", isRestored: true).contains(.lost))
    }

    @Test("finds a save that only another device has") func lostHere() {
        let told = clean {
            $0.save("dev1", "shared/b", "B3")
            $0.version("dev0", "shared/b", "B3")
        }
        // There it is history of a version that was not made from it.
        #expect(told.violations == [.lost, .replaced])
    }

    @Test("does not require a save that was interrupted") func cutOff() {
        let told = clean {
            $0.save("dev1", "shared/b", "B3", outcome: "ENOTCONN", detail: "excused")
        }
        #expect(told.violations == [])
    }

    @Test("reports the promised durability of a lost content") func untrueDurability() {
        let told = clean {
            $0.save("dev1", "shared/b", "B3")
            $0.add(.promised, "dev1") {
                ($0.path, $0.content, $0.detail) = ("shared/b", "B3", "hub")
            }
        }
        let violations = Checker.violations(of: told.events)
        #expect(violations.count == 1)
        #expect(violations.first?.message.contains("durable: hub") == true)
    }

    /// What one device shows and cannot read; the other one's answers are as before.
    private func unreadable(
        _ kind: Event.Kind, _ outcome: String, fault: String? = nil, of actor: String = "hub"
    ) -> [Violation.Kind] {
        clean {
            if let fault { $0.add(.fault, actor) { $0.verb = [fault] } }
            $0.add(kind, "dev1") {
                ($0.path, $0.detail, $0.outcome) = ("shared/b", "history", outcome)
                if kind == .did { $0.verb = ["read", "shared/b"] }
            }
        }.violations
    }

    @Test("finds a version, a file and a read without contents")
    func withoutContents() {
        #expect(unreadable(.version, "Chunk 17 of b is lost or damaged") == [.unreadable])
        // The trees differ, too.
        let file = clean {
            for actor in ["dev0", "dev1"] {
                $0.add(.item, actor) {
                    ($0.path, $0.detail) = ("shared/c", "file 644")
                    $0.outcome = "EIO"
                }
            }
        }
        #expect(file.violations == [.unreadable, .unreadable])
        #expect(unreadable(.did, "EIO") == [.unreadable])
    }

    @Test("accepts that contents are unreadable while, or because, a hub is gone")
    func hubIsGone() {
        #expect(unreadable(.did, "ENETUNREACH") == [])
        let excused = clean {
            $0.act("dev1", "read shared/b", outcome: "EIO", detail: "excused")
        }
        #expect(excused.violations == [])
        #expect(unreadable(.version, "lost", fault: "roll-back") == [])
        #expect(unreadable(.version, "lost", fault: "sign-in-elsewhere", of: "dev0") == [])
        #expect(unreadable(.version, "lost", fault: "roll-back", of: "dev1") == [.unreadable])
        #expect(unreadable(.version, "lost", fault: "kill") == [.unreadable])
        // The same where one device alone works.
        func own(_ fault: String) -> [Violation.Kind] {
            var told = HandWrittenHistory()
            told.save("dev0", "own0/a", "A1")
            told.act("dev0", "evict own0/a")
            told.add(.fault, "hub") { $0.verb = [fault] }
            for actor in ["dev0", "dev1"] {
                told.add(.item, actor) {
                    ($0.path, $0.detail, $0.outcome) = ("own0/a", "file 644", "EIO")
                }
            }
            told.settle()
            return told.violations
        }
        #expect(own("roll-back") == [])
        #expect(own("kill").contains(.unreadable))
    }

    /// A doctor says it after the round, and as often as it is asked.
    @Test("accepts damage only where a hub has lost what a device had there alone")
    func lossOfHub() {
        let lost =
            "damage: r1/shared/b: Version 1 of r1/shared/b cannot be read now: the contents are "
            + "not on this device, and the hub had them before it came back from a backup."
        let other = lost.replacing("r1/", with: "r2/")
        func said(_ detail: String, after earlier: Set<Int>) -> [Violation.Kind] {
            var told = clean()
            told.add(.examined, "dev0") { ($0.outcome, $0.detail) = ("1", detail) }
            return Checker.violations(of: told.events, afterLossesIn: earlier).map(\.kind)
        }
        #expect(said(lost + "\nnote: hub: 5 items", after: [1]) == [])
        #expect(said(lost, after: []) == [.unsound])
        #expect(said(lost + "\n" + other, after: [1]) == [.unsound])
        #expect(said(lost + "\n" + other, after: [1, 2]) == [])
        #expect(said(lost + "\ndamage: r1/a: has no path", after: [1]) == [.unsound])
        #expect(said("no answer", after: [1]) == [.unsound])
    }

    @Test("finds bytes that nobody wrote, in a version and by reading") func invented() {
        #expect(clean { $0.version("dev0", "shared/b", "X") }.violations == [.invented])
        let told = clean { $0.act("dev1", "read shared/b", content: "B1…") }
        #expect(told.violations == [.invented])
    }

    @Test("accepts a part of an interrupted save as its writer's") func torn() {
        let told = clean {
            $0.save("dev1", "shared/b", "B3", outcome: "ENOTCONN", detail: "excused")
            $0.version("dev1", "shared/b", "B3…")
        }
        #expect(told.violations == [])
    }

    @Test("accepts a part of what was written in place before a loss of power") func tornByPower() {
        func violations(losing device: String, _ part: String) -> [Violation.Kind] {
            clean {
                $0.save("dev1", "shared/b", "B2", base: "B1")
                $0.act("dev1", "change shared/b append 10", content: "B3+B4", base: "B2")
                $0.add(.fault, device) { $0.verb = ["lose-power"] }
                $0.version("dev1", "shared/b", part)
            }.violations
        }
        for part in ["B3…", "B2…"] {
            #expect(!violations(losing: "dev1", part).contains(.invented))
            #expect(violations(losing: "dev0", part).contains(.invented))
        }
        #expect(violations(losing: "dev1", "A1…").contains(.invented))
    }

    @Test("finds a conflict where one device alone works") func conflictWithItself() {
        let told = clean { $0.version("dev1", "own0/a", "A1", "conflict") }
        // The other device does not have it, either.
        #expect(told.violations == [.conflict, .conflict])
    }

    @Test("finds a conflict with a successor") func conflictWithSuccessor() {
        let told = clean { $0.version("dev1", "shared/b", "B1", "conflict") }
        // The other device does not have it, either.
        #expect(told.violations == [.conflict, .conflict])
    }

    @Test("accepts a conflict of two independent saves") func conflict() {
        let told = clean {
            $0.save("dev0", "shared/b", "B3", base: "B1")
            for actor in ["dev0", "dev1"] { $0.version(actor, "shared/b", "B3", "conflict") }
        }
        #expect(told.violations == [])
    }

    @Test("finds an alternative name where one device alone works") func mark() {
        let told = clean {
            for actor in ["dev0", "dev1"] { $0.found(actor, "own0/a (dev0 2026-11-23)", "A1") }
        }
        #expect(Set(told.violations) == [.conflict, .tree])
    }

    @Test("accepts a placeholder of what a hub that came back has lost, if the device says so")
    func lostContents() {
        func violations(isRestored: Bool, isTold: Bool) -> [Violation.Kind] {
            var told = HandWrittenHistory()
            told.act("dev1", "mkdir shared/d")
            if isRestored { told.add(.fault, "hub") { $0.verb = ["roll-back"] } }
            told.found("dev0", "shared/a")
            told.settle(problem: isTold ? "r1/shared/a: \(DeviceStatus.lost) Save it" : nil)
            return told.violations
        }
        #expect(!violations(isRestored: true, isTold: true).contains(.tree))
        #expect(violations(isRestored: true, isTold: false).contains(.tree))
        #expect(violations(isRestored: false, isTold: true).contains(.tree))
    }

    @Test("expects no equal trees where a device says that it has a part of a save")
    func unfinished() {
        for problem in [nil, "r1/own0/a was being saved when the machine stopped, so"] {
            var told = HandWrittenHistory()
            told.act("dev0", "mkdir own0")
            told.save("dev0", "own0/a", "A1")
            told.save("dev0", "own0/a", "A2", base: "A1")
            for (actor, content) in [("dev0", "A2"), ("dev1", "A1")] {
                told.found(actor, "own0", nil, "directory 755")
                told.found(actor, "own0/a", content)
            }
            for actor in ["dev0", "dev1"] {
                told.version(actor, "own0/a", "A1", "current")
            }
            told.settle(problem: problem)
            #expect(told.violations.contains(.tree) == (problem == nil))
        }
    }

    @Test("finds trees that differ, and one that differs from its only device's actions")
    func trees() {
        #expect(clean { $0.found("dev1", "shared/c", "B1") }.violations == [.tree])
        let told = clean { $0.act("dev0", "remove own0/a") }
        #expect(told.violations == [.tree])
    }

    @Test("finds an error without a cause, and a wrong answer") func told() {
        let refused = clean {
            $0.save("dev0", "own0/b", "C", outcome: "EIO")
        }
        #expect(refused.violations == [.told])
        #expect(clean { $0.act("dev0", "rmdir own0", outcome: "ok") }.violations.contains(.told))
        #expect(clean { $0.act("dev0", "read own0/a", content: "A1") }.violations == [.told])
    }

    @Test("continues from the observed state after a fault") func observed() {
        let told = clean {
            $0.act("dev0", "remove own0/a", outcome: "ENOTCONN", detail: "excused")
            $0.add(.observed, "dev0") { ($0.path, $0.detail) = ("own0/a", "nothing") }
            $0.save("dev0", "own0/a", "A2")
        }
        #expect(told.violations == [])
    }

    @Test("requires of a rolled back device what was at the hub") func rolledBack() {
        func told(_ promise: String) -> [Violation.Kind] {
            clean {
                $0.save("dev1", "shared/b", "B3")
                $0.add(.promised, "dev1") {
                    ($0.path, $0.content, $0.detail) = ("shared/b", "B3", promise)
                }
                $0.add(.fault, "dev1") { $0.verb = ["roll-back"] }
            }.violations
        }
        #expect(told("disk") == [])
        #expect(told("hub") == [.lost])
        // The save ends while the device is about to be rolled back.
        let overlapping = clean {
            let verb = ["save", "shared/b", "replace", "4000", "unsynced"]
            for kind in [Event.Kind.began, .fault, .did] {
                $0.add(kind, "dev1") {
                    ($0.verb, $0.action) = kind == .fault ? (["roll-back"], nil) : (verb, 77)
                    guard kind != .fault else { return }
                    ($0.path, $0.content, $0.writers) = ("shared/b", "B3", "B3")
                    $0.outcome = kind == .did ? "ok" : nil
                }
            }
        }
        #expect(overlapping.violations == [])
        // The hub tells the device only the last of the versions that were made from each other.
        func replaced(_ base: String?, keeps isKept: Bool) -> [Violation.Kind] {
            clean {
                $0.save("dev1", "own1/c", "B3")
                $0.add(.promised, "dev1") {
                    ($0.path, $0.content, $0.detail) = ("own1/c", "B3", "hub")
                }
                $0.save("dev1", "own1/c", "B4", base: base)
                $0.add(.fault, "dev1") { $0.verb = ["roll-back"] }
                if isKept { $0.version("dev1", "own1/c", "B4") }
            }.violations.filter { $0 == .lost }
        }
        #expect(replaced("B3", keeps: true) == [])
        #expect(replaced("B3", keeps: false) == [.lost])
        #expect(replaced(nil, keeps: true) == [.lost])
    }

    @Test("accepts that a rolled back device is in conflict with what it has saved before")
    func rolledBackConflict() {
        let rollBack = { (told: inout HandWrittenHistory) in
            told.add(.fault, "dev0") { $0.verb = ["roll-back"] }
        }
        let after = clean {
            rollBack(&$0)
            $0.version("dev1", "own0/a", "A1", "conflict")
        }
        #expect(after.violations == [])
        let before = clean {
            rollBack(&$0)
            $0.save("dev0", "own0/a", "A2", base: "A1")
            $0.version("dev1", "own0/a", "A2", "conflict")
        }
        #expect(before.violations.contains(.conflict))
    }

    @Test("accepts that a copy of a device is in conflict with what the device saves later")
    func copied() {
        func told(_ fault: String, _ kind: String) -> [Violation.Kind] {
            var told = HandWrittenHistory()
            told.act("dev0", "mkdir own0")
            told.save("dev0", "own0/a", "A1")
            told.add(.fault, "dev0") { $0.verb = [fault] }
            told.save("dev0", "own0/a", "A2", base: "A1")
            for actor in ["dev0", "dev1"] {
                told.found(actor, "own0", nil, "directory 755")
                told.found(actor, "own0/a", "A1")
                told.version(actor, "own0/a", "A1", "current")
                told.version(actor, "own0/a", "A2", kind)
            }
            told.settle()
            return told.violations
        }
        #expect(told("copy-store", "conflict") == [])
        #expect(told("copy-store", "history") == [.tree])
        #expect(told("kill", "conflict").contains(.tree))
    }

    @Test("allows removed items to return after a rollback of the hub, and nothing else")
    func hubRolledBack() {
        func told(_ verb: String, _ fault: String) -> [Violation.Kind] {
            clean {
                $0.act("dev0", verb, content: "A3", base: "A2")
                $0.add(.fault, "hub") { $0.verb = [fault] }
            }.violations
        }
        #expect(told("remove own0/a", "kill") == [.tree])
        #expect(told("remove own0/a", "roll-back") == [])
        #expect(told("rename own0/a own0/c", "roll-back") == [.tree])
    }

    @Test("judges a long read only if there were no writes in place") func holding() {
        func told(_ meanwhile: String) -> [Violation.Kind] {
            clean {
                $0.act("dev1", "save shared/b inPlace 10 unsynced", content: "B2")
                $0.add(.began, "dev1") { ($0.action, $0.verb) = (99, ["hold", "shared/b", "9"]) }
                $0.act("dev1", meanwhile, content: "B2")
                $0.add(.did, "dev1") {
                    ($0.action, $0.verb) = (99, ["hold", "shared/b", "9"])
                    ($0.outcome, $0.content) = ("ok", "half")
                }
            }.violations
        }
        #expect(told("save shared/b replace 10 unsynced") == [.invented])
        #expect(told("save shared/b inPlace 10 unsynced") == [])
    }

    @Test("reports what died, hung, did not settle or is damaged") func incidents() {
        var told = clean()
        for kind in [Event.Kind.died, .hung, .unsettled] { told.add(kind, "dev0") }
        told.add(.examined, "hub") { $0.outcome = "unsound" }
        told.add(.examined, "dev1") { $0.outcome = "ok" }
        #expect(told.violations == [.died, .hung, .unsettled, .unsound])
    }

    @Test("finds what has changed since its round") func changed() {
        var told = clean()
        for (path, content) in [("own0/a", "A2"), ("shared/b", "B1")] {
            told.add(.left, "dev0") {
                ($0.path, $0.content, $0.writers) = (path, content, content)
                $0.detail = "file 644"
            }
        }
        told.add(.left, "dev0") { ($0.path, $0.detail) = ("own0", "directory 755") }
        #expect(told.violations == [.changed])
    }

    @Test("reads a history from its lines") func lines() throws {
        let events = clean().events
        let text = events.map(\.line).reduce(into: Data()) { $0 += $1 }
        #expect(try Event.all(in: text) == events)
    }
}
