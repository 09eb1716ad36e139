import Control
import Foundation
import Glibc
import Model

// File operations of the document classes.
extension FilePath {
    /// The names in a directory.
    func children() throws(CocoaError) -> [Name] {
        guard let directory = withCString({ opendir($0) }) else {
            throw failure(.fileReadUnknown)
        }
        defer { closedir(directory) }
        var names: [Name] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { Name(cString: $0) }
            }
            if name != Name(".") && name != Name("..") { names.append(name) }
        }
        return names
    }

    /// The error of the system call before, as Foundation reports it.
    func failure(_ otherwise: CocoaError.Code) -> CocoaError {
        let number = errno
        let isReading = otherwise == .fileReadUnknown
        let code: CocoaError.Code =
            switch number {
            case ENOENT: isReading ? .fileReadNoSuchFile : .fileNoSuchFile
            case EACCES, EPERM: isReading ? .fileReadNoPermission : .fileWriteNoPermission
            case ENOSPC, EDQUOT: .fileWriteOutOfSpace
            case EROFS: .fileWriteVolumeReadOnly
            case EEXIST: .fileWriteFileExists
            default: otherwise
            }
        let reason = String(cString: strerror(number))
        return CocoaError(
            code,
            userInfo: [
                NSFilePathErrorKey: description,
                NSLocalizedDescriptionKey: "\(description): \(reason)",
                NSUnderlyingErrorKey: POSIXError(POSIXErrorCode(rawValue: number) ?? .EIO),
            ])
    }

    func readAll() throws(CocoaError) -> Data {
        let file = withCString { open($0, O_RDONLY | O_CLOEXEC) }
        guard file >= 0 else { throw failure(.fileReadUnknown) }
        defer { close(file) }
        var data = Data()
        var piece = [UInt8](repeating: 0, count: 1 << 18)
        while true {
            let count = read(file, &piece, piece.count)
            if count < 0 && errno == EINTR { continue }
            guard count >= 0 else { throw failure(.fileReadUnknown) }
            if count == 0 { return data }
            data += piece[..<count]
        }
    }

    /// Creates a file with these contents and syncs it, so that a full disk is reported here.
    func create(with data: Data, permissions: UInt16?) throws(CocoaError) {
        let file = withCString { open($0, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666) }
        guard file >= 0 else { throw failure(.fileWriteUnknown) }
        defer { close(file) }
        var done = 0
        while done < data.count {
            let count = data.withUnsafeBytes {
                write(file, $0.baseAddress! + done, $0.count - done)
            }
            if count < 0 && errno == EINTR { continue }
            guard count >= 0 else { throw failure(.fileWriteUnknown) }
            done += count
        }
        if let permissions, fchmod(file, mode_t(permissions)) != 0 {
            throw failure(.fileWriteUnknown)
        }
        guard fsync(file) == 0 else { throw failure(.fileWriteUnknown) }
    }

    /// Removes the item, a directory with all in it. A missing item is no error.
    func remove() {
        guard let kind else { return }
        if kind == .directory {
            for child in (try? children()) ?? [] { appending(child).remove() }
            _ = withCString { rmdir($0) }
        } else {
            _ = withCString { unlink($0) }
        }
    }

    /// Sets an attribute on a draft that says which contents it was made from. A volume compares
    /// these with the contents that the draft replaces, in the same step. Other file systems ignore
    /// it.
    func name(base: FileStamp) {
        if let value = base.base { setAttribute("user.concord.base", value) }
    }

    /// Renames the item to `target` and removes what was there. If either of them is a directory,
    /// the two are exchanged first, so that there is no moment without an item.
    func install(at target: FilePath) throws(CocoaError) {
        let there = target.kind
        guard there != nil, there == .directory || kind == .directory else {
            return try move(to: target)
        }
        switch exchange(with: target) {
        case 0: break
        case EINVAL, ENOSYS:
            target.remove()
            return try move(to: target)
        case let number:
            errno = number
            throw target.failure(.fileWriteUnknown)
        }
        // After the exchange this path is the old item.
        remove()
    }

    /// As `install(at:)`, for a draft that was made from the contents with this stamp. A package of
    /// a volume that has other contents by now becomes a conflict version before it is removed; if
    /// that fails, it is back in its place. For a file the volume does this (`name(base:)`).
    func install(at target: FilePath, madeFrom base: FileStamp, _ save: PackageSave?) throws {
        guard let named = base.packageBase, kind == .directory, let place = try target.place()
        else { return try install(at: target) }
        save?.willExchange()
        errno = exchange(with: target)
        guard errno == 0 else { throw target.failure(.fileWriteUnknown) }
        do {
            if kind == .directory, FileStamp(self) != base {
                try keepUnseen(as: place, unseenBy: named)
            }
        } catch {
            _ = exchange(with: target)
            throw error
        }
        save?.didKeep()
        remove()
    }

    /// Makes this replaced package a conflict version of the one that has its place now.
    func keepUnseen(as item: MountedPath, unseenBy base: String) throws {
        func add(_ contents: FilePath) throws(VolumeError) {
            var request = Request(.add, path: item.components)
            request.from = RawText(path: item.components.dropLast() + [contents.name])
            request.base = base
            request.program = ProcessInfo.processInfo.processName
            let client = try ControlClient(socket: item.socket)
            _ = try client.ask(request, as: AdditionReport.self)
        }
        do throws(VolumeError) { try add(self) } catch {
            guard error.code == .busy else { throw FileCoordinationError(error) }
            // A program is still writing there. What it has written until now is kept.
            let copy = draft
            defer { copy.remove() }
            try FileManager.default.copyItem(at: URL(self), to: URL(copy))
            do throws(VolumeError) { try add(copy) } catch { throw FileCoordinationError(error) }
        }
    }

    func move(to target: FilePath) throws(CocoaError) {
        let result = withCString { from in target.withCString { rename(from, $0) } }
        if result != 0 { throw failure(.fileWriteUnknown) }
    }

    /// Creates a temporary directory for this user alone. Returns nil, with errno set, when that
    /// fails.
    static func makeTemporaryDirectory(named prefix: String) -> FilePath? {
        let base = FilePath(FileManager.default.temporaryDirectory)
        var template = base.appending("\(prefix).XXXXXX").bytes.map { CChar(bitPattern: $0) }
        template.append(0)
        guard mkdtemp(&template) != nil else { return nil }
        return FilePath(bytes: template.dropLast().map { UInt8(bitPattern: $0) })
    }

    /// A name beside this one for a new item that will take its place. Volumes never treat files
    /// with such names as documents. The extension stays, so that a package's draft is a package.
    var draft: FilePath {
        let tag = Array(String(UInt32.random(in: .min ... .max), radix: 36).utf8)
        let end = name.fileExtension.isEmpty ? [] : [UInt8(ascii: ".")] + name.fileExtension
        return parent.appending(Name(bytes: Array(".#".utf8) + tag + end))
    }
}

extension MountedPath {
    /// Asks the volume to record what is in the item now. A failure is ignored, because nothing is
    /// lost without it.
    func recordVersions() {
        guard let client = try? ControlClient(socket: socket) else { return }
        _ = try? client.ask(Request(.versions, path: components), as: HistoryReport.self)
    }
}
