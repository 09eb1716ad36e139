import ArgumentParser
import Hub

struct HubRestoredCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restored",
        abstract: "Say that this directory is an older state of the hub.",
        discussion: """
            Needed only when the whole directory was put back by something that is not concord \
            hub backup, as a snapshot of the disk: all else the hub notices. Devices then compare \
            everything with the hub, and nothing is deleted because it is missing here.
            """)

    @OptionGroup var hub: HubData

    func run() throws {
        let count = try hub.administer { try await $0.declareRestored() }
        print("concord: \(count) volumes begin new epochs")
    }
}
