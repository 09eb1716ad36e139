import ArgumentParser
import Control
import Model

struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Make a version current again, or write it to another file.",
        discussion: "What was current stays in the history.")

    @OptionGroup var output: OutputOptions

    @Option(
        name: .customLong("as"), help: "The file to write instead; it must not exist.",
        completion: .file())
    var other: String?

    @Argument(help: "A document.", completion: .file())
    var file: String

    @Argument(help: "A number, an offset or a label.")
    var version: VersionSpecifier

    private struct Report: Encodable {
        let restored: Int
        let path: RawText
    }

    func run() throws {
        let document = try Document(file)
        let version = try document.version(version)
        let contents = try VersionContents(of: version, in: document)
        let target = other.map { RawArgument.path($0).absolute } ?? document.path
        try Restoration(contents: contents, target: target, replaces: other == nil).run()
        output.show(Report(restored: version.number, path: RawText(bytes: target.bytes))) {
            "\(other ?? file) is \(version.title) of \(file)."
        }
    }
}
