import Foundation
import Glibc
import Synchronization

/// A SeaweedFS server with an S3 interface that verifies signatures, checksums and conditions. Its
/// files are in a temporary directory.
package final class S3Server: Sendable {
    private let directory: TemporaryDirectory
    /// Of the S3 interface on 127.0.0.1.
    package let port: UInt16
    private let master: UInt16
    private let arguments: [String]
    private let process = Mutex<ChildProcess?>(nil)
    private let buckets = Mutex<Set<String>>([])

    package static let key = "TESTKEY"
    package static let secret = "secret of the tests"
    /// A key that may only read.
    package static let readingKey = "READINGKEY"

    package init() throws {
        directory = try TemporaryDirectory("s3")
        // The ports stay taken until all are known.
        let listeners = try (0..<8).map { _ in try LoopbackListener() }
        let ports = listeners.map(\.port)
        for listener in listeners { close(listener.descriptor) }
        (port, master) = (ports[0], ports[2])
        func identity(_ name: String, _ key: String, _ actions: String) -> String {
            #"{"name":"\#(name)","credentials":[{"accessKey":"\#(key)","#
                + #""secretKey":"\#(Self.secret)"}],"actions":[\#(actions)]}"#
        }
        let identities = [
            identity("hub", Self.key, #""Admin","Read","List","Tagging","Write""#),
            identity("reader", Self.readingKey, #""Read","List""#),
        ]
        let file = try directory.write(
            #"{"identities":[\#(identities.joined(separator: ","))]}"#, to: "identities")
        let names = [
            "s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port",
            "volume.port.grpc", "filer.port", "filer.port.grpc",
        ]
        arguments =
            [
                "-logdir=\(directory.path)", "server", "-dir=\(directory.path)", "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                "-filer", "-s3", "-s3.config=\(file)", "-s3.port.iceberg=0", "-s3.port.lance=0",
                "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=0",
            ] + zip(names, ports).map { "-\($0)=\($1)" }
        try start()
    }

    deinit { stop() }

    package var endpoint: String { "http://127.0.0.1:\(port)" }

    /// Starts it again after `stop`.
    package func start() throws {
        let log = "\(directory.path)/log"
        _ = FileManager.default.createFile(atPath: log, contents: nil)
        let (output, null) = (open(log, O_WRONLY | O_TRUNC), open("/dev/null", O_RDONLY))
        defer { _ = (close(output), close(null)) }
        try process.withLock { process in
            process = try ChildProcess(
                Self.program, arguments, environment: ["TMPDIR": directory.path],
                directory: directory.path, input: null, output: output, errors: output)
        }
        try make("ready")
    }

    package func stop() {
        process.withLock { process in
            process?.killGroup()
            _ = try? process?.waitForEnd(seconds: 30)
            process = nil
        }
    }

    /// Creates the bucket if it does not exist.
    package func make(_ bucket: String) throws {
        guard !buckets.withLock({ $0.contains(bucket) }) else { return }
        var shell = Command(
            Self.program, "-logdir=\(directory.path)", "shell",
            "-master=127.0.0.1:\(master).\(masterRPC)")
        shell.input = Data("s3.bucket.create -name \(bucket)\n".utf8)
        shell.timeoutSeconds = 60
        let command = shell
        _ = try wait(seconds: 60, for: "SeaweedFS to start") {
            let said = try command.run()
            let isThere = (said.output + said.errors).contains("bucket \(bucket) already exists")
            return isThere || said.output.contains("created bucket \(bucket)") ? true : nil
        }
        buckets.withLock { _ = $0.insert(bucket) }
    }

    private var masterRPC: String {
        arguments.last { $0.hasPrefix("-master.port.grpc=") }?.split(separator: "=").last
            .map(String.init) ?? ""
    }

    /// A file with the keys, as a hub takes it.
    package func keys(_ key: String = S3Server.key, secret: String = S3Server.secret) throws
        -> String
    {
        let name = "\(directory.path)/keys-\(key)-\(secret.count)"
        let text = "AWS_ACCESS_KEY_ID=\(key)\nAWS_SECRET_ACCESS_KEY=\(secret)\n"
        _ = FileManager.default.createFile(
            atPath: name, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        return name
    }

    /// The place of blobs in a bucket of this server.
    ///
    /// - Parameter endpoint: Of a relay in front of the server.
    package func url(_ bucket: String, _ prefix: String, endpoint: String? = nil) throws -> String {
        try make(bucket)
        return "s3://\(bucket)/\(prefix)?endpoint=\(endpoint ?? self.endpoint)"
            + "&credentials=\(try keys())"
    }

    // MARK: The program

    /// A server that many tests share, which ends with this process.
    package static let shared: Result<S3Server, any Error> = Result {
        let server = try S3Server()
        atexit {
            guard let server = try? S3Server.shared.get() else { return }
            server.stop()
            _ = try? Command("rm", "-rf", server.directory.path).run()
        }
        return server
    }

    private static let places = Mutex<[String: Int]>([:])

    /// A place of its own in the shared server for the blobs of a hub with this data directory.
    package static func place(for data: String) throws -> String {
        let number = places.withLock { places in
            let number = places[data] ?? places.count + 1
            places[data] = number
            return number
        }
        return try shared.get().url("hubs", "hub\(number)")
    }

    /// The place for a hub with this data directory, if CONCORD_TEST_BLOBS=s3 asks for hubs of
    /// tests with their blobs in S3.
    package static func chosenPlace(for data: String) throws -> String? {
        let choice = ProcessInfo.processInfo.environment["CONCORD_TEST_BLOBS"]
        return choice == "s3" ? try place(for: data) : nil
    }

    private static let program = URL(filePath: Programs.tests).deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "seaweedfs/bin/weed").path

    /// Why there can be no server on this machine; nil if it is installed.
    package static let obstacle: String? =
        access(program, X_OK) == 0
        ? nil : "SeaweedFS is not in \(program): `make test-deps` installs it."
}
