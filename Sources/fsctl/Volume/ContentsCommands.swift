import ArgumentParser
import Control
import Model

struct DownloadCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "download", abstract: "Download the contents of documents to this device.")

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
        abstract: "Free the disk space of contents; they are downloaded again when read.",
        discussion: "Contents that are not at the hub, open, being written or pinned stay.")

    @OptionGroup var output: OutputOptions

    @Flag(help: "Evict pinned documents, too.")
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
        commandName: "pin",
        abstract: "Keep the contents of documents, or of all below a directory, here.")

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
        commandName: "unpin",
        abstract: "Allow the contents of documents to be evicted when space is needed.")

    @OptionGroup var output: OutputOptions

    @Argument(help: "Documents or directories.", completion: .file())
    var paths: [String]

    func run() throws {
        for path in paths {
            output.show(try Document(path).ask(.unpin, as: Nothing.self)) { "" }
        }
    }
}

struct PinsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pins",
        abstract: "List what is pinned to this device, and what of it is still to be downloaded.")

    @OptionGroup var output: OutputOptions

    @Argument(
        help: "A document or a directory. Without it: the volume that the working directory is on.",
        completion: .file())
    var path: String?

    func run() throws {
        let report = try Document(path ?? ".").ask(.pins, as: PinsReport.self) {
            if path == nil { $0.path = RawText(path: []) }
            $0.missing = true
        }
        output.show(report) {
            guard !report.pins.isEmpty else {
                return "Nothing is pinned\(path.map { " at \($0)" } ?? "")."
            }
            var table = Table([.init("PATH", isFlexible: true), .init("KEPT HERE")])
            for pin in report.pins {
                let shown = "/" + pin.path.text.printable
                table.add([pin.directory && shown != "/" ? shown + "/" : shown, pin.state])
            }
            return table.text(width: Terminal.width, heading: Terminal.bold)
        }
    }
}

extension PinsReport.Pin {
    fileprivate var state: String {
        guard pinned else { return "no, unlike the directory above it" }
        guard let missing, missing > 0 else { return "yes" }
        return "yes; \(Amount.count(missing, "document")), "
            + "\(Amount.size(UInt64(max(0, missingBytes ?? 0)))), still to come"
    }
}
