import Control
import Model

/// The parsed arguments of `fsctl coordinate`: `read A write --replacing B -- cp {1} {2}`.
package struct CoordinateArguments: Hashable, Sendable {
    package struct Access: Hashable, Sendable {
        package var path: String
        package var way: Way
    }

    package enum Way: Hashable, Sendable {
        case reading([AccessField.ReadingOption])
        case writing(AccessField.WritingOption)

        package func field(_ path: [Name]) -> AccessField {
            switch self {
            case .reading(let options): AccessField(reading: path, options)
            case .writing(let option): AccessField(writing: path, option)
            }
        }
    }

    package var accesses: [Access] = []
    package var command: [String]

    package struct UsageError: Error, Hashable {
        package let message: String
    }

    package static let readingOptions: [String: AccessField.ReadingOption] = [
        "--without-changes": .withoutChanges, "--resolve-symlink": .resolvesSymbolicLink,
        "--metadata-only": .immediatelyAvailableMetadataOnly, "--uploading": .forUploading,
    ]
    package static let writingOptions: [String: AccessField.WritingOption] = [
        "--merging": .merging, "--moving": .moving, "--deleting": .deleting,
        "--replacing": .replacing, "--content-independent": .contentIndependentMetadataOnly,
    ]

    package init(_ words: [String]) throws(UsageError) {
        guard let end = words.firstIndex(of: "--"), end + 1 < words.endIndex else {
            throw UsageError(message: "Put \"--\" before the command to run.")
        }
        command = Array(words[(end + 1)...])
        let keywords = words[..<end].indices.filter { ["read", "write"].contains(words[$0]) }
        guard let first = keywords.first, first == words.startIndex else {
            throw UsageError(message: "Start with a claim: read PATH… or write PATH….")
        }
        for (start, next) in zip(keywords, keywords.dropFirst() + [end]) {
            accesses += try CoordinateArguments.clause(words[start], words[(start + 1)..<next])
        }
    }

    /// `read --without-changes A B`
    private static func clause(_ keyword: String, _ words: ArraySlice<String>)
        throws(UsageError) -> [Access]
    {
        let options = words.filter { $0.hasPrefix("-") }
        let paths = words.filter { !$0.hasPrefix("-") }
        guard !paths.isEmpty else {
            throw UsageError(
                message: "\"\(keyword)\" needs a path; a file of that name is ./\(keyword).")
        }
        let way: Way
        if keyword == "read" {
            var known: [AccessField.ReadingOption] = []
            for option in options {
                known.append(try find(option, among: readingOptions, "reading"))
            }
            way = .reading(known)
        } else {
            guard options.count <= 1 else {
                throw UsageError(message: "A write takes at most one option.")
            }
            way = .writing(
                try options.first.map { option throws(UsageError) in
                    try find(option, among: writingOptions, "writing")
                } ?? .update)
        }
        return paths.map { Access(path: $0, way: way) }
    }

    private static func find<Option>(
        _ text: String, among all: [String: Option], _ deed: String
    ) throws(UsageError) -> Option {
        if let found = all[text] { return found }
        let known = all.keys.sorted().joined(separator: ", ")
        throw UsageError(
            message: "\(text) is no option of \(deed), which are \(known); "
                + "other options go before the first read or write.")
    }
}

/// A command whose arguments contain placeholders for the claimed paths.
package struct CommandTemplate {
    private let words: [FilePath]

    package init(_ words: [FilePath]) { self.words = words }

    /// `{2}` becomes the second path. `{}` inside a word becomes the only path; as a whole word it
    /// becomes all paths, one word each.
    package func filled(with paths: [FilePath]) -> [FilePath] {
        words.flatMap { word in
            word.bytes == Array("{}".utf8) ? paths : [fill(word, paths)]
        }
    }

    private func fill(_ word: FilePath, _ paths: [FilePath]) -> FilePath {
        var filled: [UInt8] = []
        var rest = word.bytes[...]
        while let byte = rest.first {
            if byte == UInt8(ascii: "{"), let end = rest.firstIndex(of: UInt8(ascii: "}")),
                let number = number(rest[(rest.startIndex + 1)..<end], of: paths.count)
            {
                filled += paths[number - 1].bytes
                rest = rest[(end + 1)...]
            } else {
                filled.append(byte)
                rest = rest.dropFirst()
            }
        }
        return FilePath(bytes: filled)
    }

    private func number(_ digits: ArraySlice<UInt8>, of count: Int) -> Int? {
        if digits.isEmpty { return count == 1 ? 1 : nil }
        guard digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int(String(decoding: digits, as: UTF8.self)).flatMap {
            (1...count).contains($0) ? $0 : nil
        }
    }
}
