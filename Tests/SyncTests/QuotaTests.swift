import Foundation
import Support
import Testing

@Suite("An account with a full quota", .serialized) struct QuotaTests {
    @Test("a document too large is reported, and others are sent") func tooLarge() throws {
        let hub = try HubProcess()
        try hub.run("user", "quota", "ann", "100000")
        try Fleet.with(2, hub: hub) { fleet in
            try fleet.shell(0, "head -c 20000000 /dev/urandom > large")
            try wait(seconds: 60, for: "the device to say why") {
                let problems = try fleet.report(fleet.devices[0]).hub?.problems ?? [:]
                return problems.contains { "\($0.key) \($0.value)".contains("quota") } ? true : nil
            }
            try fleet.put(0, "small", "1")
            try wait(seconds: 60, for: "the small one to arrive") {
                fleet.text(1, "small") == "1" ? true : nil
            }
            #expect(try fleet.names(1) == ["small"])
        }
    }

    private func waitForRefusal(_ fleet: Fleet, _ index: Int = 0) throws {
        try wait(seconds: 60, for: "the device to say why") {
            let problems = try fleet.report(fleet.devices[index]).hub?.problems ?? [:]
            return problems.contains { "\($0.key) \($0.value)".contains("quota") } ? true : nil
        }
    }

    private static let tooLarge = "head -c 20000000 /dev/urandom > new; mv new f"

    @Test("what was refused and what another device saves meanwhile can both be read")
    func editedElsewhere() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "f", "1")
            try fleet.expectEqual()
            try fleet.hub.run("user", "quota", "ann", "100000")
            try fleet.shell(0, Self.tooLarge)
            let refused = try Data(contentsOf: URL(filePath: "\(fleet.devices[0].path)/f"))
            try waitForRefusal(fleet)
            try fleet.put(1, "f", "other")
            try fleet.settle([1])
            let other = Data("other".utf8)
            // The device keeps its save, and says what waits for what.
            try wait(seconds: 60, for: "the device to know of the other save") {
                try fleet.report(fleet.devices[0]).hub?.due ?? 0 > 0 ? true : nil
            }
            try waitForRefusal(fleet)
            #expect(try Data(contentsOf: URL(filePath: "\(fleet.devices[0].path)/f")) == refused)
            try fleet.hub.run("user", "quota", "ann", "none")
            // Without a command the rest is sent, and both devices show a conflict.
            try wait(seconds: 300, for: "both contents on the other device") {
                let all = try reachableContents(in: fleet.devices[1].path)
                return all.contains(refused) && all.contains(other) ? true : nil
            }
            try fleet.expectEqual(tries: 5)
            for index in 0..<2 { #expect(try fleet.conflicts(index, "f").count == 1) }
        }
    }

    @Test("a refused document holds up none of a thousand others, and is sent when there is room")
    func first() throws {
        try Fleet.with(2) { fleet in
            try fleet.hub.run("user", "quota", "ann", "1000000")
            try fleet.shell(0, Self.tooLarge)
            try waitForRefusal(fleet)
            try fleet.shell(0, "mkdir d; for i in $(seq 1000); do echo $i > d/$i; done")
            try wait(seconds: 240, for: "all others") {
                (try? fleet.names(1, "d").count) == 1000 ? true : nil
            }
            #expect(fleet.text(1, "d/777") == "777\n")
            #expect(try fleet.names(1) == ["d"])
            // It stays here, with its reason.
            try waitForRefusal(fleet)
            #expect(try fleet.names(0) == ["d", "f"])
            try fleet.hub.run("user", "quota", "ann", "none")
            try wait(seconds: 300, for: "the document") {
                try fleet.names(1) == ["d", "f"] ? true : nil
            }
            try fleet.expectEqual()
        }
    }

    @Test("more than a thousand refused documents do not hold up a deletion") func many() throws {
        try Fleet.with(2) { fleet in
            try fleet.hub.run("user", "quota", "ann", "100000")
            // These get the first places among what is to be sent.
            try fleet.offline(0)
            try fleet.shell(
                0,
                "mkdir d; for i in $(seq 1300); do head -c 3000 /dev/urandom > d/$i; done")
            try fleet.devices[0].waitForDisk()
            try fleet.shell(1, "head -c 80000 /dev/urandom > later")
            try fleet.settle([1])
            try fleet.online(0)
            try wait(seconds: 120, for: "the document of the other device") {
                try fleet.names(0).contains("later") ? true : nil
            }
            try waitForRefusal(fleet)
            try fleet.shell(0, "rm later")
            try wait(seconds: 240, for: "the deletion") {
                try fleet.names(1).contains("later") ? nil : true
            }
            #expect(try fleet.names(0, "d").count == 1300)
        }
    }

    @Test("a conflict version that is too large holds back nothing else of its document")
    func largeConflict() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "f", "1")
            try fleet.expectEqual()
            try fleet.hub.run("user", "quota", "ann", "100000")
            // What is written into contents that were replaced becomes a conflict version.
            try fleet.shell(
                0, "exec 3<>f; echo 2 > new; mv new f; head -c 20000000 /dev/urandom >&3")
            func conflicts(_ index: Int) throws -> [Int] {
                try fleet.history(index, "f").versions.filter { $0.kind == "conflict" }
                    .map { Int($0.size) }
            }
            try wait(seconds: 60, for: "the current version to arrive") {
                fleet.text(1, "f") == "2\n" ? true : nil
            }
            try waitForRefusal(fleet)
            #expect(try conflicts(0) == [20_000_000])
            // Later saves of both devices pass it in both directions.
            try fleet.shell(1, "echo 3 > f")
            try wait(seconds: 60, for: "the other device's save") {
                fleet.text(0, "f") == "3\n" ? true : nil
            }
            try fleet.shell(0, "echo 4 > f; mv f g")
            try wait(seconds: 60, for: "the next save and its new name") {
                fleet.text(1, "g") == "4\n" ? true : nil
            }
            #expect(try fleet.history(0, "g").versions.count { $0.kind == "conflict" } == 1)
            #expect(try fleet.history(1, "g").versions.count { $0.kind == "conflict" } == 0)
            try fleet.hub.run("user", "quota", "ann", "none")
            try wait(seconds: 300, for: "the conflict version") {
                let all = try fleet.history(1, "g").versions
                return all.contains { $0.kind == "conflict" } ? true : nil
            }
            try fleet.expectEqual()
            for index in 0..<2 {
                let kinds = try fleet.history(index, "g").versions.map(\.kind)
                #expect(kinds.count { $0 == "conflict" } == 1 && fleet.text(index, "g") == "4\n")
            }
            let problems = try fleet.report(fleet.devices[0]).hub?.problems ?? [:]
            #expect(problems == [:])
        }
    }

    @Test("the next save that is accepted is no conflict, and a deletion is told")
    func later() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > f; echo 1 > g")
            try fleet.expectEqual()
            try fleet.hub.run("user", "quota", "ann", "100000")
            try fleet.shell(0, Self.tooLarge + "; head -c 20000000 /dev/urandom > g")
            try waitForRefusal(fleet)
            // This process has read the version before, so its own save would be a conflict.
            try fleet.shell(0, "echo 2 > f")
            try wait(seconds: 60, for: "the save to arrive") {
                fleet.text(1, "f") == "2\n" ? true : nil
            }
            try fleet.shell(0, "rm g")
            try wait(seconds: 120, for: "the deletion") {
                try fleet.names(1) == ["f"] ? true : nil
            }
            try fleet.expectEqual()
            for index in 0..<2 { #expect(try fleet.conflicts(index, "f") == []) }
            // What was refused is past, so nothing is a problem any more.
            let problems = try fleet.report(fleet.devices[0]).hub?.problems ?? [:]
            #expect(problems == [:])
        }
    }
}
