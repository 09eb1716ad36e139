import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// The file `.concordignore` at the root of the tree. Its patterns, in gitignore syntax, add to the
/// built-in local names.
package final class IgnoreFile: Sendable {
    private let tree: Int32
    private struct State {
        var text = ""
        var names = LocalNames()
    }
    private let state = Mutex(State())

    /// In bytes; the rest of a longer file is ignored.
    private static let sizeMax = 1 << 20

    init(tree: Int32) {
        self.tree = tree
        read()
    }

    var current: LocalNames { state.withLock { $0.names } }

    /// What the file said when it was last read.
    var text: String { state.withLock { $0.text } }

    /// Reads the file again. If it cannot be read, what it said before holds.
    ///
    /// - Returns: Whether it says something else than before.
    @discardableResult
    func read() -> Bool {
        guard let text = try? readText(), text != self.text else { return false }
        let names = LocalNames(ignoreFile: text)
        state.withLock { $0 = State(text: text, names: names) }
        return true
    }

    /// What the file says; nothing if there is none.
    private func readText() throws(Errno) -> String {
        let file: Descriptor
        do {
            file = try openBeneath(
                [Name(LocalNames.fileName)], from: tree, flags: O_RDONLY | O_NONBLOCK)
        } catch {
            guard error.isMissing else { throw error }
            return ""
        }
        guard FileSnapshot(try file.status()).isFile else { return "" }
        guard PlaceholderMark(of: file.raw) == nil else { throw Errno(ENODATA) }
        let bytes = UnsafeMutableRawBufferPointer.allocate(
            byteCount: IgnoreFile.sizeMax, alignment: 16)
        defer { bytes.deallocate() }
        let count = try file.read(into: bytes, at: 0)
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    /// Whether the item at a path never becomes a version because of its name, its path, or a
    /// directory above it.
    package func isLocal(_ path: [Name], isDirectory: Bool = false) -> Bool {
        let names = current
        return names.matches(path: path, isDirectory: isDirectory)
            || path.indices.dropFirst().contains {
                names.matches(path: Array(path[..<$0]), isDirectory: true)
            }
    }

    /// Whether files with this name never become versions: temporary and lock files, and those that
    /// the ignore file adds.
    package func isLocal(_ name: UnsafePointer<CChar>) -> Bool {
        let length = strlen(name)
        return name.withMemoryRebound(to: UInt8.self, capacity: length) { bytes in
            current.matches(UnsafeBufferPointer(start: bytes, count: length))
        }
    }
}
