import HTTPTypes
import HubProtocol
import Model
import NIOCore
import NIOHTTPTypes

/// Watches one connection: closes it if too many are open, or if a request takes too long to
/// arrive. Without this, a client that sends a byte now and then could hold a connection and its
/// body for ever.
final class RequestTimeouts: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private let limits: CallerLimits
    private let connections: SharedBudget<String>
    private var address: String?
    private var deadline: Scheduled<Void>?
    private var isReading = false
    private var isAnswering = false
    /// The bytes of a long body since the deadline was set; nil if the deadline is for all of it.
    private var longBytes: Int?
    /// The bytes that may still arrive of a long body whose request has been answered; nil before
    /// the answer.
    private var restBytes: Int?
    /// Such a body has a new deadline for each part of this many bytes.
    private static let restPart = 1 << 20

    init(_ limits: CallerLimits, _ connections: SharedBudget<String>) {
        self.limits = limits
        self.connections = connections
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let address = ClientAddress.group(of: context.channel.remoteAddress?.ipAddress ?? "")
        guard connections.take(1, for: address) else {
            context.close(promise: nil)
            return
        }
        self.address = address
        expect(within: limits.unauthenticatedSeconds, context)
    }

    func handlerRemoved(context: ChannelHandlerContext) { leave() }

    func channelInactive(context: ChannelHandlerContext) {
        leave()
        context.fireChannelInactive()
    }

    private func leave() {
        deadline?.cancel()
        deadline = nil
        if let address { connections.give(1, of: address) }
        address = nil
    }

    /// Sets a new deadline, which replaces the previous one.
    private func expect(within seconds: Int64, _ context: ChannelHandlerContext) {
        deadline?.cancel()
        let channel = context.channel
        deadline = context.eventLoop.scheduleTask(in: .seconds(seconds)) {
            channel.close(promise: nil)
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            (isReading, isAnswering) = (true, true)
            let path = head.path ?? ""
            // These pages look at the session in the cookie before they read a body.
            // Those of a link look at the token in the address.
            let isPage =
                path.hasPrefix(Routes.volumePages + "/") && head.headerFields[.cookie] != nil
                || path.hasPrefix(Routes.links + "/")
                    && (path.hasSuffix("/upload") || path.hasSuffix("/edit"))
            let isUnauthenticated =
                !isPage && head.headerFields[.authorization] == nil
                || path.hasPrefix(Routes.enrol)
            let isLong = isPage || path.hasPrefix(Routes.webDAV + "/")
            longBytes = isLong && !isUnauthenticated ? 0 : nil
            restBytes = nil
            expect(
                within: isUnauthenticated ? limits.unauthenticatedSeconds : limits.requestSeconds,
                context)
        case .body(let part): count(part.readableBytes, context)
        case .end:
            isReading = false
            deadline?.cancel()
            if !isAnswering { expect(within: limits.idleSeconds, context) }
        }
        context.fireChannelRead(data)
    }

    /// A document arrives from a page or by WebDAV in one body, which may be as long as many
    /// requests of a device. It has a new deadline for each part that is as long as one of those.
    ///
    /// If it was refused before it had arrived, its rest is read and dropped: a browser looks at
    /// the answer only after it has sent everything. It does so for a bounded number of bytes.
    private func count(_ bytes: Int, _ context: ChannelHandlerContext) {
        guard let before = longBytes else { return }
        longBytes = before + bytes
        let isAnswered = restBytes != nil
        if let rest = restBytes {
            guard bytes <= rest else { return context.close(promise: nil) }
            restBytes = rest - bytes
        }
        let part = isAnswered ? RequestTimeouts.restPart : HubLimits.uploadBytes
        guard before + bytes >= part else { return }
        longBytes = 0
        expect(
            within: isAnswered ? limits.unauthenticatedSeconds : limits.requestSeconds, context)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = unwrapOutboundIn(data) {
            isAnswering = false
            // The rest of a request that has already been answered is not needed.
            if isReading { (longBytes, restBytes) = (longBytes.map { _ in 0 }, limits.restBytes) }
            expect(within: isReading ? limits.unauthenticatedSeconds : limits.idleSeconds, context)
        }
        context.write(data, promise: promise)
    }
}
