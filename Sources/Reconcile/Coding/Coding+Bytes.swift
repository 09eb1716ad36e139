import Model

struct Malformed: Error {}

struct Writer {
    private(set) var bytes: [UInt8] = []

    init(capacity: Int) { bytes.reserveCapacity(capacity) }

    mutating func append(byte: UInt8) { bytes.append(byte) }

    mutating func append(number: UInt64) {
        var rest = number
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    mutating func append(signed: Int64) {
        append(number: UInt64(bitPattern: signed << 1 ^ signed >> 63))
    }

    mutating func append(fixed: [UInt8]) { bytes += fixed }

    mutating func append(run: [UInt8]) {
        append(number: UInt64(run.count))
        bytes += run
    }

    mutating func append(_ text: String) {
        append(number: UInt64(text.utf8.count))
        bytes += text.utf8
    }

    mutating func append(_ id: Identifier) {
        withUnsafeBytes(of: (id.high.bigEndian, id.low.bigEndian)) { bytes += $0 }
    }

    mutating func append<Value>(optional: Value?, _ body: (inout Writer, Value) -> Void) {
        append(byte: optional == nil ? 0 : 1)
        if let optional { body(&self, optional) }
    }

    mutating func append<Value>(list: [Value], _ body: (inout Writer, Value) -> Void) {
        append(number: UInt64(list.count))
        for value in list { body(&self, value) }
    }
}

struct Reader {
    private let bytes: [UInt8]
    private var position = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    mutating func byte() throws(Malformed) -> UInt8 {
        guard position < bytes.count else { throw Malformed() }
        position += 1
        return bytes[position - 1]
    }

    mutating func flag() throws(Malformed) -> Bool {
        switch try byte() {
        case 0: false
        case 1: true
        default: throw Malformed()
        }
    }

    mutating func number() throws(Malformed) -> UInt64 {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            let next = try byte()
            if shift == 63, next > 1 { throw Malformed() }
            value |= UInt64(next & 0x7F) << shift
            if next < 0x80 { return value }
        }
        throw Malformed()
    }

    mutating func signed() throws(Malformed) -> Int64 {
        let value = try number()
        return Int64(bitPattern: value >> 1) ^ -Int64(bitPattern: value & 1)
    }

    /// Reads the number of elements that follow. Each takes at least one byte, so a greater number
    /// than the remaining bytes is malformed.
    mutating func count() throws(Malformed) -> Int {
        let count = try number()
        guard count <= UInt64(bytes.count - position) else { throw Malformed() }
        return Int(count)
    }

    private mutating func slice(_ length: Int) throws(Malformed) -> ArraySlice<UInt8> {
        guard length <= bytes.count - position else { throw Malformed() }
        position += length
        return bytes[(position - length)..<position]
    }

    mutating func run() throws(Malformed) -> [UInt8] { Array(try slice(try count())) }

    mutating func text() throws(Malformed) -> String {
        guard let text = String(validating: try slice(try count()), as: UTF8.self) else {
            throw Malformed()
        }
        return text
    }

    mutating func identifier() throws(Malformed) -> Identifier {
        let (high, low) = try slice(16).withUnsafeBytes {
            (
                $0.loadUnaligned(as: UInt64.self),
                $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
            )
        }
        return Identifier(high: UInt64(bigEndian: high), low: UInt64(bigEndian: low))
    }

    mutating func digest() throws(Malformed) -> Digest {
        guard let digest = Digest(bytes: try slice(Digest.byteCount)) else { throw Malformed() }
        return digest
    }

    mutating func optional<Value>(
        _ body: (inout Reader) throws(Malformed) -> Value
    ) throws(Malformed) -> Value? {
        try flag() ? try body(&self) : nil
    }

    mutating func list<Value>(
        _ body: (inout Reader) throws(Malformed) -> Value
    ) throws(Malformed) -> [Value] {
        let count = try count()
        var values: [Value] = []
        // Reserves little, because malformed bytes can claim a large count.
        values.reserveCapacity(min(count, 64))
        for _ in 0..<count { values.append(try body(&self)) }
        return values
    }
}
