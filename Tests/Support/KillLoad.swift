import Foundation
import Glibc
import Synchronization
import SystemCalls

/// The load of one round: threads that save documents in every way, and one that moves files, until
/// they are told to stop or the mount dies.
final class KillLoad: Sendable {
    /// Set before the daemon is killed: only then an error is expected.
    let dying = Atomic(false)
    private let stopping = Atomic(false)
    private let group = DispatchGroup()
    let writers: [KillWriter]
    let renamer: KillRenamer

    init(directory: String, random: inout SeededRandom, writers count: Int = 4) {
        // Contents of different loads on one volume differ.
        let load = directory.split(separator: " ").last ?? ""
        writers = (0..<count).map {
            KillWriter(directory: directory, name: "writer\($0).\(load)", random: random.fork())
        }
        renamer = KillRenamer(
            directory: directory, name: "renamer.\(load)", random: random.fork())
    }

    /// Makes the directory, starts a load in it, and returns after a random time of at most
    /// `microseconds` plus 30 ms.
    static func started(
        in directory: String, random: inout SeededRandom, microseconds: Int
    ) throws -> KillLoad {
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: false)
        let load = KillLoad(directory: directory, random: &random)
        load.start()
        usleep(UInt32(30_000 + random.below(microseconds)))
        return load
    }

    func start() {
        for writer in writers { run(writer.step) }
        run(renamer.step)
    }

    /// Repeats a step on a thread of its own until the load is stopped or the step fails.
    private func run(_ step: @escaping @Sendable () throws -> Void) {
        group.enter()
        Thread { [self] in
            defer { group.leave() }
            while !stopping.load(ordering: .relaxed) {
                do { try step() } catch {
                    if dying.load(ordering: .acquiring) { return }
                    return refusals.withLock { $0.append("\(error)") }
                }
            }
        }.start()
    }

    /// Errors from the time when the daemon was alive. There should be none.
    let refusals = Mutex<[String]>([])

    /// Waits for every thread. A thread that never ends hangs in a request that is never answered.
    func stop() throws {
        stopping.store(true, ordering: .relaxed)
        guard group.wait(timeout: .now() + 60) == .success else {
            throw SupportError("a program hangs in the mount a minute after its daemon died")
        }
        if let refused = refusals.withLock({ $0.first }) {
            throw SupportError("refused before the kill: \(refused)")
        }
    }
}

/// Saves a few documents again and again, and remembers what was promised. Only its own thread uses
/// the properties that are not guarded by the mutex.
final class KillWriter: @unchecked Sendable {
    struct Document {
        var attempted = -1
        var acknowledged = -1
        /// All saves that were attempted.
        var saves: Set<Int> = []
        /// The saves that were synced, or reported to be on the disk.
        var durable: [Int] = []
        /// How each save was made; it is printed when one is missing.
        var log: [String] = []
    }

    let name: String
    private let directory: String
    private let known = Mutex<[String: Document]>([:])
    private var random: SeededRandom
    private var sequence = 0

    /// A snapshot of what has been attempted, answered and promised so far.
    var documents: [String: Document] { known.withLock { $0 } }

    private func note(_ document: String, _ change: (inout Document) -> Void) {
        known.withLock { change(&$0[document, default: Document()]) }
    }

    init(directory: String, name: String, random: SeededRandom) {
        self.directory = directory
        self.name = name
        self.random = random
    }

    func path(_ document: String) -> String { "\(directory)/\(document)" }

    func step() throws {
        sequence += 1
        let document = "\(name) document \(random.below(3)).txt"
        let length = random.below(random.oneIn(5) ? 60_000 : 4_000)
        let bytes = WholeContent(writer: name, sequence: sequence).bytes(length: length)
        let synced = random.oneIn(4)
        note(document) {
            $0.attempted = sequence
            $0.saves.insert(sequence)
        }
        let pattern = random.pick(SavePattern.allCases)
        note(document) { $0.log.append("\(sequence):\(pattern)\(synced ? " synced" : "")") }
        try pattern.save(bytes, to: path(document), synced: synced)
        note(document) { $0.acknowledged = sequence }
        if synced {
            note(document) { $0.durable.append(sequence) }
        } else if random.oneIn(20) {
            let waited = try Programs.fsctl("wait", "--durable", "disk", path(document)).run()
            guard waited.status == 0 else {
                throw SupportError("fsctl wait --durable disk: \(waited.errors)")
            }
            note(document) { $0.durable.append(sequence) }
        }
    }
}

/// Moves files of known content between a few names, by replacing and by exchanging.
final class KillRenamer: @unchecked Sendable {
    let name: String
    private let directory: String
    private var random: SeededRandom
    private var sequence = 0
    /// The content of each name, and what it would be after the move that is not answered yet.
    private(set) var names: [String: Int] = [:]
    private(set) var underWay: [String: Int]?

    init(directory: String, name: String, random: SeededRandom) {
        self.directory = directory
        self.name = name
        self.random = random
    }

    func path(_ name: String) -> String { "\(directory)/\(name)" }

    func step() throws {
        let from = "moved \(random.below(4))"
        let to = "moved \(random.below(4))"
        guard let content = names[from] else { return try make(from) }
        if from == to { return }
        var after = names
        after[to] = content
        after[from] = random.oneIn(3) ? names[to] : nil
        let flags: UInt32 = after[from] == nil ? 0 : 2
        underWay = after
        guard renameat2(path(from), path(to), flags) == 0 else {
            throw SupportError("renaming \(from) to \(to): \(String(cString: strerror(errno)))")
        }
        names = after
        underWay = nil
    }

    private func make(_ name: String) throws {
        sequence += 1
        underWay = names.merging([name: sequence]) { $1 }
        let bytes = WholeContent(writer: self.name, sequence: sequence).bytes(length: 3_000)
        try SavePattern.replace.save(bytes, to: path(name), synced: false)
        names[name] = sequence
        underWay = nil
    }
}
