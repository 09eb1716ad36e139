import ArgumentParser
import Control
import Model

struct NameCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "name",
        abstract: "Give a version a label: a version with a label is kept for ever.")

    @OptionGroup var output: OutputOptions

    @Flag(help: "Remove the label.")
    var remove = false

    @Argument(help: "A document.", completion: .file())
    var file: String

    @Argument(help: "A number, an offset or a label.")
    var version: VersionSpecifier

    @Argument(help: "The new label.")
    var label: String?

    func validate() throws {
        if (label == nil) != remove {
            throw ValidationError("Give either a label or --remove.")
        }
    }

    func run() throws {
        let document = try Document(file)
        if let label { try Label.check(label) }
        let version = try document.version(version)
        let done = try document.ask(.name, as: Nothing.self) {
            $0.number = version.number
            $0.label = label
        }
        output.show(done) { "" }
    }
}
