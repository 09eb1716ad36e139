import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// Reports to `SeenVersions` what processes open and save on this mount. No other lock is taken
/// while its lock is held. It is held for a few comparisons and, when the limits are reached, while
/// /proc is read to find out whether a few processes still run.
final class StaleSaves: Sendable {
    private let versions = Mutex(SeenVersions())
    private let processes = ProcessIdentities()
    let volume: Volume
    let nodes: NodeTable
    /// The directory in which changes from the hub are prepared.
    let incoming: Node

    init(_ tree: Tree, incoming: Node) {
        volume = tree.volume
        nodes = tree.nodes
        self.incoming = incoming
    }

    typealias Process = SeenVersions.Process
    typealias Content = SeenVersions.Content

    func isKnown(_ status: stat) -> Bool {
        versions.withLock { $0.isKnown(UInt64(status.st_ino)) }
    }

    /// The status, if any process has seen the document.
    func known(_ status: stat) -> stat? { isKnown(status) ? status : nil }

    private func process(_ caller: Caller) -> Process? { processes.identity(of: caller.process) }

    func retimed(_ old: stat, as new: stat) {
        versions.withLock { $0.retimed(Content(old), as: Content(new)) }
    }

    func resized(_ old: stat, as new: stat, by caller: Caller) {
        guard isKnown(old), let process = process(caller) else { return }
        versions.withLock { $0.resized(Content(old), as: Content(new), by: process) }
    }

    func base(of caller: Caller, replacing status: stat) -> Content? {
        guard isKnown(status), let process = process(caller) else { return nil }
        return versions.withLock { $0.base(of: process, replacing: Content(status)) }
    }

    func opened(
        _ status: stat, by caller: Caller, reads: Bool, writes: Bool
    ) -> SeenVersions.Sight {
        guard reads || isKnown(status), let process = process(caller) else { return .full }
        return versions.withLock {
            $0.opened(
                Content(status), by: process, reads: reads, writes: writes,
                isAlive: ProcessIdentities.isAlive)
        }
    }

    func emptied(
        _ old: stat, as status: stat, by caller: Caller, stays isOpen: Bool
    ) -> SeenVersions.Sight {
        guard isKnown(status), let process = process(caller) else { return .full }
        return versions.withLock {
            $0.emptied(Content(old), as: Content(status), by: process, stays: isOpen)
        }
    }

    func created(_ inode: UInt64, by caller: Caller) -> SeenVersions.Sight {
        guard versions.withLock({ $0.isKnown(inode) }), let process = process(caller) else {
            return .full
        }
        return versions.withLock { $0.created(inode, by: process) }
    }

    func wrote(_ status: stat, by caller: Caller, _ sight: SeenVersions.Sight) {
        guard isKnown(status), let process = process(caller) else { return }
        versions.withLock { $0.wrote(Content(status), by: process, sight) }
    }

    func made(_ status: stat) { versions.withLock { $0.made(UInt64(status.st_ino)) } }

    func replaced(_ old: stat, by new: stat, caller: Caller?) {
        guard isKnown(old) else { return made(new) }
        let process = caller.flatMap(process)
        versions.withLock {
            $0.replaced(
                Content(old), isGone: old.st_nlink <= 1, by: Content(new), process: process)
        }
    }

    func exchanged(_ a: stat, _ b: stat, caller: Caller?) {
        guard isKnown(a) || isKnown(b) else { return }
        let process = caller.flatMap(process)
        versions.withLock { $0.exchanged(Content(a), Content(b), process: process) }
    }

    func vacated(
        _ place: SeenVersions.Place, _ status: stat, isGone: Bool, by caller: Caller
    ) {
        guard let process = process(caller) else { return }
        versions.withLock { $0.vacated(place, Content(status), isGone: isGone, by: process) }
    }

    /// The content that a caller has seen of the document which had this name before. Nil if that
    /// is the last content that the document had there.
    func filled(
        _ place: SeenVersions.Place, by status: stat, caller: Caller
    ) -> Content? {
        guard versions.withLock({ $0.isVacant(place) }), let process = process(caller) else {
            return nil
        }
        return versions.withLock {
            $0.filled(place, by: Content(status), process: process)
        }
    }
}

extension SeenVersions.Content {
    init(_ status: stat) {
        self.init(
            inode: UInt64(status.st_ino), size: Int64(status.st_size),
            modified: Timestamp(status.st_mtim).nanoseconds)
    }
}

/// Maps threads to their processes, cached for some seconds. This is safe because an id is reused
/// only after all others were used.
final class ProcessIdentities: Sendable {
    private struct Known {
        var process: SeenVersions.Process
        /// Monotonic nanoseconds.
        var until: Int64
    }

    private static let knownMax = 1024
    private static let rememberedNanoseconds: Int64 = 5_000_000_000
    private let known = Mutex<[Int32: Known]>([:])

    /// The process of a thread; nil if it has ended or may not be read.
    func identity(of thread: Int32) -> SeenVersions.Process? {
        guard thread > 0 else { return nil }
        let now = cl_clock_monotonic_ns()
        if let found = known.withLock({ $0[thread] }), found.until > now { return found.process }
        guard let id = ProcessAncestry.process(of: thread), let start = Self.start(of: id) else {
            return nil
        }
        let process = SeenVersions.Process(id: id, start: start)
        known.withLock {
            if $0.count >= Self.knownMax { $0.removeAll(keepingCapacity: true) }
            $0[thread] = Known(process: process, until: now + Self.rememberedNanoseconds)
        }
        return process
    }

    static func isAlive(_ process: SeenVersions.Process) -> Bool {
        start(of: process.id) == process.start
    }

    /// The 22nd field of /proc/ID/stat. The second field is a name, which may contain spaces and
    /// parentheses.
    private static func start(of process: Int32) -> UInt64? {
        let text = ProcessAncestry.text("/proc/\(process)/stat", bytesMax: 1024)
        guard let end = text.lastIndex(of: ")") else { return nil }
        let fields = text[end...].split(separator: " ")
        return fields.count > 20 ? UInt64(fields[20]) : nil
    }
}
