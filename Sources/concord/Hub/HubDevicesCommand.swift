import ArgumentParser
import Hub
import Model

struct HubDevicesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices",
        abstract: "List devices: id, user, time last seen, state, name, separated by tabs.")

    @OptionGroup var hub: HubData

    func run() throws {
        for (user, device) in try hub.administer({ try await $0.devices() }) {
            let seen = Timestamp(nanoseconds: device.seen).fileName
            let state = device.isRevoked ? "revoked" : "active"
            print("\(device.id)\t\(user)\t\(seen)\t\(state)\t\(device.name)")
        }
    }
}
