import ArgumentParser
import Hub

struct HubPasswordCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "password",
        abstract: "Create a password with which one program uses a user's volumes by WebDAV.",
        discussion: """
            The last line is the password alone; it is not stored and cannot be shown again. It is \
            valid below /dav only (concord hub serve --webdav on), until it is revoked like a \
            device (concord hub revoke), or has not been used for 90 days.
            """)

    @OptionGroup var hub: HubData

    @Argument(help: "The user's name.")
    var user: String

    @Option(help: "What the list of devices shows, such as the name of a phone.")
    var name = "WebDAV"

    func run() throws {
        let (user, name) = (self.user, self.name)
        let password = try hub.administer { try await $0.addPassword(for: user, named: name) }
        print("concord: the password of \(name) for WebDAV as the user \(user):")
        print(password)
    }
}
