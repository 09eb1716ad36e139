import ArgumentParser
import Control
import Glibc
import Model

struct ShowCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Write a version's contents to standard output.")

    @Flag(help: "Print the version's metadata as JSON instead of its contents.")
    var json = false

    @Argument(help: "A document.", completion: .file())
    var file: String

    @Argument(help: "A number, an offset or a label.")
    var version: VersionSpecifier

    func run() throws {
        let document = try Document(file)
        let version = try document.version(version)
        if json { return print(String(decoding: Control.json(version), as: UTF8.self)) }
        let contents = try VersionContents(of: version, in: document)
        guard !contents.isPackage else {
            throw VolumeError(
                .invalid,
                "\(file) is a package; its version \(version.number) is the directory "
                    + "\(document.hiddenPath(of: version))"
            )
        }
        try contents.read(0, ShowCommand.put)
    }

    private static func put(_ bytes: [UInt8]) throws(VolumeError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(1, $0.baseAddress!, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw VolumeError(
                    .system, "cannot write to standard output: \(String(cString: strerror(errno)))")
            }
            rest = rest.dropFirst(count)
        }
    }
}
