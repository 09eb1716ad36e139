/// The part of a file that a request asks for.
package enum ByteRange: Equatable {
    case all
    case part(Range<UInt64>)
    /// The file has no such part.
    case none

    /// - Parameter header: The header `Range`. Several ranges and other units are ignored, as
    ///   RFC 9110 allows.
    package init(_ header: String?, size: UInt64) {
        let unit = "bytes="
        let text = header?.filter { $0 != " " } ?? ""
        let ends = text.dropFirst(unit.count).split(
            separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard text.hasPrefix(unit), ends.count == 2, !text.contains(","),
            ends.allSatisfy({ $0.utf8.allSatisfy { (48...57).contains($0) } })
        else {
            self = .all
            return
        }
        switch (UInt64(ends[0]), UInt64(ends[1])) {
        case (let first?, let last):
            guard first < size, last.map({ $0 >= first }) ?? true else {
                self = .none
                return
            }
            self = .part(first..<min(size - 1, last ?? .max) + 1)
        case (nil, let count?):
            self = count == 0 || size == 0 ? .none : .part(size - min(count, size)..<size)
        case (nil, nil): self = .all
        }
    }
}
