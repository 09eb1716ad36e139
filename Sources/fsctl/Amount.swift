/// Numbers for people.
package enum Amount {
    /// `950 B`, `1.2 kB`, `12 MB`: powers of 1,000, two significant digits or all before the point.
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
