import CLinux
import Control
import Glibc
import Model
import Mount
import Synchronization
import SystemCalls
import Volume

/// The applier process: it makes system calls in the mount as the daemon orders. It ends with the
/// daemon. Between batches, and while it waits for a claim, it has no file of the mount open, so
/// that it does not keep the mount busy.
final class ApplierProgram {
    private let mountPoint: String
    private let socket: String
    /// The mount's root and the hidden directory, opened with O_PATH when they are needed; -1 while
    /// closed.
    private var root: Int32 = -1
    private var incoming: Int32 = -1
    private var turns: CoordinationClient?
    private var lastClaim = 0
    /// The claim that a `hold` order took, until `letGo` releases it.
    private var heldClaim: Int?

    /// How long a step waits for its claim, in milliseconds.
    private static let patience: Int32 = 10_000
    /// How long it waits before it closes the files of the mount and waits on, in milliseconds.
    private static let briefWait: Int32 = 100

    init(mountPoint: String, socket: String) {
        self.mountPoint = mountPoint
        self.socket = socket
    }

    func run() {
        cl_die_with_parent()
        // The daemon ended before the line above took effect.
        guard getppid() != 1 || isatty(0) != 0 else { return }
        _ = chdir("/")
        _ = cl_umask(0)
        while let frame = nextFrame() {
            guard let order = ApplierOrder(encoded: frame) else { return }
            var answer = carryOut(order).littleEndian
            guard withUnsafeBytes(of: &answer, { write(1, $0.baseAddress!, $0.count) }) == 4 else {
                return
            }
        }
    }

    private func nextFrame() -> [UInt8]? {
        guard let head = receive(4) else { return nil }
        let length = head.reversed().reduce(0) { $0 << 8 | Int($1) }
        return receive(length)
    }

    private func receive(_ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        var done = 0
        while done < count {
            let got = bytes.withUnsafeMutableBytes {
                read(0, $0.baseAddress! + done, count - done)
            }
            if got < 0, errno == EINTR { continue }
            guard got > 0 else { return nil }
            done += got
        }
        return bytes
    }

    // MARK: Orders

    private func carryOut(_ order: ApplierOrder) -> Int32 {
        if case .rest = order.action {
            rest()
            return 0
        }
        if case .letGo = order.action {
            letGo()
            return 0
        }
        return order.accesses.isEmpty ? act(order.action) : inTurn(order)
    }

    private func act(_ action: ApplierOrder.Action) -> Int32 {
        guard open() else { return ApplierOrder.Refusal.broken }
        do throws(Errno) {
            switch action {
            case .rename(let name, let from, let to, let flags):
                try rename(name, from, to, flags)
            case .remove(let path, let isDirectory):
                try at(path) { (directory, name) throws(Errno) in
                    _ = try check(cl_unlinkat(directory, name, isDirectory ? AT_REMOVEDIR : 0))
                }
            case .change(let path, let change): try self.change(path, change)
            case .clear(let name): try clear(Name(name), in: incoming)
            case .rest, .hold, .letGo: break
            }
            return 0
        } catch {
            return error.code
        }
    }

    private func rename(_ name: String?, _ from: [Name], _ to: [Name], _ flags: UInt32)
        throws(Errno)
    {
        try at(to) { (target, new) throws(Errno) in
            if let name {
                _ = try check(cl_renameat2(self.incoming, name, target, new, flags))
                return
            }
            try self.at(from) { (source, old) throws(Errno) in
                _ = try check(cl_renameat2(source, old, target, new, flags))
            }
        }
    }

    private func change(_ path: [Name], _ change: TreeChange) throws(Errno) {
        let file = try open(path)
        defer { _ = cl_close(file) }
        // The owner comes first: a mode must never hold for the wrong one.
        if let owner = change.owner {
            let directory = try open(path.dropLast())
            defer { _ = cl_close(directory) }
            try owner.give(
                file, in: directory, includingContents: change.includesContents)
        }
        try IncomingAttributes(mode: change.mode, set: change.set, removed: change.removed)
            .apply(to: file)
        guard let modified = change.modified else { return }
        let times = [
            timespec(tv_sec: 0, tv_nsec: 0x3fff_fffe),  // UTIME_OMIT
            Timestamp(nanoseconds: modified).timespec,
        ]
        try check(cl_utimens_fd(file, times))
    }

    /// Removes `name` with all that is in it.
    private func clear(_ name: Name, in directory: Int32) throws(Errno) {
        let result = name.withCString { cl_unlinkat(directory, $0, 0) }
        guard result == -EISDIR else {
            if result < 0, result != -ENOENT { throw Errno(-result) }
            return
        }
        let inner = try name.withCString { (text) throws(Errno) in
            try check(cl_openat(directory, text, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0))
        }
        defer { _ = cl_close(inner) }
        var names: [Name] = []
        try forEachName(in: inner) { names.append($0) }
        for name in names { try clear(name, in: inner) }
        try name.withCString { (text) throws(Errno) in
            _ = try check(cl_unlinkat(directory, text, AT_REMOVEDIR))
        }
    }

    // MARK: Places

    private func open() -> Bool {
        guard root < 0 else { return true }
        root = cl_openat(AT_FDCWD, mountPoint, O_PATH | O_DIRECTORY, 0)
        // The hidden directory exists only in Concord's mount, and only for the applier.
        if root >= 0 {
            incoming = cl_openat(
                root, ApplierGuard.name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0)
        }
        if incoming < 0 { closePlaces() }
        return incoming >= 0
    }

    private func letGo() {
        if let heldClaim { send(.release, heldClaim) }
        heldClaim = nil
    }

    private func rest() {
        letGo()
        closePlaces()
    }

    private func closePlaces() {
        if incoming >= 0 { _ = cl_close(incoming) }
        if root >= 0 { _ = cl_close(root) }
        (incoming, root) = (-1, -1)
    }

    /// Opens an item with O_PATH, without following symlinks.
    private func open(_ path: [Name]) throws(Errno) -> Int32 {
        var directory = try check(cl_openat(root, ".", O_PATH | O_DIRECTORY, 0))
        for name in path {
            let next = name.withCString { cl_openat(directory, $0, O_PATH | O_NOFOLLOW, 0) }
            _ = cl_close(directory)
            directory = try check(next)
        }
        return directory
    }

    /// Calls `body` with the parent directory and the last name of `path`. A path of two names that
    /// begins with the hidden directory's name lies in that directory.
    private func at(
        _ path: [Name], _ body: (Int32, UnsafePointer<CChar>) throws(Errno) -> Void
    ) throws(Errno) {
        guard let last = path.last else { throw .invalid }
        let isIncoming = path.count == 2 && path[0] == Name(ApplierGuard.name)
        let directory = isIncoming ? incoming : try open(path.dropLast())
        defer { if !isIncoming { _ = cl_close(directory) } }
        try last.withCString { (name) throws(Errno) in try body(directory, name) }
    }

    // MARK: Claims

    /// Claims what the order needs, as any client does, and then acts. Presenters are asked and
    /// other programs' claims are waited for.
    private func inTurn(_ order: ApplierOrder) -> Int32 {
        guard let turns = connected() else { return ApplierOrder.Refusal.notYet }
        lastClaim += 1
        var request = Control.Request(.claim)
        request.claim = lastClaim
        request.access = order.accesses.map {
            AccessField(writing: $0.path, $0.claim.option)
        }
        let answer = Mutex<Result<[UInt8], VolumeError>?>(nil)
        var ends: [Int32] = [0, 0]
        guard cl_pipe(&ends) >= 0 else { return ApplierOrder.Refusal.notYet }
        let answered = ends[1]
        turns.ask(request) { result in
            answer.withLock { $0 = result }
            _ = cl_close(answered)
        }
        var (waited, wanted, ready) = (ends[0], Int16(POLLIN | POLLHUP), Int16(0))
        if cl_poll(&waited, &wanted, &ready, 1, ApplierProgram.briefWait) == 0 {
            closePlaces()
            _ = cl_poll(&waited, &wanted, &ready, 1, ApplierProgram.patience)
        }
        _ = cl_close(ends[0])
        guard let result = answer.withLock({ $0 }) else {
            send(.cancel, lastClaim)
            return ApplierOrder.Refusal.notYet
        }
        do throws(VolumeError) {
            let grant = try CoordinationClient.result(result, as: GrantReport.self)
            let isThere = grant.paths == order.accesses.map { RawText(path: $0.path) }
            if isThere, case .hold = order.action {
                heldClaim = lastClaim
                return 0
            }
            defer { send(.release, lastClaim) }
            return isThere ? act(order.action) : ApplierOrder.Refusal.moved
        } catch {
            return ApplierOrder.Refusal.notYet
        }
    }

    /// Sends a request without waiting for its answer, because the next claim does not depend on
    /// it.
    private func send(_ verb: Verb, _ claim: Int) {
        var request = Control.Request(verb)
        request.claim = claim
        turns?.ask(request) { _ in }
    }

    private func connected() -> CoordinationClient? {
        if let turns { return turns }
        turns = try? CoordinationClient(socket: socket, pushed: { _ in }, ended: {})
        return turns
    }
}

extension ApplierOrder.Claim {
    fileprivate var option: AccessField.WritingOption {
        switch self {
        case .merging: .merging
        case .moving: .moving
        case .deleting: .deleting
        case .replacing: .replacing
        case .attributes: .contentIndependentMetadataOnly
        }
    }
}
