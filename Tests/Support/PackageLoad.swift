import Foundation
import Glibc
import Synchronization

/// A program that saves the members of a package again and again, in every way, on a thread of its
/// own, and remembers what was promised.
final class PackageLoad: @unchecked Sendable {
    struct Member {
        var attempted: [Int] = []
        var acknowledged: Int?
        /// The save that was synced last. It, or a later one, must be found.
        var synced: Int?
        /// The saves that were in the package when it was reported to be on the disk. They must be
        /// versions.
        var recorded: Set<Int> = []
        /// How each save was made; it is printed when one is missing.
        var log: [String] = []
    }

    static let writer = "package"
    private let path: String
    private let known = Mutex<[String: Member]>([:])
    private let stopping = Atomic(false)
    private let group = DispatchGroup()
    private let refusal = Mutex<String?>(nil)
    // Only its own thread uses these.
    private var random: SeededRandom
    private var sequence = 0

    /// A snapshot of what has been attempted, answered and promised so far.
    var members: [String: Member] { known.withLock { $0 } }

    /// Makes the package at `path` and starts.
    init(path: String, random: SeededRandom) throws {
        (self.path, self.random) = (path, random)
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
        group.enter()
        Thread { [self] in
            defer { group.leave() }
            while !stopping.load(ordering: .relaxed) {
                do { try step() } catch { return refusal.withLock { $0 = "\(error)" } }
            }
        }.start()
    }

    /// - Parameter mayBeRefused: Whether errors are expected because the daemon was killed.
    func stop(mayBeRefused: Bool = false) throws {
        stopping.store(true, ordering: .relaxed)
        guard group.wait(timeout: .now() + 60) == .success else {
            throw SupportError("a program hangs in the mount")
        }
        guard !mayBeRefused, let refusal = refusal.withLock({ $0 }) else { return }
        throw SupportError("refused: \(refusal)")
    }

    private func note(_ member: String, _ change: (inout Member) -> Void) {
        known.withLock { change(&$0[member, default: Member()]) }
    }

    private func step() throws {
        sequence += 1
        let member = "member \(random.below(3))"
        let length = random.below(random.oneIn(5) ? 60_000 : 4_000)
        let bytes = WholeContent(writer: Self.writer, sequence: sequence).bytes(length: length)
        let synced = random.oneIn(3)
        let pattern = random.pick(SavePattern.allCases)
        note(member) {
            $0.attempted.append(sequence)
            $0.log.append("\(sequence):\(pattern)\(synced ? " synced" : "")")
        }
        try pattern.save(bytes, to: "\(path)/\(member)", synced: synced)
        note(member) {
            $0.acknowledged = sequence
            if synced { $0.synced = sequence }
        }
        guard random.oneIn(15) else { return }
        let waited = try Programs.fsctl("wait", "--durable", "disk", path).run()
        guard waited.status == 0 else {
            throw SupportError("fsctl wait --durable disk: \(waited.errors)")
        }
        for (name, member) in members {
            note(name) { known in
                guard let saved = member.acknowledged else { return }
                known.recorded.insert(saved)
                known.synced = max(known.synced ?? 0, saved)
            }
        }
    }

    /// The promises that the files at `path` do not keep, and the contents that no program has
    /// written.
    static func faults(at path: String, promised: [String: Member]) throws -> [String] {
        guard access(path, F_OK) == 0 else {
            let owed = promised.values.filter { $0.synced != nil }.count
            return owed == 0 ? [] : ["the package with \(owed) synced members is gone"]
        }
        var faults: [String] = []
        var found: Set<Int> = []
        let name = (path as NSString).lastPathComponent
        let versions = (path as NSString).deletingLastPathComponent + "/.versions/\(name)"
        let past = (try? FileManager.default.contentsOfDirectory(atPath: versions)) ?? []
        for directory in [path] + past.map({ "\(versions)/\($0)" }) {
            for file in (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? [] {
                let bytes = try Data(contentsOf: URL(filePath: "\(directory)/\(file)"))
                // A program had truncated or created the file, and had not written yet.
                if bytes.isEmpty { continue }
                if let content = WholeContent(bytes), content.writer == writer {
                    found.insert(content.sequence)
                } else if directory != path {
                    let damage = WholeContent.damage(of: bytes)
                    faults.append("a version's \(file) is what nobody wrote: \(damage)")
                }
            }
        }
        for (name, member) in promised {
            let lost = member.recorded.subtracting(found).sorted()
            let log = member.log.suffix(12)
            if !lost.isEmpty { faults.append("\(name): versions \(lost) are lost; \(log)") }
            guard let synced = member.synced else { continue }
            let later = member.attempted.filter { $0 >= synced }
            if found.isDisjoint(with: later) {
                faults.append("\(name): \(synced) was synced, nothing since is there; \(log)")
            }
        }
        return faults
    }
}
