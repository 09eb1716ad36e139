import ArgumentParser
import Control
import Model

struct ForgetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "Remove a version for good.")

    @OptionGroup var output: OutputOptions

    @Argument(help: "A document.", completion: .file())
    var file: String

    @Argument(help: "A number, an offset or a label.")
    var version: VersionSpecifier

    func run() throws {
        let document = try Document(file)
        let version = try document.version(version)
        let done = try document.ask(.forget, as: Nothing.self) { $0.number = version.number }
        output.show(done) { "" }
    }
}
