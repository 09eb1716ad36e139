import CFuse
import CLinux
import Glibc
import Model
import SystemCalls
import Volume

/// Creates files and opens them in the same step: create, and files without a name (O_TMPFILE). A
/// reply has the node and the handle, so both are taken back if it is not delivered.
final class FileCreation: RequestGroup {
    let parts: RequestParts
    private let files: OpenFiles

    init(_ files: OpenFiles) {
        self.files = files
        parts = files.parts
    }

    func create(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>, mode: mode_t,
        flags: Int32
    ) {
        parking.changingNames(request, name) { [self] (request, name, _) throws(Errno) in
            let parent = try tree.node(parent)
            try tree.refuseReserved(name)
            let directory = try tree.directory(parent)
            let caller = request.caller
            let made: Made
            do throws(Errno) {
                made = try makeFile(directory, name, mode: mode, flags: flags, caller)
            } catch {
                // Another program has created the file in the meantime, so it is opened.
                guard error == .exists, flags & O_EXCL == 0 else { throw error }
                made = Made(file: try SharedDescriptor(pathOf: name, in: directory.raw))
            }
            let status = try made.file.status()
            let entered = tree.nodes.enter(
                name, in: parent, status: status,
                fresh: made.isNew ? freshFlags(name) : nil)
            if made.isNew {
                let base = staleSaves.noteMade(status, name, in: parent, by: caller)
                volume.events.created(
                    Place(descriptor: directory.raw, inode: parent.inode, name: name),
                    status: status, seen: base, isWriting: flags & O_ACCMODE != O_RDONLY,
                    by: callers.actor(caller))
                madeOwnerFiles.made(name, in: parent, by: caller.process)
            }
            let forget: @Sendable () -> Void = { [tree] in tree.nodes.forget(entered.node.id) }
            let opening: Opening
            do throws(Errno) {
                opening = try Opening(
                    files, entered.node, made.file, flags: flags, caller: caller,
                    isNew: made.isNew, known: made.isNew ? status : nil, real: made.real)
            } catch {
                forget()
                throw error
            }
            opening.whenAbandoned = forget
            let step: Opening.Step
            do throws(Errno) { step = try opening.beginNew() } catch {
                opening.abandon()
                throw error
            }
            opening.run(request, step) { [self] request, opened in
                let now = made.isNew ? status : (try? made.file.status()) ?? status
                answerCreate(request, entered, now, opened)
            }
        }
    }

    private func answerCreate(
        _ request: Request, _ entered: NodeTable.Entered, _ status: stat, _ opened: Opening.Opened
    ) {
        let isVolatile = entered.isVolatile || opened.handle.isSharedWriter
        var reply = cf_create_out()
        var status = status
        tree.numbers.show(&status)
        reply.entry = cf_entry_out(entered.node, status, isVolatile: isVolatile)
        reply.open = opened.reply
        guard !request.reply(wire: reply) else { return }
        files.closeHandle(opened.number)
        tree.nodes.forget(entered.node.id)
    }

    /// A file that was created or found.
    private struct Made {
        var file: SharedDescriptor
        var isNew = false
        var real: Int32 = -1
    }

    private func makeFile(
        _ directory: SharedDescriptor, _ name: UnsafePointer<CChar>, mode: mode_t, flags: Int32,
        _ caller: Caller
    ) throws(Errno) -> Made {
        // With passthrough this process needs no descriptor for reading and writing.
        if files.passthrough.isOn {
            _ = try callers.create(for: caller) {
                cl_mknodat(directory.raw, name, mode & 0o7777 | S_IFREG, 0)
            }
            return Made(file: try SharedDescriptor(pathOf: name, in: directory.raw), isNew: true)
        }
        let how = flags & ~Flag.notOurs | O_CREAT | O_EXCL
        let real = try callers.create(for: caller) { cl_openat(directory.raw, name, how, mode) }
        do throws(Errno) {
            let file = try SharedDescriptor(pathOf: name, in: directory.raw)
            return Made(file: file, isNew: true, real: real)
        } catch {
            _ = cl_close(real)
            throw error
        }
    }

    private func freshFlags(_ name: UnsafePointer<CChar>) -> Node.Flags {
        volume.ignoreFile.isLocal(name) ? [.local, .unsaved] : .unsaved
    }

    /// Handles FUSE_TMPFILE, which libfuse does not know: creates a file without a name. Returns
    /// the wire structure.
    func temporary(_ parent: UInt64, _ message: cf_create_in, _ caller: Caller) throws(Errno)
        -> (reply: cf_create_out, revert: () -> Void)
    {
        let directory = try tree.directory(try tree.node(parent))
        var caller = caller
        caller.umask = message.umask
        let flags = Int32(bitPattern: message.flags)
        let how = flags & ~(Flag.notOurs | Flag.direct) | Flag.temporary | flags & O_EXCL
        let real = try callers.create(for: caller) {
            cl_openat(directory.raw, ".", how, message.mode & 0o7777)
        }
        let file: SharedDescriptor
        do throws(Errno) {
            file = SharedDescriptor(owning: try check(cl_reopen(real, Flag.path & ~O_NOFOLLOW)))
        } catch {
            _ = cl_close(real)
            throw error
        }
        let status = try file.status()
        let node = tree.nodes.enterOrphan(file, status: status, fresh: .unsaved)
        do throws(Errno) {
            let opening = try Opening(
                files, node, file, flags: flags, caller: caller, isNew: true, known: status,
                real: real)
            // Nobody else can have found a file without a name.
            guard case .opened(let opened) = try opening.beginNew() else {
                opening.abandon()
                throw Errno.io
            }
            var reply = cf_create_out()
            reply.entry = cf_entry_out(node, status, isVolatile: opened.handle.isSharedWriter)
            reply.open = opened.reply
            return (
                reply,
                {
                    self.files.closeHandle(opened.number)
                    self.tree.nodes.forget(node.id)
                }
            )
        } catch {
            tree.nodes.forget(node.id)
            throw error
        }
    }
}
