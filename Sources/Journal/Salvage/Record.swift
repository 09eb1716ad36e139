/// The values of a row or of an index entry, in SQLite's record format.
struct Record {
    let values: [Value]

    /// Fails unless header and values fill the payload exactly. In random bytes there are almost no
    /// such records.
    ///
    /// - Parameter columns: The number of values that the record must have. It is checked before
    ///   overflow pages are read.
    init?(_ cell: TreePage.Cell, on page: TreePage, columns: Int, of pages: PageFile) {
        guard
            let types = Record.types(
                page.bytes, cell.local, length: cell.length, columns: columns),
            let payload = Record.payload(cell, on: page, of: pages)
        else { return nil }
        var position = payload.count - types.reduce(0) { $0 + Record.length(of: $1) }
        values = types.map { type in
            let start = position
            position += Record.length(of: type)
            return Record.value(type, payload, start..<position)
        }
    }

    /// The number of values; nil when the cell is not a valid record.
    static func columnCount(_ cell: TreePage.Cell, on page: TreePage) -> Int? {
        types(page.bytes, cell.local, length: cell.length, columns: nil)?.count
    }

    private static func types(
        _ bytes: [UInt8], _ local: Range<Int>, length: Int, columns: Int?
    ) -> [Int]? {
        var position = local.lowerBound
        guard let stated = bytes.variableInteger(&position, end: local.upperBound), stated >= 1,
            stated <= Int64(local.count)
        else { return nil }
        let end = local.lowerBound + Int(stated)
        var rest = length - Int(stated)
        var types: [Int] = []
        while position < end {
            // Type 7 is a floating-point number, which no journal has; 10 and 11 are reserved.
            guard let type = bytes.variableInteger(&position, end: end), type >= 0,
                type <= 2 * Int64(length) + 13, type != 7, type != 10, type != 11,
                types.count < 32
            else { return nil }
            types.append(Int(type))
            rest -= Record.length(of: Int(type))
        }
        return rest == 0 && (columns ?? types.count) == types.count ? types : nil
    }

    private static func length(of type: Int) -> Int {
        switch type {
        case 0, 8, 9: 0
        case 1...4: type
        case 5: 6
        case 6, 7: 8
        default: (type - 12) / 2
        }
    }

    private static func value(_ type: Int, _ payload: [UInt8], _ range: Range<Int>) -> Value {
        switch type {
        case 0: .null
        case 8: .integer(0)
        case 9: .integer(1)
        case 1...6:
            .integer(
                range.reduce(payload[range.lowerBound] >= 0x80 ? -1 : 0) {
                    $0 << 8 | Int64(payload[$1])
                })
        case let type where type.isMultiple(of: 2): .bytes(Array(payload[range]))
        default: .text(String(decoding: payload[range], as: UTF8.self))
        }
    }

    private static func payload(
        _ cell: TreePage.Cell, on page: TreePage, of pages: PageFile
    ) -> [UInt8]? {
        var payload = Array(page.bytes[cell.local])
        var next = cell.overflow
        var passed: [UInt32] = []
        while payload.count < cell.length {
            guard let bytes = pages.page(next) else { return nil }
            passed.append(next)
            payload += bytes[4..<min(bytes.count, 4 + cell.length - payload.count)]
            next = bytes.big32(0)
        }
        // The last overflow page has 0 as its next page.
        guard next == 0 else { return nil }
        pages.overflowPages.formUnion(passed)
        return payload
    }
}

extension Value {
    var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    var bytes: [UInt8]? { if case .bytes(let value) = self { value } else { nil } }
    var text: String? { if case .text(let value) = self { value } else { nil } }
    var isNull: Bool { if case .null = self { true } else { false } }
}
