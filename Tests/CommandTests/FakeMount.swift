import CLinux
import Control
import Foundation
import Model
import Testing

/// A file system that fsctl takes for a mounted volume: an attribute of its root names the socket
/// of a daemon.
final class FakeMount {
    let scratch: Scratch
    let daemon: FakeDaemon
    let root: String

    /// Only root can mount a file system in memory.
    static var isPossible: Bool { geteuid() == 0 }

    init() throws {
        scratch = try Scratch()
        daemon = try FakeDaemon()
        root = try scratch.directory("mount")
        try #require(cl_mount("test", root, "tmpfs", 0, "size=16m") >= 0)
        let descriptor = cl_open_path(root)
        let path = daemon.server.path
        let result = cl_setxattr_fd(
            descriptor, MountedPath.attribute, path, path.utf8.count, 0)
        _ = cl_close(descriptor)
        try #require(result >= 0)
        try scratch.directory("mount/docs")
    }

    var service: FakeService { daemon.service }

    /// Adds a version that the daemon knows and that is in the hidden directory.
    func add(
        _ id: String, at path: String, number: Int, kind: Version.Kind = .history,
        label: String? = nil, mode: UInt16 = 0o644, _ text: String
    ) throws {
        service.add(
            id, at: path, number: number, kind: kind, label: label,
            entries: [("", .file, mode, text)])
        try scratch.file(try hidden(path, number), text)
    }

    /// The path is relative to the scratch directory.
    func hidden(_ path: String, _ number: Int) throws -> String {
        let url = URL(fileURLWithPath: "mount/\(path)", relativeTo: nil)
        let name = url.lastPathComponent
        let directory = (("mount/" + path) as NSString).deletingLastPathComponent
        try scratch.directory("\(directory)/.versions/\(name)")
        return "\(directory)/.versions/\(name)/\(number) \(name)"
    }

    func fsctl(_ arguments: String..., in directory: String = "docs") throws -> Outcome {
        try Outcome("fsctl", arguments, in: root + "/" + directory)
    }

    func text(_ path: String) throws -> String { try scratch.text("mount/" + path) }

    /// The names in a directory of the mount, without the hidden one.
    func names(_ path: String) -> [String] {
        let all = (try? FileManager.default.contentsOfDirectory(atPath: root + "/" + path)) ?? []
        return all.filter { $0 != ".versions" }.sorted()
    }
}
