import Model

/// What the name of a file in a folder of Dropbox, Nextcloud, ownCloud or Syncthing says of it.
struct SyncedName: Hashable {
    let name: Name

    init(_ name: Name) { self.name = name }

    /// The document of which this file has the other side of a conflict; nil if the name is an
    /// ordinary one. `a.sync-conflict-20240102-101112-ABCDEFG.txt` gives `a.txt`.
    var conflicting: Name? {
        guard let text = String(validating: name.bytes, as: UTF8.self) else { return nil }
        let patterns = [
            // Syncthing
            #/(.+)\.sync-conflict-\d{8}-\d{6}(?:-[A-Z2-7]{7})?(\.[^.]*)?/#,
            // Dropbox and Nextcloud, with the name of a person or a machine, or without
            #/(.+) \((?:[^()]* )?conflicted copy[^()]* \d{4}(?:-\d\d){2}.*\)(\.[^.]*)?/#,
            // ownCloud
            #/(.+)_conflict-\d{8}-\d{6}(\.[^.]*)?/#,
        ]
        for pattern in patterns {
            guard let match = text.wholeMatch(of: pattern) else { continue }
            return Name("\(match.1)\(match.2 ?? "")")
        }
        return nil
    }

    /// The document of which this file in `.stversions` is an old version: `a~20240102-101112.txt`
    /// is one of `a.txt`. Syncthing's simplest kind of versions has the names of the documents.
    var versioned: Name {
        guard let text = String(validating: name.bytes, as: UTF8.self),
            let match = text.wholeMatch(of: #/(.+)~\d{8}-\d{6}(\.[^.]*)?/#)
        else { return name }
        return Name("\(match.1)\(match.2 ?? "")")
    }

    /// Whether the file holds nothing of a person's, but what a program needs for its own work.
    var isOfProgram: Bool {
        let text = name.text
        return [".stfolder", ".stversions", ".dropbox", ".dropbox.cache", ".dropbox.attr"]
            .contains(text)
            || text.wholeMatch(of: #/(\.syncthing\.|~syncthing~).*\.tmp/#) != nil
            || text.wholeMatch(of: #/\._?sync_.*\.db(-wal|-shm|-journal)?/#) != nil
            || text.wholeMatch(of: #/\.(owncloud|nextcloud)sync\.log.*/#) != nil
    }
}
