import Foundation
import Glibc

/// A C library below Tests that is compiled and preloaded into programs, with memory that it shares
/// with the test.
final class PreloadedLibrary {
    let path: String
    /// The file that both map. It begins with zeros.
    let file: String
    let memory: UnsafeMutableRawPointer
    private let home: TemporaryDirectory
    private let size: Int

    /// - Parameters:
    ///   - source: Its path below Tests.
    ///   - size: How many bytes are shared.
    init(_ source: String, sharing size: Int) throws {
        home = try TemporaryDirectory("preloaded")
        self.size = size
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        path = "\(home.path)/library.so"
        try Command(
            "gcc", "-shared", "-fPIC", "-O1", "-o", path, tests.appending(path: source).path
        ).succeed()
        file = "\(home.path)/shared"
        try Data(count: size).write(to: URL(filePath: file))
        let descriptor = try OpenFile(file, O_RDWR)
        guard
            let memory = mmap(
                nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.descriptor, 0),
            memory != MAP_FAILED
        else { throw SupportError("\(file) cannot be mapped") }
        self.memory = memory
    }

    deinit { munmap(memory, size) }

    /// The path of a further file beside the library, which does not exist.
    func beside(_ name: String) -> String { "\(home.path)/\(name)" }
}
