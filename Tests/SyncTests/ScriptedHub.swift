import Foundation
import Glibc
import Support
import Synchronization

/// A server that answers each request with the bytes of a script, whatever the request is.
final class ScriptedHub: @unchecked Sendable {
    let address: String
    private let listener: Int32
    private let threads = DispatchGroup()
    private let script = Mutex<Script>(Script(head: "", pieces: [], count: 0))
    private let sentCount = Mutex<Int>(0)

    private struct Script {
        var head: String
        var pieces: [[UInt8]]
        var count: Int
    }

    init() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
        self.listener = listener
        var place = sockaddr_in()
        place.sin_family = sa_family_t(AF_INET)
        place.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &place) { place in
            place.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, size) == 0 && listen(listener, 8) == 0
                    && getsockname(listener, $0, &size) == 0
            }
        }
        guard isBound else { throw SupportError("no port for the hub that follows a script") }
        address = "http://127.0.0.1:\(UInt16(bigEndian: place.sin_port))"
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
    func answer(_ piece: [UInt8], times count: Int = 1, headers: String = "") {
        answer([piece], times: count, headers: headers)
    }

    func answer(_ pieces: [[UInt8]], times count: Int = 1, headers: String = "") {
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\(headers)\r\n"
        script.withLock { $0 = Script(head: head, pieces: pieces, count: count) }
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
        guard send(Array(script.head.utf8), to: client) else { return }
        for _ in 0..<script.count {
            for piece in script.pieces {
                guard send(piece, to: client) else { return }
                sentCount.withLock { $0 += 1 }
            }
        }
        shutdown(client, Int32(SHUT_WR))
        // Closing while bytes of the request are unread would reset the connection.
        while read(client, &piece, piece.count) > 0 {}
    }

    private func send(_ bytes: [UInt8], to client: Int32) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }
}
