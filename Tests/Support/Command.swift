import Foundation
import Glibc

/// A program that runs until it ends, and whose output is kept.
package struct Command: CustomStringConvertible {
    package var program: String
    package var arguments: [String]
    package var input = Data()
    /// Variables that are added to our own environment.
    package var environment: [String: String] = [:]
    package var directory: String?
    /// Only a program that hangs takes so long; a busy machine may need some minutes.
    package var timeoutSeconds = 180.0

    package init(_ program: String, _ arguments: String...) {
        self.init(program, arguments: arguments)
    }

    package init(_ program: String, arguments: [String]) {
        self.program = program
        self.arguments = arguments
    }

    package struct Result: Sendable {
        /// The exit status, or 128 and the signal.
        package let status: Int32
        package let outputData: Data
        package let errors: String

        package var output: String { String(decoding: outputData, as: UTF8.self) }
    }

    package var description: String { ([program] + arguments).joined(separator: " ") }

    /// Runs it until it ends. Output goes to files and not to pipes, because a daemon that the
    /// program leaves behind would keep the pipes open.
    package func run() throws -> Result {
        let input = try Self.scratch(holding: self.input)
        let output = try Self.scratch()
        let errors = try Self.scratch()
        let child = try ChildProcess(
            program, arguments, environment: environment, directory: directory,
            input: input.fileDescriptor, output: output.fileDescriptor,
            errors: errors.fileDescriptor)
        let status: Int32
        do { status = try child.waitForEnd(seconds: timeoutSeconds) } catch {
            child.killGroup()
            let said = try Self.contents(errors)
            throw SupportError(
                "\(self) did not end within \(timeoutSeconds) s: "
                    + String(decoding: said, as: UTF8.self))
        }
        return Result(
            status: status, outputData: try Self.contents(output),
            errors: String(decoding: try Self.contents(errors), as: UTF8.self))
    }

    /// Returns its standard output. Throws its error output when it fails.
    @discardableResult
    package func succeed() throws -> String {
        let result = try run()
        guard result.status == 0 else {
            throw SupportError(
                "\(self) ended with \(result.status): \(result.errors)\(result.output)")
        }
        return result.output
    }

    /// A file without a name.
    package static func scratch(holding data: Data = Data()) throws -> FileHandle {
        let base = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
        var template = Array("\(base)/command.XXXXXX".utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw SupportError("cannot make a file in \(base)") }
        unlink(template)
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        try file.write(contentsOf: data)
        try file.seek(toOffset: 0)
        return file
    }

    private static func contents(_ file: FileHandle) throws -> Data {
        try file.seek(toOffset: 0)
        return try file.readToEnd() ?? Data()
    }
}
