import Foundation
import Glibc
import Synchronization

/// An HTTP server that passes requests on to an S3 server, and does damage to those that a test
/// chooses.
package final class S3Relay: Sendable {
    package enum Damage: Hashable, Sendable {
        /// Answers with this status and code. The server does not see the request.
        case answer(Int, String)
        /// Closes the connection while the body arrives. The server does not see the request.
        case cutRequest
        /// Closes the connection when the server has done what it was asked.
        case loseAnswer
        /// Closes the connection in the middle of the answer.
        case cutAnswer
        /// Changes the last byte of the answer.
        case changeAnswer
        /// Does not answer. The server does not see the request.
        case stall
        /// Does not answer. The server has done what it was asked.
        case stallAnswer
    }

    package struct Request: Hashable, Sendable {
        package let method: String
        /// With the query.
        package let target: String
    }

    private struct State {
        var isClosed = false
        var requests: [Request] = []
        var damaged = 0
        var choose: (@Sendable (Request) -> Damage?)?
    }

    private let listener: LoopbackListener
    private let target: UInt16
    private let state = Mutex(State())

    /// - Parameter target: The port of the S3 server.
    package init(to target: UInt16) throws {
        self.target = target
        listener = try LoopbackListener()
        // The thread keeps this object until `close`.
        Thread.detachNewThread { self.accept() }
    }

    package var endpoint: String { "http://127.0.0.1:\(listener.port)" }

    package func close() {
        state.withLock { $0.isClosed = true }
        shutdown(listener.descriptor, Int32(SHUT_RDWR))
        Glibc.close(listener.descriptor)
    }

    /// Does this damage to all requests that follow; nil for none.
    package func damage(_ choose: (@Sendable (Request) -> Damage?)?) {
        state.withLock { $0.choose = choose }
    }

    /// Does this damage to the next request that fits, and none to the others.
    package func damageNext(
        _ damage: Damage, where fits: @escaping @Sendable (Request) -> Bool
    ) {
        let flag = Flag()
        self.damage { fits($0) && flag.take() ? damage : nil }
    }

    private final class Flag: Sendable {
        private let isTaken = Atomic(false)

        func take() -> Bool { !isTaken.exchange(true, ordering: .relaxed) }
    }

    /// What was asked so far.
    package var requests: [Request] { state.withLock { $0.requests } }

    /// The number of requests to which damage was done.
    package var damaged: Int { state.withLock { $0.damaged } }

    private func accept() {
        while true {
            let client = Glibc.accept(listener.descriptor, nil, nil)
            guard client >= 0 else {
                if state.withLock({ $0.isClosed }) { return }
                continue
            }
            Thread.detachNewThread {
                self.serve(client)
                Glibc.close(client)
            }
        }
    }

    /// Serves one request: each has a connection of its own.
    private func serve(_ client: Int32) {
        guard let (head, start) = readHead(client) else { return }
        var body = start
        let words = head.prefix { $0 != "\r\n" }.split(separator: " ").map(String.init)
        guard words.count == 3 else { return }
        let request = Request(method: words[0], target: words[1])
        let damage = state.withLock { state in
            state.requests.append(request)
            let damage = state.choose?(request)
            if damage != nil { state.damaged += 1 }
            return damage
        }
        let length = number(of: "content-length", in: head)
        if damage == .cutRequest {
            while body.count < length / 2, let more = read(client) { body += more }
            return
        }
        if head.lowercased().contains("expect: 100-continue") {
            LoopbackListener.send(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8), to: client)
        }
        while body.count < length, let more = read(client) { body += more }
        switch damage {
        case .answer(let status, let code):
            let text = "<Error><Code>\(code)</Code><Message>of the relay</Message></Error>"
            LoopbackListener.send(
                Array(
                    ("HTTP/1.1 \(status) Damage\r\nContent-Length: \(text.utf8.count)\r\n"
                        + "Connection: close\r\n\r\n\(text)").utf8), to: client)
        case .stall: waitForEnd(client)
        default: pass(head, body, client, damage)
        }
    }

    private func pass(_ head: String, _ body: [UInt8], _ client: Int32, _ damage: Damage?) {
        let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
        defer { Glibc.close(server) }
        var address = LoopbackListener.address(port: target)
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else { return }
        // Then the answer ends with the connection. Headers of connections are not signed.
        let line = head.range(of: "\r\n")!
        let marked = head[..<line.upperBound] + "Connection: close\r\n" + head[line.upperBound...]
        guard LoopbackListener.send(Array(marked.utf8) + body, to: server) else { return }
        var answer: [UInt8] = []
        while let more = read(server) { answer += more }
        switch damage {
        case .loseAnswer: return
        case .stallAnswer: waitForEnd(client)
        case .cutAnswer:
            LoopbackListener.send(answer.dropLast(max(answer.count / 4, 1)), to: client)
        case .changeAnswer:
            answer[answer.count - 1] ^= 1
            LoopbackListener.send(answer, to: client)
        default: LoopbackListener.send(answer, to: client)
        }
    }

    /// Waits until the client gives up, or this object is closed.
    private func waitForEnd(_ client: Int32) {
        while !state.withLock({ $0.isClosed }) {
            var waiting = pollfd(fd: client, events: Int16(POLLIN), revents: 0)
            if poll(&waiting, 1, 100) > 0, read(client) == nil { return }
        }
    }

    private func number(of header: String, in head: String) -> Int {
        for line in head.lowercased().split(separator: "\r\n") where line.hasPrefix("\(header):") {
            return Int(line.dropFirst(header.count + 1).trimmingCharacters(in: .whitespaces)) ?? 0
        }
        return 0
    }

    /// Returns the head of a request, and what has already arrived of its body.
    private func readHead(_ client: Int32) -> (head: String, body: [UInt8])? {
        var bytes: [UInt8] = []
        let end = Array("\r\n\r\n".utf8)
        while true {
            if let at = bytes.indices.first(where: { bytes[$0...].starts(with: end) }) {
                return (
                    String(decoding: bytes[..<(at + 4)], as: UTF8.self), Array(bytes[(at + 4)...])
                )
            }
            guard bytes.count < 64 << 10, let more = read(client) else { return nil }
            bytes += more
        }
    }

    /// Returns nil at the end of the connection.
    private func read(_ connection: Int32) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 64 << 10)
        let count = Glibc.recv(connection, &bytes, bytes.count, 0)
        return count > 0 ? Array(bytes[..<count]) : nil
    }
}
