import CLinux
import Glibc
import Logging
import Merge
import Model
import Synchronization
import SystemCalls
import Volume

/// Works on documents in conflict in the background. It downloads small conflict versions, so that
/// people can look at and settle conflicts offline, and it merges what the rules of
/// `.concordattributes` allow to be merged automatically.
///
/// Each device does this. All devices get equal results from the same three versions, and versions
/// with equal contents are one version. The device that saved the losing version starts first, so
/// that usually only one device merges.
package final class AutoMerger: @unchecked Sendable {
    let volume: Volume
    let tree: any Applying
    private let log: Logger
    private let poller = BackgroundPoller("mediator")

    /// The conflicts that were examined and that are left to people, by the documents' keys.
    private let examined = Mutex<[Int64: OpenConflict]>([:])

    // Only the poller's thread uses these.

    /// The documents that were examined, by their keys in the journal.
    private var known: [Int64: Known] = [:]

    private struct Known {
        var question: Question
        var since: Int64
        var isAnswered = false
    }

    /// The input of an examination: a document is examined again only if it has changed.
    private struct Question: Hashable {
        var conflict: OpenConflict
        var rules: [UInt8]
    }

    /// The bytes up to which a conflict version is downloaded; a larger one is fetched when it is
    /// read.
    private static let bytesMax: UInt64 = 16 << 20
    private static let retrySeconds: Int64 = 10
    private static let rulesSeconds: Int64 = 30

    package init(volume: Volume, tree: any Applying, log: Logger) {
        self.volume = volume
        self.tree = tree
        self.log = log
    }

    // MARK: Starting and stopping

    package func start() { poller.start { [self] in look() } }
    package func stop() { poller.stop() }

    /// Wakes the thread, because conflict versions may have appeared or disappeared.
    package func poke() { poller.poke() }

    /// The number of documents in conflict that may still be merged without a person.
    package func unexaminedCount() throws(VolumeError) -> Int {
        guard !volume.readOnly.isSet else { return 0 }
        let conflicts = try volume.conflicts.open()
        return examined.withLock { examined in
            conflicts.count { examined[$0.key] != $0 }
        }
    }

    /// Examines all conflicts. Returns the time of the next examination.
    private func look() -> Int64 {
        defer {
            let answered = known.filter(\.value.isAnswered).mapValues(\.question.conflict)
            examined.withLock { $0 = answered }
        }
        let now = cl_clock_monotonic_ns()
        var next = now + 3_600_000_000_000
        // A reader's merge would stay on this device.
        guard let conflicts = volume.readOnly.isSet ? [] : try? volume.conflicts.open() else {
            return now + Timestamp.span(seconds: AutoMerger.retrySeconds)
        }
        let keys = Set(conflicts.map(\.key))
        known = known.filter { keys.contains($0.key) }
        guard !conflicts.isEmpty else { return next }
        // No event announces a change of the rules, so they are read again periodically.
        next = now + Timestamp.span(seconds: AutoMerger.rulesSeconds)
        let rules = self.rules
        for conflict in conflicts {
            if poller.isEnding { return next }
            let question = Question(conflict: conflict, rules: rules)
            var known = known[conflict.key] ?? Known(question: question, since: now)
            if known.question != question { known = Known(question: question, since: now) }
            if !known.isAnswered, let document = try? volume.conflicts.document(of: conflict) {
                let due = known.since + patience(document.history)
                known.isAnswered = due <= now && mediate(document, rules)
                if !known.isAnswered {
                    let again = now + Timestamp.span(seconds: AutoMerger.retrySeconds)
                    next = min(next, due <= now ? again : due)
                }
            }
            self.known[conflict.key] = known
        }
        return next
    }

    /// Returns the nanoseconds to wait so that another device can merge first.
    private func patience(_ history: DocumentHistory) -> Int64 {
        let device = volume.identity.device
        if history.versions.contains(where: { $0.kind == .conflict && $0.device == device }) {
            return 0
        }
        let isMine = history.versions.contains { $0.kind == .current && $0.device == device }
        return isMine ? 2_000_000_000 : 5_000_000_000
    }

    /// Returns false if the document must be examined again later.
    private func mediate(_ document: ConflictedDocument, _ rules: [UInt8]) -> Bool {
        do throws(VolumeError) {
            for version in document.history.versions
            where version.kind == .conflict && version.size <= AutoMerger.bytesMax {
                try volume.versions.fetch(version.id)
            }
            let merged = try merge(document, numbers: nil, isAsked: false, rules: rules)
            for version in merged.settled {
                log.info("merged version \(version) of \(document.path.shown)")
            }
            return true
        } catch {
            switch error.code {
            case .offline, .timeout, .full, .busy, .notFound: return false
            default:
                log.warning("a conflict of \(document.path.shown) cannot be examined: \(error)")
                return true
            }
        }
    }

    // MARK: Merging

    /// The result of a merge.
    package struct Merged: Sendable {
        /// The numbers of the versions that the merge settled.
        package var settled: [Int] = []
        /// Why the other versions were not merged.
        package var reasons: [String] = []
    }

    /// Merges a document's conflict versions (all of them, or those with these numbers) into the
    /// document, one after another. Each merge creates a version with two parents, and can be
    /// undone.
    package func merge(
        at path: [Name], numbers: [Int]?, by actor: Actor, tries: Int = 5
    ) throws(VolumeError) -> Merged {
        guard
            let document = try volume.conflicts.list(below: path).first(where: { $0.path == path })
        else {
            throw VolumeError(.notFound, "\(path.shown) has no versions in conflict.")
        }
        do throws(VolumeError) {
            return try merge(document, numbers: numbers, isAsked: true, rules: rules, by: actor)
        } catch {
            // A program that shows the document has saved first, so the merge is repeated with the
            // new version.
            guard error.code == .busy, tries > 1 else { throw error }
            return try merge(at: path, numbers: numbers, by: actor, tries: tries - 1)
        }
    }

    /// Explains the result of a merge with one conflict version (the first one if `number` is nil).
    package func explain(at path: [Name], number: Int?) throws(VolumeError) -> (
        kind: String, sentences: [String], text: [UInt8]?
    ) {
        guard
            let document = try volume.conflicts.list(below: path).first(where: { $0.path == path })
        else { throw VolumeError(.notFound, "\(path.shown) is not in conflict") }
        guard
            let version = document.history.versions.first(where: {
                $0.kind == .conflict && (number == nil || $0.number == number)
            })
        else {
            throw VolumeError(
                .notFound,
                "\(path.shown) has no such version in conflict; fsctl conflicts lists them")
        }
        return try documentMerge(document, isAsked: false, rules: rules).explain(version)
    }

    private func merge(
        _ document: ConflictedDocument, numbers: [Int]?, isAsked: Bool, rules: [UInt8],
        by actor: Actor = Actor(process: getpid(), uid: getuid(), program: "merge")
    ) throws(VolumeError) -> Merged {
        var document = document
        var merged = Merged()
        let open = document.history.versions.filter { $0.kind == .conflict }
        let lineage = Lineage(document.history.versions)
        let apart = isAsked ? [] : try apart(document)
        for version in open where numbers?.contains(version.number) ?? true {
            // A person has undone an earlier merge of this version.
            if !isAsked, lineage.original(of: version.id) != nil { continue }
            if apart.contains(version.id) { continue }
            // An automatic merge must not make a private version's contents readable by others.
            if !isAsked, let own = version.protection,
                !own.isAtLeastAsOpen(as: document.history.protection.now)
            {
                continue
            }
            let merge = documentMerge(document, isAsked: isAsked, rules: rules)
            switch try merge.merge(version, by: actor) {
            case .clean(let replacement):
                try volume.replacer.replace(replacement, at: document.path, through: tree)
                merged.settled.append(version.number)
                guard let history = try volume.history.document(document.history.id) else {
                    return merged
                }
                document.history = history
            case .left(let why): merged.reasons.append(why)
            case .ask: merged.reasons.append("The rules require that a person decides.")
            }
        }
        return merged
    }

    /// Returns the conflict versions that only a person may merge: those that a program of this
    /// device overwrote without having read them. Another device does not tell which of its own
    /// versions these are, so all conflicts of the current version's device with itself are
    /// included.
    private func apart(_ document: ConflictedDocument) throws(VolumeError) -> Set<Identifier> {
        let versions = document.history.versions
        let apart = try volume.conflicts.manualMergeVersions()
        guard let current = versions.last(where: { $0.kind == .current }),
            current.device != volume.identity.device
        else { return apart }
        let own = versions.filter { $0.kind == .conflict && $0.device == current.device }
        return apart.union(own.map(\.id))
    }

    private func documentMerge(_ document: ConflictedDocument, isAsked: Bool, rules: [UInt8])
        -> DocumentMerge
    {
        documentMerge(at: document.path, document.history, isAsked: isAsked, rules: rules)
    }

    func documentMerge(
        at path: [Name], _ history: DocumentHistory, isAsked: Bool, rules: [UInt8]
    ) -> DocumentMerge {
        let merger = Merger(
            rules: MergeRules(file: rules), tools: MergeTools(file: toolsFile),
            scratch: volume.identity.store + "/merge", mayGoOn: { [poller] in !poller.isEnding })
        return DocumentMerge(
            volume: volume, merger: merger, path: path, history: history, isAsked: isAsked)
    }

    var rules: [UInt8] { MergeRules.bytes(in: volume.root) }

    /// The path of the file that says which merge programs this machine may run. It is local,
    /// because another device must not be able to start programs here.
    private var toolsFile: String? {
        let home =
            getenv("XDG_CONFIG_HOME").map { String(cString: $0) }
            ?? getenv("HOME").map { String(cString: $0) + "/.config" }
        guard let path = home.map({ $0 + "/concord/merge" }), access(path, F_OK) == 0 else {
            return nil
        }
        return path
    }
}
