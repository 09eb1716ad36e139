import CFuse
import CLinux
import Coordination
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

// Where the requests of the kernel meet the turns.
extension Driver {
    // MARK: Places

    /// Where the names lead, and which of the directories on the way are packages.
    func path(_ names: [Name]) -> Path {
        var steps: [Path.Step] = []
        for (index, name) in names.enumerated() {
            let isDirectory = index < names.count - 1
            steps.append(.init(name, isPackage: isPackage(names[...index], isDirectory)))
        }
        return Path(steps)
    }

    private func isPackage(_ names: ArraySlice<Name>, _ isDirectory: Bool) -> Bool {
        guard let name = names.last else { return false }
        if !isDirectory, kind(names) != S_IFDIR { return false }
        var value: UInt8 = 0
        let count = relative(names).asCString { path -> Int in
            let directory = cl_openat(volume.root, path, Flag.path | O_DIRECTORY, 0)
            guard directory >= 0 else { return -1 }
            defer { _ = cl_close(directory) }
            return cl_getxattr_fd(directory, "user.concord.package", &value, 1)
        }
        // More than one byte is something, too.
        if count > 0 || count == -Int(ERANGE) { return value != UInt8(ascii: "0") }
        return Volume.isPackage(name: name) || Volume.isWeakPackage(name: name)
    }

    func isDirectory(_ names: [Name]) -> Bool { kind(names[...]) == S_IFDIR }

    /// Nil for what is no symlink.
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

    /// Of what stands there in the tree.
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

    // MARK: What changes names

    /// Something a program is about to do to a name.
    struct Wish {
        var access: Access
        var names: [Name]?

        init(_ access: Access, _ names: [Name]?) {
            self.access = access
            self.names = names
        }
    }

    /// Carries out what changes names or attributes when it is its turn; after a quarter of a
    /// second in any case, for the kernel holds the directory meanwhile. `body` answers the
    /// request, and says what presenters are to be told.
    func inTurn(
        _ request: Request, _ wishes: [Wish], _ body: @escaping @Sendable () -> [Happening]
    ) {
        let caller = request.caller
        // Which of the directories are packages is only looked up where somebody has to do with
        // the place.
        let plain = wishes.compactMap { wish in
            wish.names.map { TurnRequest.Target(wish.access, Path(plain: $0)) }
        }
        guard arbiter.concerns(plain) else { return tell(caller.process, body()) }
        let targets = wishes.compactMap { wish in
            wish.names.map { TurnRequest.Target(wish.access, path($0)) }
        }
        let turn = turns.request(targets, line(of: caller.process), goesAhead: true)
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
        turns.deadlines.after(seconds: turns.settings.namesTimeout) { [self] in
            arbiter.step(.overdue(id))
        }
    }

    var arbiter: Arbiter { turns.arbiter }

    /// A process and those that its turns are also for. The applier acts for nobody, whoever has
    /// started the daemon.
    private func line(of process: Int32) -> [Int32] {
        gate.isApplier(process) ? [process] : Family.line(of: process)
    }

    // MARK: What presenters are told

    enum Happening: Sendable {
        case changed([Name])
        case appeared([Name])
        case removed([Name])
        case moved([Name], [Name])
    }

    /// `process` is a thread's, whose own presenters know; 0 for nobody's.
    func tell(_ process: Int32, _ happenings: [Happening]) {
        guard !turns.isQuiet, !happenings.isEmpty else { return }
        var own: Set<PresenterID>?
        for happening in happenings {
            guard arbiter.isHeard(event(happening) { Path(plain: $0) }) else { continue }
            let event = event(happening, path)
            let by = own ?? arbiter.belongings(of: line(of: process)).1
            own = by
            arbiter.tell(event, by: by, process: process, program: programs.name(of: process))
        }
    }

    private func event(_ happening: Happening, _ path: ([Name]) -> Path) -> Arbiter.Happening {
        switch happening {
        case .changed(let names): .changed(path(names))
        case .appeared(let names): .appeared(path(names))
        case .removed(let names): .removed(path(names))
        case .moved(let from, let to): .moved(from: path(from), to: path(to))
        }
    }

    /// A handle that could write was closed.
    func tellClosed(_ handle: Handle) {
        guard !turns.isQuiet, let names = nodes.path(of: handle.node),
            let now = try? handle.file.status(), handle.before != Mark(now),
            turns.marks.change(names, to: Mark(now))
        else { return }
        tell(handle.caller.process, [.changed(names)])
    }

    func mark(_ names: [Name]) -> Mark? {
        guard var status = status(names[...]) else { return nil }
        // Bytes that come or go are no change.
        relative(names[...]).asCString { present(&status, in: volume.root, $0) }
        return Mark(status)
    }
    func exists(_ names: [Name]) -> Bool { status(names[...]) != nil }
}

/// What changes whenever a file's contents or attributes do.
struct Mark: Hashable, Sendable {
    var inode: UInt64
    var size: Int64
    var changed: Int64

    init(_ status: stat) {
        inode = UInt64(status.st_ino)
        size = Int64(status.st_size)
        changed = Timestamp(status.st_ctim).nanoseconds
    }
}

/// What presenters were last told of, so that they hear of each change once: the end of a claim
/// comes before the kernel's word that the file was closed.
final class Marks: Sendable {
    private let known = Mutex<[[Name]: Mark?]>([:])

    /// True: nobody was told of that yet.
    func change(_ names: [Name], to mark: Mark?) -> Bool {
        known.withLock { known in
            if known.count >= 4096 { known.removeAll() }
            return known.updateValue(mark, forKey: names) != .some(mark)
        }
    }
}
