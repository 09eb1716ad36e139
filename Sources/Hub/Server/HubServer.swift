import Foundation
import HubProtocol
import Hummingbird
import HummingbirdCore
import HummingbirdTLS
import Logging
import Model
import NIOCore
import NIOSSL
import ServiceLifecycle
import UnixSignals

/// The address on which a hub listens, and its certificate.
package struct ListenAddress: Sendable {
    package var host: String
    /// The port; 0 lets the system choose one.
    package var port: Int
    /// Paths of PEM files.
    package var certificate: String?
    package var key: String?

    package init(host: String, port: Int, certificate: String? = nil, key: String? = nil) {
        self.host = host
        self.port = port
        self.certificate = certificate
        self.key = key
    }

    package var scheme: String { certificate == nil ? "http" : "https" }

    /// Whether traffic leaves the machine unencrypted.
    package var isUnencrypted: Bool { certificate == nil && !Loopback.contains(host) }
}

/// Serves a hub over HTTP or HTTPS.
package struct HubServer: Sendable {
    let hub: Hub
    let listening: ListenAddress
    let pages: [any PageServer]

    /// - Parameter pages: What answers the paths that are not part of the protocol.
    package init(_ hub: Hub, listening: ListenAddress, pages: [any PageServer] = []) {
        self.hub = hub
        self.listening = listening
        self.pages = pages
    }

    /// Serves until the task is cancelled, one of `signals` arrives or the hub was moved away,
    /// finishes the requests that have begun, and then closes the hub.
    ///
    /// - Parameter ready: Is called with the port when the server listens.
    /// - Throws: `VolumeError` if the address or the certificate cannot be used, or if the hub was
    ///   moved away.
    package func run(
        stoppingAt signals: [UnixSignal] = [.sigterm, .sigint],
        ready: @escaping @Sendable (_ port: Int) async -> Void = { _ in }
    ) async throws {
        let application = Application(
            responder: Responder(
                hub: hub, pages: pages, isEncrypted: listening.certificate != nil),
            server: try builder(),
            configuration: ApplicationConfiguration(
                address: .hostname(listening.host, port: listening.port),
                serverName: "concord"),
            services: [PeriodicMaintenance(hub: hub)],
            onServerRunning: { channel in await ready(channel.localAddress?.port ?? 0) },
            logger: hub.log)
        let group = ServiceGroup(
            configuration: .init(
                services: [application], gracefulShutdownSignals: signals, logger: hub.log))
        let serving = Task { try await group.run() }
        let departure = Task { [hub] in
            for await _ in hub.move.departures { await group.triggerGracefulShutdown() }
        }
        defer { departure.cancel() }
        do {
            try await withTaskCancellationHandler {
                try await serving.value
            } onCancel: {
                Task { await group.triggerGracefulShutdown() }
            }
        } catch let error as IOError {
            throw VolumeError(
                error.errnoCode == EADDRINUSE ? .busy : .system,
                "The hub cannot listen on \(listening.host):\(listening.port): \(error). Choose "
                    + "another address with --listen.")
        }
        // The hub is closed in a new task, because the ledger refuses to work in a cancelled task.
        try await Task { try await hub.close() }.value
        if let departure = hub.move.departure { throw departure }
    }

    private func builder() throws -> HTTPServerBuilder {
        let limits = hub.limits
        let connections = SharedBudget<String>(
            all: limits.connections, each: limits.connectionsPerAddress)
        // The idle timeout applies while a request is read and between two requests, but not while
        // one is answered, so that feeds stay open.
        let plain = HTTPServerBuilder.http1(
            configuration: .init(
                additionalChannelHandlers: [RequestTimeouts(limits, connections)],
                idleTimeout: .seconds(limits.idleSeconds),
                httpDecoderConfiguration: .init(
                    maxHeaderFieldSize: 8 << 10, maxHeaderListSize: 16 << 10,
                    maxHeaderFieldCount: 100)))
        let shown = CertificateFingerprintFile(path: hub.directory.certificatePath)
        guard let certificate = listening.certificate, let key = listening.key else {
            try shown.note(nil)
            return plain
        }
        do {
            let chain = try NIOSSLCertificate.fromPEMFile(certificate)
            try shown.note(chain.first)
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) },
                privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)))
            configuration.minimumTLSVersion = .tlsv12
            // Only TLS 1.2 ciphers with forward secrecy; all TLS 1.3 ciphers have it.
            configuration.cipherSuiteValues = [
                .TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, .TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
                .TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, .TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
                .TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
                .TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
            ]
            return try .tls(plain, tlsConfiguration: configuration)
        } catch {
            throw VolumeError(
                .invalid,
                "The certificate \(certificate) or its key \(key) cannot be used: \(error). Give "
                    + "PEM files.")
        }
    }
}
