import Foundation
import Model

/// Values as people read them.
enum Shown {
    /// A name in which each invisible or direction-changing character is visible, so that no name
    /// looks like another one or reorders the text around it.
    static func name(_ name: String) -> String {
        var text = String.UnicodeScalarView()
        for scalar in name.unicodeScalars {
            switch scalar.value {
            // Joiners belong to the spelling of some languages, and to emoji.
            case 0x200C...0x200D where text.last.map { !$0.isASCII } ?? false: text.append(scalar)
            case 0..<32: text.append(Unicode.Scalar(0x2400 + scalar.value)!)
            case 127: text.append("\u{2421}")
            case 0x80..<0xA0, 0xAD, 0x061C, 0x180E, 0x200B...0x200F, 0x2028...0x202E,
                0x2060...0x206F, 0xFEFF, 0xFFF9...0xFFFB, 0xE0000...0xE007F:
                text.append("\u{FFFD}")
            default: text.append(scalar)
            }
        }
        return String(text)
    }

    /// A size in units of 1000, such as `12.4 MB`.
    static func size(_ bytes: UInt64) -> String {
        guard bytes >= 1000 else { return bytes == 1 ? "1 byte" : "\(bytes) bytes" }
        var (value, unit) = (Double(bytes) / 1000, 0)
        let units = ["kB", "MB", "GB", "TB", "PB", "EB"]
        while value >= 999.95 {
            value /= 1000
            unit += 1
        }
        let tenths = Int((value * 10).rounded())
        let isWhole = tenths >= 1000 || tenths % 10 == 0
        return (isWhole ? "\((tenths + 5) / 10)" : "\(tenths / 10).\(tenths % 10)")
            + "\u{A0}\(units[unit])"
    }

    static func count(_ count: Int, _ one: String, _ many: String) -> String {
        count == 1 ? "1 \(one)" : "\(count) \(many)"
    }
}

/// A moment for an element `time`: the script shows it in the browser's time zone.
struct ShownTime: Sendable {
    /// As in `2026-11-21T08:15:30Z`.
    let machine: String
    /// As in `2026-11-21 08:15 UTC`.
    let text: String
    /// The same with seconds, for versions that were saved shortly after each other.
    let exact: String

    init(_ nanoseconds: Int64) {
        let parts = Timestamp(nanoseconds: nanoseconds).fileName.split(separator: " ")
        let (date, clock) = (parts[0], parts[1].replacing(".", with: ":"))
        machine = "\(date)T\(clock)Z"
        text = "\(date) \(clock.prefix(5)) UTC"
        exact = "\(date) \(clock) UTC"
    }
}
