import CPostgres
import Hub
import Model

/// The answer to one statement.
struct PostgresResult {
    var rows: [LedgerRow] = []
    /// The number of rows that the statement changed.
    var changed = 0
    /// The command and its numbers, as in "UPDATE 1".
    var tag = ""
}

/// Object identifiers of PostgreSQL's built-in types, which never change.
enum PostgresType {
    static let boolean: Oid = 16
    static let bytes: Oid = 17
    static let integer8: Oid = 20
    static let integer2: Oid = 21
    static let integer4: Oid = 23
    static let text: Oid = 25
    static let unknown: Oid = 705
    static let numeric: Oid = 1700
}

extension SQLValue {
    /// The type of a parameter; 0 lets the server infer it.
    var postgresType: Oid {
        switch self {
        case .null: 0
        case .integer: PostgresType.integer8
        case .text: PostgresType.text
        case .bytes: PostgresType.bytes
        }
    }

    /// Appends the value in PostgreSQL's binary format.
    func append(to buffer: inout [UInt8]) {
        switch self {
        case .null: break
        case .integer(let value):
            withUnsafeBytes(of: value.bigEndian) { buffer.append(contentsOf: $0) }
        case .text(let text): buffer.append(contentsOf: text.utf8)
        case .bytes(let bytes): buffer.append(contentsOf: bytes)
        }
    }

    /// Reads a value in PostgreSQL's binary format.
    init(_ bytes: UnsafeRawBufferPointer, of type: Oid) throws(PostgresFault) {
        switch type {
        case PostgresType.bytes: self = .bytes(Array(bytes))
        case PostgresType.text, PostgresType.unknown:
            self = .text(String(decoding: bytes, as: UTF8.self))
        case PostgresType.integer8, PostgresType.integer4, PostgresType.integer2,
            PostgresType.boolean:
            guard let first = bytes.first, bytes.count <= 8 else {
                throw PostgresFault(sqlState: "", message: "an integer has \(bytes.count) bytes")
            }
            let sign: Int64 = first & 0x80 != 0 && type != PostgresType.boolean ? -1 : 0
            self = .integer(bytes.reduce(sign) { $0 << 8 | Int64($1) })
        case PostgresType.numeric: self = .integer(try SQLValue.integer(ofNumeric: bytes))
        default:
            throw PostgresFault(sqlState: "", message: "a column has the unknown type \(type)")
        }
    }

    /// Reads a whole number of the type numeric, which `sum` returns. Its digits have the base
    /// 10,000; the first one counts 10,000 to the power of `weight`.
    private static func integer(
        ofNumeric bytes: UnsafeRawBufferPointer
    ) throws(PostgresFault) -> Int64 {
        let words = stride(from: 0, to: bytes.count - 1, by: 2).map {
            UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1])
        }
        let isNegative = words.count > 2 && words[2] == 0x4000
        guard words.count >= 4, words[2] == 0 || isNegative, words.count == 4 + Int(words[0])
        else { throw PostgresFault(sqlState: "", message: "a number cannot be read") }
        let weight = Int(Int16(bitPattern: words[1]))
        var value: Int64 = 0
        guard weight >= 0 else { return 0 }
        for index in 0...weight {
            let digit = 4 + index < words.count ? Int64(words[4 + index]) : 0
            let (product, hasOverflow) = value.multipliedReportingOverflow(by: 10_000)
            let (sum, hasExceeded) = product.subtractingReportingOverflow(digit)
            guard !hasOverflow, !hasExceeded else {
                throw PostgresFault(sqlState: "22003", message: "a sum is too large")
            }
            value = sum
        }
        guard !isNegative else { return value }
        guard value > .min else {
            throw PostgresFault(sqlState: "22003", message: "a sum is too large")
        }
        return -value
    }
}
