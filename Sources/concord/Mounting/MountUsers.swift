import Control
import Glibc
import Model

/// The processes that keep a mount busy, as far as /proc shows them to this user. Links are read
/// and never followed, because following one would access the mount itself.
enum MountUsers {
    /// `vim (1234)`, …
    static func of(_ mountPoint: FilePath, except daemon: Int32?) -> [String] {
        let processes = (names(in: FilePath("/proc")) ?? []).compactMap { Int32($0.text) }
        return processes.filter { $0 != daemon && $0 != getpid() && uses($0, mountPoint) }
            .map { "\(name(of: $0)) (\($0))" }
    }

    private static func uses(_ process: Int32, _ mountPoint: FilePath) -> Bool {
        let directory = FilePath("/proc/\(process)")
        let descriptors = directory.appending("fd")
        let links =
            ["cwd", "root", "exe"].map { directory.appending($0) }
            + (names(in: descriptors) ?? []).map { descriptors.appending($0) }
        if links.contains(where: { target(of: $0).map { isOn($0, mountPoint) } ?? false }) {
            return true
        }
        // Mapped files keep the mount busy, too. A line's path begins at its first slash.
        let maps = contents(of: "/proc/\(process)/maps") ?? []
        return maps.split(separator: UInt8(ascii: "\n")).contains { line in
            guard let slash = line.firstIndex(of: UInt8(ascii: "/")) else { return false }
            return isOn(FilePath(bytes: Array(line[slash...])), mountPoint)
        }
    }

    private static func isOn(_ path: FilePath, _ mountPoint: FilePath) -> Bool {
        path == mountPoint || path.lies(in: mountPoint)
    }

    private static func target(of link: FilePath) -> FilePath? {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = buffer.withUnsafeMutableBytes { buffer in
            link.withCString { readlink($0, buffer.baseAddress!, buffer.count) }
        }
        return count > 0 ? FilePath(bytes: Array(buffer[..<count])) : nil
    }

    private static func name(of process: Int32) -> String {
        let bytes = contents(of: "/proc/\(process)/comm") ?? []
        return String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }
}
