import CFuse
import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

// Opening, creating and closing files. OPEN and CREATE replies are wire structures, because libfuse
// 3.14 has no field for the backing id.
extension Driver {
    func open(_ request: Request, _ id: UInt64, flags: Int32) {
        request.answer { () throws(Errno) in
            if VersionNodes.isVirtual(id) { return try openVersion(request, id, flags: flags) }
            let node = try node(id)
            let opening = try Opening(
                self, node, try descriptor(node), flags: flags, caller: request.caller)
            if isFree(node, opening.access), opening.takeLease() {
                return try proceed(request, opening)
            }
            wait(request, opening, node)
        }
    }

    /// Continues an open that was granted.
    func proceed(_ request: Request, _ opening: Opening) throws(Errno) {
        let contents: Opening.Contents
        do throws(Errno) { contents = try opening.lookAtContents() } catch {
            opening.abandon()
            throw error
        }
        switch contents {
        case .ready: try opening.run(request) { self.answerOpen($0, $1) }
        case .moment:
            retry(
                request, else: { opening.abandon() },
                { request in
                    request.answer { () throws(Errno) in try self.proceed(request, opening) }
                })
        case .need(let need, let file):
            awaitContents(
                request, need, of: file, else: { opening.abandon() },
                { request in
                    request.answer { () throws(Errno) in
                        try opening.run(request) { self.answerOpen($0, $1) }
                    }
                })
        }
    }

    private func answerOpen(_ request: Request, _ opened: Opening.Opened) {
        if !request.reply(wire: opened.reply) { return closeHandle(opened.number) }
        // The kernel must not use cached attributes while a mapping may change the file.
        if opened.handle.isSharedWriter { notifier.tell(.attributes(opened.handle.node.id)) }
    }

    func create(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>, mode: mode_t,
        flags: Int32
    ) {
        parking.changingNames(request, name) { [self] (request, name, _) throws(Errno) in
            let parent = try node(parent)
            try refuseReserved(name)
            let directory = try directory(parent)
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
            let entered = nodes.enter(
                name, in: parent, status: status,
                fresh: made.isNew ? freshFlags(name) : nil)
            if made.isNew {
                let base = noteMade(status, name, in: parent, by: caller)
                volume.events.created(
                    Place(descriptor: directory.raw, inode: parent.inode, name: name),
                    status: status, seen: base, isWriting: flags & O_ACCMODE != O_RDONLY,
                    by: actor(caller))
            }
            let forget: @Sendable () -> Void = { [nodes] in nodes.forget(entered.node.id) }
            let opening: Opening
            do throws(Errno) {
                opening = try Opening(
                    self, entered.node, made.file, flags: flags, caller: caller,
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
        numbers.show(&status)
        reply.entry = cf_entry_out(entered.node, status, isVolatile: isVolatile)
        reply.open = opened.reply
        guard !request.reply(wire: reply) else { return }
        closeHandle(opened.number)
        nodes.forget(entered.node.id)
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
        if passthrough.load(ordering: .relaxed) {
            _ = try create(for: caller) {
                cl_mknodat(directory.raw, name, mode & 0o7777 | S_IFREG, 0)
            }
            return Made(file: try SharedDescriptor(pathOf: name, in: directory.raw), isNew: true)
        }
        let how = flags & ~Flag.notOurs | O_CREAT | O_EXCL
        let real = try create(for: caller) { cl_openat(directory.raw, name, how, mode) }
        do throws(Errno) {
            let file = try SharedDescriptor(pathOf: name, in: directory.raw)
            return Made(file: file, isNew: true, real: real)
        } catch {
            _ = cl_close(real)
            throw error
        }
    }

    func freshFlags(_ name: UnsafePointer<CChar>) -> Node.Flags {
        volume.ignoreFile.isLocal(name) ? [.local, .unsaved] : .unsaved
    }

    /// Handles FUSE_TMPFILE, which libfuse does not know: creates a file without a name. Returns
    /// the wire structure.
    func temporary(_ parent: UInt64, _ message: cf_create_in, _ caller: Caller) throws(Errno)
        -> (reply: cf_create_out, preImages: () -> Void)
    {
        let directory = try directory(try node(parent))
        var caller = caller
        caller.umask = message.umask
        let flags = Int32(bitPattern: message.flags)
        let how = flags & ~(Flag.notOurs | Flag.direct) | Flag.temporary | flags & O_EXCL
        let real = try create(for: caller) {
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
        let node = nodes.enterOrphan(file, status: status, fresh: .unsaved)
        do throws(Errno) {
            let opening = try Opening(
                self, node, file, flags: flags, caller: caller, isNew: true, known: status,
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
                    self.closeHandle(opened.number)
                    self.nodes.forget(node.id)
                }
            )
        } catch {
            nodes.forget(node.id)
            throw error
        }
    }

    // MARK: Closing

    /// Handles RELEASE, which the kernel sends once for each open, some time after the last
    /// close(2). No program waits for the answer.
    func release(_ request: Request, _ number: UInt64) {
        if VersionNodes.isVirtual(number) { return request.done() }
        closeHandle(number, unique: request.caller.unique)
        request.done()
    }

    /// Closes a handle. `unique` is the kernel's number of the release; nil if an open could not be
    /// answered.
    func closeHandle(_ number: UInt64, unique: UInt64? = nil) {
        guard let handle = handles.remove(number) else { return }
        let unique = unique ?? handle.caller.unique
        // A descriptor of this process that can write would look like a program that still writes.
        handle.close()
        if let contents = handle.contents { volume.hydration.endUse(contents) }
        if handle.isCreator { nodes.remove(.unsaved, from: handle.node) }
        if handle.writes { tellClosed(handle) }
        if !end(handle, unique: unique, mayBlock: false) {
            parking.runDetached(on: .opens, inLine: handle.state.line) {
                _ = self.end(handle, unique: unique, mayBlock: true)
            }
        }
    }

    /// Closes the remaining handles at unmount. The kernel then drops undelivered requests,
    /// including releases, and each of those may end a save. Each release counts as earlier than
    /// every open, so that contents kept at an open become saves.
    func closeRemaining() {
        for number in handles.numbers { closeHandle(number, unique: 0) }
    }

    /// Returns false if nothing was done because the file's content lock is not free.
    private func end(_ handle: Handle, unique: UInt64, mayBlock: Bool) -> Bool {
        if handle.writes {
            let told: Void? = try? handle.state.withContent(mayBlock: mayBlock) {
                (content) throws(Errno) -> Void in
                self.noteWritten(handle)
                self.volume.writing.close(
                    &content.writing, file: handle.file.raw, traits: self.traits(handle.node),
                    unique: unique,
                    displaced: handle.state.displaced.load(ordering: .relaxed))
                if content.writing.writers == 0 { content.preImages = nil }
            }
            guard told != nil else { return false }
        }
        handle.state.life.withLock { life in
            life.handles -= 1
            guard life.handles == 0 else { return }
            if case .passthrough(let backing) = life.mode { cf_backing_close(self.kernel, backing) }
            life.mode = .closed
        }
        if handle.isSharedWriter {
            if isMapped(handle.file) { nodes.insert(.mapped, into: handle.node) }
            nodes.countSharedWriter(handle.state, by: -1)
        }
        leave(handle.state, lease: handle.lease, claim: handle.claim)
        nodes.endUse(of: handle.node, handle.state)
        return true
    }

    /// Whether a program can still write to the file, perhaps through a mapping that has outlived
    /// its handle. A read lease is then refused.
    func isMapped(_ file: SharedDescriptor) -> Bool {
        let real = cl_reopen(file.raw, O_RDONLY | O_NONBLOCK)
        guard real >= 0 else { return false }
        defer { _ = cl_close(real) }
        return cl_probe_writers(real) == -EAGAIN
    }
}

extension cf_entry_out {
    init(_ node: Node, _ status: stat, isVolatile: Bool) {
        self.init()
        nodeid = node.id
        entry_valid = UInt64(Driver.cacheSeconds)
        attr_valid = UInt64(Driver.cacheSeconds(status.st_mode, isVolatile: isVolatile))
        withUnsafePointer(to: status) { cf_attr_fill(&attr, $0) }
    }
}
