/// How people write a number of bytes.
enum ByteSize {
    /// `500M`: bytes, or thousands (K), millions (M), … of them; nil for anything else, and the
    /// largest number for what is more than that.
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
