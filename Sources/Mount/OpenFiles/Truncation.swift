import CLinux
import Glibc
import SystemCalls
import Volume

/// A truncate(2) or ftruncate(2) in progress.
struct Truncation: Sendable {
    let operations: AttributeOperations
    let node: Node
    let file: SharedDescriptor
    let size: Int64
    /// The handle of ftruncate(2).
    let handle: UInt64?
    let caller: Caller

    private var tree: Tree { operations.tree }
    private var volume: Volume { operations.volume }

    /// Truncates, on another thread if that needs more patience, and then calls `done`, which must
    /// answer the request.
    func run(
        _ request: Request, _ patience: Patience = .none,
        _ done: @escaping @Sendable (Request) throws(Errno) -> Void
    ) throws(Errno) {
        let (state, _) = tree.nodes.use(node, file)
        // The file's bytes must not be evicted until it has been truncated.
        _ = volume.hydration.preventEviction(node.inode)
        let end: @Sendable () -> Void = {
            tree.nodes.endUse(of: node, state)
            volume.hydration.allowEviction(node.inode)
        }
        let goOn: @Sendable (Request, Patience?) throws(Errno) -> Void = {
            request, needed throws(Errno) in
            if let needed { try run(request, needed, done) } else { try done(request) }
        }
        guard patience > .none else {
            defer { end() }
            return try goOn(request, try truncate(state, .none))
        }
        operations.parking.park(
            request, on: Parking.Lane(patience), inLine: state.line,
            { () throws(Errno) in try truncate(state, patience) },
            finally: end,
            answer: { request, needed in
                request.answer { () throws(Errno) in try goOn(request, needed) }
            })
    }

    /// Returns the patience that it needs if it must be called again with that.
    private func truncate(_ state: OpenState, _ patience: Patience) throws(Errno) -> Patience? {
        guard patience >= .room else {
            do throws(Errno) { return try attempt(state, patience) } catch {
                guard error == .noSpace else { throw error }
                return .room
            }
        }
        let bytes = Int64(try file.status().st_size)
        let old = volume.oldContents
        return try old.movingAside(for: bytes) { (patience) throws(Errno) in
            let needed = try attempt(state, patience)
            if needed == .room { throw .noSpace }
            return needed
        }
    }

    private func attempt(_ state: OpenState, _ patience: Patience) throws(Errno) -> Patience? {
        let result = try state.withWriting(mayBlock: patience > .none) {
            (writing) throws(Errno) -> Patience? in
            let actor = operations.callers.actor(caller)
            let before = try file.status()
            let open = handle.flatMap { try? operations.handles.find($0) }
            // A handle that can read too changes the document in place.
            let isWhole = size == 0 && open?.isReader != true
            let seen =
                isWhole
                ? operations.staleSaves.base(of: caller, replacing: before, file, node) : nil
            let needed = try volume.writing.willTruncate(
                &writing, file: file.raw, status: before, to: size,
                traits: tree.traits(node), isWriter: open?.writes ?? false, seen: seen,
                unique: caller.unique, patience: patience, by: actor)
            if let needed { return needed }
            do throws(Errno) {
                try change(open, isGuarded: writing.preImages != nil)
            } catch {
                writing.truncationFailed(node.inode, of: volume)
                throw error
            }
            let after = try file.status()
            volume.writing.didTruncate(
                &writing, file: file.raw, status: after, traits: tree.traits(node),
                by: actor)
            if isWhole {
                operations.staleSaves.noteEmptied(before, as: after, by: caller)
            } else {
                operations.staleSaves.resized(before, as: after, by: caller)
            }
            return nil
        }
        return result ?? .brief
    }

    private func change(_ handle: Handle?, isGuarded: Bool) throws(Errno) {
        let descriptor = try writable(handle, isGuarded: isGuarded)
        let isAbsent = PlaceholderMark(of: file.raw) != nil
        if isAbsent { volume.hydration.willEmpty(inode: node.inode) }
        _ = try operations.callers.change(for: caller) { Int64(cl_ftruncate(descriptor.raw, size)) }
        if isAbsent { try PlaceholderMark.remove(from: file.raw) }
    }

    /// A descriptor for truncating. A file that a program has open for writing may be read-only by
    /// now; unless this process is root, only the program's own handle can then write.
    private func writable(_ handle: Handle?, isGuarded: Bool) throws(Errno) -> SharedDescriptor {
        if !operations.callers.canAct, let handle, handle.writes {
            return SharedDescriptor(owning: try check(dup(try handle.descriptor())))
        }
        let access = (isGuarded ? O_RDWR : O_WRONLY) | O_NONBLOCK
        return SharedDescriptor(owning: try check(cl_reopen(file.raw, access)))
    }
}
