internal import GRDBSQLite
import Model

/// The columns of a statement's current row. They are valid until the statement's next step.
struct Columns {
    let statement: OpaquePointer
    /// The journal's path, for error messages.
    let path: String

    func isNull(_ index: Int32) -> Bool { sqlite3_column_type(statement, index) == SQLITE_NULL }
    func integer(_ index: Int32) -> Int64 { sqlite3_column_int64(statement, index) }
    /// Reads what `Value.number` has bound. A negative number, which only damage can cause, becomes
    /// 0.
    func number(_ index: Int32) -> UInt64 { UInt64(clamping: integer(index)) }
    /// Reads what `Value.bits` has bound.
    func bits(_ index: Int32) -> UInt64 { UInt64(bitPattern: integer(index)) }

    func text(_ index: Int32) -> String {
        guard let text = sqlite3_column_text(statement, index) else { return "" }
        let count = Int(sqlite3_column_bytes(statement, index))
        return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
    }

    func bytes(_ index: Int32) -> [UInt8] { Array(blob(index)) }

    func identifier(_ index: Int32) throws(VolumeError) -> Identifier {
        let blob = blob(index)
        guard blob.count == 16 else { throw invalidValue(index) }
        return identifier(in: blob, at: 0)
    }

    /// Reads identifiers that are concatenated, 16 bytes each.
    func identifiers(_ index: Int32) throws(VolumeError) -> [Identifier] {
        let blob = blob(index)
        guard blob.count.isMultiple(of: 16) else { throw invalidValue(index) }
        return stride(from: 0, to: blob.count, by: 16).map { identifier(in: blob, at: $0) }
    }

    func digest(_ index: Int32) throws(VolumeError) -> Digest {
        let blob = blob(index)
        guard blob.count == Digest.byteCount,
            let algorithm = Digest.Algorithm(rawValue: blob[0])
        else { throw invalidValue(index) }
        return Digest(algorithm, hash: UnsafeRawBufferPointer(rebasing: blob[1...]))
    }

    func code<Code: RawRepresentable<UInt8>>(_ index: Int32) throws(VolumeError) -> Code {
        guard let raw = UInt8(exactly: integer(index)), let code = Code(rawValue: raw) else {
            throw invalidValue(index)
        }
        return code
    }

    private func blob(_ index: Int32) -> UnsafeRawBufferPointer {
        // The order matters: asking for the size first could make SQLite convert the value
        // afterwards.
        let start = sqlite3_column_blob(statement, index)
        return UnsafeRawBufferPointer(
            start: start, count: Int(sqlite3_column_bytes(statement, index)))
    }

    private func identifier(in blob: UnsafeRawBufferPointer, at offset: Int) -> Identifier {
        Identifier(
            high: UInt64(bigEndian: blob.loadUnaligned(fromByteOffset: offset, as: UInt64.self)),
            low: UInt64(bigEndian: blob.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self)))
    }

    private func invalidValue(_ index: Int32) -> VolumeError {
        let column = sqlite3_column_name(statement, index).map { String(cString: $0) } ?? "?"
        return .damagedJournal(path, "a row has an impossible value in \(column)")
    }
}
