import Foundation
import Glibc
import Support
import Testing

@testable import Sync

/// One item takes a name that another item has freed here but not yet at the hub. No other device
/// has used the name, so neither item may get an alternative name.
@Suite("One device reuses a freed name", .serialized) struct TakenNameTests {
    /// Each case runs on a device with `d/x`, a file `f` and 40 files in `many`.
    struct Case: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var script: String
        var names: [String]
    }

    static let cases: [Case] = [
        Case(
            testDescription: "by a directory, from a file that is being sent",
            script: """
                for i in {1..20}; do head -c 3000000 /dev/urandom > f; done
                mv f g; mkdir f; touch f/y
                """, names: ["d", "d/x", "f", "f/y", "g", "many"]),
        Case(
            testDescription: "by a file, from one that is deleted while it is sent",
            script: """
                head -c 3000000 /dev/urandom > f; sleep 0.3; exec 4>>f; echo more >&4
                rm f; mkdir f; sleep 1; exec 4>&-
                """, names: ["d", "d/x", "f", "many"]),
        Case(
            testDescription: "by what was in a directory, from the directory",
            script: "mv d/x tmp; rmdir d; mv tmp d", names: ["d", "f", "many"]),
        Case(
            testDescription: "by what was in a directory, from the directory that went",
            script: "mv d/x tmp; mv d e; mv tmp d", names: ["d", "e", "f", "many"]),
        Case(
            testDescription: "by a directory that is made anew around what was in it",
            script: "mkdir tmp; mv d/x tmp/; rmdir d; mv tmp d",
            names: ["d", "d/x", "f", "many"]),
        Case(
            testDescription: "by directories that are turned inside out",
            script: "mkdir d/e; touch d/e/y; sleep 1; mv d/e tmp; mv d tmp/e; mv tmp d",
            names: ["d", "d/e", "d/e/x", "d/y", "f", "many"]),
        Case(
            testDescription: "round in a circle of files and directories",
            script: "mv d tmp; mv f d; mv tmp/x f; mv tmp x", names: ["d", "f", "many", "x"]),
    ]

    @Test("by an item of the same device", arguments: cases, [false, true])
    func taken(_ one: Case, isOffline: Bool) throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                "mkdir d many; echo x > d/x; echo f > f; for i in {1..40}; do echo > many/$i; done"
            )
            try fleet.expectEqual()
            if isOffline { try fleet.offline(0) }
            try fleet.shell(0, one.script)
            if isOffline { try fleet.online(0) }
            try fleet.expectEqual()
            for index in 0..<2 {
                let found = try FileManager.default.subpathsOfDirectory(
                    atPath: fleet.devices[index].path
                ).filter { !$0.hasPrefix("many/") }
                #expect(found.sorted() == one.names.sorted())
            }
        }
    }

    @Test(
        "by an item of a device that was signed out meanwhile",
        arguments: [
            "mv f g; echo new > f", "mv f g; mkdir f; mv g f/", "mv d tmp; mv f d; mv tmp f",
        ])
    func signedOut(script: String) throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir d; echo x > d/x; echo f > f")
            try fleet.expectEqual()
            let device = fleet.devices[0]
            try Programs.fsctl("signout", "--at", device.path).succeed()
            try fleet.shell(0, script)
            try device.waitForDisk()
            let names = try FileManager.default.subpathsOfDirectory(atPath: device.path).sorted()
            try fleet.signIn(device)
            try fleet.expectEqual()
            let found = try FileManager.default.subpathsOfDirectory(atPath: device.path).sorted()
            #expect(found == names)
        }
    }

    /// What happens between the removal of a directory's contents and the rename over it.
    enum Interruption: CaseIterable {
        case none, kill, killBeforeAndAfter, unmounted, offline, clockSetBack
    }

    @Test("by a directory that is renamed over an empty one", arguments: Interruption.allCases)
    func replacedDirectory(_ interruption: Interruption) throws {
        let clock = try ShiftedClock()
        try Fleet.with(2) { fleet in
            let device = try fleet.join(environment: clock.environment)
            func killed() throws {
                try device.kill9()
                try device.mount()
            }
            try fleet.shell(2, "mkdir x y many; for i in {1..100}; do echo > many/$i; done")
            try fleet.shell(2, "echo x > x/a; echo x > x/c; echo y > y/a; echo y > y/b")
            try fleet.expectEqual()
            switch interruption {
            case .offline: try fleet.offline(2)
            case .clockSetBack: clock.ahead = -180
            case .none, .kill, .killBeforeAndAfter, .unmounted: break
            }
            if interruption == .unmounted {
                try device.unmount()
                try Command("sh", "-c", "rm \(device.store)/tree/y/*").succeed()
                try device.mount()
            } else {
                try fleet.shell(2, "rm y/*")
            }
            switch interruption {
            case .kill, .killBeforeAndAfter, .clockSetBack: try killed()
            case .none, .offline, .unmounted: break
            }
            try fleet.shell(2, "mv -T x y")
            if interruption == .killBeforeAndAfter { try killed() }
            if interruption == .offline { try fleet.online(2) }
            try fleet.expectEqual()
            for index in 0...2 {
                #expect(try fleet.names(index) == ["many", "y"])
                #expect(try fleet.names(index, "y") == ["a", "c"])
                #expect(fleet.text(index, "y/a") == "x\n" && fleet.text(index, "y/c") == "x\n")
                #expect(try fleet.conflicts(index, "y/a") == [])
                for name in ["a", "c"] {
                    let path = "\(fleet.devices[index].path)/y/\(name)"
                    #expect(try History.texts(of: path) == ["x\n"])
                }
            }
        }
    }

    @Test("by new items, while the deletion of the old ones is held back") func braked() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir many; for i in {1..300}; do echo > many/$i; done")
            try fleet.expectEqual()
            try fleet.shell(0, "rm -r many")
            try wait(seconds: 60, for: "the deletions to be held back") {
                try fleet.report(fleet.devices[0]).hub?.held ?? 0 > 0 ? true : nil
            }
            try fleet.shell(0, "mkdir many; mkdir many/1; touch other")
            try wait(seconds: 60, for: "the others not to be") {
                try fleet.names(1).contains("other") ? true : nil
            }
            try Programs.fsctl("brake", "--release", "--at", fleet.devices[0].path).succeed()
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["many", "other"])
                #expect(try fleet.names(index, "many") == ["1"])
            }
        }
    }
}
