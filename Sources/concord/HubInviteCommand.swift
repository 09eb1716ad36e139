import ArgumentParser
import Hub

struct HubInviteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "invite",
        abstract: "Make a code with which one device of a user signs in, within seven days.",
        discussion: """
            The code stands alone on the last line. Before it stands the fingerprint of the \
            certificate that the hub showed when it was started last (--tls-cert): fsctl signin \
            --fingerprint compares it.
            """)

    @OptionGroup var hub: HubData

    @Argument(help: "The user's name.")
    var name: String

    func run() throws {
        let name = self.name
        let (code, fingerprint) = try hub.administer { hub in
            (try await hub.invite(name), hub.fingerprint)
        }
        print("concord: for one device of \(name), within seven days:")
        if let fingerprint {
            print("concord: the hub's certificate has this fingerprint, for signin --fingerprint:")
            print(fingerprint)
            print("concord: the code:")
        }
        print(code)
    }
}
