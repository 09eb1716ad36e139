import Model

// The documents that this device alone may edit, as the hub has granted it, and the operations that
// say under which grant they were made. They outlive the process, so that a save that is recorded
// or sent later carries the right token.
extension HubTables {
    /// The fencing token of the document's last grant, until it was released.
    package func grant(of item: Identifier) throws(VolumeError) -> UInt64? {
        try reader.first("SELECT token FROM grants WHERE item = ?", [.identifier(item)]) {
            $0.number(0)
        }
    }

    package func grants() throws(VolumeError) -> [(item: Identifier, token: UInt64)] {
        try reader.all("SELECT item, token FROM grants ORDER BY item", []) {
            (columns) throws(VolumeError) in
            (item: try columns.identifier(0), token: columns.number(1))
        }
    }

    /// The tokens of the operations from this number on, by their numbers.
    package func fences(from number: UInt64) throws(VolumeError) -> [UInt64: UInt64] {
        let found = try reader.all(
            "SELECT operation, token FROM fences WHERE operation >= ?", [.number(number)]
        ) { ($0.number(0), $0.number(1)) }
        return Dictionary(found) { $1 }
    }
}

/// Changes of these tables within a transaction.
package enum GrantRows {
    package static func set(
        _ token: UInt64, of item: Identifier, _ t: Transaction
    ) throws(VolumeError) {
        try t.run(
            "INSERT OR REPLACE INTO grants (item, token) VALUES (?, ?)",
            [.identifier(item), .number(token)])
    }

    /// Forgets a grant, unless the document was granted again.
    package static func remove(
        _ token: UInt64, of item: Identifier, _ t: Transaction
    ) throws(VolumeError) {
        try t.run(
            "DELETE FROM grants WHERE item = ? AND token = ?",
            [.identifier(item), .number(token)])
    }

    /// Gives a grant to another id of its document.
    package static func reassign(
        _ item: Identifier, to other: Identifier, _ t: Transaction
    ) throws(VolumeError) {
        try t.run(
            "UPDATE OR REPLACE grants SET item = ? WHERE item = ?",
            [.identifier(other), .identifier(item)])
    }

    package static func removeFences(upTo number: UInt64, _ t: Transaction) throws(VolumeError) {
        try t.run("DELETE FROM fences WHERE operation <= ?", [.number(number)])
    }

    /// Lets an operation carry the token of its document's grant, if there is one.
    package static func fence(
        _ operation: UInt64, of item: Identifier, _ t: Transaction
    ) throws(VolumeError) {
        try t.run(
            "INSERT OR REPLACE INTO fences SELECT ?, token FROM grants WHERE item = ?",
            [.number(operation), .identifier(item)])
    }
}
