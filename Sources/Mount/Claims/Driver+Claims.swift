import CFuse
import CLinux
import Coordination
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

// Connects the kernel's requests with claims.
extension Driver {
    // MARK: Paths

    /// The path with these names, with the information which directories in it are packages. Each
    /// directory is opened in the one before, so that a deep path costs no more than its names.
    func path(_ names: [Name]) -> Path {
        var steps: [Path.Step] = []
        // The directory that contains the next name; negative if there is none.
        var parent = volume.root
        func leave() { if parent >= 0, parent != volume.root { _ = cl_close(parent) } }
        for (index, name) in names.enumerated() {
            let isLast = index == names.count - 1
            let flags = Flag.path | O_DIRECTORY | (isLast ? O_NOFOLLOW : 0)
            let next = parent < 0 ? -1 : name.withCString { cl_openat(parent, $0, flags, 0) }
            // The last name is a package only if it is a directory. Others must be directories.
            let isPackage = !(isLast && next < 0) && isPackage(name, next)
            steps.append(.init(name, isPackage: isPackage))
            leave()
            parent = next
        }
        leave()
        return Path(steps)
    }

    /// - Parameter directory: A descriptor; negative if the directory does not exist.
    private func isPackage(_ name: Name, _ directory: Int32) -> Bool {
        var value: UInt8 = 0
        let count =
            directory < 0 ? -1 : cl_getxattr_fd(directory, "user.concord.package", &value, 1)
        // ERANGE means that the value is longer than one byte.
        if count > 0 || count == -Int(ERANGE) { return value != UInt8(ascii: "0") }
        return Volume.isPackage(name: name) || Volume.isWeakPackage(name: name)
    }

    func isDirectory(_ names: [Name]) -> Bool { kind(names[...]) == S_IFDIR }

    /// The target of a symlink; nil for anything else.
    func linkTarget(_ names: [Name]) -> [UInt8]? {
        guard !names.isEmpty else { return nil }
        var target = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = relative(names[...]).asCString {
            cl_readlinkat(volume.root, $0, &target, target.count)
        }
        return count > 0 ? target[..<Int(count)].map { UInt8(bitPattern: $0) } : nil
    }

    private func kind(_ names: ArraySlice<Name>) -> mode_t {
        status(names).map { $0.st_mode & S_IFMT } ?? 0
    }

    /// The attributes of the item with these names.
    private func status(_ names: ArraySlice<Name>) -> stat? {
        var status = stat()
        let result = relative(names).asCString {
            cl_fstatat(volume.root, $0, &status, Flag.noFollow)
        }
        return result < 0 ? nil : status
    }

    private func relative(_ names: ArraySlice<Name>) -> [UInt8] {
        if names.isEmpty { return [UInt8(ascii: "."), 0] }
        return Array(names.map(\.bytes).joined(separator: [UInt8(ascii: "/")])) + [0]
    }

    func names(in parent: UInt64, _ name: UnsafePointer<CChar>) -> [Name]? {
        guard let node = nodes[parent], let path = nodes.path(of: node) else { return nil }
        return path + [Name(cString: name)]
    }

    // MARK: Requests that change names

    /// An access that a request needs, with the names it concerns.
    struct NameAccess {
        var access: Access
        var names: [Name]?

        init(_ access: Access, _ names: [Name]?) {
            self.access = access
            self.names = names
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
            wish.names.map { ClaimRequest.Target(wish.access, path($0)) }
        }
        let turn = arbitration.request(targets, line(of: caller.process), goesAhead: true)
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

    var arbiter: Arbiter { arbitration.arbiter }

    /// The process ancestry for which a claim counts. The applier acts for no other process, not
    /// even for the one that has started the daemon.
    private func line(of process: Int32) -> [Int32] {
        applierGuard.isApplier(process) ? [process] : ProcessAncestry.line(of: process)
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
            let event = event(happening, path)
            let by = own ?? arbiter.belongings(of: line(of: process)).1
            own = by
            arbiter.tell(event, by: by, process: process, program: programs.name(of: process))
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
        guard !arbitration.isQuiet, let names = nodes.path(of: handle.node),
            let now = try? handle.file.status(), handle.before != ChangeStamp(now),
            arbitration.reportedChanges.change(names, to: ChangeStamp(now))
        else { return }
        tell(handle.caller.process, [.changed(names)])
    }

    func changeStamp(_ names: [Name]) -> ChangeStamp? {
        guard var status = status(names[...]) else { return nil }
        // Filling and eviction are no changes.
        relative(names[...]).asCString { present(&status, in: volume.root, $0) }
        return ChangeStamp(status)
    }
    func exists(_ names: [Name]) -> Bool { status(names[...]) != nil }
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
