import Foundation
import Glibc
import Support
import Synchronization

/// A server that answers each request with the bytes of a script, whatever the request is.
final class ScriptedHub: @unchecked Sendable {
    let address: String
    private let listener: Int32
    private let threads = DispatchGroup()
    private let script = Mutex<Script>(
        Script(head: "", pieces: [], count: 0, pause: 0))
    private let sentCount = Mutex<Int>(0)

    private struct Script {
        var head: String
        var pieces: [[UInt8]]
        var count: Int
        /// The microseconds before each piece.
        var pause: UInt32
    }

    init() throws {
        let socket = try LoopbackListener()
        let listener = socket.descriptor
        self.listener = listener
        address = "http://127.0.0.1:\(socket.port)"
        threads.enter()
        Thread.detachNewThread { [self] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { break }
                serve(client)
                close(client)
            }
            threads.leave()
        }
    }

    /// From now on, each answer has `piece` as its body, repeated up to `count` times or until the
    /// client closes the connection.
    func answer(
        _ piece: [UInt8], times count: Int = 1, headers: String = "", status: Int = 200,
        pause: UInt32 = 0
    ) {
        answer([piece], times: count, headers: headers, status: status, pause: pause)
    }

    func answer(
        _ pieces: [[UInt8]], times count: Int = 1, headers: String = "", status: Int = 200,
        pause: UInt32 = 0
    ) {
        let head = "HTTP/1.1 \(status) OK\r\nConnection: close\r\n\(headers)\r\n"
        script.withLock {
            $0 = Script(head: head, pieces: pieces, count: count, pause: pause)
        }
        sentCount.withLock { $0 = 0 }
    }

    /// How many pieces of the last answer were sent.
    var sent: Int { sentCount.withLock { $0 } }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        threads.wait()
        close(listener)
    }

    private func serve(_ client: Int32) {
        var request: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        // The bodies of these tests are short and arrive with the head.
        while Data(request).range(of: Data("\r\n\r\n".utf8)) == nil {
            let count = read(client, &piece, piece.count)
            guard count > 0 else { return }
            request += piece[..<count]
        }
        let script = script.withLock { $0 }
        guard LoopbackListener.send(script.head.utf8, to: client) else { return }
        for _ in 0..<script.count {
            for piece in script.pieces {
                if script.pause > 0 { usleep(script.pause) }
                guard LoopbackListener.send(piece, to: client) else { return }
                sentCount.withLock { $0 += 1 }
            }
        }
        shutdown(client, Int32(SHUT_WR))
        // Closing while bytes of the request are unread would reset the connection.
        while read(client, &piece, piece.count) > 0 {}
    }
}
