import CLinux
import Control
import Foundation
import Support
import Testing

/// A temporary directory of a test, removed when the test ends.
final class Scratch {
    let path: String

    init() throws {
        // Tests/run looks here for what tests leave behind.
        let base = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
        var template = Array("\(base)/concord-test-XXXXXX".utf8CString)
        let made = mkdtemp(&template)
        try #require(made != nil)
        path = String(cString: made!)
    }

    deinit {
        // Only a mount of the test itself can be here. It is unmounted, and its contents are not
        // removed through it.
        while cl_umount(path + "/mount", 1) >= 0 {}
        try? FileManager.default.removeItem(atPath: path)
    }

    func callAsFunction(_ name: String) -> String { path + "/" + name }

    @discardableResult
    func directory(_ name: String) throws -> String {
        try FileManager.default.createDirectory(
            atPath: self(name), withIntermediateDirectories: true)
        return self(name)
    }

    @discardableResult
    func file(_ name: String, _ text: String = "") throws -> String {
        try Data(text.utf8).write(to: URL(fileURLWithPath: self(name)))
        return self(name)
    }

    func text(_ name: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(fileURLWithPath: self(name))), as: UTF8.self)
    }

    /// All paths in the directory, sorted, to show that nothing was made.
    var tree: [String] {
        (try? FileManager.default.subpathsOfDirectory(atPath: path))?.sorted() ?? []
    }
}

/// The output and the exit status of a program.
struct Outcome {
    let status: Int32
    let output: String
    let errors: String

    /// Runs `concord` or `fsctl` as users get them.
    init(
        _ program: String, _ arguments: [String], in directory: String? = nil,
        environment: [String: String] = [:]
    ) throws {
        let process = Process()
        process.executableURL = URL(
            filePath: program.hasPrefix("/") ? program : Programs.path(program))
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        if let directory { process.currentDirectoryURL = URL(fileURLWithPath: directory) }
        let (out, err) = (Pipe(), Pipe())
        process.standardOutput = out
        process.standardError = err
        process.standardInput = FileHandle.nullDevice
        try process.run()
        // Errors are one sentence, so they fit into the pipe's buffer while the output is read.
        output = String(decoding: out.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        errors = String(decoding: err.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        status = process.terminationStatus
    }
}
