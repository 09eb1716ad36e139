import ArgumentParser
import Hub
import Model

struct HubCollectCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gc",
        abstract: "Collect garbage: mark chunks that no version needs, remove those marked before.",
        discussion: "A running hub does this by itself every six hours.")

    @OptionGroup var hub: HubData

    @Option(help: "Keep chunks that were received or marked within this many seconds.")
    var grace: Int64 = 172_800

    func run() throws {
        guard (0...1_000_000_000).contains(grace) else {
            throw ValidationError("--grace takes 0 to 1000000000 seconds.")
        }
        let grace = Timestamp.span(seconds: self.grace)
        print("concord: \(try hub.administer { try await $0.collect(grace: grace) })")
    }
}
