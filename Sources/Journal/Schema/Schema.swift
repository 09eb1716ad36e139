/// The tables, as steps from one `user_version` to the next. Journal.docc/Schema.md explains them.
enum Schema {
    /// "Cncd": by this, file(1) and `Journal.open` recognize a journal.
    static let applicationID: Int32 = 0x436E_6364

    /// Step 0 turns an empty database into version 1. A step that was released is never changed.
    static let steps: [String] = [
        first, second, third, fourth, fifth, sixth, seventh, eighth, ninth, tenth, eleventh,
        twelfth,
    ]

    static var version: Int32 { Int32(steps.count) }

    // Items have no foreign key on their parent. For every removed row SQLite would search for its
    // children, and that would need an index over all items, alive and deleted, which nothing else
    // needs. `removeRow` checks for children itself, and the doctor finds orphans.
    private static let first = """
        CREATE TABLE meta (
            key TEXT PRIMARY KEY NOT NULL,
            value TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE items (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
            parent INTEGER NOT NULL CHECK ((parent = 0) = (key = 1)),
            name BLOB NOT NULL CHECK ((length(name) = 0) = (key = 1)),
            kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 5),
            inode INTEGER NOT NULL,
            birth INTEGER NOT NULL,
            size INTEGER NOT NULL,
            modified INTEGER NOT NULL,
            changed INTEGER NOT NULL,
            deleted INTEGER CHECK (deleted IS NULL OR key <> 1),
            latest INTEGER NOT NULL CHECK (latest >= 0),
            current BLOB CHECK (length(current) = 16),
            in_place INTEGER NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX items_alive ON items (parent, name) WHERE deleted IS NULL;
        CREATE INDEX items_inode ON items (inode) WHERE deleted IS NULL AND inode <> 0;
        CREATE INDEX items_pending ON items (key)
            WHERE changed = 0 AND deleted IS NULL AND kind IN (1, 3);
        CREATE INDEX items_deleted ON items (parent, name, deleted) WHERE deleted IS NOT NULL;
        CREATE INDEX items_deletion ON items (deleted) WHERE deleted IS NOT NULL;
        INSERT INTO items VALUES (1, randomblob(16), 0, x'', 2, 0, 0, 0, 0, 0, NULL, 0, NULL, 0);

        CREATE TABLE manifests (
            key INTEGER PRIMARY KEY,
            content BLOB NOT NULL CHECK (length(content) = 33),
            bytes BLOB NOT NULL
        ) STRICT;
        CREATE INDEX manifests_content ON manifests (content);

        CREATE TABLE versions (
            key INTEGER PRIMARY KEY,
            id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
            item INTEGER NOT NULL REFERENCES items (key),
            number INTEGER NOT NULL CHECK (number >= 1),
            parents BLOB NOT NULL CHECK (length(parents) % 16 = 0),
            kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 3),
            device BLOB NOT NULL CHECK (length(device) = 16),
            device_name TEXT NOT NULL,
            person TEXT NOT NULL,
            program TEXT NOT NULL,
            name BLOB NOT NULL,
            size INTEGER NOT NULL,
            modified INTEGER NOT NULL,
            saved INTEGER NOT NULL,
            content BLOB NOT NULL CHECK (length(content) = 33),
            durability INTEGER NOT NULL CHECK (durability BETWEEN 1 AND 2),
            label TEXT,
            manifest INTEGER NOT NULL REFERENCES manifests (key),
            UNIQUE (item, number)
        ) STRICT;
        CREATE INDEX versions_manifest ON versions (manifest);

        CREATE TABLE chunks (
            digest BLOB PRIMARY KEY NOT NULL CHECK (length(digest) = 33),
            pack INTEGER NOT NULL,
            offset INTEGER NOT NULL,
            stored_length INTEGER NOT NULL,
            length INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE stash (
            name TEXT PRIMARY KEY NOT NULL,
            inode INTEGER NOT NULL,
            item INTEGER,
            kind INTEGER NOT NULL,
            saved INTEGER,
            process INTEGER NOT NULL,
            uid INTEGER NOT NULL,
            program TEXT NOT NULL,
            recorded INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """

    // What the hub needs to know about items, and what is known about the hub. The tables are
    // created again because a CHECK cannot be changed, and because all rows of a table should have
    // the same number of columns (the salvage of a damaged journal recognizes rows by it).
    private static let second = """
        CREATE TABLE items_2 (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
            parent INTEGER NOT NULL CHECK ((parent = 0) = (key = 1)),
            name BLOB NOT NULL CHECK ((length(name) = 0) = (key = 1)),
            kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 5),
            inode INTEGER NOT NULL,
            birth INTEGER NOT NULL,
            size INTEGER NOT NULL,
            modified INTEGER NOT NULL,
            changed INTEGER NOT NULL,
            deleted INTEGER CHECK (deleted IS NULL OR key <> 1),
            latest INTEGER NOT NULL CHECK (latest >= 0),
            current BLOB CHECK (length(current) = 16),
            in_place INTEGER NOT NULL,
            mode INTEGER NOT NULL,
            attributes BLOB
        ) STRICT;
        INSERT INTO items_2 SELECT *, 0, NULL FROM items;
        CREATE TABLE versions_2 (
            key INTEGER PRIMARY KEY,
            id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
            item INTEGER NOT NULL REFERENCES items_2 (key),
            number INTEGER NOT NULL CHECK (number >= 1),
            parents BLOB NOT NULL CHECK (length(parents) % 16 = 0),
            kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 3),
            device BLOB NOT NULL CHECK (length(device) = 16),
            device_name TEXT NOT NULL,
            person TEXT NOT NULL,
            program TEXT NOT NULL,
            name BLOB NOT NULL,
            size INTEGER NOT NULL,
            modified INTEGER NOT NULL,
            saved INTEGER NOT NULL,
            content BLOB NOT NULL CHECK (length(content) = 33),
            durability INTEGER NOT NULL CHECK (durability BETWEEN 1 AND 3),
            label TEXT,
            manifest INTEGER NOT NULL REFERENCES manifests (key),
            UNIQUE (item, number)
        ) STRICT;
        INSERT INTO versions_2 SELECT * FROM versions;
        DROP TABLE versions;
        DROP TABLE items;
        ALTER TABLE items_2 RENAME TO items;
        ALTER TABLE versions_2 RENAME TO versions;
        CREATE INDEX versions_manifest ON versions (manifest);
        CREATE UNIQUE INDEX items_alive ON items (parent, name) WHERE deleted IS NULL;
        CREATE INDEX items_inode ON items (inode) WHERE deleted IS NULL AND inode <> 0;
        CREATE INDEX items_pending ON items (key)
            WHERE changed = 0 AND deleted IS NULL AND kind IN (1, 3);
        CREATE INDEX items_deleted ON items (parent, name, deleted) WHERE deleted IS NOT NULL;
        CREATE INDEX items_deletion ON items (deleted) WHERE deleted IS NOT NULL;

        CREATE TABLE mirror (
            id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
            base BLOB,
            remote BLOB,
            state INTEGER NOT NULL,
            sequence INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX mirror_state ON mirror (state, sequence, id) WHERE state <> 0;
        CREATE TABLE unsent (item INTEGER PRIMARY KEY) STRICT;
        CREATE TABLE outbox (
            number INTEGER PRIMARY KEY,
            item BLOB NOT NULL CHECK (length(item) = 16),
            operation BLOB NOT NULL
        ) STRICT;
        CREATE INDEX outbox_item ON outbox (item);

        CREATE TABLE absent (
            item INTEGER PRIMARY KEY,
            version BLOB NOT NULL CHECK (length(version) = 16)
        ) STRICT;
        CREATE TABLE pins (item INTEGER PRIMARY KEY, pinned INTEGER NOT NULL) STRICT;
        """

    // Which versions have their bytes on this device: 1 here, and the hub does not know; 2 here,
    // and the hub knows; 3 not here any more, and the hub does not know.
    private static let third = """
        CREATE TABLE holdings (
            version BLOB PRIMARY KEY NOT NULL CHECK (length(version) = 16),
            state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 3)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX holdings_untold ON holdings (version) WHERE state <> 2;
        """

    // The index finds the conflicts of a whole volume. Settlements are kept so that they can be
    // undone.
    private static let fourth = """
        CREATE INDEX versions_conflict ON versions (item, id) WHERE kind = 3;
        CREATE TABLE settlements (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            item INTEGER NOT NULL,
            time INTEGER NOT NULL,
            before BLOB CHECK (length(before) = 16),
            after BLOB CHECK (length(after) = 16),
            settled BLOB NOT NULL CHECK (length(settled) % 16 = 0)
        ) STRICT;
        CREATE INDEX settlements_item ON settlements (item);
        """

    // When the item was moved, and when its attributes were changed. `migrate` renews the triggers
    // that set these times.
    private static let fifth = """
        ALTER TABLE unsent ADD COLUMN placed INTEGER;
        ALTER TABLE unsent ADD COLUMN attributed INTEGER;
        """

    // Which hub's confirmation a `durability` of 3 stands for. Earlier confirmations must be
    // repeated, because the journal does not say which hub gave them.
    private static let sixth = """
        CREATE TABLE witnesses (
            key INTEGER PRIMARY KEY,
            volume BLOB NOT NULL CHECK (length(volume) = 16),
            epoch BLOB NOT NULL CHECK (length(epoch) = 16),
            is_current INTEGER NOT NULL CHECK (is_current BETWEEN 0 AND 1),
            UNIQUE (volume, epoch)
        ) STRICT;
        CREATE TABLE confirmations (
            version BLOB PRIMARY KEY NOT NULL CHECK (length(version) = 16),
            witness INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """

    // Who owns each version. For older versions this is unknown.
    private static let seventh = """
        CREATE TABLE owners (
            version BLOB PRIMARY KEY NOT NULL CHECK (length(version) = 16),
            owner INTEGER NOT NULL,
            owner_group INTEGER NOT NULL,
            permissions INTEGER NOT NULL,
            access_list BLOB NOT NULL
        ) STRICT, WITHOUT ROWID;
        """

    // Which item has a name at the hub. The hub must be told that this item has left the name
    // before another item takes it.
    private static let eighth = """
        ALTER TABLE mirror ADD COLUMN place BLOB;
        CREATE INDEX mirror_place ON mirror (place, id) WHERE place IS NOT NULL;
        """

    // What versions were made in, and who took names away from documents or moved them: what
    // undoes a session needs both. Of what was done before nobody knows it.
    private static let ninth = """
        CREATE TABLE sessions (
            version BLOB PRIMARY KEY NOT NULL CHECK (length(version) = 16),
            session TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX sessions_session ON sessions (session);
        CREATE TABLE name_changes (
            key INTEGER PRIMARY KEY NOT NULL,
            item INTEGER NOT NULL,
            time INTEGER NOT NULL,
            parent INTEGER NOT NULL,
            name BLOB NOT NULL,
            new_parent INTEGER,
            new_name BLOB,
            person TEXT NOT NULL,
            program TEXT NOT NULL,
            session TEXT NOT NULL
        ) STRICT;
        CREATE INDEX name_changes_session ON name_changes (session);
        CREATE INDEX name_changes_item ON name_changes (item);
        """

    // Who could reach a version when it was the current one.
    private static let tenth = """
        CREATE TABLE directory_owners (
            item INTEGER NOT NULL,
            since INTEGER NOT NULL,
            owner INTEGER NOT NULL,
            owner_group INTEGER NOT NULL,
            permissions INTEGER NOT NULL,
            access_list BLOB NOT NULL,
            PRIMARY KEY (item, since)
        ) STRICT, WITHOUT ROWID;
        """

    // Files that programs have open for writing.
    private static let eleventh = """
        CREATE TABLE unfinished (
            inode INTEGER PRIMARY KEY,
            lost INTEGER,
            size INTEGER,
            modified INTEGER
        ) STRICT;
        """

    // The documents that this device alone may edit, and the operations that were made under such a
    // grant.
    private static let twelfth = """
        CREATE TABLE grants (
            item BLOB PRIMARY KEY NOT NULL CHECK (length(item) = 16),
            token INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE fences (
            operation INTEGER PRIMARY KEY,
            token INTEGER NOT NULL
        ) STRICT;
        """
}
