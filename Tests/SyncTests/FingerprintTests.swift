import Foundation
import Support
import Testing

/// `concord hub invite` prints the fingerprint that `fsctl signin --fingerprint` compares.
@Suite("A hub whose certificate nobody has signed", .serialized) struct FingerprintTests {
    private let scratch: TemporaryDirectory

    init() throws { scratch = try TemporaryDirectory("certificates") }

    /// The certificate names another host than the hub's, which a fingerprint makes irrelevant.
    private func makeCertificate() throws {
        try Command(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
            certificate, "-days", "2", "-subj", "/CN=hub"
        ).succeed()
    }

    private var certificate: String { "\(scratch.path)/cert.pem" }
    private var key: String { "\(scratch.path)/key.pem" }

    private func invite(_ hub: HubProcess) throws -> (fingerprint: String, code: String) {
        let lines = try hub.run("invite", "ann").split(separator: "\n").map(String.init)
        try #require(lines.count == 5, "\(lines)")
        return (lines[2], lines[4])
    }

    private func signIn(
        _ hub: HubProcess, _ volume: MountedVolume, _ words: String...
    ) throws -> Command.Result {
        try Command(
            Programs.fsctl,
            arguments: ["signin", hub.address, "--volume", "v", "--at", volume.path] + words
        ).run()
    }

    private func expectSync(_ volume: MountedVolume, _ name: String) throws {
        try Data("text".utf8).write(to: URL(filePath: "\(volume.path)/\(name)"))
        try Programs.fsctl("wait", "--durable", "hub", volume.path).succeed()
    }

    @Test("a device signs in with the fingerprint, also after the certificate was replaced")
    func signingIn() throws {
        try makeCertificate()
        let hub = try HubProcess(arguments: ["--tls-cert", certificate, "--tls-key", key])
        let shown = try Command(
            "openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", certificate
        ).succeed()
        let (fingerprint, code) = try invite(hub)
        #expect(shown.contains(fingerprint))
        try MountedVolume.with { volume in
            let plain = try signIn(hub, volume, "--code", code)
            #expect(plain.status != 0 && plain.errors.contains("--fingerprint"), "\(plain.errors)")
            let wrong = "00" + fingerprint.dropFirst(2)
            let refused = try signIn(hub, volume, "--code", code, "--fingerprint", wrong)
            #expect(refused.status != 0 && refused.errors.contains(fingerprint))
            #expect(refused.errors.contains("concord hub invite"), "\(refused.errors)")
            let none = try signIn(hub, volume, "--code", code, "--fingerprint", "AB:CD")
            #expect(none.status != 0 && none.errors.contains("32 pairs"), "\(none.errors)")
            // The code was not sent, so it has not been used.
            let signed = try signIn(hub, volume, "--code", code, "--fingerprint", fingerprint)
            #expect(signed.status == 0, "\(signed.errors)")
            try expectSync(volume, "first")
            try volume.remount()
            try expectSync(volume, "second")
            try hub.stop()
            try makeCertificate()
            try hub.start()
            // The device sees the new certificate when it next sends something.
            try Data("text".utf8).write(to: URL(filePath: "\(volume.path)/meanwhile"))
            try wait(for: "the device to say what is wrong") {
                let status = try Programs.fsctl("status", volume.path).run()
                return (status.output + status.errors).contains("--fingerprint") ? true : nil
            }
            let new = try invite(hub)
            let again = try signIn(
                hub, volume, "--code", new.code, "--fingerprint", new.fingerprint)
            #expect(again.status == 0, "\(again.errors)")
            try expectSync(volume, "third")
        }
        try hub.stop()
    }

    @Test("a certificate file is trusted, and the fingerprint is compared as well")
    func withFile() throws {
        try Command(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
            certificate, "-days", "2", "-subj", "/CN=hub", "-addext",
            "subjectAltName=IP:127.0.0.1"
        ).succeed()
        let hub = try HubProcess(arguments: ["--tls-cert", certificate, "--tls-key", key])
        let (fingerprint, code) = try invite(hub)
        try MountedVolume.with { volume in
            let wrong = "00" + fingerprint.dropFirst(2)
            let refused = try signIn(
                hub, volume, "--code", code, "--certificate", certificate, "--fingerprint", wrong)
            #expect(refused.status != 0)
            let signed = try signIn(
                hub, volume, "--code", code, "--certificate", certificate, "--fingerprint",
                fingerprint)
            #expect(signed.status == 0, "\(signed.errors)")
            try expectSync(volume, "first")
        }
        try hub.stop()
    }

    @Test("a hub without TLS has no fingerprint") func inClear() throws {
        let hub = try HubProcess()
        let lines = try hub.run("invite", "ann").split(separator: "\n")
        #expect(lines.count == 2)
        try MountedVolume.with { volume in
            let refused = try signIn(
                hub, volume, "--code", String(lines[1]), "--fingerprint",
                String(repeating: "AB", count: 32))
            #expect(refused.status != 0 && refused.errors.contains("https://"))
        }
        try hub.stop()
    }
}
