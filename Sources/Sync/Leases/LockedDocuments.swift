import CLinux
import Coordination
import Glibc
import Merge
import Model
import Synchronization
import SystemCalls
import Volume

/// The documents of which the rules say `lock=ask` or `lock=hard`: for which ones programs on this
/// device wait, and for which ones the hub must believe a little longer that this device edits
/// them. Only the thread of `LeaseExchange` uses it, except for `haveRulesChanged`.
final class LockedDocuments: EnginePart, @unchecked Sendable {
    let parts: EngineParts

    /// What identifies the contents of the rules' file.
    private struct Stamp: Hashable {
        var inode: UInt64
        var size: Int64
        var changed: Int64
    }

    private let stamp = Mutex<Stamp?>(nil)
    private var rules = MergeRules()
    private var hasRules = false
    /// The editors for whom programs wait, also while what these have saved is on its way.
    private var editors: [Identifier: [OpenElsewhere]] = [:]
    /// Those of them that are edited no more, but whose last save may not be in the tree yet.
    private var arriving: Set<Identifier> = []
    /// What was edited here at the last look, and until when what is closed still counts.
    private var edited: Set<Identifier> = []
    private var closed: [Identifier: Int64] = [:]

    init(_ parts: EngineParts) { self.parts = parts }

    /// Whether it must look again soon, because a save is being sent or is arriving.
    private(set) var isWaiting = false

    // MARK: Rules

    /// Whether the rules' file is another one than at the last call. Any thread may call it.
    func haveRulesChanged() -> Bool {
        var status = stat()
        let found = cl_fstatat(volume.root, MergeRules.fileName, &status, AT_SYMLINK_NOFOLLOW)
        let new =
            found == 0
            ? Stamp(
                inode: UInt64(status.st_ino), size: Int64(status.st_size),
                changed: Timestamp(status.st_ctim).nanoseconds) : nil
        return stamp.withLock { stamp in
            defer { stamp = new }
            return stamp != new
        }
    }

    /// Reads the rules again.
    func readRules() {
        rules = MergeRules(file: MergeRules.bytes(in: volume.root))
        hasRules = rules.line(setting: .ask) != nil || rules.line(setting: .hard) != nil
        let rules = rules
        var isHard: (@Sendable ([Name]) -> Bool)?
        if rules.line(setting: .hard) != nil {
            isHard = { path in rules.choice(for: path).lock == .hard }
        }
        volume.openDocuments.guarded.set(
            isMeant: { path in rules.makesWait(at: path) }, isHard: isHard)
    }

    /// Without an engine no program waits. Any thread may call it.
    func forgetRules() {
        volume.openDocuments.guarded.set(isMeant: { _ in false }, isHard: nil)
    }

    // MARK: Others

    /// Tells the mount for which documents programs wait.
    ///
    /// - Parameter isHeard: Whether the hub is heard. Without it, no program waits.
    func publish(_ leases: [OpenElsewhere], isHeard: Bool) {
        defer { isWaiting = !closed.isEmpty || !arriving.isEmpty }
        arriving = []
        guard hasRules, isHeard else { return publish([:]) }
        let held = volume.openDocuments.held.filter { $0.use == .edits }
        let ours = Dictionary(held.map { ($0.document, $0.since) }, uniquingKeysWith: min)
        var new: [Identifier: [OpenElsewhere]] = [:]
        for lease in leases where lease.use == .edits {
            // Who has a document first does not wait for those who came later.
            guard lease.since < ours[lease.document] ?? .max,
                let path = try? volume.openDocuments.path(of: lease.document),
                rules.choice(for: path).lock == .ask
            else { continue }
            new[lease.document, default: []].append(lease)
        }
        for (document, known) in editors where new[document] == nil && isArriving(document) {
            new[document] = known
            arriving.insert(document)
        }
        publish(new)
    }

    private func publish(_ new: [Identifier: [OpenElsewhere]]) {
        guard new != editors else { return }
        editors = new
        volume.openDocuments.guarded.set(new)
    }

    /// Whether a newer state of the document may be at the hub than in the tree.
    private func isArriving(_ document: Identifier) -> Bool {
        if state.withLock({ $0.cursor < $0.head }) { return true }
        do throws(VolumeError) {
            let mirror = try volume.journal.read { try $0.hub.mirror(document) }
            return mirror?.state == .due || mirror?.state == .underway
        } catch {
            return true
        }
    }

    // MARK: This device

    private func isWaitedFor(_ document: Identifier) -> Bool {
        if volume.openDocuments.elsewhere(document).contains(where: { $0.use == .wants }) {
            return true
        }
        guard hasRules else { return false }
        do throws(VolumeError) {
            return try volume.openDocuments.path(of: document).map(rules.makesWait(at:)) ?? false
        } catch {
            return true
        }
    }

    /// Lets documents count as edited that were closed here and whose save the hub does not have
    /// yet: others who wait for them would otherwise get the previous contents.
    func keep(in open: inout [Identifier: DocumentUse]) {
        let now = cl_clock_boottime_ns()
        let edits = Set(open.lazy.filter { $0.value == .edits }.map(\.key))
        let gone = edited.union(closed.keys).subtracting(edits)
        edited = edits
        let ends = closed
        closed = [:]
        for document in gone {
            let end = ends[document] ?? now + LeaseTerms.duration
            guard now < end, isWaitedFor(document),
                volume.openDocuments.isUnsent(document)
            else { continue }
            closed[document] = end
            open[document] = .edits
        }
    }
}
