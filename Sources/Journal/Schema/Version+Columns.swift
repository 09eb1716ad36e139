import Model

extension Version {
    static let columns = """
        id, number, parents, kind, device, device_name, person, program, name, size, modified,
        saved, content, durability, label
        """

    /// The columns by which a version is read. `durability` is 3 only if the present hub has
    /// confirmed the version; the column after `label` says whether any hub ever has.
    static let selection = """
        id, number, parents, kind, device, device_name, person, program, name, size, modified,
        saved, content, \(presentDurability),
        label, durability = 3, owner, owner_group, permissions, access_list, session
        """

    /// The durability of a row of `versions`: 3 only if the present hub has confirmed it.
    static let presentDurability =
        "CASE WHEN durability = 3 AND NOT \(isConfirmed) THEN 2 ELSE durability END"

    /// The tables that `selection` reads.
    static let tables = """
        versions LEFT JOIN owners ON owners.version = versions.id
        LEFT JOIN sessions ON sessions.version = versions.id
        """

    /// The number of columns of `selection`.
    static let selectionCount: Int32 = 21

    /// Whether the present hub has confirmed a row of `versions`.
    static let isConfirmed = """
        EXISTS (SELECT 1 FROM confirmations JOIN witnesses ON witnesses.key = witness
            WHERE version = versions.id AND is_current = 1)
        """

    /// Reads the columns of `selection`.
    init(columns: Columns) throws(VolumeError) {
        self.init(
            id: try columns.identifier(0), number: Int(columns.integer(1)),
            parents: try columns.identifiers(2), kind: try columns.code(3),
            device: try columns.identifier(4), deviceName: columns.text(5),
            person: columns.text(6), program: columns.text(7),
            session: columns.isNull(20) ? nil : WorkSession(columns.text(20)),
            name: Name(bytes: columns.bytes(8)), size: columns.bits(9),
            modified: columns.integer(10), saved: columns.integer(11),
            content: try columns.digest(12), durability: try columns.code(13),
            label: columns.isNull(14) ? nil : columns.text(14),
            wasAtHub: columns.integer(15) == 1, protection: Protection(columns: columns, from: 16))
    }

    // The parents are one blob of 16 bytes each. They are written and read together with their
    // version and never searched for; a table for them would cost a row and an index entry for each
    // save.
    var values: [Value] {
        [
            .identifier(id), .integer(Int64(number)), .bytes(parents.flatMap(\.bytes)),
            .code(kind.rawValue), .identifier(device), .text(deviceName), .text(person),
            .text(program), .bytes(name.bytes), .bits(size), .integer(modified),
            .integer(saved), .digest(content), .code(durability.rawValue), .text(label),
        ]
    }
}

extension Protection {
    /// Reads an owner, a group, permissions and an access list. Nil when a version has no row in
    /// `owners`.
    init?(columns: Columns, from index: Int32) {
        guard !columns.isNull(index) else { return nil }
        self.init(
            owner: UInt32(truncatingIfNeeded: columns.integer(index)),
            group: UInt32(truncatingIfNeeded: columns.integer(index + 1)),
            mode: UInt16(truncatingIfNeeded: columns.integer(index + 2)),
            accessList: columns.bytes(index + 3))
    }
}
