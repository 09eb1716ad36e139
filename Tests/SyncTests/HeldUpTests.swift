import Control
import Foundation
import HubProtocol
import Support
import Testing

/// What cannot be synchronised delays nothing else.
@Suite("Changes that cannot be made now", .serialized) struct HeldUpTests {
    @Test("a directory that stays for its local files does not undo other deletions")
    func stuckDirectory() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir dir; echo x > dir/x; echo z > z.txt; echo k > kept")
            try fleet.expectEqual()
            try fleet.shell(1, "echo y > dir/y.tmp")
            try fleet.shell(0, "rm -r dir")
            let text = try wait(seconds: 60, for: "the directory to be stuck") {
                try fleet.report(fleet.devices[1]).hub?.problems["dir"]
            }
            #expect(text.contains("files of this device alone"))
            try fleet.shell(1, "rm z.txt")
            try wait(seconds: 60, for: "the deletion") {
                fleet.text(0, "z.txt") == nil ? true : nil
            }
            #expect(fleet.text(1, "z.txt") == nil)
            #expect(fleet.text(1, "dir/y.tmp") == "y\n")
            try fleet.shell(1, "rm dir/y.tmp")
            try fleet.expectEqual(tries: 10)
            #expect(try fleet.names(1) == ["kept"])
        }
    }

    @Test("unreadable contents are reported; others are sent", arguments: [20_000_000, 9])
    func unreadable(size: Int) throws {
        let fleet = try Fleet(1)
        let device = fleet.devices[0]
        defer {
            device.cleanUp()
            try? fleet.hub.stop()
        }
        try fleet.offline(0)
        try fleet.shell(0, "head -c \(size) /dev/urandom > unread")
        try device.waitForDisk()
        // The disk has lost bytes.
        try Command(
            "/bin/bash", "-ec",
            """
            cd \(device.tree); touch -r unread ../stamp
            head -c \(size) /dev/zero | dd of=unread conv=notrunc status=none
            touch -r ../stamp unread; rm ../stamp
            rm -f ../packs/* ../chunks/*
            """
        ).succeed()
        try fleet.shell(0, "echo other > other")
        try fleet.online(0)
        try Programs.fsctl("wait", "--durable", "hub", "\(device.path)/other").succeed()
        let text = try wait(seconds: 60, for: "the problem to be told") {
            try fleet.report(device).hub?.problems["unread"]
        }
        #expect(text.contains("cannot be read"))
    }

    @Test("a chunk that the hub has lost delays only the documents that need it") func lostChunk()
        throws
    {
        try Fleet.with(1) { fleet in
            let liar = try LyingHub(before: fleet.hub)
            defer { liar.stop() }
            let device = try MountedVolume(options: ["name=team"])
            defer { device.cleanUp() }
            func text(_ name: String) -> String? {
                try? String(contentsOfFile: "\(device.path)/\(name)", encoding: .utf8)
            }
            func waitForProblem(_ name: String) throws {
                let problem = try wait(seconds: 60, for: "the problem of \(name)") {
                    try fleet.report(device).hub?.problems[name]
                }
                #expect(problem.contains("lost or damaged"), "\(problem)")
            }
            try fleet.shell(0, "echo 1 > edited; mkdir P.rtfd; echo lost > P.rtfd/text")
            try fleet.settle()
            liar.lie { path, body in path.contains("/read") ? Self.without("lost", body) : nil }
            // A device that joins needs the contents of packages.
            try Programs.fsctl(
                "signin", liar.address, "--code", try fleet.hub.invite(), "--at", device.path
            ).succeed()
            try waitForProblem("P.rtfd")
            // A document that was never read here would get its new version without contents.
            #expect(text("edited") == "1\n")
            try Data("mine".utf8).write(to: URL(filePath: "\(device.path)/mine"))
            try wait(seconds: 60, for: "a local save to be sent; \(device.said)") {
                fleet.text(0, "mine") == "mine" ? true : nil
            }
            try fleet.shell(0, "echo lost > edited; echo 2 > other")
            try wait(seconds: 60, for: "the other document; \(device.said)") {
                text("other") == "2\n" ? true : nil
            }
            try waitForProblem("edited")
            try Data("later".utf8).write(to: URL(filePath: "\(device.path)/mine"))
            try wait(seconds: 60, for: "the next save to be sent; \(device.said)") {
                fleet.text(0, "mine") == "later" ? true : nil
            }
            #expect(try fleet.report(device).hub?.state == "up")
            liar.lie(nil)
            try wait(seconds: 60, for: "what was held up; \(device.said)") {
                text("edited") == "lost\n" && text("P.rtfd/text") == "lost\n" ? true : nil
            }
            try wait(seconds: 60, for: "the problems to end") {
                try fleet.report(device).hub?.problems.isEmpty == true ? true : nil
            }
            try device.unmount()
        }
    }

    @Test("a conflict version that cannot be read for a while stays unsent until it can be read")
    func unreadableConflict() throws {
        try Fleet.with(1) { fleet in
            let liar = try LyingHub(before: fleet.hub)
            defer { liar.stop() }
            let device = try MountedVolume(options: ["name=team"])
            defer { device.cleanUp() }
            try Programs.fsctl(
                "signin", liar.address, "--code", try fleet.hub.invite(), "--at", device.path
            ).succeed()
            try fleet.put(0, "f", "1")
            let path = "\(device.path)/f"
            try wait(seconds: 60, for: "the document; \(device.said)") {
                (try? String(contentsOfFile: path, encoding: .utf8)) == "1" ? true : nil
            }
            try Programs.fsctl("offline", "--at", device.path).succeed()
            // What is written into contents that were replaced becomes a conflict version.
            var save = Command(
                "/bin/bash", "-ec",
                "exec 3<>f; echo 2 > new; mv new f; head -c 100000 /dev/urandom >&3")
            save.directory = device.path
            try save.succeed()
            try device.waitForDisk()
            try wait(seconds: 60, for: "the conflict version to be in the chunk store") {
                try fleet.report(device).waitingToBeCut == 0 ? true : nil
            }
            func isInConflict() throws -> Bool {
                try Programs.fsctl("versions", path).succeed().contains("conflict")
            }
            #expect(try isInConflict())
            var damage = Command(
                "/bin/bash", "-ec",
                """
                cp -a chunks kept; cd chunks
                for f in *; do
                    head -c $(stat -c %s $f) /dev/zero | dd of=$f conv=notrunc status=none
                done
                """)
            damage.directory = device.store
            try damage.succeed()
            // Each attempt begins with the question which of the chunks the hub has.
            liar.lie { path, body in path.contains("/have") ? body : nil }
            try Programs.fsctl("online", "--at", device.path).succeed()
            try wait(seconds: 120, for: "four attempts; \(device.said)") {
                liar.told > 3 ? true : nil
            }
            #expect(try isInConflict())
            let problem = try fleet.report(device).hub?.problems["f"]
            #expect(problem?.contains("cannot be read") == true)
            var repair = Command(
                "/bin/bash", "-ec",
                "cd kept; for f in *; do dd if=$f of=../chunks/$f conv=notrunc; done; cd ..; "
                    + "rm -r kept")
            repair.directory = device.store
            try repair.succeed()
            try wait(seconds: 60, for: "the conflict version; \(device.said)") {
                let versions = try? fleet.history(0, "f").versions
                return versions?.contains { $0.kind == "conflict" } == true ? true : nil
            }
            try device.unmount()
        }
    }

    /// An answer with chunks, as if the hub did not have those that contain a text.
    private static func without(_ text: String, _ body: [UInt8]) -> [UInt8] {
        var reader = FrameReader()
        reader.append(body)
        var answer: [UInt8] = []
        while let frame = try? reader.nextChunk() {
            let isLost = String(decoding: frame.bytes, as: UTF8.self).contains(text)
            let absent = ChunkFrame(id: frame.id, codec: .absent, bytes: [])
            (isLost ? absent : frame).append(to: &answer)
        }
        return answer
    }
}
