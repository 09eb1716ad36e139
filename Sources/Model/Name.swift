/// One component of a path, as POSIX defines it: 1 to 255 bytes without `/` and NUL, and not
/// necessarily UTF-8. The initializers check nothing; see `isSafe`.
package struct Name: Hashable, Sendable, Comparable {
    package let bytes: [UInt8]

    package init(bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

    package init(_ text: some StringProtocol) { bytes = Array(text.utf8) }

    package init(cString: UnsafePointer<CChar>) {
        var length = 0
        while cString[length] != 0 { length += 1 }
        bytes = cString.withMemoryRebound(to: UInt8.self, capacity: length) {
            Array(UnsafeBufferPointer(start: $0, count: length))
        }
    }

    /// The name as people see it: bytes that are not UTF-8 become replacement characters.
    package var text: String { String(decoding: bytes, as: UTF8.self) }

    package static func < (a: Name, b: Name) -> Bool { a.bytes.lexicographicallyPrecedes(b.bytes) }

    /// Whether the name is valid as a single path component: it is not empty, not too long, not `.`
    /// or `..`, and has no `/` or NUL.
    package var isSafe: Bool {
        !bytes.isEmpty && bytes.count <= 255 && bytes != [0x2E] && bytes != [0x2E, 0x2E]
            && !bytes.contains(0) && !bytes.contains(UInt8(ascii: "/"))
    }

    /// The names in each directory that devices keep for themselves, so no item has one: old
    /// versions, conflict versions, and the place where changes from the hub are prepared.
    private static let reserved: Set<Name> = [
        Name(".versions"), Name(".conflicts"), Name(".concord-incoming"),
    ]

    package var isReserved: Bool { Name.reserved.contains(self) }

    /// The bytes after the last dot, which may be empty: `report.tar.gz` gives `gz`, `.profile`
    /// gives no bytes.
    package var fileExtension: [UInt8] {
        guard let dot = bytes.lastIndex(of: UInt8(ascii: ".")), dot > 0 else { return [] }
        return Array(bytes[(dot + 1)...])
    }

    /// Whether programs use such a name for a backup of `document`: `report.txt~`, `#report.txt#`,
    /// `report.bak`.
    package func isBackup(of document: Name) -> Bool {
        let (count, all) = (document.bytes.count, bytes.count)
        if count < all,
            (0...(all - count)).contains(where: {
                bytes[$0..<$0 + count].elementsEqual(document.bytes)
            })
        {
            return true
        }
        let endings: [StaticString] = ["bak", "backup", "old", "orig", "sav"]
        let mine = fileExtension
        guard endings.contains(where: { mine.elementsEqual(Array("\($0)".utf8)) }) else {
            return false
        }
        return stem == document.stem
    }

    /// The name without the extension and its dot.
    private var stem: ArraySlice<UInt8> {
        fileExtension.isEmpty ? bytes[...] : bytes.dropLast(fileExtension.count + 1)
    }

    /// Calls `body` with the name as a C string, which ends with NUL.
    package func withCString<Result, Failure: Error>(
        _ body: (UnsafePointer<CChar>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let result: Swift.Result<Result, Failure> =
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: bytes.count + 1) { buffer in
                UnsafeMutableRawBufferPointer(buffer).copyBytes(from: bytes)
                buffer[bytes.count] = 0
                do throws(Failure) {
                    return .success(try body(UnsafePointer(buffer.baseAddress!)))
                } catch {
                    return .failure(error)
                }
            }
        return try result.get()
    }
}

extension Name: CustomStringConvertible {
    package var description: String { text }
}
