/// What both sides changed: the end of a sentence.
struct JSONConflict: Error {
    let what: String
}

/// A three-way merge by key. The result is the text of ours, with the changes of theirs inserted as
/// they are written there.
///
/// - Objects are merged member by member. If both sides added a member, both values must be equal
///   or both must be objects.
/// - Arrays whose elements are all objects with an identity (`JSONMerge.identities`) are merged
///   element by element, at any position.
/// - Other arrays are merged like the lines of a text, one element per line. If both sides insert
///   at the same place, both insertions are kept: first those of ours, then those of theirs that
///   ours does not have there.
/// - For every other value the side that changed it wins. If both changed it differently, or one
///   changed what the other removed, that is a conflict.
///
/// Values with the same meaning are equal, however they are written (order of members, white space,
/// escapes). Numbers are equal only if they are written alike.
struct JSONMerge {
    let base: JSONText
    let ours: JSONText
    let theirs: JSONText
    /// The paths of conflicts, such as `scripts.build` or `list[2]`.
    private var conflicts: [String] = []

    typealias Value = JSONText.Value
    typealias Part = JSONText.Part

    /// Members by which elements are identified: the first one of this list that all elements have.
    static let identities = ["id", "_id", "uuid", "guid", "identifier", "key", "name"]

    init(base: JSONText, ours: JSONText, theirs: JSONText) {
        self.base = base
        self.ours = ours
        self.theirs = theirs
    }

    func merged() throws(JSONConflict) -> [UInt8] {
        var copy = self
        let value = copy.merge(base.root, ours.root, theirs.root, at: "")
        let all = copy.conflicts
        if !all.isEmpty {
            let named = all.prefix(5).map { "“\($0)”" }.joined(separator: ", ")
            let more = all.count > 5 ? " and \(all.count - 5) more" : ""
            throw JSONConflict(
                what: "\(named)\(more) \(all.count == 1 ? "was" : "were") changed on both sides")
        }
        let range = ours.root.range
        let result = ours.bytes[..<range.lowerBound] + value + ours.bytes[range.upperBound...]
        guard (try? JSONText(Array(result))) != nil else {
            throw JSONConflict(what: "the changes of both sides together are not valid JSON")
        }
        return Array(result)
    }

    // MARK: - Values

    private func same(_ a: JSONText, _ one: Value, _ b: JSONText, _ other: Value) -> Bool {
        a.bytes[one.range].elementsEqual(b.bytes[other.range])
            || a.canonical(one) == b.canonical(other)
    }

    private mutating func conflict(_ path: String) { conflicts.append(path.isEmpty ? "." : path) }

    private mutating func merge(_ old: Value?, _ mine: Value, _ other: Value, at path: String)
        -> ArraySlice<UInt8>
    {
        let written = ours.bytes[mine.range]
        if same(ours, mine, theirs, other) { return written }
        if let old {
            if same(base, old, theirs, other) { return written }
            if same(base, old, ours, mine) { return theirs.bytes[other.range] }
        }
        switch (old, mine, other) {
        case (.object(_, let b)?, .object(_, let o), .object(_, let t)):
            return object(b, o, t, mine.range, at: path)
        case (nil, .object(_, let o), .object(_, let t)):
            return object([], o, t, mine.range, at: path)
        case (.array(_, let b)?, .array(_, let o), .array(_, let t)):
            return array(b, o, t, mine.range, at: path)
        default:
            conflict(path)
            return written
        }
    }

    // MARK: - Objects

    private mutating func object(
        _ old: [Part], _ mine: [Part], _ other: [Part], _ range: Range<Int>, at path: String
    ) -> ArraySlice<UInt8> {
        let before = index(old)
        let there = index(other)
        var pieces: [JSONPiece] = []
        for (number, part) in mine.enumerated() {
            let place = JSONMerge.place(part.key, in: path)
            let was = before[part.key].map { old[$0].value }
            if let position = there[part.key] {
                let value = merge(was, part.value, other[position].value, at: place)
                pieces.append(piece(isOurs: true, mine, number, value))
            } else if let was {
                if !same(base, was, ours, part.value) { conflict(place) }
            } else {
                pieces.append(piece(isOurs: true, mine, number))
            }
        }
        var added: [Int: [JSONPiece]] = [:]
        let placed = Dictionary(uniqueKeysWithValues: pieces.enumerated().map { ($1.key, $0) })
        // The piece after which new members of theirs are inserted: theirs' last common member
        // before them, followed by members that only ours has.
        var anchor = -1
        for (number, part) in other.enumerated() {
            if let position = placed[part.key] {
                anchor = position
            } else if let was = before[part.key] {
                let isSame = same(base, old[was].value, theirs, part.value)
                if !isSame { conflict(JSONMerge.place(part.key, in: path)) }
            } else {
                while anchor + 1 < pieces.count, there[pieces[anchor + 1].key] == nil {
                    anchor += 1
                }
                added[anchor, default: []].append(piece(isOurs: false, other, number))
            }
        }
        if !added.isEmpty {
            let all = pieces.enumerated().flatMap { [$1] + (added[$0] ?? []) }
            pieces = (added[-1] ?? []) + all
        }
        return written(pieces, mine, other, range)
    }

    private func index(_ parts: [Part]) -> [[UInt8]: Int] {
        Dictionary(uniqueKeysWithValues: parts.enumerated().map { ($1.key, $0) })
    }

    private static func place(_ key: [UInt8], in path: String) -> String {
        let key = String(decoding: key, as: UTF8.self)
        return path.isEmpty ? key : "\(path).\(key)"
    }

    // MARK: - Arrays

    private mutating func array(
        _ old: [Part], _ mine: [Part], _ other: [Part], _ range: Range<Int>, at path: String
    ) -> ArraySlice<UInt8> {
        if let identity = identity([(base, old), (ours, mine), (theirs, other)]) {
            return elements(old, mine, other, range, by: identity, at: path)
        }
        let sequence = SequenceMerge(
            base: old.map { base.canonical($0.value) }, ours: mine.map { ours.canonical($0.value) },
            theirs: other.map { theirs.canonical($0.value) }
        ).merged()
        guard let sequence else {
            conflict(path)
            return ours.bytes[range]
        }
        let pieces = sequence.map { element in
            switch element {
            case .ours(let at): piece(isOurs: true, mine, at)
            case .theirs(let at): piece(isOurs: false, other, at)
            }
        }
        return written(pieces, mine, other, range)
    }

    /// The identities of all elements, one list for each array; nil when some element has none.
    private func identity(_ arrays: [(JSONText, [Part])]) -> [[[UInt8]]]? {
        for name in JSONMerge.identities {
            let key = Array(name.utf8)
            let lists = arrays.compactMap { text, parts -> [[UInt8]]? in
                let found = parts.compactMap { part -> [UInt8]? in
                    guard case .object(_, let members) = part.value,
                        case .scalar(let range)? = members.first(where: { $0.key == key })?.value
                    else { return nil }
                    return text.canonical(.scalar(range))
                }
                return found.count == parts.count && Set(found).count == found.count ? found : nil
            }
            if lists.count == arrays.count { return lists }
        }
        return nil
    }

    /// - Parameter lists: The identities of `old`, `mine` and `other`.
    private mutating func elements(
        _ old: [Part], _ mine: [Part], _ other: [Part], _ range: Range<Int>, by lists: [[[UInt8]]],
        at path: String
    ) -> ArraySlice<UInt8> {
        func index(_ list: [[UInt8]]) -> [[UInt8]: Int] {
            Dictionary(uniqueKeysWithValues: list.enumerated().map { ($1, $0) })
        }
        let (before, here, there) = (index(lists[0]), index(lists[1]), index(lists[2]))
        let sequence = SequenceMerge(base: lists[0], ours: lists[1], theirs: lists[2]).merged()
        guard let sequence else {
            conflict(path)
            return ours.bytes[range]
        }
        var pieces: [JSONPiece] = []
        var placed = Set<[UInt8]>()
        for element in sequence {
            let id =
                switch element {
                case .ours(let at): lists[1][at]
                case .theirs(let at): lists[2][at]
                }
            let place = "\(path)[\(String(decoding: id, as: UTF8.self))]"
            if !placed.insert(id).inserted { conflict(place) }
            switch (before[id], here[id], there[id]) {
            case (let was, let o?, let t?):
                let value = merge(
                    was.map { old[$0].value }, mine[o].value, other[t].value, at: place)
                pieces.append(piece(isOurs: true, mine, o, value))
            case (nil, let o?, nil):
                pieces.append(piece(isOurs: true, mine, o))
            case (nil, nil, let t?):
                pieces.append(piece(isOurs: false, other, t))
            default: conflict(place)
            }
        }
        for (id, was) in zip(lists[0], old) where !placed.contains(id) {
            let kept = here[id].map { same(base, was.value, ours, mine[$0].value) } ?? true
            let left = there[id].map { same(base, was.value, theirs, other[$0].value) } ?? true
            if !kept || !left { conflict("\(path)[\(String(decoding: id, as: UTF8.self))]") }
        }
        return written(pieces, mine, other, range)
    }

    // MARK: - Writing

    private func piece(
        isOurs: Bool, _ parts: [Part], _ number: Int, _ merged: ArraySlice<UInt8>? = nil
    ) -> JSONPiece {
        let part = parts[number]
        let text = isOurs ? ours : theirs
        let value = merged ?? text.bytes[part.value.range]
        return JSONPiece(
            key: part.key, text: text.bytes[part.start..<part.value.range.lowerBound] + value,
            leading: text.bytes[part.leading], trailing: text.bytes[part.trailing],
            isOurs: isOurs, number: number, isLast: number == parts.count - 1)
    }

    private func written(
        _ pieces: [JSONPiece], _ mine: [Part], _ other: [Part], _ range: Range<Int>
    ) -> ArraySlice<UInt8> {
        let open = ours.bytes[range.lowerBound]
        var result = [open]
        let isUnmoved =
            pieces.count == mine.count
            && pieces.enumerated().allSatisfy { $1.isOurs && $1.number == $0 }
        let style = mine.isEmpty ? theirs : ours
        let parts = mine.isEmpty ? other : mine
        let first = parts.first.map { style.bytes[$0.leading] } ?? []
        let last = parts.last.map { style.bytes[$0.trailing] } ?? []
        var between = first
        if parts.count > 1 {
            between = style.bytes[parts[1].leading]
        } else if !first.contains(UInt8(ascii: "\n")) {
            between = other.count > 1 ? theirs.bytes[other[1].leading] : [0x20]
        }
        for (index, piece) in pieces.enumerated() {
            let ends = index == pieces.count - 1
            if index > 0 { result.append(UInt8(ascii: ",")) }
            if isUnmoved {
                result += piece.leading + piece.text + piece.trailing
                continue
            }
            result += index == 0 ? first : piece.number == 0 ? between : piece.leading
            result += piece.text
            result += ends ? last : piece.isLast ? [] : piece.trailing
        }
        if isUnmoved, pieces.isEmpty { return ours.bytes[range] }
        return result + [open + 2]
    }
}

/// A member or element of the result.
struct JSONPiece {
    var key: [UInt8]
    var text: ArraySlice<UInt8>
    var leading: ArraySlice<UInt8>
    var trailing: ArraySlice<UInt8>
    /// The text that the piece comes from, and its position there.
    var isOurs: Bool
    var number: Int
    var isLast: Bool
}
