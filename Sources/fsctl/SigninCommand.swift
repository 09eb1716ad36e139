import ArgumentParser
import Control
import Model

struct SigninCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "signin",
        abstract: "Join a hub with a volume and all that is on it.",
        discussion: """
            The code comes from `concord hub invite NAME` and works once. It is asked for, so that \
            it is in no list of processes. What is here is joined \
            with what the hub has: nothing is deleted on either side.
            """)

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    @Argument(help: "The hub: https://host:port.")
    var url: String

    @Option(
        help: "The one-time code, or - for standard input. Without it the code is asked for.")
    var code: String?

    @Option(help: "A file whose first line is the one-time code.", completion: .file())
    var codeFile: String?

    @Option(help: "What this device is called. Default: the machine's name.")
    var device: String?

    @Option(
        name: .customLong("volume"),
        help: "Which volume of the hub to join; made if there is none. Default: of the same name.")
    var volumeName: String?

    @Option(
        help: "A file with certificates to trust: the hub's own, where it was made by hand.",
        completion: .file())
    var certificate: String?

    @Option(
        help: """
            What concord hub invite shows: the hub is refused unless its certificate has it. It \
            need not be signed by anybody then.
            """)
    var fingerprint: String?

    @Flag(help: "Also with http:// to another machine, where all can be read on the way.")
    var insecure = false

    func run() throws {
        let code = try OneTimeCode.read(argument: code, file: codeFile)
        let report = try volume.ask(.signin, as: IdentityReport.self) {
            $0.address = url
            $0.code = code
            $0.deviceName = device
            $0.volumeName = volumeName
            $0.insecure = insecure ? true : nil
            $0.fingerprint = fingerprint
            $0.certificate = certificate.map { RawArgument.path($0).absolute.description }
        }
        output.show(report) {
            "Signed in to \(report.hub ?? url) as \(report.user ?? "") "
                + "(this device is \(report.deviceName ?? ""))."
        }
    }
}

struct SignoutCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "signout",
        abstract: "Leave the hub. Everything that is here stays here.")

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    @Flag(help: "Also when something is on this device only.")
    var force = false

    func run() throws {
        let report = try volume.ask(.signout, as: IdentityReport.self) { $0.force = force }
        output.show(report) { "Signed out. The volume is a local one now." }
    }
}

struct IdentityCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "identity",
        abstract: "Print the identity token: nothing, and exit code 1, when signed out.",
        discussion: "It is the same on all devices of a person for this volume, also offline.")

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    func run() throws {
        let report = try volume.ask(.identity, as: IdentityReport.self)
        output.show(report) { report.token ?? "" }
        if report.token == nil { throw ArgumentParser.ExitCode(1) }
    }
}

struct OfflineCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "offline", abstract: "Airplane mode: ask the hub for nothing until `online`.")

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    func run() throws {
        let report = try volume.ask(.offline, as: IdentityReport.self)
        output.show(report) { "Offline. Changes are kept and sent later." }
    }
}

struct OnlineCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "online", abstract: "End airplane mode.")

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    func run() throws {
        let report = try volume.ask(.online, as: IdentityReport.self)
        output.show(report) { "Online." }
    }
}
