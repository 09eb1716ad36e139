import Foundation

/// The thread of the only `MetadataQuery` that runs in a process.
package struct QueryThread {
    private let directory: String

    /// Nil unless there is exactly one.
    package init?(of process: pid_t) throws {
        let found = try QueryThread.all(of: process)
        guard found.count == 1 else { return nil }
        directory = found[0]
    }

    /// The directories in /proc of the threads of all queries.
    package static func all(of process: pid_t) throws -> [String] {
        let tasks = "/proc/\(process)/task"
        return try FileManager.default.contentsOfDirectory(atPath: tasks).map { "\(tasks)/\($0)" }
            .filter { (try? String(contentsOfFile: "\($0)/comm", encoding: .utf8)) == "query\n" }
    }

    /// How often the processor was given to it and taken from it.
    package var switches: String {
        get throws {
            let status = try String(contentsOfFile: "\(directory)/status", encoding: .utf8)
            return status.split(separator: "\n").filter { $0.contains("ctxt_switches") }
                .joined()
        }
    }
}
