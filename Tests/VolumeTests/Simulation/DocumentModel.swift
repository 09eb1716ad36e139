/// What programs have made of the documents, by the rules of `Index.md` alone. It knows names and
/// contents, but no inode, event, stash file or journal, so that it can contradict the index.
struct DocumentModel {
    struct Document {
        /// What programs have closed under the document's name, oldest first; never twice the same
        /// in a row.
        var contents: [[UInt8]] = []
        /// Whether it is unknown which contents the document must have, because the daemon was
        /// killed in the middle of a save, or the file was changed while it was not mounted.
        var isUncertain = false
        /// Whether it was removed; a document whose contents were moved to another one is none.
        var isRemoved = false
        /// Saves to files that had been replaced, which are conflict versions.
        var conflicts: [[UInt8]] = []
        /// Copies of what its file held before, in the stash when a loss of power destroyed the
        /// events that say so.
        var copies: [[UInt8]] = []
    }

    /// A package. Nobody closes one, so only what it holds when no program has changed it for a
    /// moment becomes a version.
    struct Package {
        /// What its files held whenever the recorder had nothing left to do, oldest first; never
        /// twice the same in a row.
        var contents: [[String: String]] = []
    }

    private(set) var documents: [Document] = []
    /// Contents that need not be kept.
    private(set) var lost: Set<[UInt8]> = []
    /// The documents that have a name.
    private(set) var names: [String: Int] = [:]
    private(set) var packages: [Package] = []
    private(set) var packageNames: [String: Int] = [:]

    /// A loss of power has destroyed events. What the journal has under a name may have been moved
    /// or removed, and a program that makes such a name before the scan has looked continues it.
    private var hasLostEvents = false

    func document(_ path: String) -> Document? { names[path].map { documents[$0] } }
    func has(_ path: String) -> Bool { names[path] != nil }
    func knowsContents(_ path: String) -> Bool { document(path)?.contents.isEmpty == false }

    /// A program has closed this content under a name that its document keeps or that is new.
    mutating func save(_ path: String, _ content: [UInt8]) {
        let number = names[path] ?? make(path)
        if documents[number].contents.last != content { documents[number].contents.append(content) }
    }

    /// A save to a file that another program had replaced in the meantime.
    mutating func saveLate(_ path: String, _ content: [UInt8]) {
        if let number = names[path] { documents[number].conflicts.append(content) }
    }

    mutating func remove(_ path: String) {
        if let number = names.removeValue(forKey: path) { documents[number].isRemoved = true }
    }

    /// A backup whose contents have never been anything but those of its document.
    mutating func removeBackup(_ path: String) { names[path] = nil }

    /// Another name of the same file is another document with the same contents.
    mutating func link(_ path: String, _ other: String) {
        if let content = document(path)?.contents.last { save(other, content) }
    }

    /// The document gets another name. If another one has that, it gets the contents.
    mutating func move(_ path: String, _ other: String) {
        guard let number = names.removeValue(forKey: path) else { return }
        guard names[other] != nil else {
            names[other] = number
            return
        }
        if let content = documents[number].contents.last { save(other, content) }
    }

    /// Both names keep their documents, and get each other's contents.
    mutating func exchange(_ path: String, _ other: String) {
        guard let a = document(path)?.contents.last, let b = document(other)?.contents.last
        else { return }
        save(path, b)
        save(other, a)
    }

    /// A directory gets another name.
    mutating func moveDirectory(_ path: String, _ other: String) {
        for (name, number) in names where name.hasPrefix(path + "/") {
            names[name] = nil
            names[other + name.dropFirst(path.count)] = number
        }
        for (name, number) in packageNames where name.hasPrefix(path + "/") {
            packageNames[name] = nil
            packageNames[other + name.dropFirst(path.count)] = number
        }
    }

    // MARK: Packages

    @discardableResult mutating func makePackage(_ path: String) -> Int {
        packages.append(Package())
        packageNames[path] = packages.count - 1
        return packages.count - 1
    }

    mutating func movePackage(_ path: String, _ other: String) {
        packageNames[other] = packageNames.removeValue(forKey: path)
    }

    mutating func removePackage(_ path: String) { packageNames[path] = nil }

    /// The recorder has nothing left to do, and the package holds these files.
    mutating func note(_ files: [String: String], inPackage path: String) {
        guard let number = packageNames[path] else { return }
        if packages[number].contents.last != files { packages[number].contents.append(files) }
    }

    /// A change of a package was interrupted because the daemon was killed.
    mutating func forgetPackage(_ path: String, isThere: Bool) {
        guard let number = packageNames[path] ?? (isThere ? makePackage(path) : nil) else { return }
        packages[number].contents = []
        if !isThere { packageNames[path] = nil }
    }

    // MARK: Changes that no daemon has seen

    /// The file was changed while no daemon could keep its contents, which only the tree had.
    mutating func loseContent(of path: String, inFile content: [UInt8]?) {
        if let content { lost.insert(content) }
        guard let number = names[path] else { return }
        documents[number].isUncertain = true
        _ = documents[number].contents.popLast()
    }

    /// A save was interrupted because the daemon was killed. Any document may have the files that
    /// the tree has under these names now, so the model gives them new, uncertain documents.
    mutating func forget(_ paths: some Sequence<String>, hasFile: (String) -> Bool) {
        for path in paths {
            if let number = names.removeValue(forKey: path) {
                documents[number].isUncertain = true
            }
            // Nobody has closed what it holds now, so that need not be kept.
            guard hasFile(path) else { continue }
            documents[make(path)].isUncertain = true
        }
    }

    /// A loss of power has destroyed all events that the journal does not have yet, so the daemon
    /// knows only what the tree and the stash show. `contents` gives what a file holds, and
    /// `copies` the contents of the stash that were copied from the file that has this name now.
    mutating func loseEvents(
        contents: (String) -> [UInt8]?, copies: (String) -> [[UInt8]]
    ) {
        hasLostEvents = true
        for number in documents.indices { documents[number].isUncertain = true }
        let closed = names.keys.filter(knowsContents)
        let paths = Array(names.keys)
        forget(paths) { contents($0) != nil }
        for path in paths {
            guard let number = names[path] else { continue }
            if closed.contains(path), let content = contents(path) {
                documents[number].contents = [content]
            }
            documents[number].copies = copies(path)
        }
    }

    private mutating func make(_ path: String) -> Int {
        documents.append(Document())
        documents[documents.count - 1].isUncertain = hasLostEvents
        names[path] = documents.count - 1
        return documents.count - 1
    }
}
