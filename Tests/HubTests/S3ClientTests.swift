import ChunkStore
import Foundation
import Model
import Support
import Testing

@testable import HubS3

/// Signatures, addresses, keys and answers, without a server.
struct S3ClientTests {
    private static let documented = RequestSignature(
        credentials: S3Credentials(
            key: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        region: "us-east-1")

    struct Example: Sendable {
        let method: String
        let path: String
        var query: [(String, String)] = []
        var headers: [(String, String)] = []
        var body = ""
        let signature: String
    }

    @Test(
        "the examples of AWS's documentation are signed as there",
        arguments: [
            Example(
                method: "GET", path: "/test.txt", headers: [("range", "bytes=0-9")],
                signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
            Example(
                method: "PUT", path: "/test%24file.text",
                headers: [
                    ("date", "Fri, 24 May 2013 00:00:00 GMT"),
                    ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                ],
                body: "Welcome to Amazon S3.",
                signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
            Example(
                method: "GET", path: "/", query: [("lifecycle", "")],
                signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            Example(
                method: "GET", path: "/", query: [("prefix", "J"), ("max-keys", "2")],
                signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ])
    func signatures(_ example: Example) throws {
        // Midnight of 24 May 2013.
        let headers = Self.documented.headers(
            example.method, example.path, query: example.query,
            headers: example.headers + [("host", "examplebucket.s3.amazonaws.com")],
            body: .sha256(Array(example.body.utf8)), time: 1_369_353_600)
        let found = try #require(headers.first { $0.0 == "authorization" }?.1)
        #expect(found.hasSuffix("Signature=\(example.signature)"))
    }

    @Test("an address is taken apart")
    func addresses() throws {
        let address = try S3Address(
            "s3://docs/hubs/one/?endpoint=http://localhost:8333&region=eu-1&credentials=/etc/k")
        #expect(address.bucket == "docs")
        #expect(address.prefix == "hubs/one/")
        #expect(address.endpoint == "http://localhost:8333")
        #expect(address.host == "localhost:8333")
        #expect(address.region == "eu-1")
        #expect(address.credentials == "/etc/k")
        let usual = try S3Address("s3://docs?region=eu-north-1")
        #expect(usual.endpoint == "https://s3.eu-north-1.amazonaws.com")
        #expect(usual.prefix == "")
        #expect(try S3Address("s3://d?endpoint=https://h:443").host == "h")
        #expect(try S3Address("s3://d?endpoint=http://h&insecure=yes").endpoint == "http://h")
    }

    @Test(
        "an address that cannot be used is refused, and no key is repeated",
        arguments: [
            "bucket", "https://bucket/", "s3://", "s3://key:secret@bucket/p", "s3://b/a%20b",
            "s3://b/..", "s3://b?endpoint=localhost:80", "s3://b?endpoint=http://h/path",
            "s3://b?secret=secret", "s3://b?region=a/b", "s3://b?endpoint=http://s3.example",
            "s3://b?endpoint=http://s3.example&insecure=no",
        ])
    func refusedAddresses(_ text: String) {
        let error = #expect(throws: VolumeError.self) { try S3Address(text) }
        #expect(error?.code == .invalid)
        #expect(error?.message.contains("=secret") == false)
        #expect(error?.message.contains(":secret") == false)
    }

    @Test("keys are read from a private file or from the environment")
    func keys() throws {
        let scratch = try TemporaryDirectory("keys")
        let file = try scratch.write(
            "AWS_ACCESS_KEY_ID=a\nAWS_SECRET_ACCESS_KEY = b=c \n", to: "keys")
        chmod(file, 0o640)
        let address = try S3Address("s3://b?credentials=\(file)")
        let error = #expect(throws: VolumeError.self) {
            try S3Credentials(for: address, environment: [:])
        }
        #expect(error?.message.contains("0600") == true)
        chmod(file, 0o600)
        #expect(
            try S3Credentials(for: address, environment: [:])
                == S3Credentials(key: "a", secret: "b=c"))
        let variables = [
            "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t",
        ]
        let plain = try S3Address("s3://b")
        #expect(
            try S3Credentials(for: plain, environment: variables)
                == S3Credentials(key: "k", secret: "s", session: "t"))
        let missing = #expect(throws: VolumeError.self) {
            try S3Credentials(for: plain, environment: [:])
        }
        #expect(missing?.code == .denied)
        #expect(missing?.message.contains("AWS_SECRET_ACCESS_KEY") == true)
    }

    @Test("answers are parsed, and what is not a whole document is refused")
    func answers() {
        let text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <List xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Key>a&amp;lt;b</Key><Empty/>
              <Key>c</Key></List>
            """
        let list = S3Element(Array(text.utf8))
        #expect(list?.name == "List")
        #expect(list?["Key"] == "a&lt;b")
        #expect(list?.all("Key").map(\.text) == ["a&lt;b", "c"])
        #expect(list?["Empty"] == "")
        let deep = String(repeating: "<a>", count: 20) + String(repeating: "</a>", count: 20)
        for wrong in ["", "text", "<a>", "<a><b></a>", "<a></b>", "<!DOCTYPE a><a></a>", deep] {
            #expect(S3Element(Array(wrong.utf8)) == nil, "\(wrong)")
        }
    }
}
