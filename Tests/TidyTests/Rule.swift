import Foundation
import Testing

/// A rule that every file must obey, and a text that violates it.
struct Rule: Sendable, CustomTestStringConvertible {
    let title: String
    /// Violates the rule, to prove that the rule can fail.
    let planted: SourceText
    let findings: @Sendable (SourceText) -> [Finding]

    var testDescription: String { title }

    init(
        _ title: String, planted: SourceText,
        _ findings: @escaping @Sendable (SourceText) -> [Finding]
    ) {
        self.title = title
        self.planted = planted
        self.findings = findings
    }

    /// A rule about single lines. The closure returns what is wrong with a line.
    init(
        _ title: String, planted: SourceText,
        eachLine objection: @escaping @Sendable (SourceText, Substring) -> String?
    ) {
        self.init(title, planted: planted) { source in
            source.lines.enumerated().compactMap { index, line in
                objection(source, line).map {
                    Finding(path: source.path, line: index + 1, message: $0)
                }
            }
        }
    }
}

private let code: Set<String> = ["swift", "c", "h", "py", "sh"]

extension Rule {
    static let all = [
        arrows, columns, fileLength, functionLength, hooks, promises, names, leftovers, titles,
        topLevel, seconds, precedence, elsewhere, citations, citedPaths,
    ]

    static let arrows = Rule(
        "arrows between modules point one way",
        planted: SourceText(path: "Sources/Volume/Bad.swift", text: "package import Mount\n")
    ) { source, line in
        guard source.isSwift, let module = source.module else { return nil }
        return Layers.imported(by: line).flatMap { Layers.objection(to: $0, in: module) }
    }

    static let columns = Rule(
        "a line of Swift has at most 100 columns",
        planted: SourceText(
            path: "Sources/Model/Bad.swift", text: "// " + String(repeating: "x", count: 98))
    ) { source, line in
        source.isSwift && line.utf8.count > 100 && line.count > 100
            ? "\(line.count) columns, at most 100" : nil
    }

    static let fileLength = Rule(
        "a file of code has at most 500 lines",
        planted: SourceText(
            path: "Tests/Bad.c", text: String(repeating: "\n", count: 501))
    ) { source in
        guard code.contains(source.type) || source.name == "Makefile" else { return [] }
        guard source.lines.count > 500 else { return [] }
        let message = "\(source.lines.count) lines, at most 500: split it"
        return [Finding(path: source.path, line: source.lines.count, message: message)]
    }

    static let functionLength = Rule(
        "a function has at most 70 lines",
        planted: SourceText(
            path: "Tests/Bad.swift",
            text: "    func long() {\n" + String(repeating: "        step()\n", count: 69)
                + "    }\n")
    ) { source in
        functions(of: source).filter { $0.count > 70 }.map {
            let message = "a function of \($0.count) lines, at most 70"
            return Finding(path: source.path, line: $0.lowerBound + 1, message: message)
        }
    }

    static let hooks = Rule(
        "a function that several threads read is in a Hook",
        planted: SourceText(
            path: "Sources/Model/Bad.swift", text: "let heard = Mutex<(@Sendable () -> Void)?>")
    ) { source, line in
        guard source.isSwift, source.module != nil,
            let start = line.range(of: "Mutex<")?.upperBound
        else { return nil }
        // A function in a collection or in a labelled element of a tuple is not read as the whole
        // value.
        let type = line[start...].drop { "(@".contains($0) }
        guard line[start...].contains("->"), type.first != "[",
            type.drop(while: \.isLetter).first != ":"
        else { return nil }
        return "a Mutex wraps a function once more each time: see Hook"
    }

    /// The words are written in two halves, so that this file does not violate the rule.
    static let promises = Rule(
        "no text has a mark for work that is still to be done",
        planted: SourceText(path: "README.md", text: "# Title\n" + "TO" + "DO: later\n")
    ) { _, line in
        let marks: [Substring] = ["TO" + "DO", "FIX" + "ME", "XX" + "X"]
        guard marks.contains(where: { line.contains($0) }) else { return nil }
        let words = line.split { !$0.isLetter && !$0.isNumber }
        return words.first { marks.contains($0) }.map { "\($0): do it, or open an issue" }
    }

    static let names = Rule(
        "no type or file is a manager, helper, utility or implementation",
        planted: SourceText(
            path: "Sources/Model/Bad.swift", text: "package final class Chunk" + "Manager {")
    ) { source in
        var found: [Finding] = []
        if isVague(source.name) {
            let message = "this file's name does not say what it is"
            found.append(Finding(path: source.path, line: 1, message: message))
        }
        guard source.isSwift else { return found }
        let kinds: Set<Substring> = ["class", "struct", "enum", "actor", "protocol", "typealias"]
        for (index, line) in source.lines.enumerated() {
            let words = line.split { $0 == " " || $0 == ":" || $0 == "<" }
            for (kind, name) in zip(words, words.dropFirst())
            where kinds.contains(kind) && isVague(name) && !line.contains("//") {
                let message = "\(name): name it after what it is"
                found.append(Finding(path: source.path, line: index + 1, message: message))
            }
        }
        return found
    }

    static let leftovers = Rule(
        "there are no files that an editor or a merge has left behind",
        planted: SourceText(path: "Sources/Model/Version.swift.orig", text: "")
    ) { source in
        let leaves = [".orig", ".rej", "~", ".bak", ".swp", ".swo", ".tmp"]
        guard let end = leaves.first(where: { source.path.hasSuffix($0) }) else { return [] }
        return [Finding(path: source.path, line: 1, message: "a leftover (\(end)): remove it")]
    }

    static let titles = Rule(
        "a document has one title",
        planted: SourceText(path: "README.md", text: "# One\n\n# Two\n")
    ) { source in
        guard source.type == "md" else { return [] }
        var fenced = false
        var count = 0
        for line in source.lines {
            if line.hasPrefix("```") { fenced.toggle() }
            if !fenced && line.hasPrefix("# ") { count += 1 }
        }
        if count == 1 { return [] }
        return [Finding(path: source.path, line: 1, message: "\(count) titles, not one")]
    }

    /// Such a product overflows for dates that any file may have, and then the process crashes.
    /// In Swift both have the precedence of `+`, so the left one binds first, unlike in C. A
    /// comparison of secrets accepted one wrong text of a hundred because of that.
    static let precedence = Rule(
        "an expression does not mix | and ^",
        planted: SourceText(
            path: "Sources/Model/Bad.swift", text: "bytes.reduce(0) { $0 | $1.0 ^ $1.1 }")
    ) { source, line in
        guard source.isSwift, !line.contains("//"), !line.contains("\"") else { return nil }
        return line.contains(" | ") && line.contains(" ^ ")
            ? "| and ^ in one line: one of them needs a line of its own" : nil
    }

    static let seconds = Rule(
        "seconds become nanoseconds in Model's Timestamp only",
        planted: SourceText(
            path: "Sources/Volume/Bad.swift",
            text: "let time = Int64(status.st_mtim.tv_sec) * 1_000_000_000\n")
    ) { source, line in
        guard source.isSwift, source.module != nil,
            source.path != "Sources/Model/Timestamp.swift"
        else { return nil }
        let code = line.replacing("_", with: "").replacing(" ", with: "")
        let products = [
            "*1000000000", "1000000000*", "*1e9", "1e9*",
        ]
        guard products.contains(where: { code.contains($0) }) else { return nil }
        return "use Timestamp, which does not overflow"
    }

    /// An optimized build of Swift 6.3 does not return to the caller's actor if a function that
    /// runs on it (`nonisolated(nonsending)`, the default here) ends by waiting for a continuation.
    static let elsewhere = Rule(
        "a function that may continue in another thread is marked @concurrent",
        planted: SourceText(
            path: "Sources/FileCoordination/Bad.swift",
            text: "func wait() async {\n    await withCheckedContinuation { $0.resume() }\n}\n")
    ) { source in
        guard let module = source.module,
            ["FileCoordination", "CloudNotes", "Shoebox"].contains(module)
        else { return [] }
        return functions(of: source).compactMap { range in
            let lines = source.lines[range]
            let signature = lines.prefix(1 + lines.prefix { !$0.hasSuffix("{") }.count)
            let waits = lines.contains {
                $0.contains("await withChecked") || $0.contains("await withUnsafe")
            }
            guard waits, !signature.contains(where: { $0.contains("@concurrent") }) else {
                return nil
            }
            let message = "this function waits for a continuation: mark it @concurrent"
            return Finding(path: source.path, line: range.lowerBound + 1, message: message)
        }
    }

    /// A reader of the repository has no other documents.
    static let citations = Rule(
        "a document that a comment cites is in the repository",
        planted: SourceText(
            path: "Sources/Model/Bad.swift", text: "/" + "/ As it is in another-place.md, 4.\n")
    ) { source, line in
        guard ["swift", "c", "h"].contains(source.type),
            let comment = line.range(of: "//").map({ line[$0.upperBound...] })
        else { return nil }
        let cited = comment.matches(of: /[A-Za-z][A-Za-z-]*\.md\b/).map { String($0.0) }
        return cited.first { !Repository.documents.contains($0) }.map { "there is no \($0)" }
    }

    static let citedPaths = Rule(
        "a path that a document or a comment cites exists",
        planted: SourceText(path: "README.md", text: "See `Sources/" + "Model/Absent.swift`.\n")
    ) { source, line in
        let comment = line.range(of: "//").map { line[$0.lowerBound...] }
        guard let text = source.type == "md" ? line : comment else { return nil }
        let cited = text.matches(of: /\b(?:Sources|Tests|Packaging)\/[\w+\/.-]*\w/)
        return cited.map { String($0.0) }.first { path in
            !FileManager.default.fileExists(atPath: Repository.root.appending(path: path).path)
        }.map { "there is no \($0)" }
    }

    static let topLevel = Rule(
        "the top level has only what a newcomer looks for",
        planted: SourceText(path: "docs/plan.md", text: "# Plan\n")
    ) { source in
        let first = source.path.split(separator: "/").first ?? ""
        let known = [
            "Package.swift", "Sources", "Tests", "Makefile", "README.md", "Packaging", "LICENSE",
            "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "THIRD-PARTY.md",
        ]
        if known.contains(String(first)) || first.hasPrefix(".") { return [] }
        let message = "\(first) at the top level: put it in Sources, Tests or Packaging"
        return [Finding(path: source.path, line: 1, message: message)]
    }
}

/// "Implicit" and "ManagedDocument" are terms of the domain. Only the bare words are vague.
private func isVague(_ name: some StringProtocol) -> Bool {
    for word in ["Manager", "Helper", "Utils", "Utilities", "Impl"] {
        guard let at = name.range(of: word) else { continue }
        if name[at.upperBound...].first?.isLowercase != true { return true }
    }
    return false
}
