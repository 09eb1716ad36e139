import HubProtocol
import Hummingbird
import NIOCore

extension Request {
    /// Passes the body's parts to `take` as they arrive. A body that ends too early is the client's
    /// fault, so it is answered as malformed.
    ///
    /// - Throws: What `take` throws; `.malformed`.
    package func forEachBodyPart(_ take: (ByteBuffer) async throws -> Void) async throws {
        var parts = body.makeAsyncIterator()
        while true {
            let part: ByteBuffer?
            do { part = try await parts.next() } catch let error as CancellationError {
                throw error
            } catch { throw Failure(.malformed, "The body ended too early: \(error).") }
            guard let part else { return }
            try await take(part)
        }
    }
}
