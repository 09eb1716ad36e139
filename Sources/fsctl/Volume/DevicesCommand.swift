import ArgumentParser
import Control
import Model

struct DevicesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices", abstract: "List the devices of your account, or revoke one.")

    @OptionGroup var output: OutputOptions
    @OptionGroup var volume: VolumeOption

    @Option(help: "The id of a lost device: the hub refuses it from now on.")
    var revoke: String?

    func run() throws {
        let report = try volume.ask(
            revoke == nil ? .devices : .revoke, as: DevicesReport.self
        ) { $0.device = revoke }
        output.show(report) {
            var table = Table([
                .init("NAME"), .init("SEEN"), .init("ENROLLED"), .init("ID"), .init(""),
            ])
            for device in report.devices {
                table.add([
                    device.name, TimeFormat.text(device.seen), TimeFormat.text(device.enrolled),
                    device.id, device.here ? "this one" : device.revoked ? "revoked" : "",
                ])
            }
            return table.text(width: Terminal.width, heading: Terminal.bold)
        }
    }
}
