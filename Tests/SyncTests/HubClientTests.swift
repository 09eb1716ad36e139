import Foundation
import Hub
import HubProtocol
import Logging
import Model
import Support
import Testing

@testable import Sync

@Suite("Requests of a device to a hub") struct HubClientTests {
    @Test("a feed of another epoch is refused") func feedOfAnotherEpoch() throws {
        let hub = try HubProcess()
        let client = try HubClient(try HubAddress(hub.address))
        defer { client.close() }
        let enrolled = try client.enrol(
            EnrolRequest(code: try hub.invite(), deviceName: "d", device: .random()))
        client.setToken(enrolled.token)
        let volume = try client.volume(VolumeRequest(name: "v"))
        do throws(HubFault) {
            try client.feed(volume.id, epoch: .random()) { _ in false }
            Issue.record("it was not refused")
        } catch {
            guard case .refused(let failure) = error else { throw error }
            #expect(failure.code == .volumeEpoch)
        }
        try client.feed(volume.id, epoch: volume.epoch) { _ in false }
    }
}

@Suite("The connection to a hub") struct HubWayTests {
    /// Runs a hub in this process while `body` sends requests to it.
    private func withHub(
        certificate: String? = nil, key: String? = nil, _ body: (_ port: Int) throws -> Void
    ) async throws {
        let scratch = try TemporaryDirectory("hub")
        let hub = try await Hub(
            opening: DataDirectory(scratch.path + "/data"),
            log: Logger(label: "hub") { _ in SwiftLogNoOpLogHandler() })
        let server = HubServer(
            hub,
            listening: ListenAddress(host: "127.0.0.1", port: 0, certificate: certificate, key: key)
        )
        let (ports, port) = AsyncStream<Int>.makeStream()
        let serving = Task {
            defer { port.finish() }
            try await server.run(stoppingAt: []) { port.yield($0) }
        }
        var failure: (any Error)?
        if let found = await ports.first(where: { _ in true }) {
            do { try body(found) } catch { failure = error }
        }
        serving.cancel()
        try await serving.value
        if let failure { throw failure }
    }

    private func makeCertificate(
        in scratch: TemporaryDirectory, _ name: String, for place: String = "IP:127.0.0.1"
    ) throws -> String {
        let path = scratch.path + "/" + name
        try Command(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", path + ".key",
            "-out", path, "-days", "2", "-subj", "/CN=hub", "-addext",
            "subjectAltName=\(place)"
        ).succeed()
        return path
    }

    /// Returns the error message of a request to that address.
    private func answer(_ address: String, certificate: String? = nil) throws -> String {
        let client = try HubClient(try HubAddress(address, certificate: certificate))
        defer { client.close() }
        do throws(HubFault) {
            _ = try client.volumes()
            return "no fault"
        } catch {
            return "\(error)"
        }
    }

    @Test("each failed connection is reported with a sentence that says what to do")
    func sentences() async throws {
        let scratch = try TemporaryDirectory("certificates")
        let own = try makeCertificate(in: scratch, "own.pem")
        let other = try makeCertificate(in: scratch, "other.pem")
        try await withHub(certificate: own, key: own + ".key") { port in
            let url = "https://127.0.0.1:\(port)"
            #expect(try answer(url, certificate: own).contains("Sign in first"))
            let untrusted = try answer(url)
            #expect(untrusted.contains("--certificate FILE"), "\(untrusted)")
            #expect(!untrusted.contains("BoringSSL") && !untrusted.contains("/Sources/"))
            let wrong = try answer(url, certificate: other)
            #expect(wrong.contains("is not one of those in \(other)"), "\(wrong)")
            let gone = try answer(url, certificate: scratch.path + "/none.pem")
            #expect(gone.contains("none.pem") && gone.contains("cannot be read"), "\(gone)")
            let empty = try answer(url, certificate: own + ".key")
            #expect(empty.contains("PEM"), "\(empty)")
            let clear = try answer("http://127.0.0.1:\(port)")
            #expect(clear.contains("https://"), "\(clear)")
        }
        let elsewhere = try makeCertificate(in: scratch, "elsewhere.pem", for: "DNS:hub.example")
        try await withHub(certificate: elsewhere, key: elsewhere + ".key") { port in
            let name = try answer("https://127.0.0.1:\(port)", certificate: elsewhere)
            #expect(name.contains("another name"), "\(name)")
        }
        try await withHub { port in
            let plain = try answer("https://127.0.0.1:\(port)")
            #expect(plain.contains("begins with http://"), "\(plain)")
        }
    }

    @Test("a device speaks no TLS before 1.2, whatever the hub offers")
    func oldTLS() throws {
        let scratch = try TemporaryDirectory("certificates")
        let own = try makeCertificate(in: scratch, "own.pem")
        /// Asks a server that speaks only this version, and answers with a page of text.
        func ask(_ version: String) throws -> String {
            let server = try Beside(
                running: "openssl",
                [
                    "s_server", "-accept", "127.0.0.1:0", "-www", "-cert", own, "-key",
                    own + ".key", version, "-cipher", "ALL:@SECLEVEL=0",
                ])
            try server.wait(for: "ACCEPT")
            let place = server.said.split(separator: "\n").first { $0.hasPrefix("ACCEPT") }
            let port = try #require(place?.split(separator: ":").last.flatMap { Int($0) })
            return try answer("https://127.0.0.1:\(port)", certificate: own)
        }
        let new = try ask("-tls1_2")
        #expect(!new.contains("TLS"), "\(new)")
        for old in ["-tls1", "-tls1_1"] {
            let refused = try ask(old)
            #expect(refused.contains("TLS") && refused != new, "\(old): \(refused)")
        }
    }

    @Test("unencrypted connections only to this machine, unless allowed") func clear() throws {
        for address in [
            "https://hub.example:8420", "http://localhost:1", "http://127.0.0.1:8420",
            "http://[::1]:8420", "http://127.1.2.3",
        ] {
            try HubAddress(address).refuseUnencrypted()
        }
        for address in [
            "http://hub.example:8420", "http://10.0.0.1:8420", "http://127.0.0.1.example",
            "http://[fd00::1]:1", "http://localhost.example",
        ] {
            let address = try HubAddress(address)
            let error = #expect(throws: VolumeError.self) { try address.refuseUnencrypted() }
            #expect(error?.message.contains("--insecure") ?? false)
        }
    }
}
