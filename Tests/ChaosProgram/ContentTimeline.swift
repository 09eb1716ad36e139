/// Which content each file had when, as far as only plain saves happened there. A file that was
/// moved, linked, removed or replaced in another way has no timeline, because what it was then is
/// the product's choice.
struct ContentTimeline {
    private struct Save {
        let began: Int
        let ended: Int
        let content: String
    }

    private var saves: [String: [Save]] = [:]
    /// Paths with everything below them.
    private var unclear: [String] = []

    mutating func follow(_ event: Event, _ verb: Verb, began: Int) {
        switch verb {
        case .read, .visit, .hold, .wait, .pin, .unpin, .evict, .makeDirectory, .date: return
        case .save(let path, let way, _, _) where [.inPlace, .replace].contains(way):
            add(event, path, began)
        case .change(let path, _, _): add(event, path, began)
        default: for path in verb.paths { forget(path) }
        }
    }

    private mutating func add(_ event: Event, _ path: String, _ began: Int) {
        guard event.isOK, let content = event.content else {
            // A refused save did nothing; of an interrupted one it is not known how far it came.
            if event.detail == "excused" { forget(path) }
            return
        }
        saves[path, default: []].append(Save(began: began, ended: event.at, content: content))
    }

    mutating func forget(_ path: String) { unclear.append(path) }

    /// Returns the contents that a file may have had at some moment of this interval; nil if that
    /// is not known.
    func contents(of path: String, from start: Int, to end: Int) -> Set<String>? {
        if unclear.contains(where: { path == $0 || path.hasPrefix($0 + "/") || path == $0 + "~" }) {
            return nil
        }
        let all = saves[path] ?? []
        guard let before = all.last(where: { $0.ended <= start }) else { return nil }
        let during = all.filter { $0.ended > start && $0.began <= end }
        return Set([before.content] + during.map(\.content))
    }
}
