import HTTPTypes
import Hub
import Hummingbird
import Model
import NIOCore
import ServiceLifecycle

/// Server-sent events of a volume: one for each change, merged while one is being sent. The script
/// then loads the page again.
struct Events {
    private let place: Place

    init(_ place: Place) { self.place = place }

    /// The minimum time between two events.
    private static let pause = Duration.milliseconds(300)

    func answer() -> Response {
        let (hub, session, volume) = (place.session.hub, place.session, place.volume)
        let (head, request) = (place.head, session.call.request)
        var headers = Answer.headers
        headers[.contentType] = "text/event-stream"
        return Response(
            status: .ok, headers: headers,
            body: ResponseBody { writer in
                // A device's feed: it ends when the device is revoked, its session ends
                // or the volume's members change.
                let line = try await hub.members.openFeed(
                    of: volume, for: session.caller, .page,
                    token: Secret.hash(token: session.token), process: nil)
                defer { hub.feeds.close(line) }
                line.tell(head: head)
                // Somebody who goes from page to page leaves connections behind. They are noticed
                // at once, not with the next heartbeat.
                try await request.body.consumeWithInboundCloseHandler { _ in
                    for await _ in line.wakes.cancelOnGracefulShutdown() {
                        guard let hint = line.next(at: hub.clock()) else { continue }
                        // A comment shows that the connection is alive.
                        let text = hint.head.map { "data: \(volume.epoch)-\($0)\n\n" } ?? ":\n\n"
                        try await writer.write(ByteBuffer(string: text))
                        if hint.ended != nil { break }
                        try await Task.sleep(for: Events.pause)
                    }
                } onInboundClosed: {
                    hub.feeds.close(line)
                }
                try await writer.finish(nil)
            })
    }
}
