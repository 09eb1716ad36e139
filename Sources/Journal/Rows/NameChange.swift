import Model

/// The removal or move of an item by a program whose session is known. It is kept as long as
/// deleted documents are, so that the session can be undone.
package struct NameChange: Hashable, Sendable {
    package var item: Int64
    /// Nanoseconds since 1970.
    package var time: Int64
    /// The directory's key and the name in it, before.
    package var parent: Int64
    package var name: Name
    /// The same afterwards; nil after a removal.
    package var target: Target?
    package var person: String
    package var program: String
    package var session: WorkSession

    package struct Target: Hashable, Sendable {
        package var parent: Int64
        package var name: Name

        package init(parent: Int64, name: Name) { (self.parent, self.name) = (parent, name) }
    }

    package init(
        item: Int64, time: Int64, parent: Int64, name: Name, target: Target? = nil, person: String,
        program: String, session: WorkSession
    ) {
        self.item = item
        self.time = time
        self.parent = parent
        self.name = name
        self.target = target
        self.person = person
        self.program = program
        self.session = session
    }
}

extension Transaction {
    package func insert(_ change: NameChange) throws(VolumeError) {
        try run(
            """
            INSERT INTO name_changes
            (item, time, parent, name, new_parent, new_name, person, program, session)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .integer(change.item), .integer(change.time), .integer(change.parent),
                .bytes(change.name.bytes), .integer(change.target?.parent),
                change.target.map { .bytes($0.name.bytes) } ?? .null, .text(change.person),
                .text(change.program),
                .text(change.session.text),
            ])
    }

    package func removeNameChanges(before time: Int64) throws(VolumeError) {
        try run("DELETE FROM name_changes WHERE time < ?", [.integer(time)])
    }
}

extension Reader {
    /// Returns the name changes of an item, the oldest first.
    package func nameChanges(of item: Int64) throws(VolumeError) -> [NameChange] {
        try nameChanges("item = ?", [.integer(item)])
    }

    /// Returns the name changes of a session, the oldest first.
    package func nameChanges(by session: WorkSession) throws(VolumeError) -> [NameChange] {
        try nameChanges("session = ?", [.text(session.text)])
    }

    private func nameChanges(_ condition: String, _ values: [Value]) throws(VolumeError)
        -> [NameChange]
    {
        try all(
            """
            SELECT item, time, parent, name, new_parent, new_name, person, program, session
            FROM name_changes WHERE \(condition) ORDER BY key
            """, values
        ) { (columns) throws(VolumeError) in
            guard let session = WorkSession(columns.text(8)) else { return nil }
            let target =
                columns.isNull(4)
                ? nil
                : NameChange.Target(parent: columns.integer(4), name: Name(bytes: columns.bytes(5)))
            return NameChange(
                item: columns.integer(0), time: columns.integer(1), parent: columns.integer(2),
                name: Name(bytes: columns.bytes(3)), target: target, person: columns.text(6),
                program: columns.text(7), session: session)
        }.compactMap(\.self)
    }

    /// The keys of the items of which a session saved versions, in the order of the keys.
    package func items(savedIn session: WorkSession) throws(VolumeError) -> [Int64] {
        try all(
            """
            SELECT DISTINCT v.item FROM sessions s JOIN versions v ON v.id = s.version
            WHERE s.session = ? ORDER BY v.item
            """, [.text(session.text)]
        ) { $0.integer(0) }
    }

    /// Returns the sessions whose texts have this prefix, each once, sorted.
    package func sessions(beginning text: String) throws(VolumeError) -> [WorkSession] {
        // "\u{7F}" is greater than every byte that a session can contain.
        let range: [Value] = [.text(text), .text(text + "\u{7F}")]
        return try all(
            """
            SELECT session FROM sessions WHERE session >= ?1 AND session < ?2
            UNION SELECT session FROM name_changes WHERE session >= ?1 AND session < ?2
            ORDER BY session
            """, range
        ) { WorkSession($0.text(0)) }.compactMap(\.self)
    }
}
