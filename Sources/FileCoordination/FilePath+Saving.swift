import Control
import Foundation
import Glibc
import Model

// What the document classes do with files.
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

    /// Of the system call before, in Foundation's words.
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

    /// A new file with these contents, which are on their way to the disk when this returns without
    /// an error: a disk that is full says so here.
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

    /// Also a directory with all in it. What is not there is no error.
    func remove() {
        guard let kind else { return }
        if kind == .directory {
            for child in (try? children()) ?? [] { appending(child).remove() }
            _ = withCString { rmdir($0) }
        } else {
            _ = withCString { unlink($0) }
        }
    }

    /// Says on a draft which contents it was made from: a volume compares them with those that the
    /// draft replaces, in the step that does it. Elsewhere nobody asks.
    func name(base: FileStamp) {
        if let value = base.base { setAttribute("user.concord.base", value) }
    }

    /// Takes a name, and what has it now goes. A directory and something else change places first,
    /// so that there is no moment without anything.
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
        // What was there before.
        remove()
    }

    func move(to target: FilePath) throws(CocoaError) {
        let result = withCString { from in target.withCString { rename(from, $0) } }
        if result != 0 { throw failure(.fileWriteUnknown) }
    }

    /// A new directory of this user alone among the temporary files; nil, and `errno` says why.
    static func makeTemporaryDirectory(named prefix: String) -> FilePath? {
        let base = FilePath(FileManager.default.temporaryDirectory)
        var template = base.appending("\(prefix).XXXXXX").bytes.map { CChar(bitPattern: $0) }
        template.append(0)
        guard mkdtemp(&template) != nil else { return nil }
        return FilePath(bytes: template.dropLast().map { UInt8(bitPattern: $0) })
    }

    /// A name beside it for what shall take its place. Files called so are no documents to a
    /// volume, ever; and of a package it is a package.
    var draft: FilePath {
        let tag = Array(String(UInt32.random(in: .min ... .max), radix: 36).utf8)
        let end = name.fileExtension.isEmpty ? [] : [UInt8(ascii: ".")] + name.fileExtension
        return parent.appending(Name(bytes: Array(".#".utf8) + tag + end))
    }
}
