import ArgumentParser
import CLinux
import Control
import Glibc
import Model

struct DiffCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Show what changed between two versions, or between a version and now.",
        discussion: """
            Without VERSION it compares the version before the current one with the document as \
            it is now; with one VERSION, that version with it. The exit status is that of \
            diff: 0 when nothing differs, 1 when something does.
            """)

    @Flag(help: "Print as JSON whether they differ, instead of the differences.")
    var json = false

    @Argument(help: "A document.", completion: .file())
    var file: String

    @Argument(help: "The old version: a number, an offset or a label.")
    var from: VersionSpecifier?

    @Argument(help: "The new version: a number, an offset or a label.")
    var to: VersionSpecifier?

    private struct Report: Encodable {
        let differs: Bool
        let from: Int
        let to: Int?
    }

    func run() throws {
        let document = try Document(file)
        let history = try document.history()
        let old = try (from ?? .offset(-1)).find(in: history.versions, of: file)
        let new = try to?.find(in: history.versions, of: file)
        let newPath = new.map(document.hiddenPath(of:)) ?? document.path
        if new == nil, document.path.kind == nil {
            throw VolumeError(.notFound, "\(file) is deleted; name two versions to compare")
        }
        var arguments = ["diff", json ? "-q" : "-u"]
        if history.package {
            arguments += ["-rN"]
        } else {
            arguments += ["--label", "\(file) (\(old.title))"]
            arguments += ["--label", "\(file) (\(new?.title ?? "now"))"]
        }
        if Terminal.hasColour { arguments.append("--color=always") }
        let all =
            (arguments + ["--"]).map(FilePath.init(_:)) + [document.hiddenPath(of: old), newPath]
        let status = try DiffCommand.spawn(all, quietly: json)
        if json {
            let report = Report(differs: status == 1, from: old.number, to: new?.number)
            print(String(decoding: Control.json(report), as: UTF8.self))
        }
        if status != 0 { throw ArgumentParser.ExitCode(Control.ExitCode.notGood.rawValue) }
    }

    /// Returns diff's exit status, 0 or 1.
    static func spawn(_ arguments: [FilePath], quietly: Bool) throws(VolumeError) -> Int32 {
        var words = arguments.map { $0.withCString { strdup($0) } } + [nil]
        defer { for word in words { free(word) } }
        let process = cl_spawn("diff", &words, 0, quietly ? -1 : 1, 2, -1, 0)
        guard process >= 0 else {
            throw VolumeError(
                .notFound, "the program diff could not be started; install the package diffutils")
        }
        let status = cl_exit_status(cl_wait_process(process))
        guard status <= 1 else {
            throw VolumeError(.system, "diff could not compare them (it ended with \(status))")
        }
        return status
    }
}
