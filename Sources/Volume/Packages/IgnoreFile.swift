import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// The file `.concordignore` at the root of the tree. Its patterns, in gitignore syntax, add to the
/// built-in local names.
final class IgnoreFile: Sendable {
    private let tree: Int32
    private let state: Mutex<LocalNames>

    /// In bytes; the rest of a longer file is ignored.
    private static let sizeMax = 1 << 20

    init(tree: Int32) {
        self.tree = tree
        state = Mutex(LocalNames())
        read()
    }

    var current: LocalNames { state.withLock { $0 } }

    /// Reads the file again.
    func read() {
        var text = ""
        if let file = try? openBeneath(
            [Name(LocalNames.fileName)], from: tree, flags: O_RDONLY | O_NONBLOCK)
        {
            var bytes = [UInt8](repeating: 0, count: IgnoreFile.sizeMax)
            let count = (try? bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }) ?? 0
            text = String(decoding: bytes[..<count], as: UTF8.self)
        }
        let names = LocalNames(ignoreFile: text)
        state.withLock { $0 = names }
    }
}
