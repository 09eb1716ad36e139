import Foundation
import GRDB

/// The table that keeps the additional content of a managed document. It is merged by rows like the
/// other tables, so several devices may change contents with different names at the same time.
enum AdditionalContent {
    private static let migration = "_additional_content"

    /// Adds the table to the schema that the migrator makes.
    static func register(in migrator: inout DatabaseMigrator) {
        migrator.registerMigration(migration) { database in
            try database.execute(
                sql: """
                    CREATE TABLE _additional_content (
                        name TEXT NOT NULL PRIMARY KEY, content BLOB NOT NULL
                    )
                    """)
        }
    }

    /// Returns the contents by their names.
    static func read(_ database: Database) throws -> [String: Data] {
        let rows = try Row.fetchAll(database, sql: "SELECT name, content FROM _additional_content")
        return Dictionary(uniqueKeysWithValues: rows.map { ($0["name"], $0["content"]) })
    }

    /// Replaces the contents. Rows that stay the same are not written, so the database's bytes do
    /// not change when no content does.
    static func write(_ contents: [String: Data], to database: Database) throws {
        let present = try read(database)
        for name in present.keys where contents[name] == nil {
            try database.execute(
                sql: "DELETE FROM _additional_content WHERE name = ?", arguments: [name])
        }
        for (name, content) in contents where present[name] != content {
            try database.execute(
                sql: "INSERT OR REPLACE INTO _additional_content(name, content) VALUES (?, ?)",
                arguments: [name, content])
        }
    }

    /// Applies the changes from `base` to `theirs` to `ours`. A content that both have changed is
    /// ours.
    static func merge(
        base: [String: Data], ours: [String: Data], theirs: [String: Data]
    ) -> [String: Data] {
        var merged = ours
        for name in Set(base.keys).union(theirs.keys)
        where theirs[name] != base[name] && ours[name] == base[name] {
            merged[name] = theirs[name]
        }
        return merged
    }
}
