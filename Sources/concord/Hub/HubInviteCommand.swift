import ArgumentParser
import Hub

struct HubInviteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "invite",
        abstract: "Create a code for one sign-in of one device, valid for seven days.",
        discussion: """
            The last line is the code alone. Before it stands the fingerprint of the certificate \
            with which the hub was last started (--tls-cert); fsctl signin --fingerprint \
            compares it with the certificate that the hub shows.
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
