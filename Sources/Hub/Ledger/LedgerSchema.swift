/// The steps that create and migrate the tables, in PostgreSQL's dialect. A released step must
/// never change.
package enum LedgerSchema {
    /// The ASCII text "Hub1".
    static let applicationID: Int32 = 0x4875_6231

    package static let steps = [
        """
        -- Named numbers that the hub keeps about itself.
        CREATE TABLE facts (name TEXT PRIMARY KEY, value BIGINT NOT NULL);

        CREATE TABLE accounts (
            id BYTEA PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            -- Bytes; null means that there is no limit.
            quota BIGINT,
            used BIGINT NOT NULL,
            created BIGINT NOT NULL
        );

        CREATE TABLE invites (
            -- SHA-256 of the code.
            code BYTEA PRIMARY KEY,
            account BYTEA NOT NULL,
            expires BIGINT NOT NULL
        );

        CREATE TABLE devices (
            id BYTEA PRIMARY KEY,
            account BYTEA NOT NULL,
            name TEXT NOT NULL,
            epoch BIGINT NOT NULL,
            enrolled BIGINT NOT NULL,
            seen BIGINT NOT NULL,
            revoked BIGINT
        );
        CREATE INDEX devices_account ON devices (account);

        -- SHA-256 of the token.
        CREATE TABLE tokens (hash BYTEA PRIMARY KEY, device BYTEA NOT NULL);
        CREATE INDEX tokens_device ON tokens (device);

        CREATE TABLE volumes (
            id BYTEA PRIMARY KEY,
            account BYTEA NOT NULL,
            name TEXT NOT NULL,
            epoch BYTEA NOT NULL,
            chunk_key BYTEA NOT NULL,
            name_key BYTEA NOT NULL,
            head BIGINT NOT NULL,
            -- The number of collections that condemned or removed its chunks.
            collection BIGINT NOT NULL,
            created BIGINT NOT NULL
        );
        CREATE UNIQUE INDEX volumes_name ON volumes (account, name);

        -- `state` is ItemState.encoded; other columns repeat the fields that queries need.
        CREATE TABLE items (
            volume BYTEA NOT NULL,
            id BYTEA NOT NULL,
            sequence BIGINT NOT NULL,
            parent BYTEA NOT NULL,
            name_key BYTEA NOT NULL,
            alive BIGINT NOT NULL,
            state BYTEA NOT NULL,
            PRIMARY KEY (volume, id)
        );
        CREATE INDEX items_sequence ON items (volume, sequence);
        CREATE INDEX items_parent ON items (volume, parent, name_key);

        CREATE TABLE aliases (
            volume BYTEA NOT NULL,
            id BYTEA NOT NULL,
            target BYTEA NOT NULL,
            sequence BIGINT NOT NULL,
            PRIMARY KEY (volume, id)
        );
        CREATE INDEX aliases_sequence ON aliases (volume, sequence);

        CREATE TABLE revisions (
            volume BYTEA NOT NULL,
            id BYTEA NOT NULL,
            item BYTEA NOT NULL,
            device BYTEA NOT NULL,
            size BIGINT NOT NULL,
            sequence BIGINT NOT NULL,
            added BIGINT NOT NULL,
            -- Revision.encoded.
            state BYTEA NOT NULL,
            manifest BYTEA NOT NULL,
            -- Ids of 32 bytes each.
            chunks BYTEA NOT NULL,
            PRIMARY KEY (volume, id)
        );
        CREATE INDEX revisions_item ON revisions (volume, item);

        CREATE TABLE chunks (
            volume BYTEA NOT NULL,
            -- The keyed id.
            id BYTEA NOT NULL,
            plain BYTEA NOT NULL,
            pack BIGINT NOT NULL,
            place BIGINT NOT NULL,
            stored BIGINT NOT NULL,
            length BIGINT NOT NULL,
            -- 0 stored, 1 condemned by a collection, 2 damaged or lost.
            state BIGINT NOT NULL,
            -- The number of revisions that name it.
            uses BIGINT NOT NULL,
            -- When it was uploaded or condemned.
            since BIGINT NOT NULL,
            PRIMARY KEY (volume, id)
        );
        CREATE INDEX chunks_pack ON chunks (pack);
        CREATE INDEX chunks_state ON chunks (state, uses, since);

        -- The last completed operation of a device.
        CREATE TABLE numbers (
            volume BYTEA NOT NULL,
            device BYTEA NOT NULL,
            epoch BIGINT NOT NULL,
            last BIGINT NOT NULL,
            PRIMARY KEY (volume, device, epoch)
        );

        -- The answers to the latest operations.
        CREATE TABLE answers (
            volume BYTEA NOT NULL,
            device BYTEA NOT NULL,
            epoch BIGINT NOT NULL,
            number BIGINT NOT NULL,
            -- SHA-256 of the operation, by which a copied device is recognized.
            fingerprint BYTEA NOT NULL,
            -- OperationResult in JSON.
            result BYTEA NOT NULL,
            PRIMARY KEY (volume, device, epoch, number)
        );

        -- Which devices have a revision's bytes.
        CREATE TABLE holdings (
            volume BYTEA NOT NULL,
            revision BYTEA NOT NULL,
            device BYTEA NOT NULL,
            PRIMARY KEY (volume, revision, device)
        );

        -- Requests of other processes to the running hub.
        CREATE TABLE errands (
            id BYTEA PRIMARY KEY,
            kind TEXT NOT NULL,
            argument BIGINT NOT NULL,
            asked BIGINT NOT NULL,
            -- A sentence; null until the request is done.
            result TEXT
        )
        """,
        """
        -- This index covers the lookup of a name. Without it SQLite, which has no statistics,
        -- scans the whole volume by its primary key.
        DROP INDEX items_parent;
        CREATE INDEX items_parent ON items (volume, parent, name_key, alive)
        """,
        """
        -- Which run of the hub wrote the journal after `start`, up to the next run.
        CREATE TABLE runs (
            volume BYTEA NOT NULL,
            start BIGINT NOT NULL,
            run BYTEA NOT NULL,
            PRIMARY KEY (volume, start)
        )
        """,
        """
        -- Devices that were enrolled by another device's token, without a code.
        CREATE TABLE splits (device BYTEA PRIMARY KEY, parent BYTEA NOT NULL);
        CREATE INDEX splits_parent ON splits (parent)
        """,
        """
        -- Null for a token of an older hub until it is used again.
        ALTER TABLE tokens ADD COLUMN expires BIGINT
        """,
        """
        -- What accounts may do in volumes. The owner's row repeats `volumes.account`.
        CREATE TABLE members (
            volume BYTEA NOT NULL,
            account BYTEA NOT NULL,
            -- A `Role`.
            role TEXT NOT NULL,
            since BIGINT NOT NULL,
            PRIMARY KEY (volume, account)
        );
        CREATE INDEX members_account ON members (account);
        INSERT INTO members (volume, account, role, since)
        SELECT id, account, 'owner', created FROM volumes
        """,
        """
        -- The packs of a blob store that is not a directory. `state` is a PackState.
        CREATE TABLE packs (
            pack BIGINT PRIMARY KEY,
            bytes BIGINT NOT NULL,
            state BIGINT NOT NULL,
            since BIGINT NOT NULL
        );

        -- The records of packs that have no object yet.
        CREATE TABLE staged (
            pack BIGINT NOT NULL,
            place BIGINT NOT NULL,
            record BYTEA NOT NULL,
            PRIMARY KEY (pack, place)
        )
        """,
        """
        -- A page lists the newest versions of a document, which may have very many.
        CREATE INDEX revisions_order ON revisions (volume, item, sequence);
        DROP INDEX revisions_item;

        -- Uses of chunks that no row of `revisions` stands for (VersionTable).
        CREATE TABLE loose_uses (
            volume BYTEA NOT NULL,
            revision BYTEA NOT NULL,
            part BIGINT NOT NULL,
            -- When the uses end, unless the version is recorded before.
            due BIGINT NOT NULL,
            -- Ids of 32 bytes each.
            chunks BYTEA NOT NULL,
            PRIMARY KEY (volume, revision, part)
        );

        -- Directories in which items of a batch of deletions are still in the trash although the
        -- directory was restored (Revivals).
        CREATE TABLE revivals (
            volume BYTEA NOT NULL,
            directory BYTEA NOT NULL,
            device BYTEA NOT NULL,
            epoch BIGINT NOT NULL,
            number BIGINT NOT NULL,
            -- The key and the id of the last item that was looked at.
            name_key BYTEA NOT NULL,
            item BYTEA NOT NULL,
            PRIMARY KEY (volume, directory)
        )
        """,
        """
        -- Several batches of deletions may be restored in one directory at the same time.
        CREATE TABLE revivals_2 (
            volume BYTEA NOT NULL,
            directory BYTEA NOT NULL,
            device BYTEA NOT NULL,
            epoch BIGINT NOT NULL,
            number BIGINT NOT NULL,
            name_key BYTEA NOT NULL,
            item BYTEA NOT NULL,
            PRIMARY KEY (volume, directory, device, epoch, number)
        );
        INSERT INTO revivals_2 SELECT volume, directory, device, epoch, number, name_key, item
        FROM revivals;
        DROP TABLE revivals;
        ALTER TABLE revivals_2 RENAME TO revivals
        """,
        """
        -- Locks of programs that use WebDAV. They do not concern devices.
        CREATE TABLE dav_locks (
            volume BYTEA NOT NULL,
            token BYTEA NOT NULL,
            item BYTEA NOT NULL,
            account BYTEA NOT NULL,
            device BYTEA NOT NULL,
            exclusive BIGINT NOT NULL,
            deep BIGINT NOT NULL,
            expires BIGINT NOT NULL,
            -- The address below the volume.
            root TEXT NOT NULL,
            -- An element of XML, or nothing.
            owner TEXT NOT NULL,
            -- The version that the program has seen last.
            base BYTEA,
            PRIMARY KEY (volume, token)
        );
        CREATE INDEX dav_locks_account ON dav_locks (account)
        """,
        """
        -- The past of directories (PastTable). Places that items have left: they were there from
        -- the journal's position `start` up to the one before `stop`.
        CREATE TABLE past_places (
            volume BYTEA NOT NULL,
            item BYTEA NOT NULL,
            stop BIGINT NOT NULL,
            start BIGINT NOT NULL,
            parent BYTEA NOT NULL,
            -- UTF-8.
            name BYTEA NOT NULL,
            PRIMARY KEY (volume, item, stop)
        );
        CREATE INDEX past_places_parent ON past_places (volume, parent, stop, item);

        -- The version that was current from a position on, where it was not the newest one.
        CREATE TABLE past_currents (
            volume BYTEA NOT NULL,
            item BYTEA NOT NULL,
            sequence BIGINT NOT NULL,
            revision BYTEA NOT NULL,
            PRIMARY KEY (volume, item, sequence)
        );

        -- From which position on an alive item is where it is, or a trashed one was. Null if it is
        -- that of its placement.
        ALTER TABLE items ADD COLUMN here BIGINT;
        -- Each page of a directory's past continues after an item, also if others have its name.
        DROP INDEX items_parent;
        CREATE INDEX items_parent ON items (volume, parent, name_key, alive, id);
        -- The position up to which the places that items left were not recorded.
        ALTER TABLE volumes ADD COLUMN unplaced BIGINT NOT NULL DEFAULT 0;
        UPDATE volumes SET unplaced = head;

        -- When the journal has reached a position, by the hub's clock (JournalTimes).
        CREATE TABLE journal_times (
            volume BYTEA NOT NULL,
            sequence BIGINT NOT NULL,
            time BIGINT NOT NULL,
            PRIMARY KEY (volume, sequence)
        );
        CREATE INDEX journal_times_time ON journal_times (volume, time, sequence);
        INSERT INTO journal_times (volume, sequence, time)
        SELECT volume, sequence, max(time) FROM (
            SELECT volume, max(sequence) AS sequence, max(added) AS time FROM revisions
            GROUP BY volume, added / 60000000000) AS minutes
        GROUP BY volume, sequence
        """,
        """
        -- A move of the hub to or from another place (MoveRecord).
        CREATE TABLE moves (
            id BYTEA PRIMARY KEY,
            state BIGINT NOT NULL,
            -- The other place, for people.
            place TEXT NOT NULL
        )
        """,
        """
        -- Random bytes that all processes of the hub share, by their use.
        CREATE TABLE secrets (name TEXT PRIMARY KEY, value BYTEA NOT NULL);

        -- The keys with which people sign in without a code (Passkey).
        CREATE TABLE passkeys (
            -- From a hash of `credential`.
            id BYTEA PRIMARY KEY,
            -- The authenticator's id for it.
            credential BYTEA NOT NULL,
            account BYTEA NOT NULL,
            -- The browser in which it was added.
            device BYTEA NOT NULL,
            name TEXT NOT NULL,
            -- The pages for which the authenticator made it, such as https://hub.example:8080.
            origin TEXT NOT NULL,
            -- SubjectPublicKeyInfo in DER.
            public_key BYTEA NOT NULL,
            added BIGINT NOT NULL,
            -- Null before the first use.
            used BIGINT,
            -- The authenticator's count of signatures; 0 if it does not count.
            signatures BIGINT NOT NULL,
            -- When the last challenge that was answered was made.
            challenged BIGINT NOT NULL
        );
        CREATE INDEX passkeys_account ON passkeys (account)
        """,
        """
        -- Links for people without an account (Link). The digest of a link's token is in `tokens`.
        CREATE TABLE links (
            -- Also the id of a device of the maker, by which visitors save.
            id BYTEA PRIMARY KEY,
            volume BYTEA NOT NULL,
            item BYTEA NOT NULL,
            -- Who made it, and on which device.
            account BYTEA NOT NULL,
            device BYTEA NOT NULL,
            -- Whether visitors may save.
            edits BIGINT NOT NULL,
            made BIGINT NOT NULL,
            -- Null if it has no end.
            ends BIGINT,
            -- A LinkPassword. Null if it has none.
            password BYTEA
        );
        CREATE INDEX links_volume ON links (volume);
        CREATE INDEX links_account ON links (account)
        """,
        """
        -- Which device may edit a document alone (GrantRow).
        CREATE TABLE grants (
            volume BYTEA NOT NULL,
            item BYTEA NOT NULL,
            token BIGINT NOT NULL,
            device BYTEA NOT NULL,
            process BYTEA NOT NULL,
            held BIGINT NOT NULL,
            number BIGINT NOT NULL,
            PRIMARY KEY (volume, item)
        );
        -- The last token that was given in the volume.
        ALTER TABLE volumes ADD COLUMN fence BIGINT NOT NULL DEFAULT 0
        """,
        """
        -- Directories that some members see as a volume (SharedFolder).
        CREATE TABLE folders (
            -- What the devices of these members take for the volume's id.
            id BYTEA PRIMARY KEY,
            volume BYTEA NOT NULL,
            directory BYTEA NOT NULL
        );
        CREATE UNIQUE INDEX folders_directory ON folders (volume, directory);
        -- The row of `folders`. Null for a member of the whole volume.
        ALTER TABLE members ADD COLUMN folder BYTEA;

        -- What has left a folder (DepartureTable).
        CREATE TABLE departures (
            volume BYTEA NOT NULL,
            folder BYTEA NOT NULL,
            item BYTEA NOT NULL,
            sequence BIGINT NOT NULL,
            kind BIGINT NOT NULL,
            PRIMARY KEY (volume, folder, item)
        );
        CREATE INDEX departures_sequence ON departures (volume, folder, sequence);

        -- Directories that came into a folder or left it (Crossing).
        CREATE TABLE crossings (
            volume BYTEA NOT NULL,
            directory BYTEA NOT NULL,
            folder BYTEA NOT NULL,
            leaves BIGINT NOT NULL,
            sequence BIGINT NOT NULL,
            name_key BYTEA NOT NULL,
            item BYTEA NOT NULL,
            PRIMARY KEY (volume, directory, folder)
        );

        -- The chunks that members of folders may name in versions (ProofTable).
        CREATE TABLE proofs (
            volume BYTEA NOT NULL,
            account BYTEA NOT NULL,
            chunk BYTEA NOT NULL,
            since BIGINT NOT NULL,
            PRIMARY KEY (volume, account, chunk)
        )
        """,
    ]

    /// The tables that have rows of a volume in a column `volume`.
    package static let volumeTables = [
        "items", "aliases", "revisions", "chunks", "numbers", "answers", "holdings", "runs",
        "members", "loose_uses", "revivals", "dav_locks", "past_places", "past_currents",
        "journal_times", "links", "grants", "folders", "departures", "crossings", "proofs",
    ]

    /// Converts a step to SQLite's dialect: strict tables that are clustered by their primary key.
    static func sqlite(_ step: String) -> String {
        step.replacing("BYTEA", with: "BLOB").replacing("BIGINT", with: "INTEGER")
            .replacing("\n)", with: "\n) STRICT, WITHOUT ROWID")
            .replacing("NOT NULL);", with: "NOT NULL) STRICT, WITHOUT ROWID;")
    }
}
