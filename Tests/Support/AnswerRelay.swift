import Foundation
import Glibc
import Synchronization

/// A Unix socket whose connections are passed on to another one. It can break a connection at the
/// moment when the answer to a certain message is due: the other side has received the message, and
/// has acted on it, but the sender cannot know that.
package final class AnswerRelay: Sendable {
    private struct State {
        var isClosed = false
        /// Bytes of the message whose answer is lost.
        var fatal: [UInt8] = []
        var left = 0
        /// Called instead of passing on the message. Whether to pass it on then.
        var instead: (@Sendable () -> Bool)?
    }

    private let listener: Int32
    private let target: String
    private let state = Mutex(State())

    /// - Parameters:
    ///   - path: The socket to make.
    ///   - target: The socket to which connections are passed on.
    package init(path: String, target: String) throws {
        self.target = target
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        let isBound = Self.with(path) { bind(listener, $0, $1) } == 0
        guard isBound, listen(listener, 16) == 0 else {
            throw SupportError("cannot listen on \(path): \(String(cString: strerror(errno)))")
        }
        // The thread keeps this object until `close`.
        Thread.detachNewThread { self.accept() }
    }

    package func close() {
        state.withLock { $0.isClosed = true }
        shutdown(listener, Int32(SHUT_RDWR))
        Glibc.close(listener)
    }

    /// Breaks a connection after the next `count` messages with this text, instead of passing on
    /// the answer.
    package func loseAnswers(to text: String, count: Int = 1) {
        state.withLock { ($0.fatal, $0.left, $0.instead) = (Array(text.utf8), count, nil) }
    }

    /// Breaks the sender's connection before the next message with this text is passed on, and
    /// calls `body`. If that returns true, the message is passed on then.
    package func breakBefore(_ text: String, _ body: @escaping @Sendable () -> Bool) {
        state.withLock { ($0.fatal, $0.left, $0.instead) = (Array(text.utf8), 1, body) }
    }

    /// The number of answers that are still to be lost.
    package var answersLeft: Int { state.withLock { $0.left } }

    private func accept() {
        while true {
            let client = Glibc.accept(listener, nil, nil)
            guard client >= 0 else {
                if state.withLock({ $0.isClosed }) { return }
                continue
            }
            Thread.detachNewThread { self.pass(client) }
        }
    }

    private func pass(_ client: Int32) {
        let server = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        defer { _ = (Glibc.close(client), Glibc.close(server)) }
        guard Self.with(target, { connect(server, $0, $1) }) == 0 else { return }
        var isLost = false
        while true {
            var waiting = [client, server].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            guard poll(&waiting, 2, -1) > 0 else { return }
            if waiting[0].revents != 0 {
                guard let bytes = Self.read(client) else { return }
                if mustLose(bytes) {
                    if let instead = state.withLock({ $0.instead }) {
                        shutdown(client, Int32(SHUT_RDWR))
                        if instead(), Self.write(bytes, to: server) { _ = Self.read(server) }
                        return
                    }
                    isLost = true
                }
                guard Self.write(bytes, to: server) else { return }
            }
            if waiting[1].revents != 0 {
                // The answer has come, so the server has done what it was told.
                guard let bytes = Self.read(server), !isLost, Self.write(bytes, to: client) else {
                    return
                }
            }
        }
    }

    private func mustLose(_ bytes: [UInt8]) -> Bool {
        state.withLock { state in
            guard state.left > 0, Data(bytes).range(of: Data(state.fatal)) != nil else {
                return false
            }
            state.left -= 1
            return true
        }
    }

    private static func read(_ descriptor: Int32) -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = Glibc.read(descriptor, &buffer, buffer.count)
        return count > 0 ? Array(buffer.prefix(count)) : nil
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private static func with(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}
