/// The requests of programs that were refused disk space, and the searches for something to remove
/// that answer them. It is pure: `Room` adds the clock, the disk and the threads.
///
/// A request is refused only when a search that began after it knew everything and found nothing.
/// While events cannot be noted in the journal, or a program has not closed what it has replaced,
/// a search does not know that, and the request waits for the next one.
struct SpaceRequests {
    /// The result of a search.
    enum Finding: CaseIterable {
        /// Something was removed.
        case freed
        /// Nothing was removed, because there is enough space.
        case enough
        /// Nothing may be removed.
        case nothing
        /// All that could be removed is still open in a program. It may be a close that has not
        /// been heard of yet, so young requests wait.
        case held
        /// Some events or documents could not be looked at.
        case unclear
    }

    enum Answer {
        case freed
        case enough
        case refused
    }

    /// A search. It answers only the requests made before it began; later ones may be due to
    /// something that it has not seen.
    struct Search {
        fileprivate let request: UInt64
        fileprivate let news: UInt64
        fileprivate let start: Int64
    }

    private struct Request {
        var number: UInt64
        var bytes: Int64
        var time: Int64
        var isTooLarge = false
    }

    private var last: UInt64 = 0
    /// Oldest first.
    private var waiting: [Request] = []
    private var answers: [UInt64: Answer] = [:]
    /// Counts events that may have made something removable.
    private var news: UInt64 = 0
    /// The last search, if it removed nothing: the value of `news` when it began, until when that
    /// is believed, and whether it knew everything.
    private var vain: (news: UInt64, until: Int64, isSure: Bool)?
    /// No search starts before this monotonic time, because a search in vain takes long in a large
    /// store.
    private var notBefore: Int64 = 0

    /// Nanoseconds for which a request waits for a close that may be on its way.
    static let patience: Int64 = 1_000_000_000
    /// Nanoseconds between two searches that did not know everything.
    static let pause: Int64 = 20_000_000

    /// Adds a request. Returns nil if it is refused at once, because nothing has happened since a
    /// search found nothing.
    mutating func ask(for bytes: Int64, at now: Int64) -> UInt64? {
        if let vain, vain.isSure, vain.news == news, now < vain.until { return nil }
        last += 1
        waiting.append(Request(number: last, bytes: bytes, time: now))
        return last
    }

    /// The answer to a request, which is given once.
    mutating func takeAnswer(to request: UInt64) -> Answer? {
        answers.removeValue(forKey: request)
    }

    /// The program does not wait any longer.
    mutating func withdraw(_ request: UInt64) {
        waiting.removeAll { $0.number == request }
        answers[request] = nil
    }

    /// Something may have become removable.
    mutating func addNews() { news += 1 }

    func begin(at now: Int64) -> Search { Search(request: last, news: news, start: now) }

    mutating func end(_ search: Search, _ finding: Finding, at now: Int64) {
        let duration = now - search.start
        switch finding {
        case .freed, .enough:
            answer(finding == .freed ? .freed : .enough) { $0.number <= search.request }
            (vain, notBefore) = (nil, 0)
            return
        case .nothing:
            answer(.refused) { $0.number <= search.request }
        case .held:
            answer(.refused) {
                $0.number <= search.request && now - $0.time >= SpaceRequests.patience
            }
        case .unclear: break
        }
        // Without a program that waits there is no hurry.
        let pause = finding == .nothing || waiting.isEmpty ? 0 : SpaceRequests.pause
        notBefore = now + max(4 * duration, pause)
        vain = (search.news, max(notBefore, now + 1_000_000_000), finding == .nothing)
    }

    private mutating func answer(_ answer: Answer, _ isMeant: (Request) -> Bool) {
        for request in waiting where isMeant(request) { answers[request.number] = answer }
        waiting.removeAll(where: isMeant)
    }

    /// Requests for more than this are not served, so that nothing is removed in vain.
    mutating func ignore(beyond bytes: Int64) {
        for index in waiting.indices where waiting[index].bytes > bytes {
            waiting[index].isTooLarge = true
        }
    }

    /// The largest number of bytes that a program waits for.
    var bytes: Int64 { waiting.lazy.filter { !$0.isTooLarge }.map(\.bytes).max() ?? 0 }

    /// Whether a program waits that can be served.
    var isAwaited: Bool { waiting.contains { !$0.isTooLarge } }

    /// Whether the last search knew everything and found nothing.
    var hasFailed: Bool { vain?.isSure ?? false }

    /// Whether it is time for a search.
    func isDue(at now: Int64) -> Bool {
        guard now >= notBefore else { return false }
        guard waiting.isEmpty, let vain else { return true }
        return vain.news != news || now >= vain.until
    }

    /// When to search for waiting programs; nil if none waits.
    var due: Int64? { waiting.isEmpty ? nil : notBefore }
}
