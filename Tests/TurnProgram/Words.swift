import FileCoordination
import Foundation
import Synchronization

/// A command's words: `key=value` among them, and the others.
struct Words: Sendable {
    let verb: String
    let plain: [String]
    private let settings: [String: String]

    init(_ words: [String]) {
        verb = words[0]
        let isSetting = { (word: String) in word.contains("=") }
        plain = words.dropFirst().filter { !isSetting($0) }
        let pairs = words.dropFirst().filter(isSetting).map { word in
            let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
            return (parts[0], parts.count > 1 ? parts[1] : "")
        }
        settings = Dictionary(pairs) { $1 }
    }

    subscript(key: String) -> String? { settings[key] }
    func list(_ key: String) -> [String] {
        settings[key]?.split(separator: ",").map(String.init) ?? []
    }
    var name: String { plain.first ?? "" }
    var rest: [String] { Array(plain.dropFirst()) }
}

/// `read+withoutChanges:/path`.
struct Item: Sendable {
    let isWriting: Bool
    let reading: FileCoordinator.ReadingOptions
    let writing: FileCoordinator.WritingOptions
    let url: URL

    init?(_ word: String) {
        guard let colon = word.firstIndex(of: ":") else { return nil }
        let words = word[..<colon].split(separator: "+").map(String.init)
        isWriting = words.first == "write"
        url = URL(filePath: String(word[word.index(after: colon)...]))
        let readings: [String: FileCoordinator.ReadingOptions] = [
            "withoutChanges": .withoutChanges, "resolvesSymbolicLink": .resolvesSymbolicLink,
            "immediatelyAvailableMetadataOnly": .immediatelyAvailableMetadataOnly,
            "forUploading": .forUploading,
        ]
        let writings: [String: FileCoordinator.WritingOptions] = [
            "forDeleting": .forDeleting, "forMoving": .forMoving, "forMerging": .forMerging,
            "forReplacing": .forReplacing,
            "contentIndependentMetadataOnly": .contentIndependentMetadataOnly,
        ]
        let options = words.dropFirst()
        reading = options.reduce(into: []) { $0.formUnion(readings[$1] ?? []) }
        writing = options.reduce(into: []) { $0.formUnion(writings[$1] ?? []) }
    }

    var intent: FileAccessIntent {
        isWriting
            ? .writingIntent(with: url, options: writing)
            : .readingIntent(with: url, options: reading)
    }
}

/// What happened.
struct Line: Encodable, Sendable {
    var at: String
    var name: String
    var message: String?
    var path: String?
    var to: String?
    var paths: [String]?
    var text: String?
    var error: String?
    var code: String?
    var version: String?

    private static let output = Mutex(())

    /// In one piece, whichever thread says it.
    func say() {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let line = try? encoder.encode(self) else { return }
        Line.output.withLock { _ in
            FileHandle.standardOutput.write(line + Data("\n".utf8))
        }
    }

    mutating func add(_ error: any Error) {
        self.error = (error as? any LocalizedError)?.errorDescription ?? "\(error)"
        code = (error as? FileCoordinationError)?.code.rawValue
    }
}

struct Sentence: Error, LocalizedError {
    let text: String
    var errorDescription: String? { text }
}
