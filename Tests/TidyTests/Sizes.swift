import Foundation

/// What a reader can take in at once: files of a folder, lines of a type with all its extensions.
enum Sizes {
    static let filesMax = 20
    static let linesMax = 600

    /// Types that are still larger than `linesMax`, by module. The number is what each has now,
    /// rounded up; it may only become smaller.
    static let ceilings: [String: Int] = [:]

    /// The folders of Sources with more than `filesMax` files, and how many each has.
    static func overfullFolders(_ paths: [String]) -> [String: Int] {
        let folders = paths.filter { $0.hasPrefix("Sources/") }.map {
            $0.split(separator: "/").dropLast().joined(separator: "/")
        }
        return folders.reduce(into: [:]) { $0[$1, default: 0] += 1 }.filter { $0.value > filesMax }
    }

    /// How many lines each type of Sources has in all files of its module, as "Module.Type".
    static func linesOfTypes(_ sources: [SourceText]) -> [String: Int] {
        var lines: [String: Int] = [:]
        for source in sources where source.isSwift {
            guard let module = source.module else { continue }
            var current: String?
            for line in source.lines {
                if current == nil, let name = declaredType(in: line) {
                    let type = "\(module).\(name)"
                    lines[type, default: 0] += 1
                    current = line.hasSuffix("}") ? nil : type
                } else if let type = current {
                    lines[type, default: 0] += 1
                    if line.hasPrefix("}") { current = nil }
                }
            }
        }
        return lines
    }

    /// The type that a line without indentation declares or extends.
    private static func declaredType(in line: Substring) -> Substring? {
        guard line.first?.isWhitespace == false, !line.hasPrefix("//") else { return nil }
        let kinds: Set<Substring> = ["class", "struct", "enum", "actor", "extension", "protocol"]
        let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "_" && $0 != "@" }
        guard let kind = words.firstIndex(where: kinds.contains), kind + 1 < words.count,
            words[kind + 1].first?.isUppercase == true
        else { return nil }
        return words[kind + 1]
    }
}
