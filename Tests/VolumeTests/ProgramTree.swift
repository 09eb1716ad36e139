import CLinux
import Foundation
import Glibc
import Journal
import Logging
import Model
import Support
import SystemCalls
import Testing

@testable import Volume

/// A program, as the kernel identifies it in requests.
struct Program: Sendable {
    var process: Int32
    var name = "editor"
    var uid: UInt32 = 0

    var actor: Agent { Agent(process: process, uid: uid, program: name) }
}

typealias Agent = Model.Actor

/// Does what module Mount does for programs, without a kernel: system calls in the tree, with the
/// volume's verbs around them. It handles one request at a time, because the kernel serializes
/// requests for one directory and one inode.
final class ProgramTree: @unchecked Sendable {
    /// What the mount stores for an inode.
    final class Node {
        var writing = Writing()
        var traits: Traits = []
        var handles = 0
        /// The number of the last request that has replaced or removed it.
        var displaced: UInt64 = 0
        /// It was removed before its creator had closed it.
        var isTemporary = false
        /// The name under which it was created or moved last.
        var name = Name("")
    }

    final class Handle {
        let node: Node
        let descriptor: Int32
        let path: Int32
        let isWriter: Bool
        var preImages: PreImageLog?
        var offset: Int64 = 0

        init(node: Node, descriptor: Int32, path: Int32, isWriter: Bool, preImages: PreImageLog?) {
            (self.node, self.descriptor, self.path) = (node, descriptor, path)
            (self.isWriter, self.preImages) = (isWriter, preImages)
        }
    }

    let store: String
    private(set) var volume: Volume!
    let settings: Settings
    private let scratch: Scratch?
    private let belongsToHub: Bool
    /// Whether the test does the recorder's steps; the recorder has no thread then.
    private let isStepwise: Bool
    private let lock = NSRecursiveLock()
    private var nodes: [UInt64: Node] = [:]
    /// Called with each volume that is opened after the first one, before it starts.
    var onOpening: (Volume) -> Void = { _ in }
    /// Called when an open is told that a close may be on its way.
    var whenEarly: (() -> Void)?
    private var unique: UInt64 = 2

    static let fast: Settings = {
        var settings = Settings()
        settings.settleSeconds = 0.02
        settings.patienceSeconds = 0.2
        settings.packageQuietSeconds = 0.05
        settings.postponeSeconds = 0.02
        settings.busySeconds = 0.3
        settings.releaseSeconds = 0.3
        settings.retrySeconds = 0.2
        settings.freeShare = 0
        // Long, so that everything is recorded at the end even if the machine is busy.
        settings.closingSeconds = 20
        return settings
    }()

    /// Without `store`, it uses a directory of its own. With `isStepwise`, that is in memory, and
    /// the test does the recorder's steps.
    init(
        store: String? = nil, settings: Settings = ProgramTree.fast, starts: Bool = true,
        belongsToHub: Bool = true, isStepwise: Bool = false
    ) throws {
        let scratch = store == nil ? Scratch(in: isStepwise ? "/dev/shm" : "/tmp") : nil
        self.scratch = scratch
        self.store = store ?? scratch!.path + "/store"
        self.settings = settings
        self.belongsToHub = belongsToHub
        self.isStepwise = isStepwise
        volume = try ProgramTree.open(self.store, settings, belongsToHub: belongsToHub)
        if starts, !isStepwise { volume.start() }
    }

    func stop() { volume.stop() }

    /// Closes the volume and opens it again; `between` may change the tree directly.
    func remount(settings: Settings? = nil, _ between: () throws -> Void = {}) throws {
        volume.stop()
        try reopen(settings, between)
    }

    /// Ends the volume as if the daemon had been killed, and opens it again. With `copied`, the
    /// store is copied in between, so that all inode numbers change.
    func crash(copied: Bool = false, _ between: () throws -> Void = {}) throws {
        volume.recorder.abandon()
        try reopen(nil) {
            try between()
            guard copied else { return }
            let other = store + ".copy"
            for command in [
                ["cp", "-a", store, other], ["rm", "-rf", store], ["mv", other, store],
            ] {
                let process = Process()
                process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
                process.arguments = command
                try process.run()
                process.waitUntilExit()
            }
        }
    }

    /// Opens the volume again, also after `remount` has failed.
    func reopen(_ settings: Settings?, _ between: () throws -> Void = {}) throws {
        nodes = [:]
        if let opened { Glibc.close(opened) }
        opened = nil
        // A thread of the volume may hold the last reference to it for a moment. Then it closes the
        // store's lock and the journal, which removes files by their paths.
        if volume != nil {
            volume = nil
            try wait(for: "the store to be closed") { try isStoreOpen() ? nil : true }
        }
        try between()
        volume = try ProgramTree.open(
            store, settings ?? self.settings, belongsToHub: belongsToHub)
        onOpening(volume)
        if !isStepwise { volume.start() }
    }

    /// Whether this process has the store's lock or journal open.
    private func isStoreOpen() throws -> Bool {
        let directory = URL(filePath: store).resolvingSymlinksInPath().path
        return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").contains {
            let file = try? FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/self/fd/\($0)")
            return file.map { ($0 as NSString).deletingLastPathComponent } == directory
        }
    }

    private static func open(
        _ store: String, _ settings: Settings, belongsToHub: Bool
    ) throws -> Volume {
        var log = Logger(label: "test")
        log.logLevel = .error
        let volume = try Volume.open(store: store, settings: settings, log: log)
        guard belongsToHub else { return volume }
        try volume.journal.write { t in
            try t.setCurrentHub(
                volume: Identifier(high: 1, low: 1), epoch: Identifier(high: 1, low: 2))
        }
        return volume
    }

    /// An absolute path in the tree.
    func real(_ path: String) -> String { store + "/tree/" + path }

    func nextUnique() -> UInt64 {
        unique += 2
        return unique
    }

    // MARK: Requests

    func withPlace<T>(_ path: String, _ body: (Place) throws -> T) throws -> T {
        let (directory, name) = split(path)
        let descriptor = try Descriptor(
            opening: "tree/" + directory, in: storeDescriptor(),
            flags: O_PATH | O_DIRECTORY)
        let status = try descriptor.status()
        return try name.withCString { text in
            try body(
                Place(descriptor: descriptor.raw, inode: UInt64(status.st_ino), name: text))
        }
    }

    private func storeDescriptor() throws -> Int32 {
        if let opened { return opened }
        let descriptor = try Descriptor(opening: store, flags: O_PATH | O_DIRECTORY).release()
        opened = descriptor
        return descriptor
    }

    private var opened: Int32?

    deinit { if let opened { Glibc.close(opened) } }

    private func split(_ path: String) -> (String, String) {
        guard let slash = path.lastIndex(of: "/") else { return ("", path) }
        return (String(path[..<slash]), String(path[path.index(after: slash)...]))
    }

    func status(_ place: Place) -> stat? {
        var status = stat()
        let result = cl_fstatat(place.descriptor, place.name, &status, AT_SYMLINK_NOFOLLOW)
        return result == 0 ? status : nil
    }

    private func node(_ status: stat) -> Node {
        if let node = nodes[UInt64(status.st_ino)] { return node }
        let node = Node()
        nodes[UInt64(status.st_ino)] = node
        return node
    }

    private func synchronized<T>(_ body: () throws -> T) rethrows -> T {
        lock.lock()
        defer { lock.unlock() }
        return try body()
    }

    /// open(2); `flags` of O_CREAT, O_EXCL, O_TRUNC, O_APPEND and the access mode.
    func open(
        _ path: String, _ flags: Int32, by program: Program, unique: UInt64? = nil
    ) throws -> Handle {
        try synchronized {
            try withPlace(path) { place in
                if let status = status(place) {
                    if flags & O_EXCL != 0 { throw Errno.exists }
                    return try open(place, status, flags, program, unique)
                }
                guard flags & O_CREAT != 0 else { throw Errno.notFound }
                return try create(place, program, unique)
            }
        }
    }

    private func create(_ place: Place, _ program: Program, _ unique: UInt64?) throws -> Handle {
        let descriptor = try check(
            cl_openat(place.descriptor, place.name, O_RDWR | O_CREAT | O_EXCL, 0o644))
        var status = stat()
        _ = cl_fstat(descriptor, &status)
        let node = Node()
        nodes[UInt64(status.st_ino)] = node
        node.traits = .unsaved
        if volume.ignoreFile.isLocal(place.name) { node.traits.insert(.local) }
        node.handles = 1
        node.name = Name(cString: place.name)
        let path = try check(cl_openat(place.descriptor, place.name, O_PATH | O_NOFOLLOW, 0))
        volume.events.created(place, status: status, isWriting: true, by: program.actor)
        _ = try volume.writing.open(
            &node.writing, file: path, status: status, truncates: false, isNew: true,
            traits: node.traits, others: 0, unique: unique ?? nextUnique(), patience: .none,
            by: program.actor)
        return Handle(
            node: node, descriptor: descriptor, path: path, isWriter: true, preImages: nil)
    }

    private func open(
        _ place: Place, _ status: stat, _ flags: Int32, _ program: Program, _ unique: UInt64?
    ) throws -> Handle {
        let node = node(status)
        let path = try check(cl_openat(place.descriptor, place.name, O_PATH | O_NOFOLLOW, 0))
        let isWriter = flags & O_ACCMODE != O_RDONLY
        var preImages: PreImageLog?
        if isWriter {
            let number = unique ?? nextUnique()
            let access = try access(node, path, status, flags, number, program)
            if case .guarded(let guarding) = access { preImages = guarding }
            if case .slow = access { Issue.record("still slow when it may block") }
        }
        let descriptor = try check(cl_reopen(path, isWriter ? O_RDWR : O_RDONLY))
        if isWriter, flags & O_TRUNC != 0 { try check(cl_ftruncate(descriptor, 0)) }
        node.handles += 1
        let handle = Handle(
            node: node, descriptor: descriptor, path: path, isWriter: isWriter, preImages: preImages
        )
        if flags & O_APPEND != 0 { handle.offset = Int64(status.st_size) }
        return handle
    }

    private func access(
        _ node: Node, _ file: Int32, _ status: stat, _ flags: Int32, _ unique: UInt64,
        _ program: Program
    ) throws -> WriteAccess {
        var (patience, isLastTry) = (Patience.none, false)
        while true {
            let attempt = { [isLastTry] (patience: Patience) throws(Errno) -> WriteAccess in
                var status = status
                _ = cl_fstat(file, &status)
                let access = try self.volume.writing.open(
                    &node.writing, file: file, status: status, truncates: flags & O_TRUNC != 0,
                    appends: flags & (O_APPEND | O_TRUNC) == O_APPEND, isNew: false,
                    traits: node.traits, others: node.handles, unique: unique,
                    patience: patience, isLastTry: isLastTry, by: program.actor)
                if case .slow(.room) = access, patience >= .room { throw .noSpace }
                return access
            }
            let access =
                try patience == .room
                ? volume.oldContents.movingAside(for: Int64(status.st_size), attempt)
                : attempt(patience)
            switch access {
            case .direct, .guarded: return access
            case .slow(let needed):
                guard needed > patience else { return access }
                patience = needed
            case .early:
                guard !isLastTry else { return access }
                whenEarly?()
                isLastTry = true
            }
        }
    }

    func write(_ handle: Handle, _ bytes: [UInt8], at offset: Int64? = nil) throws {
        try synchronized {
            let start = offset ?? handle.offset
            let preImages = handle.node.writing.preImages ?? handle.preImages
            if let preImages {
                let count = Int64(bytes.count)
                try volume.oldContents.overwriting(preImages, offset: start, length: count) {
                    () throws(Errno) in
                    try preImages.willWrite(handle.descriptor, offset: start, length: count)
                }
            }
            try bytes.withUnsafeBytes { try writeFully(handle.descriptor, $0, at: start) }
            if offset == nil { handle.offset += Int64(bytes.count) }
        }
    }

    /// fsync(2)
    func sync(_ handle: Handle) throws {
        try synchronized {
            let old = handle.node.writing.unsyncedContents
            try volume.writing.sync(old)
            try check(cl_fsync(handle.descriptor, 0))
            volume.openContents.didSync(
                volume.writing.didSync(&handle.node.writing, old, file: handle.descriptor),
                volume.journal)
        }
    }

    /// fsync(2) by another program, which has it open for reading.
    func syncAll(_ path: String) throws {
        let handle = try open(path, O_RDONLY, by: Program(process: 99, name: "sync"))
        try sync(handle)
        close(handle)
    }

    func read(_ handle: Handle) throws -> [UInt8] {
        var status = stat()
        _ = cl_fstat(handle.descriptor, &status)
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        let count = try bytes.withUnsafeMutableBytes {
            try readFully(handle.descriptor, into: $0, at: 0)
        }
        return Array(bytes[..<count])
    }

    func close(_ handle: Handle, unique: UInt64? = nil) {
        synchronized {
            Glibc.close(handle.descriptor)
            handle.node.handles -= 1
            if handle.isWriter {
                volume.writing.close(
                    &handle.node.writing, file: handle.path, traits: handle.node.traits,
                    unique: unique ?? nextUnique(), displaced: handle.node.displaced)
                if handle.node.writing.writers == 0 { handle.node.traits.remove(.unsaved) }
            }
            Glibc.close(handle.path)
        }
    }

    func truncate(_ path: String, to size: Int64, by program: Program) throws {
        try synchronized {
            try withPlace(path) { place in
                guard var status = status(place) else { throw Errno.notFound }
                let node = node(status)
                let file = Descriptor(
                    owning: try check(cl_openat(place.descriptor, place.name, O_PATH, 0)))
                var patience: Patience? = Patience.none
                while let present = patience {
                    let attempt = { (patience: Patience) throws(Errno) -> Patience? in
                        let needed = try self.volume.writing.willTruncate(
                            &node.writing, file: file.raw, status: status, to: size,
                            traits: node.traits, unique: self.nextUnique(), patience: patience,
                            by: program.actor)
                        if patience >= .room, needed == .room { throw .noSpace }
                        return needed
                    }
                    patience =
                        try present == .room
                        ? volume.oldContents.movingAside(for: Int64(status.st_size), attempt)
                        : attempt(present)
                    if let patience, patience <= present { throw Errno.io }
                }
                try check(cl_truncate_fd(file.raw, size))
                _ = cl_fstat(file.raw, &status)
                volume.writing.didTruncate(
                    &node.writing, file: file.raw, status: status, traits: node.traits,
                    by: program.actor)
            }
        }
    }

    func unlink(_ path: String, by program: Program) throws {
        try synchronized {
            try withPlace(path) { place in
                guard let status = status(place) else { throw Errno.notFound }
                let node = nodes[UInt64(status.st_ino)]
                node?.displaced = nextUnique()
                if node?.traits.contains(.unsaved) == true { node?.isTemporary = true }
                _ = try volume.names.unlink(
                    place, status: status, traits: node?.traits ?? [], by: program.actor)
            }
        }
    }

    func mkdir(_ path: String, by program: Program) throws {
        try synchronized {
            try withPlace(path) { place in
                try check(cl_mkdirat(place.descriptor, place.name, 0o755))
                volume.events.created(place, status: status(place)!, by: program.actor)
            }
        }
    }

    func symlink(_ target: String, _ path: String, by program: Program) throws {
        try synchronized {
            try withPlace(path) { place in
                try check(cl_symlinkat(target, place.descriptor, place.name))
                volume.events.created(place, status: status(place)!, by: program.actor)
            }
        }
    }

    func rmdir(_ path: String, by program: Program) throws {
        try synchronized {
            try withPlace(path) { place in
                guard let status = status(place) else { throw Errno.notFound }
                try volume.names.rmdir(place, status: status, by: program.actor)
            }
        }
    }

    func link(_ path: String, _ other: String, by program: Program) throws {
        try synchronized {
            try withPlace(path) { from in
                try withPlace(other) { to in
                    try check(
                        cl_linkat(from.descriptor, from.name, to.descriptor, to.name, 0))
                    let status = status(to)!
                    node(status).traits.subtract([.local, .unsaved])
                    volume.events.linked(to, status: status, by: program.actor)
                }
            }
        }
    }

    func rename(_ path: String, _ other: String, flags: Int32 = 0, by program: Program) throws {
        try synchronized {
            try withPlace(path) { from in
                try withPlace(other) { to in
                    guard let moved = status(from) else { throw Errno.notFound }
                    let replaced = status(to)
                    let movedNode = nodes[UInt64(moved.st_ino)]
                    let replacedNode = replaced.flatMap { nodes[UInt64($0.st_ino)] }
                    if flags & RENAME_EXCHANGE == 0 { replacedNode?.displaced = nextUnique() }
                    _ = try volume.names.rename(
                        from: from, to: to, flags: UInt32(flags), moved: moved, replaced: replaced,
                        movedTraits: movedNode?.traits ?? [],
                        replacedTraits: replacedNode?.traits ?? [], by: program.actor)
                    movedNode?.traits.subtract([.local, .unsaved])
                    movedNode?.name = to.spot.name
                    if flags & RENAME_EXCHANGE != 0 {
                        replacedNode?.traits.remove(.local)
                        replacedNode?.name = from.spot.name
                    }
                }
            }
        }
    }

    func exchange(_ path: String, _ other: String, by program: Program) throws {
        try rename(path, other, flags: RENAME_EXCHANGE, by: program)
    }
}
