import Glibc
import HubProtocol

/// Reads a body of the type `multipart/form-data` (RFC 7578) as browsers send it, while it arrives.
/// It holds the header of one part, or the bytes that could be the beginning of a boundary.
///
/// What browsers do not send is refused: text before the first boundary or after the last one,
/// spaces after a boundary, encodings, names that are not quoted.
struct MultipartParser {
    enum Event: Equatable {
        case part(Part)
        /// Some bytes of the part.
        case bytes(ArraySlice<UInt8>)
        /// The part has no more bytes.
        case partEnd
        /// The last boundary has arrived.
        case end
    }

    struct Part: Equatable {
        let name: String
        /// The name of the file; empty if the person has chosen none. Nil for other fields.
        let file: String?
    }

    private enum State { case start, boundary, header, contents, end }

    private let boundary: [UInt8]
    private var state = State.start
    /// It begins with a line end, so that the first boundary is like the others.
    private var buffer: [UInt8] = [0x0D, 0x0A]
    /// The first byte of the buffer that was not read.
    private var start = 0
    private var parts = 0

    static let headerBytes = 8 << 10

    /// - Parameter type: The header `Content-Type`.
    /// - Throws: `.contentType`; `.malformed` if it names no boundary.
    init(type: String) throws(Failure) {
        let parts = type.split(separator: ";", maxSplits: 1)
        guard parts.first?.lowercased() == "multipart/form-data" else {
            throw Failure(.contentType, "This is not a form of the hub's pages.")
        }
        let key = "boundary="
        let parameter = parts.dropFirst().first?.drop { $0 == " " } ?? ""
        guard parameter.lowercased().hasPrefix(key) else { throw Self.malformed("no boundary") }
        var value = parameter.dropFirst(key.count)
        if value.count > 1, value.hasPrefix("\""), value.hasSuffix("\"") {
            value = value.dropFirst().dropLast()
        }
        let bytes = Array(value.utf8)
        guard (1...70).contains(bytes.count), bytes.allSatisfy(Self.isBoundary) else {
            throw Self.malformed("no valid boundary")
        }
        boundary = Array("\r\n--".utf8) + bytes
    }

    private static func isBoundary(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default: "'()+_,-./:=?".utf8.contains(byte)
        }
    }

    private static func malformed(_ what: String) -> Failure {
        Failure(
            .malformed,
            "What was sent is not a form as browsers send it (\(what)). Nothing was "
                + "changed.")
    }

    /// The bytes in memory.
    var heldBytes: Int { buffer.count - start }

    /// The bytes that follow a part's last one, at least.
    var bytesAfterPart: Int { boundary.count + 2 }

    mutating func append(_ bytes: some Collection<UInt8>) {
        buffer.removeSubrange(..<start)
        start = 0
        buffer.append(contentsOf: bytes)
    }

    /// Returns nil if more bytes must be appended.
    mutating func next() throws(Failure) -> Event? {
        while true {
            switch state {
            case .start:
                guard heldBytes >= boundary.count else { return nil }
                guard buffer[start...].starts(with: boundary) else {
                    throw Self.malformed("no boundary at its beginning")
                }
                pass(boundary.count, .boundary)
            case .boundary:
                guard heldBytes >= 2 else { return nil }
                switch (buffer[start], buffer[start + 1]) {
                case (0x0D, 0x0A): pass(2, .header)
                case (UInt8(ascii: "-"), UInt8(ascii: "-")):
                    pass(2, .end)
                    return .end
                default: throw Self.malformed("bytes after a boundary")
                }
            case .header: return try header().map(Event.part)
            case .contents: return contents()
            case .end:
                // Only a line end may follow.
                guard heldBytes <= 2,
                    buffer[start...].elementsEqual([0x0D, 0x0A].prefix(heldBytes))
                else { throw Self.malformed("bytes after its end") }
                return nil
            }
        }
    }

    private mutating func pass(_ count: Int, _ next: State) {
        start += count
        state = next
    }

    private mutating func contents() -> Event? {
        if let found = find(boundary) {
            guard found > start else {
                pass(boundary.count, .boundary)
                return .partEnd
            }
            defer { start = found }
            return .bytes(buffer[start..<found])
        }
        // The last bytes could be the beginning of a boundary.
        let sure = heldBytes - (boundary.count - 1)
        guard sure > 0 else { return nil }
        defer { start += sure }
        return .bytes(buffer[start..<start + sure])
    }

    /// Returns where these bytes are first. They begin with a carriage return.
    private func find(_ bytes: [UInt8]) -> Int? {
        buffer.withUnsafeBytes { all in
            guard let first = all.baseAddress else { return nil }
            var at = start
            while at + bytes.count <= all.count,
                let found = memchr(first + at, Int32(bytes[0]), all.count - bytes.count + 1 - at)
            {
                let place = UnsafeRawPointer(found)
                if memcmp(place, bytes, bytes.count) == 0 { return place - first }
                at = place - first + 1
            }
            return nil
        }
    }

    // MARK: The header of a part

    private mutating func header() throws(Failure) -> Part? {
        guard let end = find([0x0D, 0x0A, 0x0D, 0x0A]), end - start <= Self.headerBytes else {
            guard heldBytes <= Self.headerBytes else {
                throw Self.malformed(
                    "the header of a part has more than \(Self.headerBytes) bytes")
            }
            return nil
        }
        parts += 1
        guard parts <= PageLimits.fields else {
            throw Failure(.malformed, "There are more than \(PageLimits.fields) fields.")
        }
        guard let text = String(validating: buffer[start..<end], as: UTF8.self) else {
            throw Self.malformed("a name is not in UTF-8")
        }
        start = end + 4
        state = .contents
        return try Self.part(text)
    }

    private static func part(_ header: String) throws(Failure) -> Part {
        var disposition: Substring?
        for line in header.unicodeScalars.split(separator: "\r\n".unicodeScalars) {
            let line = Substring(line)
            guard let colon = line.unicodeScalars.firstIndex(of: ":") else {
                throw malformed("a header without a name")
            }
            let value = line[line.unicodeScalars.index(after: colon)...].drop { $0 == " " }
            switch line[..<colon].lowercased() {
            case "content-disposition":
                guard disposition == nil else { throw malformed("a part with two names") }
                disposition = value
            case "content-transfer-encoding":
                guard ["binary", "8bit", "7bit"].contains(value.lowercased()) else {
                    throw malformed("a part in another encoding")
                }
            default: continue
            }
        }
        guard let disposition else { throw malformed("a part without a name") }
        return try part(disposition: disposition)
    }

    /// Reads `form-data; name="…"; filename="…"`.
    private static func part(disposition: Substring) throws(Failure) -> Part {
        let kind = "form-data"
        guard disposition.lowercased().hasPrefix(kind) else { throw malformed("another kind") }
        var rest = Array(disposition.utf8.dropFirst(kind.utf8.count))[...]
        var values: [String: String] = [:]
        while !rest.isEmpty {
            guard rest.popFirst() == UInt8(ascii: ";") else { throw malformed("a strange part") }
            rest = rest.drop { $0 == UInt8(ascii: " ") }
            let name = rest.prefix { $0 != UInt8(ascii: "=") }
            rest = rest.dropFirst(name.count + 1)
            guard rest.popFirst() == UInt8(ascii: "\"") else {
                throw malformed("a name without quotation marks")
            }
            let value = rest.prefix { $0 != UInt8(ascii: "\"") }
            rest = rest.dropFirst(value.count)
            guard rest.popFirst() == UInt8(ascii: "\""),
                values.updateValue(
                    unescaped(value), forKey: String(decoding: name, as: UTF8.self)) == nil
            else { throw malformed("a strange part") }
        }
        guard let name = values["name"] else { throw malformed("a part without a name") }
        return Part(name: name, file: values["filename"])
    }

    /// Browsers escape three characters of a name, and the percent sign is none of them.
    private static func unescaped(_ value: ArraySlice<UInt8>) -> String {
        var (bytes, rest) = ([UInt8](), value)
        while let byte = rest.popFirst() {
            let escape = byte == UInt8(ascii: "%") ? Array(rest.prefix(2)) : []
            switch String(decoding: escape, as: UTF8.self).uppercased() {
            case "22": bytes.append(0x22)
            case "0D": bytes.append(0x0D)
            case "0A": bytes.append(0x0A)
            default:
                bytes.append(byte)
                continue
            }
            rest = rest.dropFirst(2)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
