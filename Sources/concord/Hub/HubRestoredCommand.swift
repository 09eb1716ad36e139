import ArgumentParser
import Hub

struct HubRestoredCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restored",
        abstract: "Declare that this data directory was restored from an older backup.",
        discussion: """
            Needed only when the whole directory was restored by something other than \
            concord hub backup, such as a disk snapshot; the hub notices all other cases. Devices \
            then compare everything with it, and nothing is deleted because it is missing here.
            """)

    @OptionGroup var hub: HubData

    func run() throws {
        let count = try hub.administer { try await $0.declareRestored() }
        print("concord: \(count) volumes begin new epochs")
    }
}
