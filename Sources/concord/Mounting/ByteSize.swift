/// Parses a number of bytes as people write it.
enum ByteSize {
    /// Reads `500M`: bytes, or thousands (K), millions (M), billions (G) or trillions (T) of them.
    /// Returns nil for other text and `Int64.max` for a larger number.
    static func read(_ text: some StringProtocol) -> Int64? {
        let units: [Character: Int64] = [
            "K": 1000, "M": 1_000_000, "G": 1_000_000_000, "T": 1_000_000_000_000,
        ]
        let unit = text.last.flatMap { units[Character($0.uppercased())] }
        guard let number = Int64(unit == nil ? String(text) : String(text.dropLast())), number >= 0
        else { return nil }
        let (bytes, isTooLarge) = number.multipliedReportingOverflow(by: unit ?? 1)
        return isTooLarge ? .max : bytes
    }
}
