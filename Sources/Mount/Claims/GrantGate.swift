import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// Lets requests that change a document without opening it wait until the hub has granted it to
/// this device, if the rules say `lock=hard`: truncate(2), renames over it, and for packages also
/// names that appear or vanish in them. Opens wait in `WaitingOpen`.
final class GrantGate: Sendable {
    private let arbitration: Arbitration
    private let tree: Tree
    private let callers: Callers
    private let parking: Parking

    init(_ arbitration: Arbitration, tree: Tree, callers: Callers, parking: Parking) {
        self.arbitration = arbitration
        self.tree = tree
        self.callers = callers
        self.parking = parking
    }

    /// A name that a request changes.
    struct Target {
        var names: [Name]
        /// Whether the document with this name is changed, and not only a package around it.
        var isDocument = true
    }

    private var documents: OpenDocuments { tree.volume.openDocuments }
    private var grants: DocumentGrants { documents.guarded.grants }

    /// What was granted for a request counts for so many seconds after it has begun.
    private static let seconds = 2.0

    /// Whether any such document can be concerned.
    func concerns(_ caller: Caller) -> Bool {
        grants.isAny && arbitration.settings.isOn && !callers.isApplier(caller)
    }

    /// Makes or removes a name by calling `body`, which answers the request, when the package that
    /// it lies in was granted. A document's own name needs no grant.
    func pass(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>,
        _ body: @escaping @Sendable (UnsafePointer<CChar>) -> Void
    ) {
        guard concerns(request.caller), let names = tree.names(in: parent, name) else {
            return body(name)
        }
        let copy = terminated(name)
        pass(request, [Target(names: names, isDocument: false)]) { copy.asCString { body($0) } }
    }

    /// Runs `body`, which answers the request, when the documents were granted, or refuses it.
    func pass(
        _ request: Request, _ targets: [Target], _ body: @escaping @Sendable () -> Void
    ) {
        let targets = targets.filter { grants.mayHold($0.names) }
        guard !targets.isEmpty else { return body() }
        let wait = Wait(grants)
        guard let hold = parking.hold(request, interrupted: { wait.end() }) else { return }
        let caller = request.caller
        parking.runDetached(on: .questions) { [self] in
            wait.take(found(targets)) { [self] refusal in
                parking.soon { [self] in
                    guard hold.end() else { return wait.end() }
                    if let refusal {
                        wait.end()
                        return request.refuse(refusal.errno)
                    }
                    cl_thread_serve(caller.unique, caller.group)
                    body()
                    arbitration.timers.after(seconds: GrantGate.seconds) { wait.end() }
                }
            }
        }
    }

    private func found(_ targets: [Target]) -> [Identifier] {
        var found: [Identifier] = []
        for target in targets {
            guard let document = try? documents.mustBeGranted(at: target.names),
                target.isDocument || (try? documents.path(of: document)) != target.names,
                !found.contains(document)
            else { continue }
            found.append(document)
        }
        return found
    }

    /// The documents of one request, which are taken one after the other.
    private final class Wait: Sendable {
        private struct State {
            var taken: [Identifier] = []
            var waiting: (document: Identifier, number: UInt64)?
            var isOver = false
        }

        private let grants: DocumentGrants
        private let state = Mutex(State())

        init(_ grants: DocumentGrants) { self.grants = grants }

        func take(_ documents: [Identifier], _ answer: @escaping DocumentGrants.Answer) {
            guard let next = documents.first else { return answer(nil) }
            let number = grants.take(next, isPatient: false) { [self] refusal in
                if let refusal { return answer(refusal) }
                let isOver = state.withLock { state in
                    if !state.isOver { state.taken.append(next) }
                    return state.isOver
                }
                if isOver { return grants.end(next) }
                take(Array(documents.dropFirst()), answer)
            }
            let isOver = state.withLock { state in
                state.waiting = (next, number)
                return state.isOver
            }
            if isOver { grants.withdraw(next, number) }
        }

        func end() {
            let (taken, waiting) = state.withLock { state in
                defer { (state.taken, state.isOver) = ([], true) }
                return (state.taken, state.waiting)
            }
            if let waiting { grants.withdraw(waiting.document, waiting.number) }
            for document in taken { grants.end(document) }
        }
    }
}

extension DocumentGrants.Refusal {
    /// The error that a program gets.
    var errno: Errno {
        switch self {
        case .elsewhere, .arriving: Errno(EBUSY)
        case .offline, .reader: Errno(EROFS)
        }
    }
}
