import Model

/// The places of claims and presenters, as a tree of path components (a trie).
struct PathTrie {
    typealias Index = Int

    struct Node {
        var parent: Index
        var name: Name
        var children: [Name: Index] = [:]
        /// The number of claims and presenters that refer to this place. A place is kept while it
        /// has users or children.
        var users = 0
        var queue = Queue()
        var presenters: Set<PresenterID> = []
        /// Claims with a target at this place.
        var claims: Set<ClaimID> = []
    }

    static let root: Index = 0
    private var nodes: [Node] = [Node(parent: -1, name: Name(""))]
    private var free: [Index] = []

    var isEmpty: Bool { nodes[PathTrie.root].children.isEmpty && nodes[PathTrie.root].users == 0 }

    subscript(index: Index) -> Node {
        _read { yield nodes[index] }
        _modify { yield &nodes[index] }
    }

    /// Returns the index of the place. It is valid until `release` has been called as often as
    /// this.
    mutating func retain(_ steps: some Sequence<Path.Step>) -> Index {
        var at = PathTrie.root
        for step in steps {
            if let next = nodes[at].children[step.name] {
                at = next
            } else {
                let next = make(Node(parent: at, name: step.name))
                nodes[at].children[step.name] = next
                at = next
            }
        }
        nodes[at].users += 1
        return at
    }

    mutating func release(_ index: Index) {
        nodes[index].users -= 1
        var at = index
        while at != PathTrie.root, nodes[at].users == 0, nodes[at].children.isEmpty {
            let parent = nodes[at].parent
            nodes[parent].children[nodes[at].name] = nil
            free.append(at)
            at = parent
        }
    }

    private mutating func make(_ spot: Node) -> Index {
        guard let index = free.popLast() else {
            nodes.append(spot)
            return nodes.count - 1
        }
        nodes[index] = spot
        return index
    }

    func find(_ path: Path) -> Index? {
        var at = PathTrie.root
        for step in path.steps {
            guard let next = nodes[at].children[step.name] else { return nil }
            at = next
        }
        return at
    }

    /// The known places that contain the path, from the deepest one to the root. `depth` is the
    /// number of steps of each.
    func ancestors(of path: Path) -> [(index: Index, depth: Int)] {
        var found: [(index: Index, depth: Int)] = [(PathTrie.root, 0)]
        for (number, step) in path.steps.dropLast().enumerated() {
            guard let next = nodes[found[found.count - 1].index].children[step.name] else { break }
            found.append((next, number + 1))
        }
        return path.steps.isEmpty ? [] : found.reversed()
    }

    func parent(of index: Index) -> Index? { index == PathTrie.root ? nil : nodes[index].parent }

    /// Calls `body` with each place below one, until `body` returns true. It uses its own stack
    /// instead of recursion, because a path can be deeper than the thread's stack allows.
    func anyBelow(_ index: Index, _ body: (Index) -> Bool) -> Bool {
        var open = Array(nodes[index].children.values)
        while let next = open.popLast() {
            if body(next) { return true }
            open += nodes[next].children.values
        }
        return false
    }

    func below(_ index: Index) -> [Index] {
        var found: [Index] = []
        _ = anyBelow(index) { place in
            found.append(place)
            return false
        }
        return found
    }
}

/// The coordinated claims at one place. Each list is in the order in which the claims were
/// scheduled.
struct Queue {
    private(set) var grantedReaders: [ClaimID] = []
    private(set) var grantedWriters: [ClaimID] = []
    private(set) var waitingReaders: [ClaimID] = []
    private(set) var waitingWriters: [ClaimID] = []

    var isEmpty: Bool {
        grantedReaders.isEmpty && grantedWriters.isEmpty && waitingReaders.isEmpty
            && waitingWriters.isEmpty
    }

    mutating func insert(_ id: ClaimID, isWriting: Bool, isGranted: Bool) {
        switch (isWriting, isGranted) {
        case (false, true): grantedReaders.insert(id)
        case (true, true): grantedWriters.insert(id)
        case (false, false): waitingReaders.insert(id)
        case (true, false): waitingWriters.insert(id)
        }
    }

    mutating func remove(_ id: ClaimID, isWriting: Bool, isGranted: Bool) {
        switch (isWriting, isGranted) {
        case (false, true): grantedReaders.remove(id)
        case (true, true): grantedWriters.remove(id)
        case (false, false): waitingReaders.remove(id)
        case (true, false): waitingWriters.remove(id)
        }
    }
}

extension [ClaimID] {
    /// The index of the first id that is not less than `id`, in a sorted list.
    func position(of id: ClaimID) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < id { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// A claim can be at a place twice, because it both reads and writes it.
    fileprivate mutating func insert(_ id: ClaimID) { insert(id, at: position(of: id)) }

    fileprivate mutating func remove(_ id: ClaimID) {
        let index = position(of: id)
        if index < count, self[index] == id { remove(at: index) }
    }
}
