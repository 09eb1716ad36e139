import Foundation

/// The thread of the only `MetadataQuery` that runs in a process.
package struct QueryThread {
    private let directory: String

    /// Nil unless there is exactly one.
    package init?(of process: pid_t) throws {
        let tasks = "/proc/\(process)/task"
        let found = try FileManager.default.contentsOfDirectory(atPath: tasks).filter {
            (try? String(contentsOfFile: "\(tasks)/\($0)/comm", encoding: .utf8)) == "query\n"
        }
        guard found.count == 1 else { return nil }
        directory = "\(tasks)/\(found[0])"
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
