import Hub
import Support
import Testing

/// Which connections the hub accepts.
struct TransportTests {
    private func makeCertificate(in scratch: TemporaryDirectory) throws -> [String] {
        let (certificate, key) = (scratch.path + "/c.pem", scratch.path + "/k.pem")
        try Command(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
            certificate, "-days", "2", "-subj", "/CN=localhost", "-addext",
            "subjectAltName=IP:127.0.0.1"
        ).succeed()
        return ["--tls-cert", certificate, "--tls-key", key]
    }

    @Test func onlyNewTLSIsSpoken() throws {
        let scratch = try TemporaryDirectory("hub")
        let hub = try HubProcess(
            data: scratch.path + "/data", try makeCertificate(in: scratch))
        let place = String(hub.url.dropFirst("https://".count))
        func greeting(_ options: String...) throws -> Int32 {
            try Command(
                "openssl",
                arguments: ["s_client", "-connect", place, "-legacy_renegotiation"] + options
            ).run().status
        }
        #expect(try greeting("-tls1_3") == 0)
        #expect(try greeting("-tls1_2") == 0)
        #expect(try greeting("-tls1_2", "-cipher", "ECDHE-RSA-CHACHA20-POLY1305") == 0)
        for old in ["-tls1", "-tls1_1"] {
            #expect(try greeting(old, "-cipher", "ALL:@SECLEVEL=0") != 0, "\(old)")
        }
        for cipher in ["AES128-SHA", "ECDHE-RSA-AES128-SHA", "AES128-GCM-SHA256"] {
            #expect(
                try greeting("-tls1_2", "-cipher", cipher + ":@SECLEVEL=0") != 0, "\(cipher)")
        }
        #expect(try hub.stop() == 0)
    }

    @Test func inClearTheHubListensOnItsOwnMachine() throws {
        let scratch = try TemporaryDirectory("hub")
        for listen in ["0.0.0.0:0", "[::]:0", ":0", "127.0.0.1.example:0"] {
            let refused = try Command(
                Programs.concord, "hub", "--data", scratch.path + "/data", "--listen", listen
            ).run()
            #expect(refused.status == 2, "\(listen)")
            #expect(refused.errors.contains("--insecure"))
        }
        let hub = try HubProcess(
            data: scratch.path + "/data", listen: "0.0.0.0:0", ["--insecure"])
        #expect(try hub.stop() == 0)
    }
}
