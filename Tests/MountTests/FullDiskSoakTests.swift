import CLinux
import Foundation
import Glibc
import Support
import Synchronization
import SystemCalls
import Testing

private let soakMinutes = ProcessInfo.processInfo.environment["CONCORD_SOAK_MINUTES"]
    .flatMap { Double($0) }
private let diskMinutes = ProcessInfo.processInfo.environment["CONCORD_DISK_MINUTES"]
    .flatMap { Double($0) }

/// A disk of 500 MB that is full all the time: CONCORD_DISK_MINUTES, 3 in `make soak`.
@Suite("Soak: a full disk", .enabled(if: soakMinutes ?? diskMinutes != nil, "make soak"))
struct FullDiskSoakTests {
    @Test("current contents find space, the store always mounts, and the doctor finds nothing")
    func hour() throws {
        let disk = try LoopDisk(.ext4, megabytes: 500)
        try MountedVolume.with(store: "\(disk.path)/store") { volume in
            var random = SeededRandom(named: "FullDisk")
            let work = try FullDiskWork(volume)
            let end = Date(timeIntervalSinceNow: (diskMinutes ?? 3) * 60)
            var rounds = 0
            while Date() < end || rounds == 0 {
                rounds += 1
                try work.run(operations: 120, random: &random)
                try work.fillAndEmpty()
                if random.oneIn(2) { try volume.kill9() } else { try volume.unmount() }
                volume.cleanUp()
                try volume.mount()
                try work.check()
                try Programs.fsctl("doctor", "--no-repair", volume.path).succeed()
            }
            print("\(rounds) rounds; \(work.summary)")
        }
    }
}

/// Programs that write, append and delete until the disk is full, and the results they may expect.
private final class FullDiskWork: Sendable {
    private struct File {
        var size: Int
        var first: [UInt8]
        var last: [UInt8]
    }

    private struct State {
        var files: [String: File] = [:]
        /// Bytes that programs are writing, which are not a complete file yet.
        var underway = 0
        var refusals = 0
        var saves = 0
        var longestWait = 0.0
        var failure: SupportError?
    }

    private let root: String
    private let store: String
    private let usable: Int
    private let state = Mutex(State())
    private static let programs = 3
    private static let mark = 16

    init(_ volume: MountedVolume) throws {
        (root, store) = (volume.path, volume.store)
        var space = statvfs()
        try call(statvfs(volume.path, &space))
        usable = Int(space.f_bavail) * Int(space.f_frsize)
    }

    var summary: String {
        state.withLock {
            "\($0.saves) saves, \($0.refusals) refused, at most "
                + "\(Int($0.longestWait * 1000)) ms until deleted space was there"
        }
    }

    func run(operations: Int, random: inout SeededRandom) throws {
        let seeds = (0..<Self.programs).map { _ in random.next() }
        DispatchQueue.concurrentPerform(iterations: Self.programs) { program in
            var random = SeededRandom(seed: seeds[program])
            for _ in 0..<operations where state.withLock({ $0.failure == nil }) {
                do {
                    try step(program, &random)
                } catch {
                    state.withLock { $0.failure = SupportError("program \(program): \(error)") }
                }
            }
        }
        if let failure = state.withLock({ $0.failure }) { throw failure }
    }

    private func step(_ program: Int, _ random: inout SeededRandom) throws {
        let path = "\(root)/\(program)-\(random.below(8))"
        let known = state.withLock { $0.files[path] }
        switch random.below(10) {
        case 0..<3:
            try save(path, 1 + random.below(30_000_000), via: path + ".new", keeping: 0)
        case 3, 4:
            // The contents that this save empties are copied first.
            try save(path, 1 + random.below(20_000_000), via: path, keeping: known?.size ?? 0)
        case 5..<9: for _ in 0..<20 { try append(path, 1 + random.below(100_000)) }
        default: try remove(path)
        }
        // Frees some space now and then.
        while state.withLock({ $0.files.values.reduce(0) { $0 + $1.size } }) > usable * 9 / 10 {
            let names = state.withLock { $0.files.keys.filter { $0.contains("/\(program)-") } }
            guard !names.isEmpty else { return }
            try remove(random.pick(names.sorted()))
        }
    }

    /// Incompressible bytes, produced at the speed of the kernel.
    private func noise(_ count: Int) throws(Errno) -> [UInt8] {
        try OpenFile("/dev/urandom", O_RDONLY).bytes(count)
    }

    private func save(_ path: String, _ size: Int, via draft: String, keeping old: Int) throws {
        let bytes = try noise(size)
        let replaces = draft == path
        try attempt(size + old) { () throws(Errno) in
            do throws(Errno) {
                let file = try OpenFile(draft, O_WRONLY | O_CREAT | O_TRUNC)
                if replaces { state.withLock { $0.files[path] = nil } }
                try file.write(bytes, at: 0)
                file.close()
                if !replaces { try call(rename(draft, path)) }
            } catch {
                // A program that could not save removes its draft.
                let isBegun = !replaces || state.withLock { $0.files[path] } == nil
                if isBegun { unlink(draft) }
                throw error
            }
            let file = File(
                size: size, first: Array(bytes.prefix(Self.mark)),
                last: Array(bytes.suffix(Self.mark)))
            state.withLock { $0.files[path] = file }
        }
    }

    private func append(_ path: String, _ size: Int) throws {
        let bytes = try noise(size)
        try attempt(size) { () throws(Errno) in
            let file = try OpenFile(path, O_WRONLY | O_CREAT | O_APPEND)
            let before = try file.status().size
            do throws(Errno) { try file.write(bytes, at: 0) } catch {
                try file.truncate(to: before)
                throw error
            }
            state.withLock {
                var known = $0.files[path] ?? File(size: 0, first: [], last: [])
                known.size += size
                known.first = Array((known.first + bytes).prefix(Self.mark))
                known.last = Array((known.last + bytes).suffix(Self.mark))
                $0.files[path] = known
            }
        }
    }

    private func remove(_ path: String) throws {
        guard unlink(path) == 0 || errno == ENOENT else {
            throw SupportError("\(path) cannot be removed: \(Errno(errno)); \(parts())")
        }
        state.withLock { $0.files[path] = nil }
    }

    /// ENOSPC is correct if the current contents and those being written do not fit. A fifth of the
    /// disk is left for the journal, for packs, and for contents that programs have just deleted.
    private func attempt(_ size: Int, _ body: () throws(Errno) -> Void) throws {
        state.withLock { $0.underway += size }
        defer { state.withLock { $0.underway -= size } }
        do throws(Errno) {
            try body()
            state.withLock { $0.saves += 1 }
        } catch {
            guard error == .noSpace else { throw error }
            let needed = state.withLock { state in
                state.refusals += 1
                return state.files.values.reduce(state.underway) { $0 + $1.size }
            }
            if needed < usable * 8 / 10 {
                throw SupportError(
                    "refused \(size) bytes, though all that is current has \(needed) with it, and "
                        + "there are \(usable); \(parts())")
            }
        }
    }

    /// How the disk's space is used, and why old contents stay.
    private func parts() -> String {
        let parts = ["tree", "stash", "chunks", "reserve", "journal.sqlite", "journal.sqlite-wal"]
        let said = try? Command("du", arguments: ["-sk"] + parts.map { "\(store)/\($0)" }).run()
        let kept = try? Programs.fsctl("purge", "--dry-run", root).run()
        let stash = try? Command("ls", "-ls", "\(store)/stash").run()
        let texts = [said?.output.replacing("\n", with: ", "), kept?.output, stash?.output]
        return texts.compactMap(\.self).joined(separator: "\n")
    }

    /// The space of a file is available for the next one as soon as the file is deleted.
    func fillAndEmpty() throws {
        let path = "\(root)/filler"
        let block = try noise(1 << 20)
        var size = 0
        let file: OpenFile
        do throws(Errno) { file = try OpenFile.creating(path) } catch {
            throw SupportError("\(path) cannot be created: \(error); \(parts())")
        }
        while refusal({ () throws(Errno) in try file.write(block, at: size) }) == nil {
            size += block.count
        }
        file.close()
        let current = state.withLock { $0.files.values.reduce(size) { $0 + $1.size } }
        if current < usable * 8 / 10 {
            throw SupportError("full with \(current) bytes of \(usable); \(parts())")
        }
        try remove(path)
        let deleted = cl_clock_monotonic_ns()
        var waited = 0.0
        try wait(seconds: 30, for: "the space of \(size) deleted bytes") { () -> Bool? in
            waited = Double(cl_clock_monotonic_ns() - deleted) / 1e9
            let again: OpenFile
            do throws(Errno) { again = try OpenFile.creating(path) } catch {
                guard error == .noSpace else { throw error }
                print("FullDisk: \(waited) s after the removal: no space to create; \(parts())")
                return nil
            }
            for offset in stride(from: 0, to: size * 9 / 10, by: block.count) {
                let error = refusal { () throws(Errno) in try again.write(block, at: offset) }
                guard let error else { continue }
                guard error == .noSpace else { throw error }
                print("FullDisk: \(waited) s after the removal: full at \(offset); \(parts())")
                return nil
            }
            return true
        }
        state.withLock { $0.longestWait = max($0.longestWait, waited) }
        try remove(path)
    }

    /// All current documents have the contents that were saved.
    func check() throws {
        for (path, file) in state.withLock({ $0.files }) {
            let real = try OpenFile(path, O_RDONLY)
            let (size, marked) = (try real.status().size, min(file.size, Self.mark))
            let first = try real.bytes(marked)
            let last = try real.bytes(marked, at: file.size - marked)
            guard size == file.size, first == file.first, last == file.last else {
                throw SupportError("\(path) is not what was saved (\(size), not \(file.size))")
            }
        }
    }
}
