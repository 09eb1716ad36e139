import CLinux
import Foundation
import Glibc
import Support
import SystemCalls

/// A directory that is one document. All of its files are from one save.
struct Package {
    private static let names = ["index", "one", "two"]
    private let members: [String: Data]

    init(writer: String, number: Int, size: Int) {
        let whole = WholeContent(writer: writer, sequence: number)
        members = Dictionary(
            uniqueKeysWithValues: Package.names.enumerated().map {
                ($1, whole.bytes(length: size / 3 + $0))
            })
    }

    static func isNamed(_ path: String) -> Bool { path.hasSuffix(".rtfd") }

    /// Whether the path is that of something in a package, or in the draft of one.
    static func isInside(_ path: String) -> Bool {
        [".rtfd/", ".rtfd.draft/"].contains(where: path.contains)
    }

    var content: (name: String, writers: String) { Package.content(of: members) }

    /// Describes files. The writers of a package that is not from one save end with `…`.
    static func content(of members: [String: Data]) -> (name: String, writers: String) {
        var all = Data()
        for (name, bytes) in members.sorted(by: { $0.key < $1.key }) {
            all += Data("\(name) \(bytes.count) ".utf8) + bytes
        }
        let writers = Set(members.values.map(Content.writers)).sorted()
        let isWhole = writers.count == 1 && members.keys.sorted() == names
        return (Content.name(all), writers.joined(separator: "/") + (isWhole ? "" : "…"))
    }

    static func content(at path: String) throws(Errno) -> (name: String, writers: String) {
        guard let found = try? FileManager.default.contentsOfDirectory(atPath: path) else {
            throw Errno(ENOENT)
        }
        var members: [String: Data] = [:]
        for name in found { members[name] = try ProgramCalls.read("\(path)/\(name)") }
        return content(of: members)
    }

    func save(to path: String, _ way: PackageWay) throws(Errno) {
        let exists = access(path, F_OK) == 0
        guard way == .exchange || !exists else { return try write(.replace, to: path) }
        let draft = path + ".draft"
        try Package.remove(draft)
        try ProgramCalls.call(mkdir(draft, 0o755))
        try write(.unlinkAndCreate, to: draft)
        guard exists else { return try ProgramCalls.call(rename(draft, path)) }
        try check(cl_renameat2(AT_FDCWD, draft, AT_FDCWD, path, UInt32(RENAME_EXCHANGE)))
        try Package.remove(draft)
    }

    private func write(_ way: SavePattern, to path: String) throws(Errno) {
        for (name, bytes) in members.sorted(by: { $0.key < $1.key }) {
            try way.save(bytes, to: "\(path)/\(name)", synced: false)
        }
    }

    /// Does nothing if there is nothing.
    private static func remove(_ path: String) throws(Errno) {
        guard access(path, F_OK) == 0 else { return }
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: path) else {
            throw Errno(ENOTCONN)
        }
        for name in names { try ProgramCalls.call(unlink("\(path)/\(name)")) }
        try ProgramCalls.call(rmdir(path))
    }
}
