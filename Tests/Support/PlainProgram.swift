import Foundation

/// A separate process that reads and writes whole files on command.
package final class PlainProgram {
    private static let script = """
        import os, sys
        for line in sys.stdin:
            verb, path, text = (line.rstrip("\\n").split("\\t") + [""])[:3]
            text = text.replace("|", "\\n")
            if verb == "read":
                open(path).read()
            elif verb == "write":
                open(path, "w").write(text)
            elif verb == "append":
                open(path, "a").write(text)
            elif verb == "patch":
                with open(path, "r+") as file: file.write(text)
            elif verb == "replace":
                open(path + ".new", "w").write(text)
                os.replace(path + ".new", path)
            print("done", flush=True)
        """
    private let running: Beside
    private var told = 0

    package init() throws {
        running = try Beside(running: "python3", ["-c", Self.script], directory: "/")
    }

    /// Returns when the command is done.
    package func tell(_ verb: String, _ path: String, _ text: String = "") throws {
        running.tell("\(verb)\t\(path)\t\(text.replacing("\n", with: "|"))")
        told += 1
        try wait(for: "\(verb) \(path)") {
            let said = running.said
            if said.contains("Error") { throw SupportError(said) }
            return said.split(separator: "\n").count == told ? true : nil
        }
    }
}
