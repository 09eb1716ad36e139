import Control
import Foundation
import Glibc
import Support
import Testing

@testable import Sync

// Steps that the daemon takes by itself meet documents that are in use.
extension TrapTests {
    /// How a document is used on the device where the step is taken.
    enum Use: String, CaseIterable, Sendable { case written, mapped, claimed, linked, saved }

    /// What the daemon would do with the document.
    enum Step: String, CaseIterable, Sendable { case replace, merge, delete, evict }

    /// Uses the document until it is told to go on; then it writes HELD into its first line.
    private func use(_ fleet: Fleet, _ use: Use) throws -> Beside? {
        let device = fleet.devices[0]
        let script: [String]
        switch use {
        case .written, .mapped:
            let program = """
                import mmap, sys
                file = open("n.txt", "r+b")
                mapped = mmap.mmap(file.fileno(), 0) if sys.argv[1] == "mapped" else None
                if mapped: file.close()
                print("has it", flush=True)
                sys.stdin.readline()
                if mapped: mapped[0:4] = b"HELD"; mapped.flush()
                else: file.write(b"HELD")
                """
            script = ["python3", "-c", program, use.rawValue]
        case .claimed:
            let change = "sed '1s/.*/HELD/' n.txt > .n.tmp; cat .n.tmp > n.txt; rm .n.tmp"
            script = [
                Programs.fsctl, "coordinate", "write", "n.txt", "--", "bash", "-ec",
                "echo has it; read line; \(change)",
            ]
        case .linked:
            try fleet.shell(0, "ln n.txt other.txt")
            return nil
        case .saved:
            try fleet.offline(0)
            try fleet.shell(0, "echo HELD | cat - n.txt > new; mv new n.txt")
            try device.waitForDisk()
            return nil
        }
        let program = try Beside(
            running: script[0], Array(script.dropFirst()), directory: device.path)
        try program.wait(for: "has it")
        return program
    }

    /// [traps 25] What is planned is examined again at the moment of acting, and what is in doubt
    /// stays as it is.
    @Test(
        "46: a step of the daemon meets a document that is in use", arguments: Step.allCases,
        Use.allCases)
    func inUse(step: Step, how: Use) throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "seq 1 20 > n.txt; echo 1 > kept")
            try fleet.expectEqual()
            // The file itself: a program that reads it in the mount would wait for a claim.
            func shown() -> String {
                let path = "\(fleet.devices[0].tree)/n.txt"
                return (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
            }
            let before = shown()
            if step == .merge {
                try fleet.offline(1)
                try fleet.shell(1, "sed -i s/^18$/eighteen/ n.txt")
                try fleet.devices[1].waitForDisk()
                try fleet.shell(0, "sed -i s/^9$/nine/ n.txt")
                try fleet.settle([0])
            }
            let used = try use(fleet, how)
            let text = shown()
            switch step {
            case .replace: try fleet.shell(1, "sed -i s/^18$/eighteen/ n.txt")
            case .merge: try fleet.online(1)
            case .delete: try fleet.shell(1, "rm n.txt")
            case .evict:
                let path = "\(fleet.devices[0].path)/n.txt"
                let evicted = try Programs.fsctl("evict", path).run()
                #expect(!evicted.output.hasPrefix("1 document"), "\(evicted)")
            }
            // The other device's change has come as far as this device's journal.
            if step != .evict, how != .saved {
                try fleet.settle([1])
                let head = try fleet.report(fleet.devices[1]).hub?.head ?? 0
                try wait(seconds: 60, for: "the change to be known") {
                    try fleet.report(fleet.devices[0]).hub?.cursor ?? 0 >= head ? true : nil
                }
            }
            if let used {
                #expect(shown() == text, "it is left alone")
                used.tell("go")
                #expect(try used.waitForEnd() == 0, "\(used.said)")
                try fleet.devices[0].waitForDisk()
            }
            if how == .saved { try fleet.online(0) }
            try fleet.expectEqual(tries: 5)
            try fleet.expectSound()
            for index in 0..<2 {
                let contents = try reachableContents(in: fleet.devices[index].path).map {
                    String(decoding: $0, as: UTF8.self)
                }
                #expect(contents.contains(before), "on device \(index)")
                #expect(contents.contains(text), "on device \(index)")
                if how != .linked { #expect(contents.contains { $0.hasPrefix("HELD") }) }
                if step == .replace || step == .merge {
                    #expect(contents.contains { $0.contains("eighteen") })
                }
                if how == .linked { #expect(fleet.text(index, "other.txt") == text) }
                // An edit outlives a deletion that has not seen it.
                if step == .delete {
                    #expect((fleet.text(index, "n.txt") != nil) == (how != .linked))
                }
            }
        }
    }
}
