import ArgumentParser
import Control
import Model

struct DownloadCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "download", abstract: "Bring documents' contents to this device.")

    @OptionGroup var output: OutputOptions

    @Argument(help: "Documents or directories.", completion: .file())
    var paths: [String]

    func run() throws {
        for path in paths {
            output.show(try Document(path).ask(.download, as: Nothing.self)) { "" }
        }
    }
}

struct EvictCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evict",
        abstract: "Give contents' disk space back; they are fetched when they are read.",
        discussion: "What is not at the hub, open, being written or pinned stays.")

    @OptionGroup var output: OutputOptions

    @Flag(help: "Also what is pinned.")
    var force = false

    @Argument(help: "Documents or directories.", completion: .file())
    var paths: [String]

    func run() throws {
        for path in paths {
            let document = try Document(path)
            let report = try document.ask(.evict, as: EvictedReport.self) { $0.force = force }
            output.show(report) {
                let freed = Amount.size(UInt64(max(0, report.bytes)))
                let kept = report.kept.map { "  stays: \($0.path.text.printable): \($0.reason)" }
                return (["\(Amount.count(report.items, "document")), \(freed) freed"] + kept)
                    .joined(separator: "\n")
            }
        }
    }
}

struct PinCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin", abstract: "Keep documents, or all below a directory, on this device.")

    @OptionGroup var output: OutputOptions

    @Argument(help: "Documents or directories.", completion: .file())
    var paths: [String]

    func run() throws {
        for path in paths {
            output.show(try Document(path).ask(.pin, as: Nothing.self)) { "" }
        }
    }
}

struct UnpinCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpin", abstract: "Let documents go from this device when space is needed.")

    @OptionGroup var output: OutputOptions

    @Argument(help: "Documents or directories.", completion: .file())
    var paths: [String]

    func run() throws {
        for path in paths {
            output.show(try Document(path).ask(.unpin, as: Nothing.self)) { "" }
        }
    }
}
