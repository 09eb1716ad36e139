import ArgumentParser
import Control
import Model

struct SigninCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "signin",
        abstract: "Sign this device in to a hub, and join its volume with the hub's.",
        discussion: """
            The code comes from `concord hub invite NAME` and works once. It is asked for, so \
            that it does not appear in the list of processes. What is here is joined with what \
            the hub has: nothing is deleted on either side.
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

    @Option(help: "The name of this device. Default: the machine's name.")
    var device: String?

    @Option(
        name: .customLong("volume"),
        help: "The hub's volume to join; created if missing. Default: the one of the same name.")
    var volumeName: String?

    @Option(
        help: "The user who owns the volume, if it was shared with you. Default: you.")
    var owner: String?

    @Option(
        help: "A file with certificates to trust, such as a self-signed one of the hub.",
        completion: .file())
    var certificate: String?

    @Option(
        help: """
            The fingerprint that concord hub invite prints. Only a hub with that certificate is \
            accepted; the certificate need not be signed by an authority.
            """)
    var fingerprint: String?

    @Flag(help: "Allow http:// to another machine; everybody on the way can read all of it.")
    var insecure = false

    func run() throws {
        let code = try OneTimeCode.read(argument: code, file: codeFile)
        let report = try volume.ask(.signin, as: IdentityReport.self) {
            $0.address = url
            $0.code = code
            $0.deviceName = device
            $0.volumeName = volumeName
            $0.owner = owner
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

    @Flag(help: "Sign out even when some changes are on this device only.")
    var force = false

    func run() throws {
        let report = try volume.ask(.signout, as: IdentityReport.self) { $0.force = force }
        output.show(report) { "Signed out. The volume is local now." }
    }
}

struct IdentityCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "identity",
        abstract: "Print the identity token; when signed out, print nothing and exit with 1.",
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
        commandName: "offline", abstract: "Stop all traffic with the hub until `fsctl online`.")

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    func run() throws {
        let report = try volume.ask(.offline, as: IdentityReport.self)
        output.show(report) { "Offline. Changes are kept and sent later." }
    }
}

struct OnlineCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "online", abstract: "Go on with traffic to the hub after `fsctl offline`.")

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    func run() throws {
        let report = try volume.ask(.online, as: IdentityReport.self)
        output.show(report) { "Online." }
    }
}
