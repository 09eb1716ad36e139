/// Which contents of which documents each process has seen. It tells whether a save that replaces a
/// document as a whole is stale, which means that it was made from other contents than those that
/// it replaces.
///
/// A document is followed through the inodes that its name refers to, one after the other. A
/// process is known from its first open for reading on, and has also seen what it saves afterwards.
/// This value is pure: the caller passes in the process and the contents of files.
struct SeenVersions: Sendable {
    /// A process during its lifetime; its id alone may be reused later.
    struct Process: Hashable, Sendable {
        var id: Int32
        /// Its start time, in clock ticks of /proc.
        var start: UInt64

        /// The start time is left out: few of the remembered processes have the same id.
        func hash(into hasher: inout Hasher) { hasher.combine(id) }
    }

    /// A file's contents, as far as its attributes identify them.
    struct Content: Hashable, Sendable {
        var inode: UInt64
        var size: Int64
        /// Nanoseconds since 1970.
        var modified: Int64
    }

    /// How much is remembered. The oldest entries are dropped first, and those of ended processes
    /// before others.
    struct Limits: Sendable {
        /// Documents of one process, so that a search through all documents does not displace an
        /// editor's.
        var documentsOfProcess = 1024
        /// Pairs of a process and a document.
        var pairs = 16_384
        /// Recent inodes of a document that have no name any more, because an open may refer to one
        /// that was just replaced.
        var inodes = 8
        /// Names from which documents were moved away or removed.
        var vacancies = 256
    }

    /// How much a process has seen of the contents that a new handle of it does not overwrite.
    enum Sight: Hashable, Sendable {
        /// Not all of it, so it has not seen what remains after it has written by this handle
        /// either.
        case partial
        /// All of it, or the file was empty.
        case full
        /// All of it, and changes until the close may be its own. The close is reported some time
        /// after it happens, when the document may have another file, or this one again. The number
        /// identifies the occasion on which the document got this file.
        case writer(Int)
    }

    private struct Seen {
        var content: Content
        /// The process's handles that write the document's present file.
        var writers = 0
        /// Since the process has seen the document, another process has emptied its file or has
        /// exchanged it for another document's. A close of an earlier handle then does not mean
        /// that the document holds what was written by it.
        var isOvertaken = false
        /// The process has seen it again since the last search for entries to drop.
        var isUsed = false
    }

    /// What each process has seen of a document. Most documents are known to one process, which is
    /// stored without allocating a dictionary.
    private struct Sights {
        private var first: (process: Process, seen: Seen)?
        private var others: [Process: Seen] = [:]

        var isEmpty: Bool { first == nil && others.isEmpty }

        var processes: [Process] { (first.map { [$0.process] } ?? []) + others.keys }

        subscript(process: Process) -> Seen? {
            get {
                if let first, first.process == process { return first.seen }
                return others.isEmpty ? nil : others[process]
            }
            set {
                if first?.process == process || first == nil && others[process] == nil {
                    first = newValue.map { (process, $0) }
                } else {
                    others[process] = newValue
                }
            }
        }
    }

    private struct Document {
        var seen = Sights()
        /// The inode that its name refers to.
        var inode: UInt64?
        /// The number of the occasion on which it got this inode; each is unique.
        var occasion = 0
        /// Its earlier inodes, the newest last.
        var older: [UInt64] = []

        /// Returns whether the process had not seen it before.
        mutating func see(_ content: Content, by process: Process, all: Bool) -> Bool {
            guard var known = seen[process] else {
                seen[process] = Seen(content: content)
                return true
            }
            known.content = content
            known.isUsed = true
            if all { known.isOvertaken = false }
            seen[process] = known
            return false
        }

        /// Whether the file's present contents may have been written by this process.
        func isWritten(_ inode: UInt64, by seen: Seen) -> Bool {
            self.inode == inode && seen.content.inode == inode && seen.writers > 0
                && !seen.isOvertaken
        }
    }

    private let limits: Limits
    private var documents = Slab<Document>()
    private var byInode: [UInt64: UInt64] = [:]
    /// The documents of each process, in the order in which they are dropped.
    private var byProcess: [Process: ElementQueue<UInt64>] = [:]
    /// The processes, in the order in which they are examined when there are too many entries.
    private var line = ElementQueue<Process>()
    private var vacancies: [Vacancy] = []
    private var last = 0
    private(set) var pairs = 0

    private struct Vacancy {
        var place: Place
        var document: UInt64
        var process: Process
        var content: Content
        var isGone: Bool
    }

    /// A name in a directory.
    struct Place: Hashable, Sendable {
        var directory: UInt64
        var name: [UInt8]
    }

    init(limits: Limits = Limits()) { self.limits = limits }

    /// Whether any process has seen the document of this inode.
    func isKnown(_ inode: UInt64) -> Bool { byInode[inode] != nil }

    // MARK: Opens, writes and closes

    /// A process opens a file without emptying it. `wrote` must be called when it is closed, if it
    /// writes and the process has seen all of it.
    mutating func opened(
        _ content: Content, by process: Process, reads: Bool, writes: Bool,
        isAlive: (Process) -> Bool
    ) -> Sight {
        var key = byInode[content.inode]
        if reads {
            let seen = key ?? add(content.inode)
            key = seen
            // If another process emptied the file before, this process sees the result now.
            if see(content, by: process, in: seen, all: true) { makeRoom(for: process, isAlive) }
        }
        guard writes else { return .partial }
        guard let key, let document = documents[key], let seen = document.seen[process] else {
            return .full
        }
        guard document.inode == content.inode,
            seen.content == content || document.isWritten(content.inode, by: seen)
        else { return .partial }
        return writer(process, key)
    }

    /// A process opens and empties a file, so all its contents from now on are its own. `old` are
    /// the last contents that other writers of the file have seen. `content` may equal `old` if the
    /// file stays open.
    mutating func emptied(
        _ old: Content, as content: Content, by process: Process, stays isOpen: Bool
    ) -> Sight {
        guard let key = byInode[content.inode] else { return .full }
        settle(old)
        guard documents[existing: key].inode == old.inode else { return .full }
        overtake(key, except: process)
        guard documents[existing: key].seen[process] != nil else { return .full }
        see(content, by: process, in: key, all: true)
        return isOpen ? writer(process, key) : .full
    }

    /// A process writes a file that it has created.
    mutating func created(_ inode: UInt64, by process: Process) -> Sight {
        guard let key = byInode[inode], documents[key]?.seen[process] != nil else { return .full }
        return writer(process, key)
    }

    private mutating func overtake(_ key: UInt64, except process: Process?) {
        for other in documents[existing: key].seen.processes where other != process {
            documents[existing: key].seen[other]!.isOvertaken = true
        }
    }

    private mutating func writer(_ process: Process, _ key: UInt64) -> Sight {
        if documents[existing: key].seen[process]!.writers == 0 {
            documents[existing: key].seen[process]!.isOvertaken = false
        }
        documents[existing: key].seen[process]!.writers += 1
        return .writer(documents[existing: key].occasion)
    }

    /// A process has closed a handle by which it wrote a file that it had seen.
    mutating func wrote(_ content: Content, by process: Process, _ sight: Sight) {
        guard let key = byInode[content.inode], let document = documents[key],
            document.inode == content.inode, let seen = document.seen[process]
        else { return }
        if case .writer(let occasion) = sight {
            guard occasion == document.occasion else { return }
            documents[existing: key].seen[process]!.writers -= 1
        } else if seen.writers > 0 {
            return
        }
        // If the file was emptied since, this close may have happened before that, and the file may
        // hold what the other process wrote.
        guard !seen.isOvertaken, seen.content.inode == content.inode else { return }
        see(content, by: process, in: key)
    }

    /// A document is about to lose its file, or the file is about to be emptied: the processes that
    /// were writing it have seen its contents.
    private mutating func settle(_ content: Content) {
        guard let key = byInode[content.inode], let document = documents[key] else { return }
        for process in document.seen.processes
        where document.isWritten(content.inode, by: document.seen[process]!) {
            documents[existing: key].seen[process]!.content = content
        }
    }

    /// The contents that a process has seen of a document, if they differ from those that it is
    /// about to replace.
    func base(of process: Process, replacing content: Content) -> Content? {
        guard let key = byInode[content.inode], let document = documents[key],
            document.inode == content.inode, let seen = document.seen[process],
            seen.content != content, !document.isWritten(content.inode, by: seen)
        else { return nil }
        return seen.content
    }

    /// Only a file's times were set, which counts as seen.
    mutating func retimed(_ old: Content, as new: Content) {
        guard let key = byInode[old.inode], let seen = documents[key]?.seen else { return }
        for process in seen.processes where seen[process]!.content == old {
            documents[existing: key].seen[process]!.content = new
        }
    }

    /// A process that has seen a file has changed its length, and has seen the result too.
    mutating func resized(_ old: Content, as new: Content, by process: Process) {
        guard let key = byInode[old.inode], let seen = documents[key]?.seen[process],
            seen.content == old
        else { return }
        see(new, by: process, in: key)
    }

    // MARK: Renames: which inode belongs to which document

    /// A file was created; its inode number may have been used before.
    mutating func made(_ inode: UInt64) { release(inode) }

    /// A rename has put a file in a document's place. The renaming process, if known, has seen it.
    /// `isGone`: the old file has no other name.
    mutating func replaced(
        _ old: Content, isGone: Bool = true, by content: Content, process: Process?
    ) {
        let draft = byInode[content.inode]
        guard let key = byInode[old.inode] else { return release(content.inode) }
        guard draft != key else { return }
        settle(old)
        settle(content)
        if !isGone { release(old.inode) }
        let readers = draft.flatMap { documents[$0]?.seen } ?? Sights()
        release(content.inode)
        show(content.inode, for: key)
        // A process that has read the draft has seen what the document holds now.
        for reader in readers.processes where readers[reader]!.content == content {
            see(content, by: reader, in: key)
        }
        if let process, documents[key]?.seen[process] != nil { see(content, by: process, in: key) }
    }

    /// The files of two documents were exchanged.
    mutating func exchanged(_ a: Content, _ b: Content, process: Process?) {
        let (keyA, keyB) = (byInode[a.inode], byInode[b.inode])
        guard keyA != keyB else { return }
        settle(a)
        settle(b)
        release(a.inode)
        release(b.inode)
        for (key, content) in [(keyA, b), (keyB, a)] {
            guard let key, documents[key] != nil else { continue }
            show(content.inode, for: key)
            overtake(key, except: process)
            if let process, documents[key]?.seen[process] != nil {
                see(content, by: process, in: key)
            }
        }
    }

    /// A document has lost its name. What this process puts there next is that document again.
    /// `isGone`: the file has no other name.
    mutating func vacated(
        _ place: Place, _ content: Content, isGone: Bool = false, by process: Process
    ) {
        guard let key = byInode[content.inode], documents[key]?.inode == content.inode else {
            return
        }
        settle(content)
        vacancies.removeAll { $0.place == place }
        if vacancies.count >= limits.vacancies { vacancies.removeFirst() }
        vacancies.append(
            Vacancy(
                place: place, document: key, process: process, content: content,
                isGone: isGone))
    }

    /// Whether a document was moved away or removed from this name.
    func isVacant(_ place: Place) -> Bool { vacancies.contains { $0.place == place } }

    /// A file has got a name that a document has lost. Returns the content that the process has
    /// seen of that document, if it differs from the document's last content.
    mutating func filled(_ place: Place, by content: Content, process: Process) -> Content? {
        guard let index = vacancies.firstIndex(where: { $0.place == place }) else { return nil }
        let vacancy = vacancies.remove(at: index)
        guard vacancy.process == process, let document = documents[vacancy.document] else {
            return nil
        }
        if !vacancy.isGone { release(vacancy.content.inode) }
        release(content.inode)
        show(content.inode, for: vacancy.document)
        guard let seen = document.seen[process] else { return nil }
        see(content, by: process, in: vacancy.document)
        return seen.content == vacancy.content ? nil : seen.content
    }

    // MARK: Bookkeeping

    private mutating func add(_ inode: UInt64) -> UInt64 {
        last += 1
        let occasion = last
        var key: UInt64 = 0
        _ = documents.insert {
            key = $0
            return Document(inode: inode, occasion: occasion)
        }
        byInode[inode] = key
        return key
    }

    private mutating func show(_ inode: UInt64, for key: UInt64) {
        byInode[inode] = key
        if let old = documents[existing: key].inode { documents[existing: key].older.append(old) }
        documents[existing: key].inode = inode
        last += 1
        documents[existing: key].occasion = last
        for process in documents[existing: key].seen.processes {
            documents[existing: key].seen[process]!.writers = 0
            documents[existing: key].seen[process]!.isOvertaken = false
        }
        guard documents[existing: key].older.count >= limits.inodes else { return }
        byInode[documents[existing: key].older.removeFirst()] = nil
    }

    private mutating func release(_ inode: UInt64) {
        guard let key = byInode.removeValue(forKey: inode) else { return }
        if documents[existing: key].inode == inode { documents[existing: key].inode = nil }
        documents[existing: key].older.removeAll { $0 == inode }
    }

    /// Returns whether the process had not seen the document before.
    ///
    /// - Parameter all: The process sees all of the present contents, so `isOvertaken` is cleared.
    @discardableResult
    private mutating func see(
        _ content: Content, by process: Process, in key: UInt64, all: Bool = false
    ) -> Bool {
        guard documents[existing: key].see(content, by: process, all: all) else { return false }
        if let place = byProcess.index(forKey: process) {
            byProcess.values[place].append(key)
        } else {
            line.append(process)
            byProcess[process] = ElementQueue(key)
        }
        pairs += 1
        return true
    }

    private mutating func makeRoom(for process: Process, _ isAlive: (Process) -> Bool) {
        guard let place = byProcess.index(forKey: process) else { return }
        if byProcess.values[place].count > limits.documentsOfProcess {
            forgetOldest(of: process, place)
        }
        guard pairs > limits.pairs else { return }
        // Examines the oldest processes, a few at a time; most of them have ended.
        var looked = process
        for _ in 0..<8 {
            guard let oldest = line.removeFirst() else { break }
            guard isAlive(oldest) else {
                while let key = byProcess[oldest]?.removeFirst() { forget(oldest, key) }
                byProcess[oldest] = nil
                return
            }
            line.append(oldest)
            looked = oldest
        }
        if byProcess[process]!.count > 1 { looked = process }
        if let place = byProcess.index(forKey: looked) { forgetOldest(of: looked, place) }
    }

    /// An entry that was used again since the last search is kept for one more round.
    private mutating func forgetOldest(
        of process: Process, _ place: Dictionary<Process, ElementQueue<UInt64>>.Index
    ) {
        for chance in 0..<8 {
            guard let key = byProcess.values[place].removeFirst() else { return }
            if chance < 7, documents[existing: key].seen[process]!.isUsed {
                documents[existing: key].seen[process]!.isUsed = false
                byProcess.values[place].append(key)
                continue
            }
            forget(process, key)
            break
        }
        guard byProcess.values[place].count == 0 else { return }
        byProcess[process] = nil
        line.removeAll(process)
    }

    private mutating func forget(_ process: Process, _ key: UInt64) {
        documents[existing: key].seen[process] = nil
        pairs -= 1
        guard documents[existing: key].seen.isEmpty else { return }
        let gone = documents.remove(key)!
        if let inode = gone.inode { byInode[inode] = nil }
        for inode in gone.older { byInode[inode] = nil }
    }
}
