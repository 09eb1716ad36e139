/// Which contents of which documents each process has seen, so that a save that replaces a document
/// as a whole is known to be stale: made from something else than what it replaces.
///
/// A document is followed by the inodes that its name shows, one after the other. A process is
/// known from its first open for reading on, and has also seen what it saves afterwards. This value
/// is pure: the caller passes in which process it is and what a file holds.
struct SeenVersions: Sendable {
    /// A process for as long as it lives: its id alone may be another's later.
    struct Process: Hashable, Sendable {
        var id: Int32
        /// When it began, in the clock ticks of /proc.
        var start: UInt64
    }

    /// What a file holds, as far as its attributes tell.
    struct Content: Hashable, Sendable {
        var inode: UInt64
        var size: Int64
        /// Nanoseconds since 1970.
        var modified: Int64
    }

    /// How much is remembered; what was seen longest ago goes first, and of processes that have
    /// ended before others.
    struct Limits: Sendable {
        /// Of one process: a search through all documents must not push an editor's out.
        var documentsOfProcess = 1024
        /// Pairs of a process and a document.
        var pairs = 16_384
        /// Inodes that a document had lately and that have no name any more: an open may refer to
        /// one that was just replaced.
        var inodes = 8
        /// Names that documents have left.
        var vacancies = 256
    }

    /// What a process has seen of a document that a new handle of it does not overwrite.
    enum Sight: Hashable, Sendable {
        /// Not all of it, so that it has not seen what it leaves by this handle either.
        case partial
        /// All of it, or there is nothing to see.
        case full
        /// All of it, and what changes until it is closed may be its own doing. A close is heard
        /// some time after it, when the document may show another file, or this one again: the
        /// number is that of the occasion on which the document came to show the file.
        case writer(Int)
    }

    private struct Seen {
        var content: Content
        /// Handles by which the process writes the file that the document shows.
        var writers = 0
        /// Another process has emptied the file since, so closing these handles does not mean that
        /// the file holds what they wrote.
        var isOvertaken = false
        /// The process has seen it again since the last search for what may be forgotten.
        var isUsed = false
    }

    private struct Document {
        var seen: [Process: Seen] = [:]
        /// What its name shows.
        var inode: UInt64?
        /// Since which occasion; each has a number of its own.
        var occasion = 0
        /// What it showed before, the newest last.
        var older: [UInt64] = []

        /// Whether what that file holds may be of that process's own making.
        func isWritten(_ inode: UInt64, by seen: Seen) -> Bool {
            self.inode == inode && seen.content.inode == inode && seen.writers > 0
                && !seen.isOvertaken
        }
    }

    private let limits: Limits
    private var documents: [Int: Document] = [:]
    private var byInode: [UInt64: Int] = [:]
    /// Documents in the order in which they are to be forgotten.
    private var byProcess: [Process: ElementQueue<Int>] = [:]
    /// Processes in the order in which they are to be looked at when there are too many.
    private var line = ElementQueue<Process>()
    private var vacancies: [Vacancy] = []
    private var last = 0
    private(set) var pairs = 0

    private struct Vacancy {
        var place: Place
        var document: Int
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

    /// Whether any process has seen the document that this inode shows.
    func isKnown(_ inode: UInt64) -> Bool { byInode[inode] != nil }

    // MARK: What processes do with a document

    /// A process opens a file without emptying it. `wrote` is to be called when it is closed, if
    /// that writes and the process has seen all of it.
    mutating func opened(
        _ content: Content, by process: Process, reads: Bool, writes: Bool,
        isAlive: (Process) -> Bool
    ) -> Sight {
        var key = byInode[content.inode]
        if reads {
            if key == nil {
                last += 1
                documents[last] = Document(inode: content.inode, occasion: last)
                byInode[content.inode] = last
                key = last
            }
            see(content, by: process, in: key!)
            // Whoever emptied it before, this is what came of it.
            documents[key!]!.seen[process]!.isOvertaken = false
            makeRoom(for: process, isAlive)
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

    /// Opened and emptied: all that it holds from now on is this process's. `old` is what it held,
    /// the last that others have seen who were writing it. `content` may be the same where the file
    /// stays open.
    mutating func emptied(
        _ old: Content, as content: Content, by process: Process, stays isOpen: Bool
    ) -> Sight {
        guard let key = byInode[content.inode] else { return .full }
        settle(old)
        guard documents[key]!.inode == old.inode else { return .full }
        for (other, seen) in documents[key]!.seen where other != process && seen.writers > 0 {
            documents[key]!.seen[other]!.isOvertaken = true
        }
        guard documents[key]!.seen[process] != nil else { return .full }
        see(content, by: process, in: key)
        documents[key]!.seen[process]!.isOvertaken = false
        return isOpen ? writer(process, key) : .full
    }

    /// A process writes a file that it has made.
    mutating func created(_ inode: UInt64, by process: Process) -> Sight {
        guard let key = byInode[inode], documents[key]?.seen[process] != nil else { return .full }
        return writer(process, key)
    }

    private mutating func writer(_ process: Process, _ key: Int) -> Sight {
        documents[key]!.seen[process]!.writers += 1
        return .writer(documents[key]!.occasion)
    }

    /// A handle was closed by which a process wrote what it had seen.
    mutating func wrote(_ content: Content, by process: Process, _ sight: Sight) {
        guard let key = byInode[content.inode], let document = documents[key],
            document.inode == content.inode, let seen = document.seen[process]
        else { return }
        if case .writer(let occasion) = sight {
            guard occasion == document.occasion else { return }
            documents[key]!.seen[process]!.writers -= 1
            // Where it is overtaken, perhaps it was closed before, and holds what the other wrote.
            if seen.isOvertaken { documents[key]!.seen[process]!.isOvertaken = seen.writers > 1 }
        } else if seen.writers > 0 {
            return
        }
        guard !seen.isOvertaken, seen.content.inode == content.inode else { return }
        see(content, by: process, in: key)
    }

    /// A file goes out of a document's place, or is emptied: those who were writing it have seen
    /// what it holds.
    private mutating func settle(_ content: Content) {
        guard let key = byInode[content.inode], let document = documents[key] else { return }
        for (process, seen) in document.seen where document.isWritten(content.inode, by: seen) {
            documents[key]!.seen[process]!.content = content
        }
    }

    /// The contents that a process has seen of a document, if it is about to replace others that it
    /// has not.
    func base(of process: Process, replacing content: Content) -> Content? {
        guard let key = byInode[content.inode], let document = documents[key],
            document.inode == content.inode, let seen = document.seen[process],
            seen.content != content, !document.isWritten(content.inode, by: seen)
        else { return nil }
        return seen.content
    }

    /// Only a file's times were set: nobody has to read it again for that.
    mutating func retimed(_ old: Content, as new: Content) {
        guard let key = byInode[old.inode] else { return }
        for (process, seen) in documents[key]!.seen where seen.content == old {
            documents[key]!.seen[process]!.content = new
        }
    }

    /// A process that has seen a file has changed its length, which it has seen then, too.
    mutating func resized(_ old: Content, as new: Content, by process: Process) {
        guard let key = byInode[old.inode], let seen = documents[key]?.seen[process],
            seen.content == old
        else { return }
        see(new, by: process, in: key)
    }

    // MARK: Which inode shows which document

    /// A file was made: its number may have been another's.
    mutating func made(_ inode: UInt64) { release(inode) }

    /// A rename put a file in a document's place. Who renamed it, if he is known, has seen it.
    /// `isGone`: the old one has no other name.
    mutating func replaced(
        _ old: Content, isGone: Bool = true, by content: Content, process: Process?
    ) {
        let draft = byInode[content.inode]
        guard let key = byInode[old.inode] else { return release(content.inode) }
        guard draft != key else { return }
        settle(old)
        settle(content)
        if !isGone { release(old.inode) }
        let readers = draft.flatMap { documents[$0]?.seen } ?? [:]
        release(content.inode)
        show(content.inode, for: key)
        // Who has looked at the draft has seen what the document holds now.
        for (reader, seen) in readers where seen.content == content {
            see(content, by: reader, in: key)
        }
        if let process, documents[key]?.seen[process] != nil { see(content, by: process, in: key) }
    }

    /// Two documents show each other's files.
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
            if let process, documents[key]?.seen[process] != nil {
                see(content, by: process, in: key)
            }
        }
    }

    /// A document's name was taken away: what this process puts there is that document again.
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

    /// Whether a document has left that name.
    func isVacant(_ place: Place) -> Bool { vacancies.contains { $0.place == place } }

    /// A file came to a name that a document has left. What its process has seen of that document
    /// is given back, if that is not what had the name last.
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

    private mutating func show(_ inode: UInt64, for key: Int) {
        byInode[inode] = key
        if let old = documents[key]!.inode { documents[key]!.older.append(old) }
        documents[key]!.inode = inode
        last += 1
        documents[key]!.occasion = last
        for (process, seen) in documents[key]!.seen where seen.writers > 0 {
            documents[key]!.seen[process]!.writers = 0
            documents[key]!.seen[process]!.isOvertaken = false
        }
        guard documents[key]!.older.count >= limits.inodes else { return }
        byInode[documents[key]!.older.removeFirst()] = nil
    }

    private mutating func release(_ inode: UInt64) {
        guard let key = byInode.removeValue(forKey: inode) else { return }
        if documents[key]!.inode == inode { documents[key]!.inode = nil }
        documents[key]!.older.removeAll { $0 == inode }
    }

    private mutating func see(_ content: Content, by process: Process, in key: Int) {
        if documents[key]!.seen[process] != nil {
            documents[key]!.seen[process]!.content = content
            documents[key]!.seen[process]!.isUsed = true
            return
        }
        documents[key]!.seen[process] = Seen(content: content)
        if byProcess[process] == nil { line.append(process) }
        byProcess[process, default: ElementQueue()].append(key)
        pairs += 1
    }

    private mutating func makeRoom(for process: Process, _ isAlive: (Process) -> Bool) {
        if byProcess[process]!.count > limits.documentsOfProcess { forgetOldest(of: process) }
        guard pairs > limits.pairs else { return }
        // Those who have been here longest, a few at a time: most have ended.
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
        forgetOldest(of: byProcess[process]!.count > 1 ? process : looked)
    }

    /// What it has used again in the meantime has another chance.
    private mutating func forgetOldest(of process: Process) {
        for chance in 0..<8 {
            guard let key = byProcess[process]?.removeFirst() else { return }
            if chance < 7, documents[key]?.seen[process]?.isUsed == true {
                documents[key]!.seen[process]!.isUsed = false
                byProcess[process]!.append(key)
                continue
            }
            forget(process, key)
            break
        }
        guard byProcess[process]?.count == 0 else { return }
        byProcess[process] = nil
        line.removeAll(process)
    }

    private mutating func forget(_ process: Process, _ key: Int) {
        guard documents[key]?.seen.removeValue(forKey: process) != nil else { return }
        pairs -= 1
        guard documents[key]!.seen.isEmpty else { return }
        let gone = documents.removeValue(forKey: key)!
        if let inode = gone.inode { byInode[inode] = nil }
        for inode in gone.older { byInode[inode] = nil }
    }
}
