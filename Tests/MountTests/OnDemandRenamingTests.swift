import CLinux
import Foundation
import Glibc
import Support
import Testing

/// Renames and links that would make a placeholder's bytes a part of another document.
@Suite("renaming on demand")
struct OnDemandRenamingTests {
    private func versions(_ volume: OnDemandVolume, _ name: String) throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "\(volume.path)/.versions/\(name)")
            .count
    }

    private func package(_ volume: OnDemandVolume, _ name: String) throws {
        try Command("mkdir", "\(volume.path)/\(name)").succeed()
        try Command("sh", "-c", "echo text > \(volume.path)/\(name)/text").succeed()
        try volume.order("keep", name)
    }

    @Test(
        "a placeholder renamed over a document is fetched first", arguments: [1000, 3 << 20],
        DataPath.allCases)
    func over(size: Int, way: DataPath) throws {
        try OnDemandVolume.with(way.rawValue) { volume in
            let draft = try volume.absent("draft.txt", bytes: size)
            try volume.absent("report.txt", bytes: size)
            try Command("mv", "\(volume.path)/draft.txt", "\(volume.path)/report.txt").succeed()
            #expect(try volume.order("dataless", "report.txt") == "false")
            try volume.order("keep", "report.txt")
            #expect(try versions(volume, "report.txt") == 2)
            try volume.unmount()
            try volume.mount()
            #expect(try volume.read("report.txt") == draft)
            #expect(try versions(volume, "report.txt") == 2)
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("two placeholders that are exchanged are fetched first")
    func exchanged() throws {
        try OnDemandVolume.with { volume in
            let (a, b) = ("\(volume.path)/a.txt", "\(volume.path)/b.txt")
            let first = try volume.absent("a.txt", bytes: 5000)
            let second = try volume.absent("b.txt", bytes: 6000)
            try #require(
                cl_renameat2(AT_FDCWD, a, AT_FDCWD, b, 2) == 0)
            for name in ["a.txt", "b.txt"] {
                #expect(try volume.order("dataless", name) == "false")
                try volume.order("keep", name)
                #expect(try versions(volume, name) == 2)
            }
            #expect(try volume.read("a.txt") == second)
            #expect(try volume.read("b.txt") == first)
        }
    }

    @Test(
        "a placeholder moved into a package is fetched first", arguments: ["mv", "ln", "directory"])
    func intoPackage(how: String) throws {
        try OnDemandVolume.with { volume in
            try package(volume, "Note.rtfd")
            try Command("mkdir", "-p", "\(volume.path)/photos/more").succeed()
            let photo = try volume.absent("photos/more/photo.jpg", bytes: 50_000)
            let directory = how == "directory"
            let from = "\(volume.path)/photos" + (directory ? "" : "/more/photo.jpg")
            try Command(how == "ln" ? "ln" : "mv", from, "\(volume.path)/Note.rtfd/").succeed()
            try volume.order("keep", "Note.rtfd")
            #expect(try versions(volume, "Note.rtfd") == 2)
            let path = "Note.rtfd/" + (directory ? "photos/more/photo.jpg" : "photo.jpg")
            try volume.set("offline")
            #expect(try volume.read(path) == photo)
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("the contents of a directory renamed to a package are fetched first")
    func becomesPackage() throws {
        try OnDemandVolume.with { volume in
            try Command("mkdir", "\(volume.path)/photos").succeed()
            var photos: [String: Data] = [:]
            for name in ["a", "b", "c"] {
                photos[name] = try volume.absent("photos/\(name)", bytes: 50_000)
            }
            try Command("mv", "\(volume.path)/photos", "\(volume.path)/photos.pages").succeed()
            try volume.order("keep", "photos.pages")
            try volume.set("offline")
            for (name, bytes) in photos {
                #expect(try volume.read("photos.pages/\(name)") == bytes)
            }
        }
    }

    @Test("placeholders in a directory are fetched before an attribute makes it a package")
    func becomesPackageByAttribute() throws {
        try OnDemandVolume.with { volume in
            try Command("mkdir", "\(volume.path)/photos").succeed()
            let photo = try volume.absent("photos/a", bytes: 50_000)
            let attribute = ["-n", "user.concord.package", "-v", "1", "\(volume.path)/photos"]
            try volume.set("offline")
            let failure = try Command("setfattr", arguments: attribute).run()
            #expect(failure.errors.contains("unreachable"), "\(failure)")
            #expect(try volume.order("dataless", "photos/a") == "true")
            try volume.set("offline", nil)
            try Command("setfattr", arguments: attribute).succeed()
            try volume.order("keep", "photos")
            try volume.set("offline")
            #expect(try volume.read("photos/a") == photo)
            #expect(try versions(volume, "photos") == 1)
        }
    }

    /// Changes the store's tree while the volume is not mounted.
    private func edit(_ volume: OnDemandVolume, _ script: String) throws {
        try volume.unmount()
        var command = Command("/bin/sh", "-ec", script)
        command.directory = "\(volume.store)/tree"
        try command.succeed()
        try volume.mount()
    }

    @Test("a placeholder moved over a document while unmounted is downloaded", arguments: 0...2)
    func overWhileUnmounted(offlineMounts: Int) throws {
        try OnDemandVolume.with { volume in
            let draft = try volume.absent("draft.txt", bytes: 5000)
            try volume.absent("report.txt", bytes: 5000)
            if offlineMounts > 0 { try volume.set("offline") }
            try edit(volume, "mv draft.txt report.txt")
            for _ in 0..<offlineMounts {
                #expect(throws: (any Error).self) { try volume.read("report.txt") }
                #expect(try versions(volume, "report.txt") == 1)
                try edit(volume, ":")
            }
            try volume.set("offline", nil)
            try volume.order("online")
            try wait(seconds: 20, for: "the bytes") {
                try volume.order("dataless", "report.txt") == "false" ? true : nil
            }
            #expect(!volume.asked.isEmpty)
            try wait(seconds: 20, for: "a version of its own") {
                try versions(volume, "report.txt") == 2 ? true : nil
            }
            #expect(try volume.read("report.txt") == draft)
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: volume.path) == ["report.txt"])
            try edit(volume, ":")
            #expect(try versions(volume, "report.txt") == 2)
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test(
        "a placeholder that became a part of a package while unmounted is downloaded",
        arguments: [
            "mv photos/photo.jpg Note.rtfd/", "ln photos/photo.jpg Note.rtfd/",
            "mv photos Note.rtfd/", "mv photos New.rtfd",
            "setfattr -n user.concord.package -v 1 photos",
            "cp -a --sparse=always photos/photo.jpg Note.rtfd/",
        ])
    func intoPackageWhileUnmounted(script: String) throws {
        try OnDemandVolume.with { volume in
            try package(volume, "Note.rtfd")
            try Command("mkdir", "\(volume.path)/photos").succeed()
            let photo = try volume.absent("photos/photo.jpg", bytes: 50_000)
            try edit(volume, script)
            let names = ["Note.rtfd", "New.rtfd", "photos"]
            let package = names.first { script.hasSuffix($0) || script.hasSuffix($0 + "/") } ?? ""
            let inside = script.contains("photos Note") ? "photos/photo.jpg" : "photo.jpg"
            let count = package == "Note.rtfd" ? 2 : 1
            try volume.order("online")
            try wait(seconds: 20, for: "the package to be recorded") {
                (try? versions(volume, package)) == count ? true : nil
            }
            let last =
                try FileManager.default.contentsOfDirectory(
                    atPath: "\(volume.path)/.versions/\(package)"
                ).sorted().last ?? ""
            #expect(try volume.read(".versions/\(package)/\(last)/\(inside)") == photo)
            try volume.set("offline")
            #expect(try volume.read("\(package)/\(inside)") == photo)
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("a temporary file that becomes a document, or gets a second name, is fetched first")
    func anotherName() throws {
        try OnDemandVolume.with { volume in
            let bytes = try volume.absent("a.txt", bytes: 5000)
            let path = "\(volume.path)/a.txt"
            try Command("ln", path, "\(volume.path)/b.txt").succeed()
            try volume.set("offline")
            #expect(try volume.read("b.txt") == bytes)
            try volume.set("offline", nil)
            let other = try volume.absent("c.txt", bytes: 5000)
            try Command("mv", "\(volume.path)/c.txt", "\(volume.path)/c.tmp").succeed()
            #expect(volume.asked.isEmpty)
            try Command("mv", "\(volume.path)/c.tmp", "\(volume.path)/d.txt").succeed()
            try volume.order("keep", "d.txt")
            try volume.set("offline")
            #expect(try volume.read("d.txt") == other)
        }
    }

    @Test("without the hub these renames fail, and nothing is lost")
    func offline() throws {
        try OnDemandVolume.with { volume in
            let draft = try volume.absent("draft.txt", bytes: 5000)
            let report = try volume.absent("report.txt", bytes: 5000)
            try package(volume, "Note.rtfd")
            try volume.set("offline")
            for words in [
                ["mv", "draft.txt", "report.txt"], ["mv", "draft.txt", "Note.rtfd/draft.txt"],
                ["ln", "draft.txt", "Note.rtfd/draft.txt"], ["ln", "draft.txt", "second.txt"],
            ] {
                let names = words.dropFirst().map { "\(volume.path)/\($0)" }
                let failure = try Command(words[0], names[0], names[1]).run()
                #expect(failure.errors.contains("unreachable"), "\(words): \(failure.errors)")
            }
            // A document can be renamed or removed without its bytes.
            try Command("mv", "\(volume.path)/draft.txt", "\(volume.path)/final.txt").succeed()
            #expect(try versions(volume, "final.txt") == 1)
            #expect(try versions(volume, "Note.rtfd") == 1)
            try volume.set("offline", nil)
            #expect(try volume.read("final.txt") == draft)
            #expect(try volume.read("report.txt") == report)
            #expect(try volume.order("doctor") == "")
        }
    }

    @Test("many waiting renames do not delay other requests, and a signal ends them")
    func waiting() throws {
        try OnDemandVolume.with { volume in
            try "there".write(
                toFile: "\(volume.path)/there", atomically: false, encoding: .utf8)
            for number in 0..<12 {
                try Command("mkdir", "\(volume.path)/\(number)").succeed()
                try volume.absent("\(number)/a.txt", bytes: 5000)
                try volume.absent("\(number)/b.txt", bytes: 5000)
            }
            try volume.set("hold")
            let null = open("/dev/null", O_RDWR | O_CLOEXEC)
            defer { close(null) }
            let moves = try (0..<12).map { number in
                let names = ["a.txt", "b.txt"].map { "\(volume.path)/\(number)/\($0)" }
                return try ChildProcess("mv", names, input: null, output: null, errors: null)
            }
            try wait(for: "a request to the hub") { volume.asked.isEmpty ? nil : true }
            #expect(try volume.read("there") == Data("there".utf8))
            try Command("sh", "-c", "echo new > \(volume.path)/new").succeed()
            moves[0].send(SIGTERM)
            #expect(try moves[0].waitForEnd(seconds: 20) != 0)
            try volume.set("hold", nil)
            for move in moves.dropFirst() { #expect(try move.waitForEnd(seconds: 60) == 0) }
            let left = try ["0", "1"].map {
                try FileManager.default.contentsOfDirectory(atPath: "\(volume.path)/\($0)").count
            }
            #expect(left == [2, 1])
        }
    }
}
