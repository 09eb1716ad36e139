import CLinux
import Control
import Foundation
import Glibc
import Support

/// The directory of a pair on one device.
struct PairDesk {
    let root: String

    // MARK: Actions of a program

    func write(_ path: String, _ text: String) throws {
        try write(path, text, O_WRONLY | O_CREAT | O_TRUNC)
    }

    func append(_ path: String, _ text: String) throws {
        try write(path, text, O_WRONLY | O_APPEND)
    }

    private func write(_ path: String, _ text: String, _ flags: Int32) throws {
        let file = open(at(path), flags | O_CLOEXEC, 0o600)
        try check(file, "open", path)
        defer { close(file) }
        let bytes = Array(text.utf8)
        guard Glibc.write(file, bytes, bytes.count) == bytes.count else {
            throw SupportError("write \(at(path)): \(errno)")
        }
    }

    func touch(_ path: String, _ seconds: Int) throws {
        let times = [timespec(tv_sec: seconds, tv_nsec: 0), timespec(tv_sec: seconds, tv_nsec: 0)]
        try check(utimensat(AT_FDCWD, at(path), times, 0), "touch", path)
    }

    func chmod(_ path: String, _ mode: mode_t) throws {
        try check(Glibc.chmod(at(path), mode), "chmod", path)
    }

    func note(_ path: String, _ note: String?) throws {
        let file = open(at(path), O_RDONLY | O_CLOEXEC)
        try check(file, "open", path)
        defer { close(file) }
        guard let note else {
            return try check(cl_removexattr_fd(file, "user.note"), "removexattr", path)
        }
        let bytes = Array(note.utf8)
        try check(cl_setxattr_fd(file, "user.note", bytes, bytes.count, 0), "setxattr", path)
    }

    func rename(_ old: String, _ new: String) throws {
        try check(Glibc.rename(at(old), at(new)), "rename", old)
    }

    func exchange(_ one: String, _ other: String) throws {
        try check(cl_renameat2(AT_FDCWD, at(one), AT_FDCWD, at(other), 2), "exchange", one)
    }

    func link(_ old: String, _ new: String) throws {
        try check(Glibc.link(at(old), at(new)), "link", old)
    }

    func link(to target: String, _ path: String) throws {
        try check(symlink(target, at(path)), "symlink", path)
    }

    func makeDirectory(_ path: String) throws { try check(mkdir(at(path), 0o700), "mkdir", path) }

    func remove(_ path: String) throws { try check(unlink(at(path)), "unlink", path) }

    func removeTree(_ path: String) throws {
        try FileManager.default.removeItem(atPath: at(path))
    }

    /// Creates what each pair starts with, as `PairSide.base` says.
    func prepare(_ items: [String: PairItem]) throws {
        try makeDirectory("")
        for item in [items["d"]!, items["e"]!] { try makeDirectory(item.name) }
        for (_, item) in items.sorted(by: { $0.key < $1.key }) where item.parent == "d" {
            switch item.kind {
            case .file:
                try write("d/\(item.name)", item.text)
                if let note = item.note { try self.note("d/\(item.name)", note) }
            case .symlink: try link(to: item.text, "d/\(item.name)")
            case .directory: try makeDirectory("d/\(item.name)")
            case .package:
                try makeDirectory("d/\(item.name)")
                for part in item.text.split(separator: ";") {
                    let pair = part.split(separator: "=", maxSplits: 1)
                    try write("d/\(item.name)/\(pair[0])", String(pair[1]))
                }
            }
        }
    }

    private func at(_ path: String) -> String { path.isEmpty ? root : "\(root)/\(path)" }

    private func check(_ result: Int32, _ call: String, _ path: String) throws {
        if result < 0 { throw SupportError("\(call) \(at(path)): \(errno)") }
    }

    // MARK: The visible state

    /// Returns one line for each item, in the form of `PairTable.lines`.
    func seen() throws -> Set<String> {
        var lines: Set<String> = []
        try see("", &lines)
        return lines
    }

    private func see(_ directory: String, _ lines: inout Set<String>) throws {
        let inside = directory.isEmpty ? "" : "\(directory)/"
        let hidden = (try? names("\(inside).conflicts")) ?? []
        for name in try names(directory) {
            let path = inside + name
            let conflicts =
                try hidden.contains(name) ? versions("\(inside).conflicts/\(name)") : []
            let item = try item(path, conflicts)
            let line = item.line(at: path.withoutDate)
            // A duplicate line is marked, because a set would hide it.
            lines.insert(lines.contains(line) ? "\(line) again" : line)
            if item.kind == .directory { try see(path, &lines) }
        }
    }

    private func item(_ path: String, _ conflicts: [String]) throws -> PairItem {
        var status = stat()
        try check(lstat(at(path), &status), "lstat", path)
        var item = PairItem(kind: .file, parent: "", name: "", conflicts: conflicts)
        switch status.st_mode & S_IFMT {
        case S_IFLNK:
            item.kind = .symlink
            item.text = try FileManager.default.destinationOfSymbolicLink(atPath: at(path))
        case S_IFDIR:
            item.kind = path.hasSuffix(".rtfd") ? .package : .directory
            if item.kind == .package { item.text = try text(path) }
        default:
            item.text = try text(path)
            item.mode = Int(status.st_mode & 0o777)
            item.note = try attribute("user.note", of: path)
        }
        return item
    }

    /// Returns the contents of a file, or the files of a package with their contents.
    private func text(_ path: String) throws -> String {
        var status = stat()
        guard stat(at(path), &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            return String(decoding: try Data(contentsOf: URL(filePath: at(path))), as: UTF8.self)
        }
        return try names(path).map { "\($0)=\(try text("\(path)/\($0)"))" }.joined(separator: ";")
    }

    private func versions(_ directory: String) throws -> [String] {
        try names(directory).map { try text("\(directory)/\($0)") }.sorted()
    }

    private func names(_ directory: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: at(directory)).sorted()
    }

    // MARK: The history

    /// Returns the id of a document, by which its history is available even after its deletion.
    func document(_ path: String) throws -> String {
        guard let id = try attribute("user.concord.id", of: path) else {
            throw SupportError("no user.concord.id of \(at(path))")
        }
        return id
    }

    private func attribute(_ name: String, of path: String) throws -> String? {
        var bytes = [UInt8](repeating: 0, count: 200)
        let count = cl_path_getxattr(at(path), name, &bytes, bytes.count)
        return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}

extension String {
    /// Shortens `name (dev1 2026-11-21).txt` to `name (dev1).txt`.
    fileprivate var withoutDate: String {
        replacing(/\ \((dev\d) [^)]*\)/) { " (\($0.output.1))" }
    }
}

/// Reads the histories of one device.
struct PairHistory {
    private let client: ControlClient

    init(_ root: String) throws {
        client = try ControlClient(socket: MountedPath(FilePath(root)).socket)
    }

    /// Returns all contents that are still available of a document, even after its deletion.
    func texts(of document: String) throws -> [String] {
        var request = Request(.versions)
        request.document = document
        return try client.ask(request, as: HistoryReport.self).versions.map { version in
            var request = Request(.contents)
            request.document = document
            request.number = version.number
            let report = try client.ask(request, as: ContentsReport.self)
            var parts: [String] = []
            for (index, entry) in report.entries.enumerated() where entry.kind == "file" {
                request = Request(.extract)
                request.document = document
                request.number = version.number
                request.entry = index
                let piece = try client.ask(request, as: PieceReport.self)
                let text = String(
                    decoding: Data(base64Encoded: piece.data) ?? Data(), as: UTF8.self)
                let name = String(decoding: entry.path.bytes, as: UTF8.self)
                parts.append(report.package ? "\(name)=\(text)" : text)
            }
            return parts.sorted().joined(separator: ";")
        }
    }
}
