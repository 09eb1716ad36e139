import CFuse
import CLinux
import Glibc
import Model
import SystemCalls
import Volume

/// Reads directories: opendir, readdir, releasedir, fsyncdir.
final class DirectoryOperations: RequestGroup {
    let parts: RequestParts
    private let versions: VersionDirectories
    /// Whether reading a directory does not change its access time.
    private let keepsAccessTimes: Bool
    /// The open directories.
    let streams = HandleTable<DirectoryStream>()

    init(_ parts: RequestParts, versions: VersionDirectories, keepsAccessTimes: Bool) {
        self.parts = parts
        self.versions = versions
        self.keepsAccessTimes = keepsAccessTimes
    }

    func opendir(_ request: Request, _ id: UInt64, _ open: UnsafeMutablePointer<fuse_file_info>) {
        request.answer { () throws(Errno) in
            if VersionNodes.isVirtual(id) {
                return try versions.list(request, id) { request, names in
                    var open = fuse_file_info()
                    self.answerOpendir(request, DirectoryStream(names: names), &open)
                }
            }
            let node = try tree.node(id)
            let directory = try tree.directory(node)
            let descriptor = try openListing(directory)
            // The kernel drops a cached listing when a name in the directory changes through the
            // mount. Conflicts appear and disappear without that.
            open.pointee.cache_readdir = volume.settings.listConflicts ? 0 : 1
            open.pointee.keep_cache = 1
            answerOpendir(request, DirectoryStream(node: node, descriptor: descriptor), open)
        }
    }

    private func openListing(_ directory: SharedDescriptor) throws(Errno) -> Int32 {
        let flags = O_RDONLY | O_DIRECTORY
        if keepsAccessTimes {
            // Only the owner may use O_NOATIME.
            let listing = cl_openat(directory.raw, ".", flags | Flag.noAccessTime, 0)
            if listing != -EPERM { return try check(listing) }
        }
        return try check(cl_openat(directory.raw, ".", flags, 0))
    }

    private func answerOpendir(
        _ request: Request, _ stream: DirectoryStream, _ open: UnsafeMutablePointer<fuse_file_info>
    ) {
        open.pointee.fh = streams.insert(stream)
        if fuse_reply_open(request.raw, open) != 0 { _ = streams.remove(open.pointee.fh) }
    }

    /// Fills a buffer with entries for the kernel. With `plus`, each has its node and attributes
    /// and counts as a lookup.
    func readdir(
        _ request: Request, _ number: UInt64, size: Int, offset: Int64, plus: Bool
    ) {
        request.answer { () throws(Errno) in
            let stream = try streams.find(number)
            let buffer = try Request.buffer(size)
            var page = DirectoryPage(
                request: request,
                buffer: UnsafeMutableRawBufferPointer(start: buffer, count: size), plus: plus)
            if let names = stream.names {
                page.add(names, from: offset)
            } else {
                try list(stream, from: offset, into: &page)
            }
            request.reply(UnsafeRawBufferPointer(start: buffer, count: page.used))
        }
    }

    private func list(
        _ stream: DirectoryStream, from offset: Int64, into page: inout DirectoryPage
    ) throws(Errno) {
        guard offset != Self.behindAll else { return }
        var isFull = false
        try stream.forEach(from: offset) { entry in
            isFull = !self.add(entry, of: stream, to: &page)
            return !isFull
        }
        guard !isFull, volume.settings.listConflicts,
            let path = stream.node.flatMap(tree.nodes.path(of:)),
            let names = try? volume.conflicts.names(in: path), !names.isEmpty
        else { return }
        var parameters = fuse_entry_param()
        parameters.attr.st_ino = ino_t(UInt32.max)
        parameters.attr.st_mode = S_IFDIR
        _ = page.add(".conflicts", parameters, next: Self.behindAll)
    }

    /// The offset after `.conflicts`, which comes last. No file system uses it.
    private static let behindAll = Int64.max

    /// Adds an entry. Returns false if there is no room. An entry that was removed in the meantime
    /// is skipped; one whose attributes cannot be read is added with its name only.
    private func add(
        _ entry: DirectoryStream.Entry, of stream: DirectoryStream, to page: inout DirectoryPage
    ) -> Bool {
        guard let parent = stream.node else { return true }
        // A real file with this name can only be older than the volume; it cannot be reached.
        if VersionNodes.isReserved(entry.name) { return true }
        var parameters = fuse_entry_param()
        parameters.attr.st_ino = ino_t(tree.numbers.shown(entry.inode))
        parameters.attr.st_mode = mode_t(entry.kind) << 12
        guard page.plus, !entry.isDots else {
            return page.add(entry.name, parameters, next: entry.offset)
        }
        var status = stat()
        let result = cl_fstatat(stream.descriptor, entry.name, &status, Flag.noFollow)
        if result == -ENOENT { return true }
        guard result == 0, status.st_dev == tree.device else {
            return page.add(entry.name, parameters, next: entry.offset)
        }
        tree.present(&status, in: stream.descriptor, entry.name)
        let entered = tree.nodes.enter(entry.name, in: parent, status: status)
        tree.numbers.show(&status)
        if page.add(entry.name, fuse_entry_param(entered, status), next: entry.offset) {
            return true
        }
        tree.nodes.forget(entered.node.id)
        return false
    }

    func releasedir(_ request: Request, _ number: UInt64) {
        _ = streams.remove(number)
        request.done()
    }

    func fsyncdir(_ request: Request, _ number: UInt64, dataOnly: Int32) {
        request.answer { () throws(Errno) in
            let stream = try streams.find(number)
            guard stream.descriptor >= 0 else { return request.done() }
            parking.carryOut(
                request, on: .disk,
                { () throws(Errno) in try check(cl_fsync(stream.descriptor, dataOnly)) },
                answer: { request, _ in request.done() })
        }
    }
}

/// A reply to READDIR that is being filled.
struct DirectoryPage {
    let request: Request
    let buffer: UnsafeMutableRawBufferPointer
    let plus: Bool
    private(set) var used = 0

    init(request: Request, buffer: UnsafeMutableRawBufferPointer, plus: Bool) {
        self.request = request
        self.buffer = buffer
        self.plus = plus
    }

    /// Returns false if the entry does not fit; nothing was added then.
    mutating func add(
        _ name: UnsafePointer<CChar>, _ parameters: fuse_entry_param, next offset: Int64
    ) -> Bool {
        let place = (buffer.baseAddress! + used).assumingMemoryBound(to: CChar.self)
        let room = buffer.count - used
        let needed = withUnsafePointer(to: parameters) { parameters in
            guard !plus else {
                return fuse_add_direntry_plus(
                    request.raw, place, room, name, parameters, off_t(offset))
            }
            return withUnsafePointer(to: parameters.pointee.attr) {
                fuse_add_direntry(request.raw, place, room, name, $0, off_t(offset))
            }
        }
        guard needed <= room else { return false }
        used += needed
        return true
    }

    /// Adds the names in a virtual directory, as far as they fit.
    mutating func add(_ names: [Name], from offset: Int64) {
        let names = [Name("."), Name("..")] + names
        for (index, name) in names.enumerated().dropFirst(Int(offset)) {
            var parameters = fuse_entry_param()
            parameters.attr.st_ino = ino_t(UInt32.max)  // Not known before it is looked up.
            let fits = name.withCString { add($0, parameters, next: Int64(index + 1)) }
            if !fits { return }
        }
    }
}
