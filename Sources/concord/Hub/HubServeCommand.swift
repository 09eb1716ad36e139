import ArgumentParser
import CLinux
import Control
import Glibc
import Hub
import HubPages
import HubWebDAV
import Model

struct HubServeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run the hub until it gets SIGTERM (the default command).",
        discussion: """
            Prints in one line where it listens and then logs on standard error. A missing or \
            empty directory becomes a new hub, and the log says so. Without a certificate it \
            speaks HTTP without encryption and listens only on a loopback address: for this \
            machine, or behind a proxy that adds TLS.
            """)

    @OptionGroup var hub: HubData

    @Option(help: "The address and port to listen on; port 0 chooses a free one.")
    var listen = "127.0.0.1:8420"

    @Option(help: "A PEM file with the certificate and its chain.", completion: .file())
    var tlsCert: String?

    @Option(help: "A PEM file with the certificate's key.", completion: .file())
    var tlsKey: String?

    @Flag(help: "Serve other machines without TLS: everybody on the way can read all of it.")
    var insecure = false

    @Option(
        help: ArgumentHelp(
            "Whether browsers get pages: for people below /web, of links below /s: on, off.",
            valueName: "on|off"))
    var pages = SwitchOption.on

    @Option(
        help: ArgumentHelp(
            "Whether programs may use volumes by WebDAV, below /dav: on, off.",
            discussion: """
                They sign in with passwords from concord hub password.
                """,
            valueName: "on|off"))
    var webdav = SwitchOption.off

    @Flag(
        help: """
            Start although the ledger or the blobs are missing: with a new ledger, or asking \
            the devices for the missing chunks. Nothing is erased.
            """)
    var rebuild = false

    func run() throws {
        guard (tlsCert == nil) == (tlsKey == nil) else {
            throw ValidationError("--tls-cert and --tls-key go together.")
        }
        let listening = try self.listening()
        umask(0o077)
        // The bodies of requests are large blocks, of which heaps would keep the most there were.
        cl_limit_heaps(2, 128 << 10)
        let log = LogFile(path: nil).logger("hub")
        let (directory, rebuilds) = (try hub.directory(), rebuild)
        let (hasPages, hasWebDAV) = (pages == .on, webdav == .on)
        try BlockingCall.wait {
            let hub = try await Hub(opening: directory, rebuilds: rebuilds, log: log)
            if listening.isUnencrypted {
                log.warning(
                    "there is no certificate: everybody on the way can read what devices send")
            }
            var pages: [any PageServer] = hasPages ? [Pages(hub)] : []
            if hasWebDAV { pages.append(WebDAV(hub)) }
            try await HubServer(hub, listening: listening, pages: pages).run { port in
                let host = listening.host.contains(":") ? "[\(listening.host)]" : listening.host
                let line = "concord: the hub listens on \(listening.scheme)://\(host):\(port)\n"
                let bytes = Array(line.utf8)
                _ = write(1, bytes, bytes.count)
            }
        }
    }

    private func listening() throws -> ListenAddress {
        guard let colon = listen.lastIndex(of: ":"),
            let port = Int(listen[listen.index(after: colon)...]), (0...65_535).contains(port)
        else {
            throw ValidationError("--listen takes ADDRESS:PORT, as in 127.0.0.1:8420.")
        }
        let host = listen[..<colon].filter { $0 != "[" && $0 != "]" }
        let listening = ListenAddress(
            host: host.isEmpty ? "0.0.0.0" : String(host), port: port, certificate: tlsCert,
            key: tlsKey)
        guard insecure || !listening.isUnencrypted else {
            throw ValidationError(
                "On \(listening.host) without a certificate, everybody on the way could read all "
                    + "documents and tokens: give --tls-cert and --tls-key, or say --insecure.")
        }
        return listening
    }
}

enum SwitchOption: String, ExpressibleByArgument, CaseIterable {
    case on, off
}
