/// The line ranges of a file's functions, by their indentation: `swift format` ensures that a
/// function's last brace is below its first word, and the C files follow the same style.
func functions(of source: SourceText) -> [Range<Int>] {
    switch source.type {
    case "swift": swiftFunctions(source.lines)
    case "c", "h": cFunctions(source.lines)
    default: []
    }
}

private let modifiers: Set<Substring> = [
    "package", "public", "internal", "fileprivate", "private", "static", "final", "override",
    "mutating", "nonmutating", "consuming", "borrowing", "convenience", "required", "nonisolated",
    "@discardableResult", "@inline(__always)", "@Test", "@Sendable", "class", "isolated",
]

private func startsFunction(_ line: Substring) -> Bool {
    for word in line.split(separator: " ") {
        if modifiers.contains(word) || word.hasPrefix("@") { continue }
        let name = word.prefix { $0 != "(" && $0 != "<" && $0 != "?" && $0 != "[" }
        return ["func", "init", "deinit", "subscript"].contains(name) && !word.hasPrefix("init.")
    }
    return false
}

private func swiftFunctions(_ lines: [Substring]) -> [Range<Int>] {
    var found: [Range<Int>] = []
    for (start, line) in lines.enumerated() where startsFunction(line) {
        let indent = line.prefix { $0 == " " }.count
        for end in (start + 1)..<max(lines.count, start + 1) {
            let next = lines[end]
            let depth = next.prefix { $0 == " " }.count
            if depth > indent || next.isEmpty { continue }
            let first = next.dropFirst(depth).first
            if depth == indent && (first == ")" || first == "{") { continue }
            if depth == indent && first == "}" { found.append(start..<(end + 1)) }
            // Anything else at this depth is a requirement of a protocol, or a function on one
            // line.
            break
        }
    }
    return found
}

private func cFunctions(_ lines: [Substring]) -> [Range<Int>] {
    var found: [Range<Int>] = []
    var start: Int?
    for (index, line) in lines.enumerated() {
        if line == "{" || (line.hasSuffix(") {") && line.first?.isLetter == true) { start = index }
        if line == "}", let began = start {
            found.append(began..<(index + 1))
            start = nil
        }
    }
    return found
}
