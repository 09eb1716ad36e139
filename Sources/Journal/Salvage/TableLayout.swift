import Model

/// The shape of a table's rows or of an index's entries, by which they are recognized wherever they
/// are found.
struct TableLayout {
    enum Shape {
        /// The row id, which the record itself does not store.
        case key
        case number(ClosedRange<Int64>)
        case optionalNumber
        /// A blob whose length is in this range.
        case bytes(ClosedRange<Int>)
        case optionalBytes
        case optionalIdentifier
        case identifiers
        case digest
        case text
        case optionalText
    }

    let name: String
    let shapes: [Shape]
    /// True for rows with row ids; otherwise the whole row is an index entry.
    let hasKey: Bool
    /// Ignores a row that conflicts with an existing one.
    let insertion: String

    init(name: String, shapes: [Shape], hasKey: Bool) {
        self.name = name
        self.shapes = shapes
        self.hasKey = hasKey
        let places = Array(repeating: "?", count: shapes.count).joined(separator: ", ")
        insertion = "INSERT OR IGNORE INTO \(name) VALUES (\(places))"
    }

    /// The values in the order of the columns, including the key; nil when the cell is not a row of
    /// this table.
    func row(_ cell: TreePage.Cell, on page: TreePage, of pages: PageFile) -> [Value]? {
        guard
            let record = Record(cell, on: page, columns: shapes.count, of: pages)
        else { return nil }
        var values = record.values
        guard zip(values, shapes).allSatisfy({ $1.fits($0) }) else { return nil }
        if case .key = shapes[0] {
            guard TableLayout.keys.contains(cell.key) else { return nil }
            values[0] = .integer(cell.key)
        }
        return isPossible(values) ? values : nil
    }

    private func isPossible(_ values: [Value]) -> Bool {
        guard name == "items" else { return true }
        let isRoot = values[0].integer == Item.root
        let name = values[3].bytes ?? []
        guard isRoot == (values[2].integer == 0), isRoot == name.isEmpty,
            !isRoot || values[10].isNull
        else { return false }
        return !name.contains(0) && !name.contains(UInt8(ascii: "/"))
    }

    /// The limit is more items than any disk has. A greater key is damage, and would leave no keys
    /// for new items.
    static let keys: ClosedRange<Int64> = 1...1 << 48
}

extension TableLayout.Shape {
    static let integer = Self.number(.min ... .max)
    static let identifier = Self.bytes(16...16)
    static let reference = Self.number(TableLayout.keys)

    func fits(_ value: Value) -> Bool {
        switch self {
        case .key: value.isNull
        case .number(let range): value.integer.map(range.contains) ?? false
        case .optionalNumber: value.isNull || value.integer != nil
        case .bytes(let range): value.bytes.map { range.contains($0.count) } ?? false
        case .optionalBytes: value.isNull || value.bytes != nil
        case .optionalIdentifier: value.isNull || value.bytes?.count == 16
        case .identifiers: value.bytes.map { $0.count.isMultiple(of: 16) } ?? false
        case .digest: value.bytes.flatMap { Digest(bytes: $0) } != nil
        case .text: value.text != nil
        case .optionalText: value.isNull || value.text != nil
        }
    }
}

// The columns of `Schema`, in the same order.
extension TableLayout {
    static let items = TableLayout(
        name: "items",
        shapes: [
            .key, .identifier, .number(0...keys.upperBound), .bytes(0...255), .number(1...5),
            .integer, .integer, .integer, .integer, .integer, .optionalNumber,
            .number(0...Int64(Int32.max)), .optionalIdentifier, .integer, .number(0...0o7777),
            .optionalBytes,
        ], hasKey: true)
    static let manifests = TableLayout(
        name: "manifests", shapes: [.key, .digest, .bytes(0...Int(Int32.max))], hasKey: true)
    static let versions = TableLayout(
        name: "versions",
        shapes: [
            .key, .identifier, .reference, .number(1...Int64(Int32.max)), .identifiers,
            .number(1...3), .identifier, .text, .text, .text, .bytes(0...255), .integer, .integer,
            .integer, .digest, .number(1...3), .optionalText, .reference,
        ], hasKey: true)
    static let meta = TableLayout(name: "meta", shapes: [.text, .text], hasKey: false)
    static let chunks = TableLayout(
        name: "chunks",
        shapes: [
            .digest, .number(0...Int64(UInt32.max)), .integer, .number(0...Int64(UInt32.max)),
            .number(0...Int64(UInt32.max)),
        ], hasKey: false)
    static let stash = TableLayout(
        name: "stash",
        shapes: [
            .text, .integer, .optionalNumber, .integer, .optionalNumber, .integer, .integer, .text,
            .integer,
        ], hasKey: false)

    static let owners = TableLayout(
        name: "owners",
        shapes: [
            .identifier, .number(0...Int64(UInt32.max)), .number(0...Int64(UInt32.max)),
            .number(0...0o7777), .bytes(0...Int(UInt16.max)),
        ], hasKey: false)

    static let directoryOwners = TableLayout(
        name: "directory_owners",
        shapes: [
            .reference, .integer, .number(0...Int64(UInt32.max)), .number(0...Int64(UInt32.max)),
            .number(0...0o7777), .bytes(0...Int(UInt16.max)),
        ], hasKey: false)

    static let sessions = TableLayout(
        name: "sessions", shapes: [.identifier, .text], hasKey: false)

    /// Tables that are referred to come before those that refer to them.
    static let all = [
        meta, items, manifests, versions, owners, directoryOwners, sessions, chunks, stash,
    ]

    static let schema = TableLayout(
        name: "sqlite_schema", shapes: [.text, .text, .text, .integer, .optionalText], hasKey: true)
    static let sequence = TableLayout(
        name: "sqlite_sequence", shapes: [.text, .number(keys)], hasKey: true)
}
