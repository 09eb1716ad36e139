import Foundation
import Glibc

/// A directory that is removed together with this object. Mounts below it are not entered.
package final class TemporaryDirectory: Sendable {
    package let path: String

    package init(_ name: String = "concord") throws {
        let base = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
        var template = Array("\(base)/\(name).XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw SupportError(
                "cannot make a directory in \(base): \(String(cString: strerror(errno)))")
        }
        path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    deinit { _ = try? Command("rm", "-rf", "--one-file-system", path).run() }

    /// Writes a file in this directory and returns its path.
    @discardableResult
    package func write(_ text: String, to name: String) throws -> String {
        let file = "\(path)/\(name)"
        try text.write(toFile: file, atomically: false, encoding: .utf8)
        return file
    }
}

/// An error in the support code of a test: a sentence.
package struct SupportError: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// Calls the closure again and again until it returns a value, or throws `message` when the time is
/// over.
@discardableResult
package func wait<Value>(
    seconds: Double = 30, for message: @autoclosure () -> String, until answer: () throws -> Value?
) throws -> Value {
    let end = Date(timeIntervalSinceNow: seconds)
    var pause: UInt32 = 1_000
    while true {
        if let value = try answer() { return value }
        if Date() > end { throw SupportError("waited \(seconds) s for \(message())") }
        usleep(pause)
        pause = min(pause * 2, 50_000)
    }
}
