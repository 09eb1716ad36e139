import Glibc
import Model
import SystemCalls

extension MergeRules {
    /// Reads the rules' file of a volume, which is the same on all devices.
    ///
    /// - Parameter root: A descriptor of the volume's root.
    /// - Returns: Nothing if there is no such file, or if it is too large.
    package static func bytes(in root: Int32) -> [UInt8] {
        let flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK
        guard let file = try? Descriptor(opening: fileName, in: root, flags: flags),
            let status = try? file.status(), status.st_size <= sizeMax
        else { return [] }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        let count = bytes.withUnsafeMutableBytes {
            (try? file.read(into: $0, at: 0)) ?? 0
        }
        return Array(bytes.prefix(count))
    }

    /// Parses the file's bytes. Lines that cannot be parsed are left out and reported in
    /// `problems`.
    package init(file bytes: [UInt8]) {
        self.init()
        guard bytes.count <= MergeRules.sizeMax else {
            add(1, "the file has more than 1 MiB, so all of it is ignored; shorten it")
            return
        }
        var macros: [String: [Setting]] = ["binary": [.driver(.binary)]]
        let mark: [UInt8] = [0xef, 0xbb, 0xbf]
        let text = bytes.starts(with: mark) ? bytes.dropFirst(3) : bytes[...]
        let newline = UInt8(ascii: "\n")
        let all = text.split(separator: newline, omittingEmptySubsequences: false)
        for (index, line) in all.enumerated() {
            read(line, number: index + 1, macros: &macros)
        }
    }

    private mutating func add(_ number: Int, _ message: String) {
        problems.append(Problem(line: number, message: message))
    }

    private mutating func read(
        _ line: ArraySlice<UInt8>, number: Int, macros: inout [String: [Setting]]
    ) {
        var rest = line.drop(while: isBlank)
        guard let first = rest.first, first != UInt8(ascii: "#") else { return }
        var pattern: [UInt8]
        let isQuoted = first == UInt8(ascii: "\"")
        if isQuoted {
            guard let (text, behind) = unquoted(rest) else {
                return add(
                    number, "the quotation does not end, or has an escape that C does not have")
            }
            (pattern, rest) = (text, behind)
        } else {
            pattern = Array(rest.prefix { !isBlank($0) })
            rest = rest.drop { !isBlank($0) }
        }
        let words = rest.split(whereSeparator: isBlank).map { String(decoding: $0, as: UTF8.self) }
        let settings = settings(words, number: number, macros: macros)
        let macro = Array("[attr]".utf8)
        if !isQuoted, pattern.starts(with: macro) {
            let name = String(decoding: pattern.dropFirst(macro.count), as: UTF8.self)
            let isTaken = ["merge", "automerge", "stale", "lock"].contains(name)
            guard MergeDriver.isName(name), !isTaken else {
                return add(number, "'\(name)' cannot be the name of a macro")
            }
            macros[name] = settings
            return
        }
        if pattern.first == UInt8(ascii: "!") {
            return add(
                number, "a pattern cannot begin with '!'; add a later line with other settings")
        }
        if pattern.starts(with: Array("\\!".utf8)) || pattern.starts(with: Array("\\#".utf8)) {
            pattern.removeFirst()
        }
        if pattern.last == UInt8(ascii: "/") {
            let text = String(decoding: pattern, as: UTF8.self)
            return add(number, "directories are not merged; for the files in it write \(text)**")
        }
        guard let pattern = NamePattern(pattern) else {
            return add(number, "the pattern is empty")
        }
        if words.isEmpty {
            return add(
                number,
                "nothing is said about the pattern; add merge=…, automerge=…, stale=… or lock=…")
        }
        if !settings.isEmpty {
            lines.append(Line(number: number, pattern: pattern, settings: settings))
        }
    }

    private mutating func settings(_ words: [String], number: Int, macros: [String: [Setting]])
        -> [Setting]
    {
        var result: [Setting] = []
        for word in words {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count == 2 ? String(parts[1]) : nil
            switch (String(parts[0]), value) {
            case ("merge", let value?):
                if let driver = MergeDriver(word: value) {
                    result.append(.driver(driver))
                } else {
                    add(
                        number,
                        "'\(word)': use merge=text, list, union, json, sqlite, binary or a "
                            + "driver's name")
                }
            case ("automerge", let value?):
                if let automerge = Automerge(rawValue: value) {
                    result.append(.automerge(automerge))
                } else {
                    add(number, "'\(word)': use automerge=on, automerge=off or automerge=ask")
                }
            case ("merge", nil): result.append(.driver(.text))
            case ("-merge", nil): result.append(.driver(.binary))
            case ("!merge", nil): result.append(.driver(nil))
            case ("automerge", nil): result.append(.automerge(.on))
            case ("-automerge", nil): result.append(.automerge(.off))
            case ("!automerge", nil): result.append(.automerge(nil))
            case ("stale", let value?):
                if let stale = Stale(rawValue: value) {
                    result.append(.stale(stale))
                } else {
                    add(number, "'\(word)': use stale=conflict, stale=merge or stale=history")
                }
            case ("!stale", nil): result.append(.stale(nil))
            case ("lock", let value?):
                if let lock = Lock(rawValue: value) {
                    result.append(.lock(lock))
                } else {
                    add(number, "'\(word)': use lock=notice, lock=ask or lock=hard")
                }
            case ("!lock", nil): result.append(.lock(nil))
            case (let name, nil) where macros[name] != nil: result += macros[name] ?? []
            default: add(number, "'\(word)' is unknown: use merge, automerge, stale or lock")
            }
        }
        return result
    }
}

private func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0d }

/// The text between the quotation marks, and the rest of the line after them.
private func unquoted(_ text: ArraySlice<UInt8>) -> ([UInt8], ArraySlice<UInt8>)? {
    var rest = text.dropFirst()
    var result: [UInt8] = []
    let escapes: [UInt8: UInt8] = [
        UInt8(ascii: "a"): 7, UInt8(ascii: "b"): 8, UInt8(ascii: "t"): 9, UInt8(ascii: "n"): 10,
        UInt8(ascii: "v"): 11, UInt8(ascii: "f"): 12, UInt8(ascii: "r"): 13,
        UInt8(ascii: "\""): UInt8(ascii: "\""), UInt8(ascii: "\\"): UInt8(ascii: "\\"),
    ]
    while let byte = rest.popFirst() {
        if byte == UInt8(ascii: "\"") {
            guard rest.first.map(isBlank) ?? true else { return nil }
            return (result, rest)
        }
        guard byte == UInt8(ascii: "\\") else {
            result.append(byte)
            continue
        }
        let digits = rest.prefix(3)
        if let escape = rest.first.flatMap({ escapes[$0] }) {
            result.append(escape)
            rest = rest.dropFirst()
        } else if digits.count == 3, digits.allSatisfy({ (0x30...0x37).contains($0) }),
            let code = UInt8(String(decoding: digits, as: UTF8.self), radix: 8)
        {
            result.append(code)
            rest = rest.dropFirst(3)
        } else {
            return nil
        }
    }
    return nil
}
