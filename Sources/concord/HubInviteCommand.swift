import ArgumentParser
import Hub

struct HubInviteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "invite",
        abstract: "Make a code with which one device of a user signs in, within seven days.",
        discussion: "The code stands alone on the last line.")

    @OptionGroup var hub: HubData

    @Argument(help: "The user's name.")
    var name: String

    func run() throws {
        let name = self.name
        let code = try hub.administer { try await $0.invite(name) }
        print("concord: for one device of \(name), within seven days:")
        print(code)
    }
}
