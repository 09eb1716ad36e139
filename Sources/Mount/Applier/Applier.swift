import CLinux
import Coordination
import Glibc
import Logging
import Model
import Synchronization
import SystemCalls
import Volume

/// Puts changes from the hub into the tree. A separate process does ordinary system calls in the
/// mount, one step after the other, so that programs that watch the tree are notified. The daemon
/// cannot do this itself, because it would wait for its own answers.
package final class Applier: Applying {
    private let session: MountSession
    private let volume: Volume
    private let program: String
    private let arguments: [String]
    private let log: Logger
    private let jobs = BlockingQueue<@Sendable () -> Void>()
    private let thread = Mutex<Thread?>(nil)
    private let child = Mutex<Child?>(nil)
    private let isOver = OneTimeFlag()
    private let threadEnd = Signal()
    /// Guarded by `threadEnd`.
    private let hasThreadEnded = OneTimeFlag()

    private struct Child {
        var process: Int32
        var input: Int32
        var output: Int32
    }

    /// The process is `program` with `arguments`, followed by the mount point and the control
    /// socket. It is started when it is first needed.
    package init(
        session: MountSession, volume: Volume, socketPath: String,
        program: String = "/proc/self/exe", arguments: [String] = ["concord", "applier"],
        log: Logger = Logger(label: "concord.applier")
    ) {
        self.session = session
        self.volume = volume
        self.program = program
        self.arguments = arguments + [session.mountPoint, socketPath]
        self.log = log
        // The process ends when the thread that started it ends, so that thread must last.
        thread.withLock {
            $0 = Thread("applier") { [jobs, threadEnd, hasThreadEnded] in
                while let job = jobs.take() { job() }
                threadEnd.change { hasThreadEnded.set() }
            }
        }
        session.beforeEnd { [weak self] in self?.stop() }
    }

    deinit { jobs.close() }

    /// Nanoseconds after which a step that still waits is given up.
    private static let patience: Int64 = 500_000_000

    /// Ends the process. Steps fail from now on. A step may wait for another program's claim, or
    /// for a presenter; then the process is killed, which leaves the same as a crash.
    package func stop() {
        jobs.close()
        let deadline = cl_clock_monotonic_ns() + Applier.patience
        if !threadEnd.wait(until: deadline, { hasThreadEnded.isSet }) {
            isOver.set()
            child.withLock { if let child = $0 { _ = kill(child.process, SIGKILL) } }
        }
        thread.withLock { thread in
            defer { thread = nil }
            return thread
        }?.join()
        end()
    }

    /// The id of the applier process; nil while it is not running.
    package var process: Int32? { child.withLock { $0?.process } }

    package func apply(_ steps: [ApplierStep], together: [Name]? = nil) -> [ApplierResult] {
        let results = Mutex<[ApplierResult]>([])
        let done = BlockingQueue<Void>()
        let isTaken = jobs.put { [self] in
            let isOurTurn = together.map(hold) ?? true
            let isPossible = isOurTurn && (together == nil || isEachPossible(steps))
            for step in steps {
                let result = isPossible ? perform(step, isHeld: together != nil) : .open
                results.withLock { $0.append(result) }
            }
            if isOurTurn, together != nil { _ = ask(ApplierOrder(action: .letGo)) }
            _ = ask(ApplierOrder(action: .rest))
            done.put(())
        }
        if isTaken { done.take() }
        let all = results.withLock { $0 }
        return all + Array(repeating: Applier.ended, count: steps.count - all.count)
    }

    package func lastWrite(_ path: [Name]) -> UInt64? {
        session.driver.arbitration.arbiter.lastWrite(at: Path(plain: path))
    }

    private func hold(_ path: [Name]) -> Bool {
        let order = ApplierOrder(
            action: .hold, accesses: [ApplierOrder.Access(claim: .merging, path: path)])
        return ask(order) == 0
    }

    /// Whether everything that is to be replaced, moved or removed is still as expected, so that
    /// either all steps are done or none.
    private func isEachPossible(_ steps: [ApplierStep]) -> Bool {
        // Items that an earlier step creates or moves are not in place yet.
        var brought: Set<[Name]> = []
        for step in steps {
            let places = step.places.map(\.path)
            guard let from = places.first, let to = places.last else { continue }
            guard
                brought.contains(where: from.starts)
                    || step.expects(volume.items.snapshot(at: from))
            else {
                for path in places { volume.scan.recheck(path) }
                return false
            }
            brought.insert(to)
        }
        return true
    }

    private static let ended = ApplierResult.failed("The volume is being unmounted.")

    // MARK: Steps

    private func perform(_ step: ApplierStep, isHeld: Bool) -> ApplierResult {
        guard step.places.allSatisfy({ !$0.path.isEmpty && $0.path.allSatisfy(\.isSafe) }) else {
            return .failed("The hub sent an invalid file name; the change was not applied.")
        }
        let result: ApplierResult
        do throws(VolumeError) { result = try carryOut(step, isHeld: isHeld) } catch {
            return .failed(error.message)
        }
        if result == .changed, let place = step.places.first { volume.scan.recheck(place.path) }
        return result
    }

    private func carryOut(_ step: ApplierStep, isHeld: Bool) throws(VolumeError)
        -> ApplierResult
    {
        if let (incoming, place) = step.arrival {
            try volume.arrivals.applyLocalAttributes(incoming, for: place.path)
        }
        switch step {
        case .replacePackage(_, let place, let inode, let changed),
            .removePackage(let place, let inode, let changed, _):
            if let objection = look(place, inode, changed) { return objection }
        default: break
        }
        var order = ApplierOrder(action: step.action)
        let accesses = step.accesses
        let plain = accesses.map { access in
            ClaimRequest.Target(.write(access.claim.option), Path(plain: access.path))
        }
        if !isHeld, session.driver.arbitration.arbiter.concerns(plain) { order.accesses = accesses }
        var result = attempt(step, order)
        // The process died before the step was done, so it is tried again.
        if result == nil { result = attempt(step, order) }
        if case .logged = result { result = try attemptBesideLogs(step, order, isHeld: isHeld) }
        guard let result else {
            return .failed("The process that applies changes from the hub keeps ending.")
        }
        guard result == .done else { return result }
        switch step {
        case .replacePackage(let incoming, let place, _, let changed):
            return finishPackage(incoming, place, changed, order)
        case .removePackage(let place, _, let changed, let aside):
            return finishRemoval(aside, place, changed, order)
        default: return result
        }
    }

    /// Examines the database logs that are in the way of a step. Unless one has changes that the
    /// database lacks, those with committed changes are removed, as SQLite does when the last
    /// program closes the database; then the step is tried again.
    private func attemptBesideLogs(_ step: ApplierStep, _ order: ApplierOrder, isHeld: Bool)
        throws(VolumeError) -> ApplierResult?
    {
        var known: [[Name]: DatabaseLog.State] = [:]
        for place in step.places {
            var found = DatabaseLog.examine(place.path, below: volume.root)
            if let hot = found.hot { return .logged(hot) }
            guard found.state != nil else { return .open }
            for (log, snapshot) in found.copied {
                let path = Array(place.path.dropLast()) + [log]
                let removal = ApplierStep.remove(at: TreePlace(path), expected: snapshot)
                guard try carryOut(removal, isHeld: isHeld) == .done else { return .open }
            }
            if !found.copied.isEmpty { found = DatabaseLog.examine(place.path, below: volume.root) }
            known[place.path] = found.state
        }
        let result = attempt(step, order, logs: known)
        if case .logged = result { return .open }
        return result
    }

    /// Returns nil if the process died before the step was done.
    private func attempt(
        _ step: ApplierStep, _ order: ApplierOrder, logs: [[Name]: DatabaseLog.State] = [:]
    ) -> ApplierResult? {
        let applierGuard = session.driver.applierGuard
        applierGuard.begin(step, logs: logs)
        let answer = ask(order)
        let state = applierGuard.end()
        if let refusal = state.refusal { return refusal }
        guard let answer else { return state.isDone ? .done : nil }
        switch answer {
        case 0: return .done
        case ApplierOrder.Refusal.notYet: return .open
        case ApplierOrder.Refusal.moved: return .changed
        case ENOENT, ENOTDIR, ELOOP: return .gone
        case EEXIST: return .taken
        case EBUSY, ETXTBSY: return .open
        case ESTALE: return .changed
        case ApplierOrder.Refusal.broken: return .failed("The mount cannot be reached.")
        case EROFS:
            return .failed("The volume is mounted read-only. `mount -o remount,rw` lets it change.")
        case EACCES: return .failed(readOnlyDirectory(of: step) ?? "\(Errno(answer))")
        default: return .failed("\(Errno(answer))")
        }
    }

    /// A step of an ordinary user's daemon needs the right to write the directories.
    private func readOnlyDirectory(of step: ApplierStep) -> String? {
        for place in step.places {
            let parent = Array(place.path.dropLast())
            guard let file = try? openBeneath(parent, from: volume.root, flags: O_PATH),
                let status = try? file.status(), status.st_mode & S_IWUSR == 0
            else { continue }
            let shown = parent.isEmpty ? "the volume's root" : parent.shown
            return "\(shown) is read-only for its owner; chmod u+w lets it arrive"
        }
        return nil
    }

    // MARK: Packages

    /// Compares a package before its step. It is compared again afterwards, when no program can
    /// reach it any more.
    private func look(_ place: TreePlace, _ inode: UInt64, _ changed: Int64) -> ApplierResult? {
        guard let found = PackageState(at: place.path, in: volume.root) else { return .gone }
        if found.inode != inode || found.changed > changed { return .changed }
        return found.isBusy ? .open : nil
    }

    private func finishPackage(
        _ incoming: String, _ place: TreePlace, _ changed: Int64, _ order: ApplierOrder
    ) -> ApplierResult {
        let applierGuard = session.driver.applierGuard
        let isChanged = PackageState(
            at: [Name(incoming)], in: volume.arrivals.directory, countsRoot: false
        ).map {
            $0.changed > changed || $0.isBusy
        }
        guard isChanged == true else {
            _ = ask(ApplierOrder(action: .clear(incoming)))
            return .done
        }
        // A program has written to it at the last moment, so it is put back.
        let back = "back." + incoming
        let aside = ApplierOrder.Action.rename(
            incoming: incoming, from: [], to: [Name(ApplierGuard.name), Name(back)], flags: 0)
        guard ask(ApplierOrder(action: aside)) == 0, let now = volume.items.inode(at: place.path)
        else { return .done }
        applierGuard.begin(
            .replacePackage(incoming: back, at: place, inode: now, changed: .max))
        let answer = ask(
            ApplierOrder(
                action: .rename(
                    incoming: back, from: [], to: place.path, flags: Flag.renameExchange),
                accesses: order.accesses))
        _ = applierGuard.end()
        guard answer == 0 else { return .done }
        _ = ask(ApplierOrder(action: .clear(back)))
        return .changed
    }

    /// Moves the files of a removed package to the stash. If a program has written to it at the
    /// last moment, it is put back instead, if its name is still free.
    private func finishRemoval(
        _ aside: String, _ place: TreePlace, _ changed: Int64, _ order: ApplierOrder
    ) -> ApplierResult {
        let isChanged = PackageState(
            at: [Name(aside)], in: volume.arrivals.directory, countsRoot: false
        ).map {
            $0.changed > changed || $0.isBusy
        }
        var left = aside
        if isChanged == true {
            let back = "back." + aside
            let renaming = ApplierOrder.Action.rename(
                incoming: aside, from: [], to: [Name(ApplierGuard.name), Name(back)], flags: 0)
            if ask(ApplierOrder(action: renaming)) == 0 {
                left = back
                let applierGuard = session.driver.applierGuard
                applierGuard.begin(.make(incoming: back, at: place))
                let answer = ask(
                    ApplierOrder(
                        action: .rename(
                            incoming: back, from: [], to: place.path,
                            flags: UInt32(RENAME_NOREPLACE)),
                        accesses: order.accesses))
                _ = applierGuard.end()
                if answer == 0 { return .changed }
            }
        }
        _ = ask(ApplierOrder(action: .clear(left)))
        return .done
    }

    // MARK: The process

    /// Sends an order on the applier's thread and waits for the answer. Returns nil if the process
    /// died.
    private func ask(_ order: ApplierOrder) -> Int32? {
        guard let child = started() else { return ApplierOrder.Refusal.broken }
        var frame: [UInt8] = []
        let bytes = order.encoded
        withUnsafeBytes(of: UInt32(bytes.count).littleEndian) { frame.append(contentsOf: $0) }
        frame += bytes
        var answer: Int32 = 0
        guard send(frame, to: child.input),
            withUnsafeMutableBytes(of: &answer, { receive($0, from: child.output) })
        else {
            if !isOver.isSet {
                log.error("The applier (process \(child.process)) has ended and is started again.")
            }
            end()
            return nil
        }
        return Int32(littleEndian: answer)
    }

    private func started() -> Child? {
        if let child = child.withLock({ $0 }) { return child }
        if isOver.isSet { return nil }
        var (toChild, fromChild): ([Int32], [Int32]) = ([0, 0], [0, 0])
        guard cl_pipe(&toChild) >= 0 else { return nil }
        guard cl_pipe(&fromChild) >= 0 else {
            for end in toChild { _ = cl_close(end) }
            return nil
        }
        var words = arguments.map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        let process = cl_spawn(program, &words, toChild[0], fromChild[1], 2, -1, 0)
        _ = cl_close(toChild[0])
        _ = cl_close(fromChild[1])
        guard process > 0 else {
            log.error("The applier cannot be started: \(Errno(-process)).")
            _ = cl_close(toChild[1])
            _ = cl_close(fromChild[0])
            return nil
        }
        let new = Child(process: process, input: toChild[1], output: fromChild[0])
        session.driver.applierGuard.become(process)
        child.withLock { $0 = new }
        return new
    }

    private func end() {
        let old = child.withLock { child in
            defer { child = nil }
            return child
        }
        guard let old else { return }
        session.driver.applierGuard.become(0)
        _ = cl_close(old.input)
        _ = cl_close(old.output)
        _ = kill(old.process, SIGKILL)
        _ = cl_wait_process(old.process)
    }

    private func send(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes {
                write(descriptor, $0.baseAddress! + done, $0.count - done)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            done += count
        }
        return true
    }

    private func receive(_ bytes: UnsafeMutableRawBufferPointer, from descriptor: Int32) -> Bool {
        var done = 0
        while done < bytes.count {
            let count = read(descriptor, bytes.baseAddress! + done, bytes.count - done)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            done += count
        }
        return true
    }
}

// MARK: Steps as orders

extension ApplierStep {
    /// Whether the item in the tree (nil if there is none) is the one that the step expects.
    fileprivate func expects(_ found: FileSnapshot?) -> Bool {
        switch self {
        case .make: true
        case .replace(_, _, let expected), .remove(_, let expected):
            expected.isFile
                ? found?.differs(from: expected) == false : found?.inode == expected.inode
        case .replacePackage(_, _, let inode, _), .removePackage(_, let inode, _, _),
            .move(_, let inode, _), .swap(_, let inode, _, _), .change(_, let inode, _):
            found?.inode == inode
        }
    }

    var places: [TreePlace] {
        switch self {
        case .make(_, let place), .replace(_, let place, _), .replacePackage(_, let place, _, _),
            .remove(let place, _), .removePackage(let place, _, _, _), .change(let place, _, _):
            [place]
        case .move(let from, _, let to), .swap(let from, _, let to, _): [from, to]
        }
    }

    fileprivate var arrival: (String, TreePlace)? {
        switch self {
        case .make(let name, let place), .replace(let name, let place, _),
            .replacePackage(let name, let place, _, _):
            (name, place)
        default: nil
        }
    }

    fileprivate var action: ApplierOrder.Action {
        switch self {
        case .make(let name, let place):
            .rename(incoming: name, from: [], to: place.path, flags: UInt32(RENAME_NOREPLACE))
        case .replace(let name, let place, _):
            .rename(incoming: name, from: [], to: place.path, flags: 0)
        case .replacePackage(let name, let place, _, _):
            .rename(incoming: name, from: [], to: place.path, flags: Flag.renameExchange)
        case .move(let from, _, let to):
            .rename(
                incoming: nil, from: from.path, to: to.path, flags: UInt32(RENAME_NOREPLACE))
        case .swap(let a, _, let b, _):
            .rename(incoming: nil, from: a.path, to: b.path, flags: Flag.renameExchange)
        case .remove(let place, let expected):
            .remove(place.path, isDirectory: expected.isDirectory)
        case .removePackage(let place, _, _, let aside):
            .rename(
                incoming: nil, from: place.path, to: [Name(ApplierGuard.name), Name(aside)],
                flags: UInt32(RENAME_NOREPLACE))
        case .change(let place, _, let change): .change(place.path, change)
        }
    }

    fileprivate var accesses: [ApplierOrder.Access] {
        switch self {
        case .make(_, let place): [.init(claim: .replacing, path: place.path)]
        case .replace(_, let place, _), .replacePackage(_, let place, _, _):
            // A presenter with unsaved changes saves first; the contents are then not the expected
            // ones.
            [.init(claim: .merging, path: place.path)]
        case .move(let from, _, let to):
            [.init(claim: .moving, path: from.path), .init(claim: .replacing, path: to.path)]
        case .swap(let a, _, let b, _):
            [.init(claim: .moving, path: a.path), .init(claim: .moving, path: b.path)]
        case .remove(let place, _), .removePackage(let place, _, _, _):
            [.init(claim: .deleting, path: place.path)]
        case .change(let place, _, _): [.init(claim: .attributes, path: place.path)]
        }
    }
}

extension ApplierOrder.Claim {
    fileprivate var option: Access.WritingOption {
        switch self {
        case .merging: .merging
        case .moving: .moving
        case .deleting: .deleting
        case .replacing: .replacing
        case .attributes: .contentIndependentMetadataOnly
        }
    }
}
