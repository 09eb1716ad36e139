internal import GRDBSQLite
import Model

/// A value for a parameter of a statement.
enum Value {
    case null
    case integer(Int64)
    case bytes([UInt8])
    case text(String)
    case identifier(Identifier)
    case digest(Digest)

    static func integer(_ value: Int64?) -> Value { value.map { .integer($0) } ?? .null }
    static func identifier(_ value: Identifier?) -> Value { value.map { .identifier($0) } ?? .null }
    static func text(_ value: String?) -> Value { value.map { .text($0) } ?? .null }
    private static let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    static func code(_ value: UInt8) -> Value { .integer(Int64(value)) }
    /// A number that is ordered or compared. SQLite's integers are signed, so a greater number
    /// becomes the largest integer and never a negative one.
    static func number(_ value: UInt64) -> Value { .integer(Int64(clamping: value)) }
    /// A 64-bit pattern that is stored unchanged and never ordered, such as an inode number.
    static func bits(_ value: UInt64) -> Value { .integer(Int64(bitPattern: value)) }

    /// Binds the value; SQLite copies the bytes. Returns SQLite's result code.
    func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
        switch self {
        case .null: sqlite3_bind_null(statement, index)
        case .integer(let value): sqlite3_bind_int64(statement, index, value)
        case .bytes(let bytes): bytes.withUnsafeBytes { bind($0, to: statement, at: index) }
        case .text(var text):
            text.withUTF8 {
                bind(text: UnsafeRawBufferPointer($0), to: statement, at: index)
            }
        case .identifier(let id):
            withUnsafeBytes(of: (id.high.bigEndian, id.low.bigEndian)) {
                bind($0, to: statement, at: index)
            }
        case .digest(let digest):
            digest.bytes.withUnsafeBytes { bind($0, to: statement, at: index) }
        }
    }

    private func bind(
        _ bytes: UnsafeRawBufferPointer, to statement: OpaquePointer, at index: Int32
    ) -> Int32 {
        // A null pointer would bind NULL instead of an empty blob.
        guard let base = bytes.baseAddress, !bytes.isEmpty else {
            return sqlite3_bind_zeroblob(statement, index, 0)
        }
        return sqlite3_bind_blob64(statement, index, base, UInt64(bytes.count), Value.copied)
    }

    private func bind(
        text: UnsafeRawBufferPointer, to statement: OpaquePointer, at index: Int32
    ) -> Int32 {
        guard let base = text.baseAddress, !text.isEmpty else {
            return sqlite3_bind_text(statement, index, "", 0, Value.copied)
        }
        return sqlite3_bind_text64(
            statement, index, base.assumingMemoryBound(to: CChar.self), UInt64(text.count),
            Value.copied, UInt8(SQLITE_UTF8))
    }
}
