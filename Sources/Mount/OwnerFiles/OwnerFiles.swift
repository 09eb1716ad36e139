import CFuse
import CLinux
import Glibc
import Model
import SystemCalls
import Volume

/// Answers the names of owner files while another device has the document open for writing, so that
/// the editor's own dialog says who has it and where. Nothing is on the disk: a real file with such
/// a name, which a program made here, is the one that counts.
///
/// The kernel never remembers what is under such a name, or that nothing is: leases come and go
/// without it. It may remember a node, because another owner has another node.
final class OwnerFiles: RequestGroup {
    let parts: RequestParts
    private let names: NameOperations
    private let nodes: VersionNodes

    init(_ parts: RequestParts, names: NameOperations, nodes: VersionNodes) {
        (self.parts, self.names, self.nodes) = (parts, names, nodes)
    }

    func lookup(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        request.answer { () throws(Errno) in
            let directory = try tree.node(parent)
            if try isReal(name, in: directory) {
                return names.lookup(request, in: parent, name)
            }
            guard volume.openDocuments.isAnyEditedElsewhere else { throw .notFound }
            let name = Name(cString: name)
            parking.park(
                request, on: .questions,
                { () throws(Errno) -> VersionNode in
                    guard let found = self.find(name, in: directory) else { throw .notFound }
                    return self.enter(found, in: directory)
                },
                revert: { self.nodes.forget($0.id, 1) },
                answer: { request, node in
                    var parameters = fuse_entry_param()
                    (parameters.ino, parameters.attr) = (node.id, node.status)
                    if !request.reply(parameters) { self.nodes.forget(node.id, 1) }
                })
        }
    }

    /// Handles the unlink of an owner file. An answered one is hidden until the lease ends; for
    /// anything else, `other` is called.
    func unlink(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>,
        other: @escaping @Sendable (UnsafePointer<CChar>) -> Void
    ) {
        distinguish(request, in: parent, name, other: other) { request, owner in
            self.volume.openDocuments.dismiss(owner.document)
            request.done()
        }
    }

    /// Handles a rename to the name of an owner file. An answered one is not replaced; otherwise
    /// `other` is called.
    func rename(_ request: Request, _ rename: Rename, other: @escaping @Sendable () -> Void) {
        rename.to.name.asCString { name in
            distinguish(request, in: rename.to.parent, name, other: { _ in other() }) {
                request, _ in request.refuse(.denied)
            }
        }
    }

    /// Handles the opening of LibreOffice's owner file for writing, by which it ignores the owner:
    /// makes a file of the program's own, and hides the owner until the lease ends. The kernel
    /// repeats the open because of ESTALE, and finds that file. Returns false for another node.
    func openForWriting(_ request: Request, _ id: UInt64) -> Bool {
        guard let node = try? nodes.find(id), let file = node.ownerFile,
            OwnerFileName(file.name)?.format == .libreOffice
        else { return false }
        let (caller, mode) = (request.caller, node.status.st_mode)
        parking.park(
            request, on: .questions,
            { () throws(Errno) in
                guard let directory = self.tree.nodes[file.directory] else { throw .stale }
                return self.find(file.name, in: directory)?.owner.document
            },
            answer: { [self] request, document in
                // Other requests must not occupy a thread of this lane.
                parking.soon { [self] in
                    cl_thread_serve(caller.unique, caller.group)
                    file.name.withCString { name in
                        make(name, of: file, mode: mode, hiding: document, request)
                    }
                }
            })
        return true
    }

    private func make(
        _ name: UnsafePointer<CChar>, of file: OwnerFile, mode: mode_t,
        hiding document: Identifier?, _ request: Request
    ) {
        names.make(request, in: file.directory, name, answering: .stale) {
            [self] (directory, name, caller) throws(Errno) in
            do throws(Errno) {
                _ = try callers.create(for: caller) { cl_mknodat(directory, name, mode, 0) }
            } catch {
                // If another program has made one meanwhile, the kernel opens that.
                throw error == .exists ? .stale : error
            }
            if let document { volume.openDocuments.dismiss(document) }
        }
    }

    /// Calls `answered` if the name is answered now, and `other` if it is not.
    private func distinguish(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>,
        other: @escaping @Sendable (UnsafePointer<CChar>) -> Void,
        answered: @escaping @Sendable (Request, OpenElsewhere) -> Void
    ) {
        guard volume.openDocuments.isAnyEditedElsewhere, let directory = tree.nodes[parent],
            (try? isReal(name, in: directory)) == false
        else { return other(name) }
        let (caller, name) = (request.caller, terminated(name))
        parking.park(
            request, on: .questions,
            { () throws(Errno) in self.find(Name(bytes: name.dropLast()), in: directory) },
            answer: { [parking] request, found in
                if let found { return answered(request, found.owner) }
                // Other requests must not occupy a thread of this lane.
                parking.soon {
                    cl_thread_serve(caller.unique, caller.group)
                    name.asCString { other($0) }
                }
            })
    }

    private func isReal(_ name: UnsafePointer<CChar>, in node: Node) throws(Errno) -> Bool {
        var status = stat()
        let result = cl_fstatat(try tree.directory(node).raw, name, &status, Flag.noFollow)
        if result == -ENOENT { return false }
        try check(result)
        return true
    }

    private struct Found: Sendable {
        let file: OwnerFile
        let owner: OpenElsewhere
        /// Of the document.
        let protection: Protection
    }

    /// Returns nil also on an error: a program must not fail because its owner file cannot be
    /// answered.
    private func find(_ name: Name, in directory: Node) -> Found? {
        guard let parsed = OwnerFileName(name), let path = tree.nodes.path(of: directory) else {
            return nil
        }
        for document in parsed.documents {
            guard let owner = try? volume.openDocuments.editors(at: path + [document]).first,
                let parent = try? tree.directory(directory),
                let original = try? document.withCString({ (name) throws(Errno) in
                    try SharedDescriptor(pathOf: name, in: parent.raw)
                })
            else { continue }
            let bytes = parsed.format.bytes(owner, of: document, process: getpid())
            let file = OwnerFile(
                directory: directory.id, name: name, isLink: parsed.format.isLink, bytes: bytes)
            return Found(
                file: file, owner: owner, protection: Protection(of: original.raw))
        }
        return nil
    }

    /// Who may read the document may read who has it open, and who may write it may ignore that.
    private func enter(_ found: Found, in directory: Node) -> VersionNode {
        let protection = found.protection
        var status = stat()
        (status.st_uid, status.st_gid) = (protection.owner, protection.group)
        let bits: mode_t = OwnerFileName(found.file.name)?.format == .libreOffice ? 0o666 : 0o444
        let file = S_IFREG | mode_t(protection.mode) & bits
        status.st_mode = found.file.isLink ? S_IFLNK | 0o777 : file
        status.st_nlink = 1
        status.st_size = off_t(found.file.bytes.count)
        status.st_blocks = 8
        let time = Timestamp(nanoseconds: found.owner.since).timespec
        (status.st_atim, status.st_mtim, status.st_ctim) = (time, time, time)
        let list = found.file.isLink ? [] : protection.accessList
        return nodes.enter(
            .all, .ownerFile(found.file), of: directory,
            VersionNode.State(status: status, accessList: list))
    }
}

/// An owner file as it is answered. Another owner's is another one.
struct OwnerFile: Hashable, Sendable {
    /// The node number of its directory.
    let directory: UInt64
    let name: Name
    /// Whether it is a symlink, whose target are the bytes.
    let isLink: Bool
    let bytes: [UInt8]

    /// What a read of at most `size` bytes at `offset` returns.
    func read(_ size: Int, at offset: Int64) -> ArraySlice<UInt8> {
        guard offset >= 0, offset < bytes.count else { return [] }
        return bytes[Int(offset)...].prefix(size)
    }
}
