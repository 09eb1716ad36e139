import Foundation

/// One text file of the repository, by its path from the root.
struct SourceText: Sendable {
    let path: String
    let lines: [Substring]

    init(path: String, text: String) {
        self.path = path
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        if lines.last == "" { lines.removeLast() }
        self.lines = lines
    }

    var name: String { String(path.split(separator: "/").last ?? "") }
    var type: String { name.contains(".") ? String(name.split(separator: ".").last ?? "") : "" }
    var isSwift: Bool { type == "swift" }

    /// The module that a file of Sources belongs to.
    var module: String? {
        let parts = path.split(separator: "/")
        return parts.count > 2 && parts[0] == "Sources" ? String(parts[1]) : nil
    }
}

/// A place where a rule is violated.
struct Finding: Sendable, CustomStringConvertible {
    let path: String
    let line: Int
    let message: String

    var description: String { "\(path):\(line): \(message)" }
}

/// The files of the checkout that this test was built from, without those of builds and of git.
struct Repository: Sendable {
    static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    private static let notOurs: Set<String> = [
        ".git", ".build", ".swiftpm", "Package.resolved", "__pycache__",
    ]

    let paths: [String]
    let sources: [SourceText]

    /// The file names of all documents.
    static let documents = Set(
        ((try? Repository())?.paths ?? []).filter { $0.hasSuffix(".md") }
            .map { String($0.split(separator: "/").last ?? "") })

    init() throws {
        var paths: [String] = []
        func walk(_ directory: String) throws {
            let here = Self.root.appending(path: directory)
            for name in try FileManager.default.contentsOfDirectory(atPath: here.path).sorted()
            where !Self.notOurs.contains(name) {
                let path = directory.isEmpty ? name : "\(directory)/\(name)"
                let values = try Self.root.appending(path: path)
                    .resourceValues(forKeys: [.isDirectoryKey])
                if values.isDirectory == true { try walk(path) } else { paths.append(path) }
            }
        }
        try walk("")
        self.paths = paths
        sources = paths.compactMap { path in
            (try? String(contentsOf: Self.root.appending(path: path), encoding: .utf8))
                .map { SourceText(path: path, text: $0) }
        }
    }
}
