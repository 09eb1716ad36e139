import ChunkStore
import HubProtocol
import Model
import NIOCore
import NIOPosix
import NIOSSL

// A hub whose certificate was not signed by a trusted authority is recognized by its fingerprint.
extension HubAddress {
    /// Checks that the hub presents the certificate with this fingerprint. If this machine does not
    /// trust the certificate for another reason, it is trusted from now on, whatever name it has,
    /// because only the hub has its private key.
    ///
    /// - Throws: `.refused` if the hub presents another certificate; `.offline`, `.invalid`.
    package mutating func check(_ fingerprint: Fingerprint) throws(VolumeError) {
        guard isEncrypted else {
            throw VolumeError(
                .invalid,
                "\(self) has no certificate, so there is nothing to compare the fingerprint with: "
                    + "the address of a hub that has one begins with https://.")
        }
        let shown: [UInt8]
        do throws(HubFault) { shown = try shownCertificate() } catch { throw VolumeError(error) }
        let found = Fingerprint(Digest.sha256(shown))
        guard found == fingerprint else {
            throw VolumeError(
                .refused,
                "The certificate of the hub \(self) has the fingerprint \(found), and not "
                    + "\(fingerprint): another server may be answering. Nothing was sent. On the "
                    + "hub's machine, concord hub invite prints the present fingerprint.")
        }
        if certificate == nil, !(try isTrusted()) { known = shown }
    }

    /// Returns whether this machine already trusts the hub's certificate.
    private func isTrusted() throws(VolumeError) -> Bool {
        let client = try HubClient(self)
        defer { client.close() }
        do throws(HubFault) {
            _ = try client.volumes()
        } catch {
            if case .unreachable = error { return false }
        }
        return true
    }

    /// Returns the hub's certificate in DER form. The TLS handshake is aborted as soon as it is
    /// known.
    private func shownCertificate() throws(HubFault) -> [UInt8] {
        let group = MultiThreadedEventLoopGroup.singleton
        let found = group.any().makePromise(of: [UInt8].self)
        do {
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.minimumTLSVersion = .tlsv12
            // Nothing is verified here, and a machine may have no list of authorities.
            configuration.trustRoots = .certificates([])
            let context = try NIOSSLContext(configuration: configuration)
            let (host, port) = (host, port)
            let connecting = ClientBootstrap(group: group)
                .connectTimeout(.seconds(5))
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let guarding = try NIOSSLClientHandler(
                            context: context, serverHostname: host.isIPAddress ? nil : host
                        ) { (shown, verdict: EventLoopPromise<NIOSSLVerificationResult>) in
                            found.completeWith(
                                Result {
                                    guard let own = shown.first else { throw ChannelError.eof }
                                    return try own.toDERBytes()
                                })
                            verdict.succeed(.failed)
                        }
                        let pipeline = channel.pipeline.syncOperations
                        try pipeline.addHandler(guarding)
                        try pipeline.addHandler(HandshakeTimeout(found))
                    }
                }
                .connect(host: host, port: port)
            connecting.whenFailure { found.fail($0) }
            defer { connecting.whenSuccess { $0.close(promise: nil) } }
            return try found.futureResult.wait()
        } catch {
            throw fault(error)
        }
    }
}

/// Fails the promise if the TLS handshake does not complete.
private final class HandshakeTimeout: ChannelInboundHandler {
    typealias InboundIn = Any
    private let found: EventLoopPromise<[UInt8]>
    private static let patience = TimeAmount.seconds(10)

    init(_ found: EventLoopPromise<[UInt8]>) { self.found = found }

    func channelActive(context: ChannelHandlerContext) {
        let found = found
        context.eventLoop.scheduleTask(in: Self.patience) {
            found.fail(ChannelError.connectTimeout(Self.patience))
        }
        context.fireChannelActive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { found.fail(error) }

    func channelInactive(context: ChannelHandlerContext) { found.fail(ChannelError.eof) }
}

extension String {
    fileprivate var isIPAddress: Bool { (try? SocketAddress(ipAddress: self, port: 0)) != nil }
}
