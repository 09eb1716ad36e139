import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// The sessions that programs work in, as their environment or else the kernel tells (see
/// `WorkSession`). It is asked when a program makes, replaces or removes something, while that
/// program waits for the answer: afterwards it may have ended.
final class ProcessSessions: Sendable {
    /// The session that the kernel tells of a process, and what it was found by.
    private struct Origin {
        var session: WorkSession
        /// It has a controlling terminal.
        var isTerminal: Bool
        /// The systemd unit or scope; nil without one, and where there is a terminal.
        var unit: String?
        /// The session's leader.
        var leader: Int32
    }

    private struct Known: Sendable {
        var value: WorkSession?
        /// On the monotonic clock, nanoseconds.
        var until: Int64
    }

    private struct State {
        var threads: [Int32: Known] = [:]
        var origins: [SeenVersions.Process: Origin] = [:]
        /// When leaders began that were seen alive: a session outlives its leader.
        var leaders: [Int32: UInt64] = [:]
    }

    private static let knownMax = 1024
    private static let ancestorsMax = 64
    private static let rememberedNanoseconds: Int64 = 1_000_000_000
    private let state = Mutex(State())
    private let environments = EnvironmentReader()
    /// Tells one boot from another, of which process numbers and starting times begin anew.
    private let boot = ProcessSessions.bootNumber()

    /// Nil when the process is gone, or not ours to see.
    func session(of thread: Int32, uid: UInt32) -> WorkSession? {
        guard thread > 0 else { return nil }
        let now = cl_clock_monotonic_ns()
        if let known = state.withLock({ $0.threads[thread] }), known.until > now {
            return known.value
        }
        var session: WorkSession?
        if let process = ProcessAncestry.process(of: thread) {
            session =
                environments.value(of: WorkSession.variable, in: process, uid: uid)
                .flatMap { WorkSession(label: $0) } ?? origin(of: process, depth: 0)?.session
        }
        let known = Known(value: session, until: now + Self.rememberedNanoseconds)
        state.withLock {
            if $0.threads.count >= Self.knownMax { $0.threads.removeAll(keepingCapacity: true) }
            $0.threads[thread] = known
        }
        return session
    }

    /// The terminal from which a process or an ancestor of it was started; otherwise the unit that
    /// it runs in, from the outermost ancestor in that on; otherwise the leader of its session.
    private func origin(of process: Int32, depth: Int) -> Origin? {
        guard depth < Self.ancestorsMax, let facts = ProcessFacts(of: process) else { return nil }
        let key = SeenVersions.Process(id: process, start: facts.start)
        if let known = state.withLock({ $0.origins[key] }), known.leader == facts.session {
            return known
        }
        let found = find(process, facts, depth)
        state.withLock {
            if $0.origins.count >= Self.knownMax { $0.origins.removeAll(keepingCapacity: true) }
            $0.origins[key] = found
        }
        return found
    }

    private func find(_ process: Int32, _ facts: ProcessFacts, _ depth: Int) -> Origin {
        if let terminal = facts.terminalName {
            return Origin(
                session: name(terminal, facts.session), isTerminal: true, leader: facts.session)
        }
        let parent = facts.parent > 1 ? origin(of: facts.parent, depth: depth + 1) : nil
        if var parent, parent.isTerminal {
            parent.leader = facts.session
            return parent
        }
        if let unit = ProcessFacts.unit(of: process) {
            if var parent, parent.unit == unit {
                parent.leader = facts.session
                return parent
            }
            return Origin(
                session: name(unit, process), isTerminal: false, unit: unit, leader: facts.session)
        }
        if let parent, parent.unit == nil, parent.leader == facts.session { return parent }
        let leader = ProcessFacts(of: facts.session) ?? facts
        return Origin(
            session: name(leader.program, facts.session), isTerminal: false, leader: facts.session)
    }

    private func name(_ origin: String, _ leader: Int32) -> WorkSession {
        let alive = ProcessFacts(of: leader)?.start
        let start = state.withLock { state -> UInt64 in
            guard let alive else { return state.leaders[leader] ?? 0 }
            if state.leaders.count >= Self.knownMax {
                state.leaders.removeAll(keepingCapacity: true)
            }
            state.leaders[leader] = alive
            return alive
        }
        return WorkSession(origin: origin, leader: leader, start: boot ^ start)
    }

    private static func bootNumber() -> UInt64 {
        ProcessAncestry.text("/proc/sys/kernel/random/boot_id", bytesMax: 64).utf8.reduce(0) {
            ($0 ^ UInt64($1)) &* 0x100_0000_01B3
        }
    }
}

/// What /proc/ID/stat and /proc/ID/cgroup tell of a process.
struct ProcessFacts: Hashable, Sendable {
    var program: String
    var parent: Int32
    /// The process that leads its session.
    var session: Int32
    /// The device number of its controlling terminal; 0 without one.
    var terminal: UInt32
    /// In clock ticks since the boot.
    var start: UInt64

    /// Nil when it is gone, or not ours to see.
    init?(of process: Int32) {
        self.init(line: ProcessAncestry.text("/proc/\(process)/stat", bytesMax: 1024))
    }

    /// The second field is a name in brackets, in which anything may stand.
    init?(line: String) {
        guard let open = line.firstIndex(of: "("), let end = line.lastIndex(of: ")"), open < end
        else { return nil }
        let fields = line[line.index(after: end)...].split(separator: " ")
        guard fields.count > 19, let parent = Int32(fields[1]), let session = Int32(fields[3]),
            let terminal = Int32(fields[4]), let start = UInt64(fields[19])
        else { return nil }
        program = String(line[line.index(after: open)..<end])
        self.parent = parent
        self.session = session
        self.terminal = UInt32(bitPattern: terminal)
        self.start = start
    }

    /// Nil without a controlling terminal.
    var terminalName: String? {
        guard terminal != 0 else { return nil }
        let major = terminal >> 8 & 0xFF
        let minor = terminal & 0xFF | terminal >> 12 & 0xFFF00
        switch major {
        case 136...143: return "pts/\((major - 136) << 8 | minor)"
        case 4 where minor < 64: return "tty\(minor)"
        case 4: return "ttyS\(minor - 64)"
        default: return "terminal-\(major)-\(minor)"
        }
    }

    /// The innermost systemd unit of a process's control group.
    static func unit(of process: Int32) -> String? {
        unit(groups: ProcessAncestry.text("/proc/\(process)/cgroup"))
    }

    static func unit(groups: String) -> String? {
        for line in groups.split(separator: "\n") where line.hasPrefix("0::") {
            return line.split(separator: "/").last {
                $0.hasSuffix(".service") || $0.hasSuffix(".scope")
            }.map(String.init)
        }
        return nil
    }
}
