import Glibc
import HubProtocol
import Journal
import Model
import Reconcile
import Volume

/// The doctor's comparison of the hub with this device: the hub's items are compared with the
/// mirror (the last state that both agreed on), and the mirror with the tree. It works in small
/// steps between which the engine continues; items that change in the meantime are skipped.
struct HubExamination {
    private let client: HubClient
    private let journal: SyncJournal
    private let threads: EngineThreads
    private let isOffline: Bool
    let repairs: Bool
    let progress: (String, Double) -> Bool
    private var findings: [Finding] = []
    private var left = 0

    private static let step = 500
    /// A busy hub is asked again for half a minute; within five seconds it has decided which
    /// process is the device.
    private static let (tries, microseconds) = (60, UInt32(500_000))
    /// The limit keeps a hub with many faults from filling the screen.
    private static let findingsMax = 100

    init(_ engine: SyncEngine, repairs: Bool, progress: @escaping (String, Double) -> Bool) {
        (client, journal, threads) = (engine.client, engine.journal, engine.threads)
        isOffline = engine.report.isOffline
        self.repairs = repairs
        self.progress = progress
    }

    private var volume: Identifier { journal.account.volume }

    mutating func run() -> [Finding] {
        guard !isOffline else {
            add(.note, "hub", "The hub was not checked: this device is offline (fsctl online).")
            return findings
        }
        do {
            let seen = try examineStates()
            try examineItems(seen)
            try examineVersions()
            if findings.isEmpty {
                add(
                    .note, "hub",
                    (seen.count == 1 ? "1 item is" : "\(seen.count) items are")
                        + " the same here and at the hub.")
            }
        } catch let fault as HubFault {
            add(.note, "hub", "The hub was not checked completely: \(fault.message)")
        } catch {
            add(.note, "hub", "The comparison with the hub ended early: \(error)")
        }
        if left > 0 { add(.note, "hub", "There are \(left) more differences of these kinds.") }
        return findings
    }

    private mutating func add(_ severity: Finding.Severity, _ subject: String, _ message: String) {
        guard findings.count < HubExamination.findingsMax || subject == "hub" else {
            left += 1
            return
        }
        findings.append(Finding(severity: severity, subject: subject, message: message))
    }

    private func goesOn(_ text: String, _ fraction: Double) throws {
        guard progress(text, fraction), !threads.isEnding else {
            throw VolumeError(.cancelled, "The examination was cancelled.")
        }
    }

    /// Repeats a request while the hub is busy. Right after a mount, the hub does not know yet
    /// whether the previous process has ended.
    private func answer<Value>(_ ask: () throws(HubFault) -> Value) throws -> Value {
        for _ in 0..<HubExamination.tries {
            do throws(HubFault) { return try ask() } catch {
                guard case .refused(let failure) = error,
                    error.isPassing, failure.code != .full
                else { throw error }
            }
            try goesOn("waiting for the hub", 0)
            usleep(HubExamination.microseconds)
        }
        return try ask()
    }

    // MARK: Hub and mirror

    /// Compares the state of each item at the hub with the mirror. Returns the ids of the items at
    /// the hub.
    private mutating func examineStates() throws -> Set<Identifier> {
        let session = try journal.session()
        var seen: Set<Identifier> = []
        var cursor: UInt64 = 0
        while true {
            let answer = try answer { () throws(HubFault) in
                try client.changes(
                    volume, after: cursor, limit: HubLimits.changes, epoch: session.volumeEpoch,
                    withTrash: true
                ).page
            }
            let states = answer.changes.compactMap { change in
                if case .item(let state) = change { state } else { nil }
            }
            for state in states { seen.insert(state.id) }
            for difference in try differences(states, upTo: session.cursor) {
                add(.damage, difference.path, difference.message)
            }
            cursor = answer.next
            try goesOn("items at the hub", Double(cursor) / Double(max(answer.head, 1)))
            if answer.next >= answer.head { return seen }
        }
    }

    private struct Difference: Sendable {
        var path: String
        var message: String
    }

    private func differences(_ states: [ItemState], upTo cursor: UInt64) throws -> [Difference] {
        try journal.perform { table in
            var found: [Difference] = []
            for state in states where state.sequence <= cursor {
                let mirror = try table.mirror(state.id)
                if let mirror, mirror.remote != nil || mirror.state != .settled { continue }
                if try table.isInOutbox(state.id) || table.isUnsent(state.id) { continue }
                let remote = Image(state)
                guard let base = mirror?.base?.image else {
                    guard remote.isAlive, state.id != .root else { continue }
                    found.append(
                        Difference(
                            path: state.name,
                            message: "The hub has \(state.name), which is unknown to this "
                                + "device. \(HubExamination.advice)"))
                    continue
                }
                guard let word = base.difference(from: remote) else { continue }
                let path = try table.path(of: state.id) ?? state.name
                found.append(
                    Difference(
                        path: path,
                        message: "\(path) differs at the hub from the last agreed state: \(word). "
                            + HubExamination.advice))
            }
            return found
        }
    }

    static let advice =
        "To compare everything, use fsctl signout --force, then fsctl signin: nothing is deleted, "
        + "but what was deleted here and is not told yet comes back."

    // MARK: Mirror and tree

    private mutating func examineItems(_ seen: Set<Identifier>) throws {
        let total = try journal.read { try $0.hub.mirrorCount() }
        let cursor = try journal.session().cursor
        var last = Identifier.none
        var done = 0
        while true {
            let after = last
            let ids = try journal.read {
                try $0.hub.mirrorIDs(after: after, limit: HubExamination.step)
            }
            guard let end = ids.last else { return }
            last = end
            let (planner, repairs) = (journal.planner, repairs)
            let found = try journal.perform { table in
                try ids.compactMap { id in
                    try HubExamination.examine(
                        id, in: &table, isAtHub: seen.contains(id), upTo: cursor,
                        repairs: repairs, planner)
                }
            }
            for (path, message, isRepaired) in found {
                add(isRepaired ? .repaired : .damage, path, message)
            }
            done += ids.count
            try goesOn("items here and at the hub", Double(done) / Double(max(total, 1)))
        }
    }

    /// Returns what is wrong with an item that is marked as synchronised; nil if nothing is.
    private static func examine(
        _ id: Identifier, in table: inout JournalTable, isAtHub: Bool, upTo cursor: UInt64,
        repairs: Bool, _ planner: SyncPlanner
    ) throws(VolumeError) -> (path: String, message: String, isRepaired: Bool)? {
        guard let mirror = try table.mirror(id), mirror.remote == nil, mirror.state == .settled,
            let base = mirror.base, base.sequence <= cursor,
            base.generation == (try table.session().generation),
            try !table.isInOutbox(id), try !table.isUnsent(id)
        else { return nil }
        let path = try table.path(of: id) ?? base.image.name
        guard isAtHub || !base.image.isAlive else {
            return (
                path,
                "The hub does not have \(path), which it confirmed. " + HubExamination.advice,
                false
            )
        }
        let draft = try planner.comparison.draft(id, in: &table)
        guard !draft.changes.isEmpty, try table.local(id) != nil || base.image.isAlive else {
            return nil
        }
        if repairs, let key = try table.key(of: id) { try table.journal.addUnsent(key) }
        return (
            path,
            "\(path) differs here from the state agreed on with the hub, without a known change."
                + (repairs ? " The change is sent now." : ""), repairs
        )
    }

    // MARK: Versions

    private mutating func examineVersions() throws {
        var cursor: Int64 = 0
        var old = 0
        while true {
            let after = cursor
            let page = try journal.read {
                try $0.confirmedVersions(after: after, limit: 2000)
            }
            guard let last = page.last else { break }
            cursor = last.key
            let counts = try answer { () throws(HubFault) in
                try client.durability(volume, page.map(\.id))
            }
            let unknown = zip(page, counts).filter { $0.1 == nil }.map(\.0)
            let repairs = repairs
            let found = try journal.perform { table in
                try unknown.map { version in
                    let isCurrent =
                        try table.journal.item(version.item)?.current == version.id
                        && table.journal.version(id: version.id)?.version.durability == .hub
                    let isHere = try isCurrent && table.journal.isWhole(version.id)
                    let path = try table.journal.path(of: version.item)?.map(\.text)
                        .joined(separator: "/")
                    if isHere, repairs { try table.deny(version.id, sendsAgain: true) }
                    return (isCurrent, isHere, path ?? "", version.number)
                }
            }
            for (isCurrent, isHere, path, number) in found {
                guard isCurrent else {
                    old += 1
                    continue
                }
                let fact = "The hub does not have version \(number) of \(path), which it confirmed."
                if isHere {
                    add(
                        repairs ? .repaired : .damage, path,
                        fact + " It is on this device" + (repairs ? ", and is sent again." : "."))
                } else {
                    add(
                        .damage, path,
                        fact + " Its bytes may be on another device: download it there.")
                }
            }
            try goesOn("versions at the hub", 0.9)
        }
        if old > 0 {
            add(.note, "hub", "\(old) older versions are not at the hub.")
        }
        threads.poke()
    }
}

extension SyncEngine {
    /// Asks the hub which of the versions it has that it has not confirmed. Another device may have
    /// sent them since the engine asked, for example after the hub came back from a backup.
    package func reconfirm() {
        guard !report.isOffline, (try? journal.session().isFresh) == false else { return }
        // Without an answer, what is known already counts.
        try? journal.reconfirm(client) { !threads.isEnding }
    }

    /// Compares the hub, the journal and the tree. The call blocks for long, but it blocks the
    /// engine only for short steps.
    package func examine(repairs: Bool, progress: @escaping (String, Double) -> Bool) -> [Finding] {
        var examination = HubExamination(self, repairs: repairs, progress: progress)
        return examination.run()
    }
}

extension JournalTable {
    func path(of id: Identifier) throws(VolumeError) -> String? {
        guard let key = try key(of: id) else { return nil }
        return try journal.path(of: key)?.shown
    }
}

extension Image {
    /// Describes how the other image differs; nil if it does not.
    fileprivate func difference(from other: Image) -> String? {
        if isAlive != other.isAlive { return "deleted on one side" }
        guard isAlive else { return nil }
        if kind != other.kind || target != other.target { return "another kind or target" }
        if parent != other.parent || name != other.name { return "another place or name" }
        if revision != other.revision, content == nil || content != other.content {
            return "other contents"
        }
        if attributes != other.attributes { return "other attributes" }
        return nil
    }
}
