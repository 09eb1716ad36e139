import CLinux
import Foundation
import Glibc
import Support

/// A client of the documented protocol of a volume's daemon: one JSON object in each line. It is
/// written separately, because an oracle that used the product's code would share its mistakes.
final class VolumeLine {
    typealias Object = [String: Any]
    private let descriptor: Int32
    private var rest = Data()
    private var number = 0

    init(mountPoint: String, seconds: Int = 30) throws {
        let root = open(mountPoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard root >= 0 else { throw SupportError("\(mountPoint): errno \(errno)") }
        defer { close(root) }
        var value = [UInt8](repeating: 0, count: 108)
        let length = cl_getxattr_fd(root, "user.concord.socket", &value, value.count - 1)
        guard length > 0 else { throw SupportError("\(mountPoint) names no socket") }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        self.descriptor = descriptor
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: value[..<Int(length)]) }
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0 else { throw SupportError("the daemon does not listen: \(errno)") }
    }

    deinit { close(descriptor) }

    /// Returns the answer's `result`, or throws the message of an error.
    func ask(_ verb: String, _ fields: Object = [:]) throws -> Object {
        number += 1
        var request = fields
        request["id"] = number
        request["verb"] = verb
        let line = try JSONSerialization.data(withJSONObject: request) + Data("\n".utf8)
        let sent = line.withUnsafeBytes {
            send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
        guard sent == line.count else { throw SupportError("the daemon does not hear") }
        while true {
            let answer = try JSONSerialization.jsonObject(with: hear()) as? Object ?? [:]
            guard answer["progress"] == nil else { continue }
            if answer["ok"] as? Bool == true { return answer["result"] as? Object ?? [:] }
            let error = answer["error"] as? Object ?? [:]
            throw SupportError("\(verb): \(error["message"] as? String ?? "\(answer)")")
        }
    }

    private func hear() throws -> Data {
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            if let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                let line = Data(rest[..<end])
                rest = Data(rest[(end + 1)...])
                return line
            }
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { throw SupportError("the daemon does not answer") }
            rest += buffer[..<count]
        }
    }

    /// Returns all bytes of a version of a file.
    func contents(document: String, number: Int, entry: Int = 0, size: Int) throws -> Data {
        var bytes = Data()
        while bytes.count < size {
            let piece = try ask(
                "extract",
                [
                    "document": document, "number": number, "entry": entry, "offset": bytes.count,
                    "length": 512 << 10,
                ])
            let data = Data(base64Encoded: piece["data"] as? String ?? "") ?? Data()
            if data.isEmpty { break }
            bytes += data
        }
        return bytes
    }

    /// Returns the files of a version of a package.
    func members(document: String, number: Int) throws -> [String: Data] {
        let report = try ask(
            "contents", ["document": document, "number": number, "entry": 0])
        var members: [String: Data] = [:]
        for (index, entry) in (report["entries"] as? [Object] ?? []).enumerated()
        where entry["kind"] as? String == "file" {
            members[entry["path"] as? String ?? ""] = try contents(
                document: document, number: number, entry: index,
                size: entry["size"] as? Int ?? 0)
        }
        return members
    }
}
