import CLinux
import Coordination
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// The claims and presenters that requests of plain programs meet: what a request must wait for,
/// and what presenters are told after it. While there are no claims and no presenters, requests
/// pass here without a look at their names.
final class RequestClaims: Sendable {
    let arbitration: Arbitration
    private let tree: Tree
    private let callers: Callers
    private let parking: Parking

    init(_ arbitration: Arbitration, tree: Tree, callers: Callers, parking: Parking) {
        self.arbitration = arbitration
        self.tree = tree
        self.callers = callers
        self.parking = parking
    }

    var isQuiet: Bool { arbitration.isQuiet }
    var arbiter: Arbiter { arbitration.arbiter }

    // MARK: Opens

    /// Whether no claim or presenter concerns this node, so that its open needs no arbitration.
    func isFree(_ node: Node, _ access: @autoclosure () -> Access) -> Bool {
        arbitration.isQuiet || target(node, access()) == nil
    }

    func target(_ node: Node, _ access: Access) -> ClaimRequest.Target? {
        guard !arbitration.isQuiet, let names = tree.nodes.path(of: node) else { return nil }
        let plain = ClaimRequest.Target(access, Path(plain: names))
        guard arbiter.concerns([plain]) else { return nil }
        return ClaimRequest.Target(access, tree.path(names))
    }

    // MARK: Changes of names and attributes

    /// An access that a request needs, with the names it concerns.
    struct NameAccess {
        var access: Access
        var names: [Name]?

        init(_ access: Access, _ names: [Name]?) {
            self.access = access
            self.names = names
        }
    }

    /// Creates a name by calling `body`, which answers the request, when the claim is granted. The
    /// request's own string may not be valid any more by then.
    func make(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>,
        _ body: @escaping @Sendable (UnsafePointer<CChar>) -> Void
    ) {
        if isQuiet { return body(name) }
        let (names, copy) = (tree.names(in: parent, name), terminated(name))
        withClaim(request, [NameAccess(.write(.update), names)]) { [tree] in
            let isNew = names.map { !tree.exists($0) } ?? false
            copy.asCString { body($0) }
            guard let names, isNew, tree.exists(names) else { return [] }
            return [.appeared(names)]
        }
    }

    /// Removes a name by calling `body`, in the same way.
    func remove(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>,
        _ body: @escaping @Sendable (UnsafePointer<CChar>) -> Void
    ) {
        if isQuiet { return body(name) }
        let (names, copy) = (tree.names(in: parent, name), terminated(name))
        withClaim(request, [NameAccess(.write(.deleting), names)]) { [self] in
            copy.asCString { body($0) }
            return gone(names)
        }
    }

    /// The change that presenters are told if there is nothing under these names any more.
    func gone(_ names: [Name]?) -> [ObservedChange] {
        guard let names, !tree.exists(names) else { return [] }
        return [.removed(names)]
    }

    /// Changes attributes by calling `body`, which answers the request, when the claim is granted.
    func change(
        _ request: Request, _ id: UInt64, size: Bool, _ body: @escaping @Sendable () -> Void
    ) {
        if isQuiet { return body() }
        let names = tree.nodes[id].flatMap { tree.nodes.path(of: $0) }
        let access: Access = .write(size ? .update : .contentIndependentMetadataOnly)
        withClaim(request, [NameAccess(access, names)]) { [tree, arbitration] in
            let before = names.flatMap { tree.changeStamp($0) }
            body()
            guard let names, let now = tree.changeStamp(names), now != before,
                arbitration.reportedChanges.change(names, to: now)
            else { return [] }
            return [.changed(names)]
        }
    }

    /// Runs a request that changes names or attributes when its claim is granted, or after a
    /// quarter of a second in any case, because the kernel holds the directory meanwhile. `body`
    /// answers the request and returns what presenters must be told.
    func withClaim(
        _ request: Request, _ nameAccesses: [NameAccess],
        _ body: @escaping @Sendable () -> [ObservedChange]
    ) {
        let caller = request.caller
        // Which directories are packages is looked up only if a claim or presenter concerns the
        // path.
        let plain = nameAccesses.compactMap { wish in
            wish.names.map { ClaimRequest.Target(wish.access, Path(plain: $0)) }
        }
        guard arbiter.concerns(plain) else { return tell(caller.process, body()) }
        let targets = nameAccesses.compactMap { wish in
            wish.names.map { ClaimRequest.Target(wish.access, tree.path($0)) }
        }
        let turn = arbitration.request(targets, callers.line(of: caller.process), goesAhead: true)
        guard let hold = parking.hold(request, interrupted: {}) else { return }
        let id = arbiter.request(turn) { [self] id, _ in
            parking.soon { [self] in
                if hold.end() {
                    cl_thread_serve(caller.unique, caller.group)
                    tell(caller.process, body())
                }
                arbiter.step(.released(id))
            }
        }
        arbitration.timers.after(seconds: arbitration.settings.namesTimeout) { [self] in
            arbiter.step(.overdue(id))
        }
    }

    // MARK: Notifying presenters

    enum ObservedChange: Sendable {
        case changed([Name])
        case appeared([Name])
        case removed([Name])
        case moved([Name], [Name])
    }

    /// Notifies presenters. `process` is the thread that has caused the change, whose own
    /// presenters are not notified; 0 if there is none.
    func tell(_ process: Int32, _ happenings: [ObservedChange]) {
        guard !arbitration.isQuiet, !happenings.isEmpty else { return }
        var own: Set<PresenterID>?
        for happening in happenings {
            guard arbiter.isObserved(event(happening) { Path(plain: $0) }) else { continue }
            let event = event(happening, tree.path)
            let by = own ?? arbiter.belongings(of: callers.line(of: process)).1
            own = by
            arbiter.tell(
                event, by: by, process: process, program: callers.programs.name(of: process))
        }
    }

    private func event(_ happening: ObservedChange, _ path: ([Name]) -> Path)
        -> Arbiter.ObservedChange
    {
        switch happening {
        case .changed(let names): .changed(path(names))
        case .appeared(let names): .appeared(path(names))
        case .removed(let names): .removed(path(names))
        case .moved(let from, let to): .moved(from: path(from), to: path(to))
        }
    }

    /// Notifies presenters that a handle which was open for writing was closed.
    func tellClosed(_ handle: Handle) {
        guard !arbitration.isQuiet, let names = tree.nodes.path(of: handle.node),
            let now = try? handle.file.status(), handle.before != ChangeStamp(now),
            arbitration.reportedChanges.change(names, to: ChangeStamp(now))
        else { return }
        tell(handle.caller.process, [.changed(names)])
    }
}

/// A change stamp: it differs whenever a file's contents or attributes have changed.
struct ChangeStamp: Hashable, Sendable {
    var inode: UInt64
    var size: Int64
    var changed: Int64

    init(_ status: stat) {
        inode = UInt64(status.st_ino)
        size = Int64(status.st_size)
        changed = Timestamp(status.st_ctim).nanoseconds
    }
}

/// The changes that presenters were told last, so that each change is reported once. The end of a
/// claim comes before the kernel reports that the file was closed.
final class ReportedChanges: Sendable {
    private let known = Mutex<[[Name]: ChangeStamp?]>([:])

    /// Notes a change. Returns true if it was not reported yet.
    func change(_ names: [Name], to changeStamp: ChangeStamp?) -> Bool {
        known.withLock { known in
            if known.count >= 4096 { known.removeAll() }
            return known.updateValue(changeStamp, forKey: names) != .some(changeStamp)
        }
    }
}
