import FileCoordination
import Foundation
import Support
import Synchronization
import Testing

/// What the library reports about a volume and its items (Rows.md, A17, B4, B5).
@Suite("Containers", .serialized) struct UbiquityTests {
    @Test("A17.1, A17.4, B4.1: the token while signed in, equal everywhere; changes are reported")
    func identity() throws {
        try Fleet.with(2) { fleet in
            let containers = try fleet.devices.map { device in
                let container = try UbiquityContainer(ofItemAt: URL(filePath: device.path))
                return try #require(container)
            }
            #expect(containers[0].url.path == fleet.devices[0].path)
            let token = try #require(try containers[0].identityToken())
            #expect(try containers[1].identityToken() == token)
            try fleet.offline(0)
            #expect(try containers[0].identityToken() == token, "in airplane mode too")
            try fleet.online(0)
            try fleet.devices[0].remount()
            let again = try #require(
                try UbiquityContainer(ofItemAt: URL(filePath: "\(fleet.devices[0].path)/new")))
            #expect(try again.identityToken() == token)
            let data = try JSONEncoder().encode(token)
            #expect(
                try JSONDecoder().decode(UbiquityContainer.IdentityToken.self, from: data) == token)

            let heard = Mutex<[UbiquityContainer.IdentityToken?]>([])
            let changes = again.identityChanges
            let listening = Task {
                for await change in changes { heard.withLock { $0.append(change) } }
            }
            defer { listening.cancel() }
            try fleet.settle()
            try Programs.fsctl("signout", "--at", fleet.devices[0].path).succeed()
            #expect(try again.identityToken() == nil)
            try fleet.signIn(fleet.devices[0])
            try wait(for: "both changes") { heard.withLock { $0.count == 2 ? true : nil } }
            #expect(heard.withLock { $0 } == [nil, token])
            #expect(try UbiquityContainer(ofItemAt: URL(filePath: "/tmp")) == nil)
        }
    }

    @Test("A17.2, A17.3: any URL of a volume finds it; there is no token without a sign-in")
    func signedOut() throws {
        try MountedVolume.with { volume in
            let root = URL(filePath: volume.path)
            for name in ["", "new", "not/there/yet"] {
                let url = name.isEmpty ? root : root.appending(path: name)
                let container = try #require(try UbiquityContainer(ofItemAt: url))
                #expect(container.url.path == volume.path)
                #expect(try container.identityToken() == nil)
            }
        }
        try Fleet.with(1) { fleet in
            let root = URL(filePath: fleet.devices[0].path)
            let container = try #require(try UbiquityContainer(ofItemAt: root))
            #expect(try container.identityToken() != nil)
            try Programs.fsctl("signout", "--at", root.path).succeed()
            #expect(try container.identityToken() == nil)
            // It is a place for documents nevertheless.
            try fleet.put(0, "a.txt", "here")
            let url = root.appending(path: "a.txt")
            let values = try UbiquityContainer.resourceValues(ofItemAt: url)
            #expect(values?.isUbiquitous == false)
        }
    }

    @Test("A17.7: all documents of a directory are moved into the volume and out again together")
    func everything() throws {
        let home = try TemporaryDirectory("local")
        try Fleet.with(2) { fleet in
            let (local, back) = ("\(home.path)/mine", "\(home.path)/back")
            let script = """
                mkdir -p mine/d mine/p.rtfd; printf 1 > mine/a.txt
                printf 2 > mine/d/b.txt; printf 3 > mine/p.rtfd/TXT.rtf; cp -a mine copy
                """
            var command = Command("/bin/bash", "-ec", script)
            command.directory = home.path
            try command.succeed()
            let root = URL(filePath: fleet.devices[0].path)
            let there = root.appending(path: "mine")
            let container = try #require(try UbiquityContainer(ofItemAt: root))
            try onMain {
                try await container.setUbiquitous(
                    true, itemAt: URL(filePath: local), destinationURL: there)
            }
            try fleet.expectEqual()
            #expect(!FileManager.default.fileExists(atPath: local))
            let other = "\(fleet.devices[1].path)/mine"
            try Command("diff", "-r", "\(home.path)/copy", other).succeed()
            try onMain {
                try await container.setUbiquitous(
                    false, itemAt: there, destinationURL: URL(filePath: back))
            }
            try Command("diff", "-r", "\(home.path)/copy", back).succeed()
            try fleet.expectEqual()
            #expect(try fleet.names(1) == [])
        }
    }

    @Test("B4.4, B4.6: an item is moved into the volume and out of it, which removes it elsewhere")
    func moving() throws {
        let home = try TemporaryDirectory("local")
        try Fleet.with(2) { fleet in
            let local = URL(filePath: try home.write("mine", to: "a.txt"))
            let root = URL(filePath: fleet.devices[0].path)
            let there = root.appending(path: "a.txt")
            let container = try #require(try UbiquityContainer(ofItemAt: root))
            #expect(!UbiquityContainer.isUbiquitousItem(at: local))
            try onMain {
                try await container.setUbiquitous(true, itemAt: local, destinationURL: there)
            }
            #expect(UbiquityContainer.isUbiquitousItem(at: there))
            #expect(!FileManager.default.fileExists(atPath: local.path))
            try fleet.expectEqual()
            #expect(fleet.text(1, "a.txt") == "mine")

            // The direction is wrong, and the destination exists.
            let wrong = #expect(throws: FileCoordinationError.self) {
                try onMain {
                    try await container.setUbiquitous(
                        true, itemAt: there, destinationURL: local)
                }
            }
            #expect(wrong?.code == .invalid)
            _ = try home.write("in the way", to: "b.txt")
            let taken = URL(filePath: "\(home.path)/b.txt")
            #expect(throws: CocoaError.self) {
                try onMain {
                    try await container.setUbiquitous(
                        false, itemAt: there, destinationURL: taken)
                }
            }
            #expect(fleet.text(0, "a.txt") == "mine")

            // An item that is moved out is complete, even if it was not on this device.
            try UbiquityContainer.evictItem(at: there)
            try onMain {
                try await container.setUbiquitous(
                    false, itemAt: there, destinationURL: local)
            }
            #expect(try String(contentsOf: local, encoding: .utf8) == "mine")
            try fleet.expectEqual()
            #expect(try fleet.names(1) == [])
        }
    }

    @Test("a coordinated read downloads before its accessor runs")
    func coordinatedReading() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", "text")
            try fleet.settle()
            let url = URL(filePath: "\(fleet.devices[1].path)/a.txt")
            func isHere() throws -> Bool {
                try UbiquityContainer.resourceValues(ofItemAt: url)?.downloadingStatus == .current
            }
            func read(_ options: FileCoordinator.ReadingOptions = []) throws -> Bool {
                try UbiquityContainer.evictItem(at: url)
                return try FileCoordinator().coordinate(readingItemAt: url, options: options) { _ in
                    try isHere()
                }
            }
            #expect(try read())
            #expect(try read(.withoutChanges))
            #expect(try !read(.immediatelyAvailableMetadataOnly))
            #expect(
                try FileCoordinator().coordinate(writingItemAt: url, options: .forMerging) { _ in
                    try isHere()
                })

            // While offline, the call throws the error, and nothing is claimed.
            try UbiquityContainer.evictItem(at: url)
            try fleet.offline(1)
            let error = #expect(throws: FileCoordinationError.self) {
                try FileCoordinator().coordinate(readingItemAt: url) { _ in Issue.record("runs") }
            }
            #expect(error?.code == .unavailable)
            #expect(error?.message.contains("cannot be downloaded") == true)
            let writer = FileCoordinator(waits: false)
            try writer.coordinate(writingItemAt: url, options: .forDeleting) { _ in }
            try fleet.online(1)
            // The hub has no news, but it is asked at once.
            try fleet.settle(seconds: 20)

            // A call that waits for a silent hub can be cancelled.
            fleet.hub.send(SIGSTOP)
            defer { fleet.hub.send(SIGCONT) }
            let reader = FileCoordinator()
            let ended = Mutex<FileCoordinationError.Code?>(nil)
            Thread.detachNewThread {
                do {
                    try reader.coordinate(readingItemAt: url) { _ in }
                } catch { ended.withLock { $0 = (error as? FileCoordinationError)?.code } }
            }
            try wait(for: "the turn") {
                try Programs.fsctl("locks", fleet.devices[1].path).succeed().contains("reads")
                    ? true : nil
            }
            reader.cancel()
            try wait(for: "its end") { ended.withLock { $0 } == .cancelled ? true : nil }
            try writer.coordinate(writingItemAt: url, options: .forDeleting) { _ in }
            fleet.hub.send(SIGCONT)
            try fleet.expectEqual()
        }
    }

    @Test("B5.1, B5.2: where contents are, and evicting and downloading them")
    func values() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, ".concordattributes", "* automerge=off\n")
            try fleet.put(0, "a.txt", "old")
            try fleet.settle()
            let url = URL(filePath: "\(fleet.devices[1].path)/a.txt")
            func values() throws -> UbiquityResourceValues {
                let values = try UbiquityContainer.resourceValues(ofItemAt: url)
                return try #require(values)
            }
            var known = try values()
            #expect(known.isUbiquitous && known.isUploaded && !known.isUploading)
            #expect(known.downloadingStatus == .current && !known.hasUnresolvedConflicts)
            try UbiquityContainer.evictItem(at: url)
            known = try values()
            #expect(known.downloadingStatus == .notDownloaded && known.isUploaded)
            try UbiquityContainer.startDownloadingItem(at: url)
            try wait(for: "the contents") {
                try values().downloadingStatus == .current ? true : nil
            }

            // Contents that the hub does not have yet stay.
            try fleet.offline(1)
            try fleet.put(1, "a.txt", "by one")
            try fleet.devices[1].waitForDisk()
            known = try values()
            #expect(!known.isUploaded && known.isUploading)
            let kept = #expect(throws: FileCoordinationError.self) {
                try UbiquityContainer.evictItem(at: url)
            }
            #expect(kept?.code == .refused, "\(String(describing: kept))")
            try fleet.put(0, "a.txt", "by zero")
            try fleet.settle([0])
            try fleet.online(1)
            try wait(seconds: 30, for: "the conflict") {
                try values().hasUnresolvedConflicts ? true : nil
            }
            try fleet.settle()

            let missing = URL(filePath: "\(fleet.devices[1].path)/missing")
            #expect(try UbiquityContainer.resourceValues(ofItemAt: missing) == nil)
            #expect(
                try UbiquityContainer.resourceValues(ofItemAt: URL(filePath: "/etc/passwd")) == nil)
        }
    }
}
