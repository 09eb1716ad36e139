import Foundation

/// The output of `fsctl versions --json` for a document.
package struct History: Decodable, Sendable {
    package struct Version: Decodable, Sendable {
        package var number: Int
        package var id: String
        package var kind: String
        package var program: String
        package var size: Int
        package var fileName: String
        package var durability: String
    }

    package var id: String
    package var state: String
    package var versions: [Version]

    package static func of(_ path: String) throws -> History {
        let text = try Programs.fsctl("versions", path, "--json").succeed()
        return try JSONDecoder().decode(History.self, from: Data(text.utf8))
    }

    /// The texts of a document's versions, read from its hidden directory, oldest first.
    package static func texts(of path: String) throws -> [String] {
        let document = URL(filePath: path)
        let hidden = document.deletingLastPathComponent()
            .appending(path: ".versions/\(document.lastPathComponent)")
        return try of(path).versions.map {
            try String(contentsOf: hidden.appending(path: $0.fileName), encoding: .utf8)
        }
    }
}
