import Control
import Foundation
import Glibc
import Model

/// A hub and its devices: real processes and real mounts, which are ended together with this
/// object.
package final class Fleet {
    package let hub: HubProcess
    package private(set) var devices: [MountedVolume] = []

    package init(_ count: Int, hub: HubProcess? = nil) throws {
        self.hub = try hub ?? HubProcess()
        for _ in 0..<count { try join() }
    }

    /// Runs `body` with that many synchronized devices. Throws also when the hub or a device does
    /// not end properly, or when their data is not sound.
    package static func with<Value>(
        _ count: Int, hub: HubProcess? = nil, _ body: (Fleet) throws -> Value
    ) throws -> Value {
        let fleet = try Fleet(count, hub: hub)
        do {
            let value = try body(fleet)
            for device in fleet.devices { try device.unmount() }
            try fleet.hub.stop()
            try fleet.hub.check()
            return value
        } catch {
            let said = fleet.devices.map(\.said).joined(separator: "\n")
            for device in fleet.devices { device.cleanUp() }
            try? fleet.hub.stop()
            throw SupportError("\(error)\nThe devices said:\n\(said)\nThe hub: \(fleet.hub.said)")
        }
    }

    /// Adds a device with a new or an existing store. Users other than ann join her volume.
    @discardableResult
    package func join(
        store: String? = nil, environment: [String: String] = [:], as user: String = "ann",
        named name: String? = nil, volume: String? = nil,
        after work: (MountedVolume) throws -> Void = { _ in }
    ) throws -> MountedVolume {
        let device = try MountedVolume(
            store: store, options: ["name=team"], environment: environment)
        devices.append(device)
        try work(device)
        try signIn(device, as: user, named: name, volume: volume)
        return device
    }

    /// Adds a device with a store that is signed in already.
    @discardableResult
    package func attach(store: String) throws -> MountedVolume {
        let device = try MountedVolume(store: store, options: ["name=team"])
        devices.append(device)
        return device
    }

    package func signIn(
        _ device: MountedVolume, as user: String = "ann", named name: String? = nil,
        volume: String? = nil
    ) throws {
        let number = devices.firstIndex { $0 === device } ?? 0
        let words = [
            "signin", hub.address, "--code", try hub.invite(user), "--device",
            name ?? "dev\(number)", "--at", device.path,
        ]
        let owner = user == "ann" ? [] : ["--owner", "ann"]
        let volume = volume.map { ["--volume", $0] } ?? []
        try Command(Programs.fsctl, arguments: words + owner + volume).succeed()
    }

    package func offline(_ index: Int) throws {
        try Programs.fsctl("offline", "--at", devices[index].path).succeed()
    }

    package func online(_ index: Int) throws {
        try Programs.fsctl("online", "--at", devices[index].path).succeed()
    }

    /// Like `offline` and `online`, but without starting processes: a soak would need a hundred
    /// thousand.
    package func set(_ index: Int, online: Bool) throws {
        let place = try MountedPath(FilePath(devices[index].path))
        _ = try ControlClient(socket: place.socket).ask(
            Request(online ? .online : .offline), as: IdentityReport.self)
    }

    // MARK: Waiting

    package func report(_ device: MountedVolume) throws -> VolumeReport {
        let place = try MountedPath(FilePath(device.path))
        return try ControlClient(socket: place.socket).ask(
            Request(.status), as: VolumeReport.self)
    }

    /// Returns when nothing is being exchanged any more between the hub and these devices (all
    /// devices, if `only` is nil).
    package func settle(_ only: [Int]? = nil, seconds: Double = 60) throws {
        let indices = only ?? Array(devices.indices)
        var last = ""
        var still = 0
        // What was done until now is in the journals then, so the counts below include it.
        for index in indices { try devices[index].waitForDisk() }
        try wait(seconds: seconds, for: "all to be in step: \(last)") { () throws -> Bool? in
            var cursors: Set<UInt64> = []
            last = ""
            for index in indices {
                let report = try self.report(self.devices[index])
                guard let hub = report.hub else { throw SupportError("signed out") }
                let open =
                    report.pendingEvents + report.waitingToBeCut + hub.unsent + hub.sending
                    + hub.due
                if hub.state != "up" || open > 0 || hub.head != hub.cursor || report.scanning {
                    last += "\(index): \(hub) \(report.pendingEvents) \(report.waitingToBeCut); "
                }
                cursors.insert(hub.cursor)
            }
            if cursors.count != 1 { last += "the cursors are \(cursors)" }
            guard last.isEmpty else {
                still = 0
                return nil
            }
            // A single count may be taken between two steps.
            still += 1
            return still > 3 ? true : nil
        }
    }

    /// Saves again what a device does not send after a loss of power, because it cannot tell it
    /// from a part of a save.
    package func saveUnfinished(_ index: Int) throws {
        try settle([index])
        for problem in try report(devices[index]).problems {
            guard let end = problem.range(of: " was being saved when the machine stopped")
            else { continue }
            let path = problem[..<end.lowerBound]
            try shell(index, "cp '\(path)' .again.tmp && mv .again.tmp '\(path)'")
        }
    }

    /// Settles, and throws unless all trees are equal: names, kinds, modes, contents, and the
    /// modification times of files. Background
    /// work, such as a merge, gets some time.
    package func expectEqual(_ only: [Int]? = nil, tries: Int = 1) throws {
        for _ in 1..<tries {
            do { return try expectEqual(only) } catch { sleep(2) }
        }
        try settle(only)
        let indices = only ?? Array(devices.indices)
        guard let first = indices.first else { return }
        let mine = try tree(devices[first].path)
        for index in indices.dropFirst() {
            let theirs = try tree(devices[index].path)
            guard mine == theirs else {
                let names = Set(mine.keys).union(theirs.keys).sorted()
                let differing = names.filter { mine[$0] != theirs[$0] }.map {
                    "\($0): \(mine[$0] ?? "nothing") / \(theirs[$0] ?? "nothing")"
                }
                let path = names.first { mine[$0] != theirs[$0] }
                let facts = [first, index].map { self.facts($0, path) }
                throw SupportError(
                    "devices \(first) and \(index) differ:\n"
                        + (differing.prefix(20) + facts).joined(separator: "\n"))
            }
        }
    }

    /// What a device knows about itself and about a path, for the message of a failed comparison:
    /// whether the hub's state is stuck or refused there, which versions the journal has, and what
    /// the tree has, which may differ from what the mount shows.
    private func facts(_ index: Int, _ path: String?) -> String {
        let device = devices[index]
        var facts = "device \(index): "
        if let report = try? report(device) {
            facts += "\(report.hub.map { "\($0)" } ?? "signed out"), problems \(report.problems), "
            facts += "\(report.unexaminedConflicts ?? 0) conflicts are not examined"
        }
        guard let path else { return facts }
        let log = try? Programs.fsctl("log", "\(device.path)/\(path)").run()
        facts += "\n\(log?.output ?? "")"
        let places = [device.tree, device.path].map { "\($0)/\(path)" }
        let stat = try? Command("/usr/bin/stat", arguments: ["-c", "%n %i %s %y %z"] + places).run()
        return facts + (stat?.output ?? "")
    }

    /// What a user sees of a tree, by path.
    private func tree(_ root: String) throws -> [String: String] {
        var tree: [String: String] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: root) {
            var status = stat()
            let whole = "\(root)/\(path)"
            guard lstat(whole, &status) == 0 else { continue }
            var about = String(status.st_mode, radix: 8)
            switch status.st_mode & S_IFMT {
            case S_IFREG:
                let data = try Data(contentsOf: URL(filePath: whole))
                about += " \(data.count) \(data.hashed)"
                // A new file that nobody has written to has no version, and no time is sent.
                let time = status.st_mtim
                if !data.isEmpty { about += " \(time.tv_sec).\(time.tv_nsec)" }
            case S_IFLNK:
                about += " " + (try FileManager.default.destinationOfSymbolicLink(atPath: whole))
            default: break
            }
            tree[path] = about
        }
        return tree
    }

    /// The text at a path of a device; nil when nothing is there.
    package func text(_ index: Int, _ path: String) -> String? {
        try? String(contentsOfFile: "\(devices[index].path)/\(path)", encoding: .utf8)
    }

    package func put(_ index: Int, _ path: String, _ text: String) throws {
        try Data(text.utf8).write(to: URL(filePath: "\(devices[index].path)/\(path)"))
    }

    /// Runs a shell command in a device's mount.
    package func shell(_ index: Int, _ script: String) throws {
        var command = Command("/bin/bash", "-ec", script)
        command.directory = devices[index].path
        try command.succeed()
    }

    package func names(_ index: Int, _ directory: String = "") throws -> [String] {
        try FileManager.default.contentsOfDirectory(
            atPath: "\(devices[index].path)/\(directory)"
        ).sorted()
    }

    /// The texts of a document's conflict versions, sorted.
    package func conflicts(_ index: Int, _ path: String) throws -> [String] {
        let place = try MountedPath(FilePath("\(devices[index].path)/\(path)"))
        let client = try ControlClient(socket: place.socket)
        let history = try client.ask(
            Request(.versions, path: place.components), as: HistoryReport.self)
        return try history.versions.filter { $0.kind == "conflict" }.map { version in
            var piece = Request(.extract, path: place.components)
            piece.number = version.number
            let report = try client.ask(piece, as: PieceReport.self)
            return String(
                decoding: Data(base64Encoded: report.data) ?? Data(), as: UTF8.self)
        }.sorted()
    }
}

extension Data {
    /// An FNV-1a hash: equal for equal bytes, and almost never for others.
    package var hashed: String {
        var sum: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in self { sum = (sum ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return String(sum, radix: 16)
    }
}
