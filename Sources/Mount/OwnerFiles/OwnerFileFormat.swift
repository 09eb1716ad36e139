import Glibc
import Model
import SystemCalls
import Volume

/// What editors write into their owner files. The names of people and devices come from others, so
/// each format escapes what has a meaning in it, and shortens what has no room.
enum OwnerFileFormat: Hashable, Sendable {
    case libreOffice, emacs, vim

    var isLink: Bool { self == .emacs }

    /// The contents of the file, or the target of the link.
    ///
    /// - Parameter process: A process of this machine that runs as long as the owner file is shown.
    ///   If the other device has this machine's name, editors look whether the process still runs,
    ///   and otherwise remove the owner file without asking.
    func bytes(_ owner: OpenElsewhere, of document: Name, process: Int32) -> [UInt8] {
        switch self {
        case .libreOffice: Self.libreOffice(owner)
        case .emacs: Self.emacs(owner, process)
        case .vim: Self.vim(owner, document, process)
        }
    }

    /// A row of fields: the name that the dialog shows, the user, the host, when it was opened, and
    /// the profile, by which LibreOffice knows its own files. The dialog does not show the host, so
    /// the name says it, too.
    private static func libreOffice(_ owner: OpenElsewhere) -> [UInt8] {
        let fields = [
            "\(owner.user) (\(owner.deviceName))", owner.user, owner.deviceName,
            minute(owner.since), "file:///concord/\(owner.device)",
        ]
        let escaped = fields.map { field in
            field.utf8.flatMap { byte in
                ",;\\".utf8.contains(byte) ? [UInt8(ascii: "\\"), byte] : [byte]
            }
        }
        return Array(escaped.joined(separator: ",".utf8)) + Array(";".utf8)
    }

    /// `05.11.2026 09:30` in local time.
    private static func minute(_ nanoseconds: Int64) -> String {
        var seconds = time_t(nanoseconds / 1_000_000_000)
        var time = tm()
        localtime_r(&seconds, &time)
        func digits(_ value: Int32, _ count: Int) -> String {
            let text = String(max(0, value))
            return String(repeating: "0", count: max(0, count - text.count)) + text
        }
        return digits(time.tm_mday, 2) + "." + digits(time.tm_mon + 1, 2) + "."
            + digits(time.tm_year + 1900, 4) + " " + digits(time.tm_hour, 2) + ":"
            + digits(time.tm_min, 2)
    }

    /// `USER@HOST.PROCESS`. Emacs takes the last `@` and the last dot. The time of boot is left
    /// out, which Emacs accepts as well. A slash would make the target a path to elsewhere.
    private static func emacs(_ owner: OpenElsewhere, _ process: Int32) -> [UInt8] {
        func plain(_ text: String, _ special: String) -> [UInt8] {
            text.utf8.map { special.utf8.contains($0) ? UInt8(ascii: "-") : $0 }
        }
        return plain(owner.user, "/") + Array("@".utf8) + plain(owner.deviceName, "/@")
            + Array(".\(process)".utf8)
    }

    /// Block 0 of a swap file, as memline.c describes it, with nothing to recover. The flags say
    /// that the document is in the same directory and, because nobody else knows, that it has
    /// unsaved changes; Vim may remove a file without any.
    private static func vim(_ owner: OpenElsewhere, _ document: Name, _ process: Int32) -> [UInt8] {
        var block = [UInt8](repeating: 0, count: 4096)
        func put(_ bytes: some Collection<UInt8>, _ offset: Int) {
            block.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        }
        func put(little value: some FixedWidthInteger, _ offset: Int) {
            withUnsafeBytes(of: value.littleEndian) { put($0, offset) }
        }
        put("b0VIM 9.0".utf8, 0)
        put(little: UInt32(block.count), 12)
        put(little: UInt32(truncatingIfNeeded: process), 24)
        put(owner.user.prefix(bytes: 39).utf8, 28)
        put(owner.deviceName.prefix(bytes: 39).utf8, 68)
        put(document.bytes.prefix(889), 108)
        put([4, 0x55], 1006)
        // Numbers by which Vim recognizes the byte order and the sizes of C's types.
        put(little: UInt64(0x3031_3233), 1008)
        put(little: UInt32(0x2021_2223), 1016)
        put(little: UInt16(0x1213), 1020)
        put([0x55], 1022)
        return block
    }
}

extension String {
    /// As many whole characters as there is room for.
    fileprivate func prefix(bytes: Int) -> String {
        var length = 0
        return String(
            prefix { character in
                length += character.utf8.count
                return length <= bytes
            })
    }
}
