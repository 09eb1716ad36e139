import Foundation
import Glibc
import Support
import Testing

// A busy hub.
extension TrapTests {
    /// [traps 68] The hub refuses before it has received a group of changes, or after it has
    /// applied them.
    @Test(
        "35: the hub answers commits with 423, 429, 503, or not at all",
        arguments: [423, 429, 503, nil])
    func refusals(status: Int?) throws {
        try Fleet.with(1) { fleet in
            let liar = try LyingHub(before: fleet.hub)
            defer { liar.stop() }
            let device = try MountedVolume(options: ["name=team"])
            defer { device.cleanUp() }
            try Programs.fsctl(
                "signin", liar.address, "--code", try fleet.hub.invite(), "--at", device.path
            ).succeed()
            func work(_ script: String) throws {
                try Command("bash", "-c", "set -e; cd '\(device.path)'; " + script).succeed()
            }
            func expectHere(_ script: String) throws {
                try wait(seconds: 60, for: "\(script); \(device.said)") {
                    let shown = Command(
                        "bash", "-c", "cd '\(fleet.devices[0].path)' && " + script)
                    return try shown.run().status == 0 ? true : nil
                }
            }
            try work(
                """
                echo 1 > edited; echo 1 > deleted; echo 1 > moved; mkdir p.pages
                for i in {1..5}; do echo 1 > p.pages/$i; done
                """)
            try Programs.fsctl("wait", "--durable", "hub", device.path).succeed()
            for (round, isDone) in [(2, false), (3, true)] {
                liar.refuse(LyingHub.Refusal(path: "/commit", status: status, isDone: isDone))
                try work(
                    """
                    for i in {1..5}; do echo \(round) > p.pages/$i; done
                    echo \(round) > edited.new; mv edited.new edited
                    rm deleted; mv moved moved\(round); mkdir -p sub\(round)
                    for i in {1..20}; do echo \(round) > sub\(round)/$i; done
                    """)
                try wait(seconds: 60, for: "refusals; \(device.said)") {
                    liar.told >= 3 ? true : nil
                }
                liar.refuse(nil)
                try expectHere(
                    """
                    [ "$(cat p.pages/*)" = "$(for i in {1..5}; do echo \(round); done)" ] \
                    && [ $(cat edited) = \(round) ] && [ ! -e deleted ] \
                    && [ -e moved\(round) ] && [ ! -e moved ] \
                    && [ $(cat sub\(round)/* | grep -c \(round)) = 20 ]
                    """)
                try work("echo \(round) > deleted; mv moved\(round) moved")
                try expectHere("[ -e deleted ] && [ -e moved ] && [ ! -e moved\(round) ]")
            }
            // No device is in conflict with itself: no conflicts, no alternative names, and each
            // save exists once.
            for path in [device.path, fleet.devices[0].path] {
                let names = try FileManager.default.contentsOfDirectory(atPath: path)
                #expect(
                    Set(names) == ["edited", "deleted", "moved", "p.pages", "sub2", "sub3"])
                for name in ["edited", "p.pages"] {
                    let history = try History.of("\(path)/\(name)")
                    #expect(history.versions.count <= 3, "\(name): \(history.versions.count)")
                }
            }
            #expect(try fleet.conflicts(0, "edited").isEmpty)
            #expect(try fleet.conflicts(0, "p.pages").isEmpty)
            try fleet.expectSound()
            try Programs.fsctl("doctor", device.path).succeed()
            try device.unmount()
        }
    }
}
