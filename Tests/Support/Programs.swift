import Foundation
import Glibc

/// The programs under test are those that users get: release builds with Swift's library inside.
/// CONCORD_BIN_DIR can name another directory during development, for example `.build/debug`.
/// Without it, no test ever starts a debug program.
package enum Programs {
    package static let directory: String = {
        if let given = ProcessInfo.processInfo.environment["CONCORD_BIN_DIR"] {
            return URL(filePath: given).path
        }
        if let objection = objection(to: release, besides: tests) {
            fatalError(
                """
                \(objection)
                `Tests/run --filter NAME` builds the programs and runs tests; \
                CONCORD_BIN_DIR=.build/debug takes the debug programs.
                """)
        }
        return release
    }()

    package static var concord: String { path("concord") }
    package static var fsctl: String { path("fsctl") }

    package static func path(_ program: String) -> String { "\(directory)/\(program)" }

    /// A command for `fsctl` with these arguments.
    package static func fsctl(_ arguments: String...) -> Command {
        Command(fsctl, arguments: arguments)
    }

    /// The directory in which the tests were built, together with debug programs.
    package static let tests = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        .deletingLastPathComponent().path
    private static let release = URL(filePath: tests).deletingLastPathComponent()
        .appending(path: "release").path

    /// What is wrong with the programs in this directory, if they should be those that users get.
    /// - Parameter tests: The directory with the programs that were built together with the tests.
    package static func objection(to directory: String, besides tests: String) -> String? {
        let program = "\(directory)/concord"
        guard let built = time(of: program) else { return "\(program) is not there." }
        guard let file = FileHandle(forReadingAtPath: program),
            let start = try? file.read(upToCount: 32 << 20)
        else { return "\(program) cannot be read." }
        // A program file names its shared libraries near its beginning.
        if start.range(of: Data("libswiftCore.so".utf8)) != nil {
            return "\(program) is no release build with Swift's library in it."
        }
        // Tests/run writes the note when it has built both.
        let newest = max(built, time(of: "\(directory)/\(note)") ?? 0)
        if let others = time(of: "\(tests)/concord"), others > newest {
            return "\(program) is older than \(tests)/concord."
        }
        return nil
    }

    package static let note = "built-with-the-tests"

    private static func time(of path: String) -> Int? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mtim.tv_sec : nil
    }
}
