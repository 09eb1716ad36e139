/// Formats and parses numbers for people.
package enum Amount {
    /// `950 B`, `1.2 kB`, `12 MB`: units are powers of 1,000; values below 10 units show one
    /// decimal.
    package static func size(_ bytes: UInt64) -> String {
        if bytes < 1000 { return "\(bytes) B" }
        var value = Double(bytes)
        for unit in ["kB", "MB", "GB", "TB", "PB", "EB"] {
            value /= 1000
            let tenths = (value * 10).rounded()
            if tenths < 100 { return "\(Int(tenths) / 10).\(Int(tenths) % 10) \(unit)" }
            if value.rounded() < 1000 || unit == "EB" { return "\(Int(value.rounded())) \(unit)" }
        }
        return "\(bytes) B"
    }

    /// The number of bytes that `800k`, `500M`, `2G` or `1.5T` means, with or without a final `B`;
    /// nil for any other text.
    package static func bytes(_ text: String) -> Int64? {
        var text = text.lowercased()[...]
        if text.hasSuffix("b") { text.removeLast() }
        let units: [Character: Double] = ["k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12]
        var factor = 1.0
        if let unit = text.last.flatMap({ units[$0] }) {
            factor = unit
            text.removeLast()
        }
        guard let first = text.first, first.isNumber, let value = Double(text),
            value * factor < 1e18
        else { return nil }
        return Int64(value * factor)
    }

    /// `1,234,567`
    package static func count(_ value: Int) -> String {
        var groups: [String] = []
        var rest = value.magnitude
        while rest >= 1000 {
            let group = String(rest % 1000)
            groups.insert(String(repeating: "0", count: 3 - group.count) + group, at: 0)
            rest /= 1000
        }
        return (value < 0 ? "-" : "") + ([String(rest)] + groups).joined(separator: ",")
    }

    /// `1 version`, `2 versions`.
    package static func count(_ value: Int, _ noun: String) -> String {
        "\(count(value)) \(noun)\(value == 1 ? "" : "s")"
    }
}
