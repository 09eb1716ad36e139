import Foundation
import Glibc

/// The programs under test are those that people get: built for release, with Swift's library in
/// them. Somebody who works on them can name another directory in CONCORD_BIN_DIR, for example
/// `.build/debug`; without that, no test ever starts a debug program.
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

    /// `fsctl` with these arguments.
    package static func fsctl(_ arguments: String...) -> Command {
        Command(fsctl, arguments: arguments)
    }

    /// Where the tests were built, and debug programs with them.
    package static let tests = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        .deletingLastPathComponent().path
    private static let release = URL(filePath: tests).deletingLastPathComponent()
        .appending(path: "release").path

    /// What is wrong with the programs in this directory, if they are to be those that people get.
    /// - Parameter tests: Holds the programs that were built together with the tests.
    package static func objection(to directory: String, besides tests: String) -> String? {
        let program = "\(directory)/concord"
        guard let built = time(of: program) else { return "\(program) is not there." }
        guard let file = FileHandle(forReadingAtPath: program),
            let start = try? file.read(upToCount: 32 << 20)
        else { return "\(program) cannot be read." }
        // A program names the libraries that it loads near its beginning.
        if start.range(of: Data("libswiftCore.so".utf8)) != nil {
            return "\(program) is no release build with Swift's library in it."
        }
        // Tests/run leaves the note when it has built both.
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
