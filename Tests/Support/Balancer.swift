import Foundation
import Glibc

/// An haproxy in front of several hubs, as `Sizes.md` describes it. Each request goes to the next
/// hub, so that what belongs together is divided among the hubs.
final class Balancer {
    let port: Int
    private let directory: TemporaryDirectory
    private let process: ChildProcess

    /// - Parameter hubs: The ports of the hubs.
    init(for hubs: [Int]) throws {
        directory = try TemporaryDirectory("balancer")
        let servers = hubs.enumerated().map { "    server hub\($0) 127.0.0.1:\($1)\n" }
        let status = """
            listen status
                bind unix@\(directory.path)/status
                stats enable
                stats uri /status

            """
        let file = try directory.write(
            Self.configuration + servers.joined() + status, to: "haproxy.cfg")
        let log = "\(directory.path)/log"
        _ = FileManager.default.createFile(atPath: log, contents: nil)
        // The balancer gets the socket, so that nobody else can take its port.
        let listener = try LoopbackListener()
        let output = open(log, O_WRONLY | O_CLOEXEC)
        defer { _ = (close(listener.descriptor), close(output)) }
        port = Int(listener.port)
        process = try ChildProcess(
            Self.program, ["-db", "-f", file], directory: "/", input: listener.descriptor,
            output: output, errors: output)
    }

    deinit { process.killGroup() }

    /// Waits until the balancer, which asks the hubs for their health, sends requests to this one.
    func waitForHub(_ index: Int) throws {
        let status = Command(
            "curl", "--silent", "--max-time", "5", "--unix-socket", statusSocket,
            "http://balancer/status;csv")
        try wait(seconds: 30, for: "the balancer to find hub \(index); it said: \(said)") {
            if process.hasEnded() { throw SupportError("the balancer ended: \(said)") }
            return try status.run().output.split(separator: "\n").contains {
                $0.hasPrefix("hubs,hub\(index),") && $0.contains(",UP")
            } ? true : nil
        }
    }

    private var statusSocket: String { "\(directory.path)/status" }
    private var said: String {
        (try? String(contentsOfFile: "\(directory.path)/log", encoding: .utf8)) ?? ""
    }

    private static let program = "/usr/sbin/haproxy"

    /// Why there can be no balancer on this machine; nil if it is installed.
    static let obstacle: String? =
        access(program, X_OK) == 0
        ? nil : "haproxy is not installed: `make test-deps` installs it."

    private static let configuration = """
        defaults
            mode http
            timeout connect 5s
            timeout client 60s
            timeout server 120s
            option forwardfor
            option redispatch
            retries 3
            retry-on conn-failure
        frontend devices
            bind fd@0
            default_backend hubs
        backend hubs
            balance roundrobin
            option httpchk GET /healthz
            default-server check inter 250ms fall 2 rise 1 on-marked-down shutdown-sessions

        """
}
