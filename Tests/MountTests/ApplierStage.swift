import CLinux
import Control
import Coordination
import Foundation
import Glibc
import Journal
import Logging
import Model
import Support
import Sync
import SystemCalls
import Testing
import Volume

@testable import Mount
@testable import concord

/// A volume mounted by this process, with its control socket and an applier, as the sync engine has
/// it.
final class ApplierStage {
    let home: TemporaryDirectory?
    let base: String
    let path: String
    let volume: Volume
    let session: MountSession
    let applier: Applier
    let arbiter = Arbiter()
    private let server: ControlServer
    private let done = BlockingQueue<Void>()

    /// Uses a new directory, or the given one.
    init(at base: String? = nil) throws {
        home = base == nil ? try TemporaryDirectory("applier") : nil
        self.base = base ?? home!.path
        let base = self.base
        path = base + "/mount"
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
        var log = Logger(label: "test")
        log.logLevel = .error
        var settings = Settings()
        settings.settleSeconds = 0.02
        settings.packageQuietSeconds = 0.05
        settings.postponeSeconds = 0.02
        volume = try Volume.open(store: base + "/store", settings: settings, log: log)
        let socket = try ControlSocket(directory: base + "/run", audience: .owner)
        session = try MountSession(
            volume: volume, source: base + "/store", mountPoint: path,
            options: Mount.MountOptions(), arbiter: arbiter, socketPath: socket.path, log: log)
        let desk = ClaimService(arbiter: arbiter, session: session, volume: volume)
        applier = Applier(
            session: session, volume: volume, socketPath: socket.path,
            program: Programs.concord, log: log)
        let membership = Membership(volume: volume, tree: applier, log: log) { _ in }
        server = try ControlServer(
            at: socket,
            service: Service(
                volume: volume, session: session, mountPoint: FilePath(path), desk: desk,
                membership: membership, tree: applier,
                autoMerger: AutoMerger(volume: volume, tree: applier, log: log)),
            log: log
        ) { _, _, _ in true }
        volume.start()
        server.start()
        Thread.detachNewThread { [session, done] in
            session.run()
            done.put(())
        }
        let path = path
        try wait(for: "the mount") { try MountTable.isMounted(path) ? true : nil }
    }

    static func with(_ body: (ApplierStage) throws -> Void) throws {
        let stage = try ApplierStage()
        defer { stage.end() }
        try body(stage)
    }

    func end() {
        session.stop()
        done.take()
        applier.stop()
        server.stop()
        volume.stop()
    }

    var socket: String { server.path }

    // MARK: The tree

    func text(_ name: String) -> String? {
        try? String(contentsOfFile: path + "/" + name, encoding: .utf8)
    }

    func write(_ text: String, to name: String) throws {
        try text.write(toFile: path + "/" + name, atomically: false, encoding: .utf8)
        // The mount is told of the close a moment after the program has returned from it.
        try wait(for: "\(name) to be recorded") {
            try quiet()
            // A file in a package is no item.
            guard let item = try item(name) else { return true }
            return item.size == UInt64(text.utf8.count) && item.changed != 0 ? true : nil
        }
    }

    /// Waits until all events are in the journal and everything is recorded.
    func quiet() throws {
        let volume = volume
        try wait(for: "the recorder") {
            _ = try volume.recorder.perform { _, _ in }
            let status = try VolumeStatus(of: volume)
            return status.waitingToBeCut == 0 && status.pendingEvents == 0 && !status.scanning
                ? true : nil
        }
    }

    func item(_ name: String) throws -> Item? {
        try volume.recorder.perform { _, t in
            var item = try t.item(Item.root)
            for name in name.split(separator: "/") {
                item = try item.flatMap { try t.item(parent: $0.key, name: Name(name)) }
            }
            return item
        }
    }

    func place(_ name: String) -> TreePlace {
        TreePlace(name.split(separator: "/").map { Name($0) })
    }

    /// The item as the planner knows it, from the journal.
    func expected(_ name: String) throws -> FileSnapshot {
        let item = try #require(try item(name))
        var status = stat()
        #expect(lstat(path + "/" + name, &status) == 0)
        var snapshot = FileSnapshot(status)
        snapshot.inode = item.inode
        if item.kind == .file {
            snapshot.size = Int64(item.size)
            (snapshot.modified, snapshot.changed) = (item.modified, item.changed)
        }
        return snapshot
    }

    // MARK: Arrivals

    /// A prepared item: its name in the hidden directory, and what it is.
    func file(_ text: String, item: Identifier = .random(), parents: [Identifier] = []) throws
        -> (String, Arrival)
    {
        let arrival = ApplierStage.arrival(text, item: item, parents: parents)
        return (try prepare(arrival, [text]), arrival)
    }

    static func arrival(
        _ text: String, item: Identifier, version id: Identifier = .random(),
        parents: [Identifier] = []
    ) -> Arrival {
        let bytes = Array(text.utf8)
        let chunk = ChunkReference(id: .sha256(bytes), length: UInt32(bytes.count))
        let manifest = Manifest(chunks: bytes.isEmpty ? [] : [chunk])
        let version = Version(
            id: id, number: 0, parents: parents, device: .random(), deviceName: "other",
            person: "ann",
            program: "cp", name: Name("x"), size: UInt64(bytes.count),
            modified: 1_700_000_000_000_000_000, saved: 1, content: .sha256(manifest.contentForm),
            durability: .hub)
        return Arrival(
            item: item, kind: .file, version: version, manifest: manifest.encoded, mode: 0o644)
    }

    func prepare(_ arrival: Arrival, _ texts: [String] = []) throws -> String {
        try volume.arrivals.prepare(arrival) { (chunks, file) throws(VolumeError) in
            for text in texts {
                let bytes = Array(text.utf8)
                guard chunks.first?.id == .sha256(bytes) else { continue }
                _ = cl_pwrite(file, bytes, bytes.count, 0)
            }
        }
    }

    func package(_ files: [String: String], item: Identifier) throws -> (String, Arrival) {
        let entries = files.sorted { $0.key < $1.key }.map { name, text in
            Manifest.Entry(
                path: Array(name.utf8), size: UInt64(text.utf8.count),
                chunks: [
                    ChunkReference(id: .sha256(Array(text.utf8)), length: UInt32(text.utf8.count))
                ])
        }
        let manifest = Manifest(entries: entries)
        let version = Version(
            number: 0, device: .random(), deviceName: "other", person: "ann", program: "cp",
            name: Name("x"), size: manifest.size, modified: 1_700_000_000_000_000_000, saved: 1,
            content: .sha256(manifest.contentForm), durability: .hub)
        let arrival = Arrival(
            item: item, kind: .package, version: version, manifest: manifest.encoded)
        return (try prepare(arrival, Array(files.values)), arrival)
    }

    func apply(_ step: ApplierStep) -> ApplierResult { applier.apply([step])[0] }

    func conflicts(_ name: String) throws -> Int {
        try volume.history.document(at: place(name).path)?.versions.count { $0.kind == .conflict }
            ?? 0
    }
}

/// The inotify events of some directories.
final class Watcher {
    private let descriptor: Int32
    private var names: [Int32: String] = [:]

    init(_ directories: [String]) throws {
        descriptor = inotify_init1(Int32(O_NONBLOCK | O_CLOEXEC))
        for directory in directories {
            let watch = inotify_add_watch(descriptor, directory, 0xfff)
            guard watch >= 0 else { throw SupportError("inotify: \(errno)") }
            names[watch] = URL(fileURLWithPath: directory).lastPathComponent
        }
    }

    deinit { close(descriptor) }

    /// All events except opening, closing and reading, as `directory/name event`.
    func events() -> [String] {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        let count = read(descriptor, &buffer, buffer.count)
        var found: [String] = []
        var at = 0
        while at < count {
            let (watch, mask, length) = buffer.withUnsafeBytes { raw in
                (
                    raw.loadUnaligned(fromByteOffset: at, as: Int32.self),
                    raw.loadUnaligned(fromByteOffset: at + 4, as: UInt32.self),
                    Int(raw.loadUnaligned(fromByteOffset: at + 12, as: UInt32.self))
                )
            }
            let bytes = buffer[(at + 16)..<(at + 16 + length)].prefix { $0 != 0 }
            let words: [(UInt32, String)] = [
                (0x2, "modified"), (0x4, "attributes"), (0x40, "from"), (0x80, "to"),
                (0x100, "created"), (0x200, "deleted"), (0x400, "gone"), (0x800, "moved"),
            ]
            for (bit, word) in words where mask & bit != 0 {
                found.append(
                    "\(names[watch] ?? "?")/\(String(decoding: bytes, as: UTF8.self)) \(word)")
            }
            at += 16 + length
        }
        return found
    }
}
