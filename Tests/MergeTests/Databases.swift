import Foundation
import GRDB
import Model
import Support

@testable import Merge

/// Databases as bytes, which are changed and queried by SQL, and a merger for them.
struct Databases {
    let bench: MergeBench
    static let source = MergeInput.Source(
        version: "0123456789abcdef0123456789abcdef", device: "laptop", saved: 7_000_000_001)

    init(rules: String = "* merge=sqlite") throws { bench = try MergeBench(rules: rules) }

    /// Changes a database and returns its bytes; nil makes a new one.
    func make(_ old: [UInt8]? = nil, _ body: (Database) throws -> Void) throws -> [UInt8] {
        let path = "\(bench.directory.path)/\(UUID().uuidString)"
        if let old { try Data(old).write(to: URL(filePath: path)) }
        defer { try? FileManager.default.removeItem(atPath: path) }
        do {
            var configuration = Configuration()
            configuration.foreignKeysEnabled = false
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.writeWithoutTransaction(body)
            try queue.close()
        }
        return Array(try Data(contentsOf: URL(filePath: path)))
    }

    func make(_ old: [UInt8]? = nil, _ sql: String) throws -> [UInt8] {
        try make(old) { try $0.execute(sql: sql) }
    }

    func merge(
        _ base: [UInt8]?, _ ours: [UInt8], _ theirs: [UInt8], path: String = "a.db"
    ) throws -> MergeOutcome {
        var input = bench.input(path, base, ours, theirs)
        input.source = Databases.source
        return try bench.merger.merge(input)
    }

    /// The rows of a query, each as a text: cells are separated by `|`, and blobs are hexadecimal
    /// digits.
    func rows(_ file: [UInt8], _ sql: String) throws -> [String] {
        var rows: [String] = []
        _ = try make(file) { database in
            rows = try Row.fetchAll(database, sql: sql).map { row in
                row.databaseValues.map { value in
                    switch value.storage {
                    case .null: "NULL"
                    case .int64(let number): "\(number)"
                    case .double(let number): "\(number)"
                    case .string(let text): text
                    case .blob(let data): data.map { String($0, radix: 16) }.joined(separator: " ")
                    }
                }.joined(separator: "|")
            }
        }
        return rows
    }
}

extension MergeOutcome {
    /// The bytes of a clean result.
    var bytes: [UInt8]? { if case .clean(let bytes, by: _) = self { bytes } else { nil } }
}
