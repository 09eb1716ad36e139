import CFuse
import CLinux
import Glibc
import Model
import SystemCalls
import Volume

/// Extended attributes: the file's own, and those that describe a document. The latter are read by
/// name and never listed, so that copying a file does not copy them.
final class XattrOperations: RequestGroup {
    let parts: RequestParts
    /// The value of the root's attribute `user.concord.socket`.
    private let socketPath: String

    init(_ parts: RequestParts, socketPath: String) {
        self.parts = parts
        self.socketPath = socketPath
    }

    func getxattr(_ request: Request, _ id: UInt64, _ name: UnsafePointer<CChar>, size: Int) {
        if let attribute = DocumentAttribute(name) {
            return answer(request, id, attribute, size: size)
        }
        request.answer { () throws(Errno) in
            if isInternal(name) { throw Errno(ENODATA) }
            let file = try tree.descriptor(try tree.node(id))
            try replyXattr(request, size: size) {
                let count = cl_getxattr_fd(file.raw, name, $0, size)
                // Without SELinux, `ls -l` asks for each file's label until it is told that labels
                // are not supported.
                let isLabel = strcmp(name, "security.selinux") == 0
                return count == -Int(ENODATA) && isLabel ? -Int(EOPNOTSUPP) : count
            }
        }
    }

    func listxattr(_ request: Request, _ id: UInt64, size: Int) {
        request.answer { () throws(Errno) in
            let file = try tree.descriptor(try tree.node(id))
            try request.reply(value: try listed(file), size: size)
        }
    }

    func setxattr(
        _ request: Request, _ id: UInt64, _ name: [UInt8], _ value: [UInt8], flags: Int32
    ) {
        parking.changing(request) { [self] request throws(Errno) in
            try name.asCString { (name) throws(Errno) in
                try setxattr(request, id, name, value, flags: flags)
            }
        }
    }

    private func setxattr(
        _ request: Request, _ id: UInt64, _ name: UnsafePointer<CChar>, _ value: [UInt8],
        flags: Int32
    ) throws(Errno) {
        let node = try tree.node(id)
        let isBase = strcmp(name, NamedBase.attribute) == 0
        guard isBase ? tree.nodes.flags(of: node).contains(.local) : isUserAttribute(name) else {
            throw Errno(EPERM)
        }
        let file = try tree.descriptor(node)
        let isApplier = callers.isApplier(request.caller)
        if isApplier { try callers.applierGuard.admitChange(of: node) }
        if !isApplier, strcmp(name, Self.packageAttribute) == 0, try isDirectory(file) {
            return makePackage(request, node, file, value, flags: flags)
        }
        // Setting an ACL may clear the set-group-ID bit, depending on the caller's rights.
        let isACL = strcmp(name, Protection.accessListName) == 0
        let set = {
            Int64(cl_setxattr_fd(file.raw, name, value, value.count, flags))
        }
        if isACL { _ = try callers.change(for: request.caller, set) } else { try check(set()) }
        try noteAttribute(name, of: node, file)
        request.done()
    }

    func removexattr(_ request: Request, _ id: UInt64, _ name: UnsafePointer<CChar>) {
        request.answer { () throws(Errno) in
            guard isUserAttribute(name) else { throw Errno(EPERM) }
            let node = try tree.node(id)
            let file = try tree.descriptor(node)
            if callers.isApplier(request.caller) {
                try callers.applierGuard.admitChange(of: node)
            }
            try check(cl_removexattr_fd(file.raw, name))
            try noteAttribute(name, of: node, file)
            request.done()
        }
    }

    /// Turns a directory into a package after its placeholders were fetched, because their zeros
    /// are no contents.
    private func makePackage(
        _ request: Request, _ node: Node, _ file: SharedDescriptor, _ value: [UInt8], flags: Int32
    ) {
        let set: @Sendable (Request) -> Void = { [self] request in
            request.answer { () throws(Errno) in
                try check(
                    cl_setxattr_fd(file.raw, Self.packageAttribute, value, value.count, flags))
                try noteAttribute(Self.packageAttribute, of: node, file)
                request.done()
            }
        }
        if value.isEmpty || value[0] == UInt8(ascii: "0") { return set(request) }
        fetcher.fetchAll(below: file, for: request, set)
    }

    private func isDirectory(_ file: SharedDescriptor) throws(Errno) -> Bool {
        FileSnapshot(try file.status()).isDirectory
    }

    private static var packageAttribute: String { "user.concord.package" }

    private func noteAttribute(
        _ name: UnsafePointer<CChar>, of node: Node, _ file: SharedDescriptor
    ) throws(Errno) {
        if strcmp(name, "user.concord.package") == 0 {
            volume.events.packageAttributeChanged(inode: node.inode)
        } else if strcmp(name, Protection.accessListName) == 0, try isDirectory(file) {
            volume.events.protectionChanged(ofDirectory: node.inode, file: file.raw)
        } else {
            volume.events.attributesChanged(inode: node.inode)
        }
    }

    private func isUserAttribute(_ name: UnsafePointer<CChar>) -> Bool {
        DocumentAttribute(name) == nil && !isInternal(name)
    }

    /// Whether it is an internal attribute of the tree's files, which programs can neither see nor
    /// set.
    private func isInternal(_ name: UnsafePointer<CChar>) -> Bool {
        strncmp(name, "user.concord.", 13) == 0 && strcmp(name, "user.concord.package") != 0
    }

    /// The names of a file's attributes, each with its NUL.
    private func listed(_ file: SharedDescriptor) throws(Errno) -> [UInt8] {
        let room = 1 << 16  // XATTR_LIST_MAX
        guard let buffer = cl_thread_buffer(room) else { throw Errno(ENOMEM) }
        let names = buffer.assumingMemoryBound(to: CChar.self)
        let count = Int(try check(cl_listxattr_fd(file.raw, names, room)))
        var listed: [UInt8] = []
        var at = 0
        while at < count {
            let name = terminated(names + at)
            at += name.count
            if !name.asCString(isInternal) { listed += name }
        }
        return listed
    }

    /// Replies with a value; a size of 0 asks only for its length.
    private func replyXattr(
        _ request: Request, size: Int, _ read: (UnsafeMutableRawPointer?) -> Int
    ) throws(Errno) {
        guard size > 0 else {
            fuse_reply_xattr(request.raw, try check(read(nil)))
            return
        }
        guard let buffer = cl_thread_buffer(size) else { throw Errno(ENOMEM) }
        let count = try check(read(buffer))
        request.reply(UnsafeRawBufferPointer(start: buffer, count: count))
    }

    // MARK: Attributes of documents

    private func answer(
        _ request: Request, _ id: UInt64, _ attribute: DocumentAttribute, size: Int
    ) {
        request.answer { () throws(Errno) in
            let node = try tree.node(id)
            if attribute == .socket {
                guard node === tree.nodes.root, !socketPath.isEmpty else { throw Errno(ENODATA) }
                return try request.reply(value: Array(socketPath.utf8), size: size)
            }
            guard let path = tree.nodes.path(of: node), !path.isEmpty else { throw Errno(ENODATA) }
            parking.park(
                request, on: .questions,
                { () throws(Errno) in
                    guard let history = try self.tree.history(at: path) else {
                        throw Errno(ENODATA)
                    }
                    let elsewhere = self.volume.openDocuments.elsewhere(history.id)
                    guard let value = attribute.value(of: history, elsewhere) else {
                        throw Errno(ENODATA)
                    }
                    return Array(value.utf8)
                },
                answer: { request, value in
                    request.answer { () throws(Errno) in
                        try request.reply(value: value, size: size)
                    }
                })
        }
    }
}

/// The attributes that describe a document.
enum DocumentAttribute: String, CaseIterable {
    case id, version, state, durability, conflicts, who, socket

    /// Returns nil for any other attribute, also for `user.concord.package`, which is a real one.
    init?(_ name: UnsafePointer<CChar>) {
        let prefix = "user.concord."
        guard strncmp(name, prefix, prefix.utf8.count) == 0 else { return nil }
        self.init(rawValue: String(cString: name + prefix.utf8.count))
    }

    /// - Parameter elsewhere: Who has the document open on other devices.
    func value(of history: DocumentHistory, _ elsewhere: [OpenElsewhere]) -> String? {
        switch self {
        case .id: history.id.description
        case .version: history.versions.last { $0.kind == .current }.map { String($0.number) }
        case .state: history.state.rawValue
        case .durability:
            history.versions.last { $0.kind == .current }.map { version in
                guard version.durability == .hub, let devices = history.devices else {
                    return "\(version.durability)"
                }
                return "hub \(devices)"
            }
        case .conflicts: String(history.versions.count { $0.kind == .conflict })
        case .who:
            elsewhere.isEmpty
                ? nil
                : elsewhere.map { "\($0.use.rawValue)\t\($0.user)\t\($0.deviceName)" }
                    .joined(separator: "\n")
        case .socket: nil
        }
    }
}

extension Errno {
    /// The errno for an error of the volume.
    init(_ error: VolumeError) {
        switch error.code {
        case .notFound: self = .notFound
        case .busy, .refused: self.init(EBUSY)
        case .cancelled: self = .interrupted
        case .invalid: self = .invalid
        case .denied: self = .denied
        case .full: self = .noSpace
        case .timeout: self.init(ETIMEDOUT)
        case .offline: self.init(ENETUNREACH)
        case .damaged, .newer, .system: self = .io
        }
    }
}
