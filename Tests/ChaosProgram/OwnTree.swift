/// A model of a directory in which only one device works, following POSIX.
struct OwnTree {
    indirect enum Node: Equatable {
        case directory
        case symlink(String)
        /// The inode number, so that a change is visible under all names of a file.
        case file(Int)
        /// A directory that is one document; the number is used like that of a file.
        case package(Int)
    }

    /// The required answer to a verb.
    enum Answer: Equatable {
        case ok
        case refused(String)
    }

    private(set) var nodes: [String: Node] = [:]
    /// The contents by inode; nil if they are not known.
    private(set) var contents: [Int: String?] = [:]
    private var inodes = 0

    init() { nodes[""] = .directory }

    func content(_ path: String) -> String?? {
        switch nodes[path] {
        case .file(let inode), .package(let inode): return contents[inode] ?? nil
        default: return nil
        }
    }

    mutating func put(_ path: String, _ content: String?) {
        inodes += 1
        nodes[path] = .file(inodes)
        contents[inodes] = .some(content)
    }

    mutating func putPackage(_ path: String, _ content: String?) {
        put(path, content)
        nodes[path] = .package(inodes)
    }

    mutating func rewrite(_ path: String, _ content: String?) {
        guard case .file(let inode)? = nodes[path] else { return put(path, content) }
        contents[inode] = .some(content)
    }

    /// Accepts what was observed, whatever the model expected.
    mutating func observe(_ path: String, _ kind: String, _ content: String?) {
        switch kind {
        case "file":
            if content == nil || self.content(path) != .some(content) { put(path, content) }
        case "package":
            if content == nil || self.content(path) != .some(content) {
                putPackage(path, content)
            }
        case "directory": nodes[path] = .directory
        case "symlink": nodes[path] = .symlink(content ?? "")
        default: move(path, to: nil)
        }
    }

    /// Applies a verb to the model and returns the required answer. `content` is what the verb
    /// wrote.
    mutating func apply(_ verb: Verb, content: String?) -> Answer {
        switch verb {
        case .save(let path, let way, _, _): return save(path, "\(way)", content)
        case .saveAs(_, let path, _, _):
            guard hasRoom(path) else { return missing }
            // The save begins by removing a draft that an interrupted one has left.
            move(path + ".draft", to: nil)
            put(path, content)
            return .ok
        case .package(let path, let way, _):
            guard hasRoom(path) else { return missing }
            // The save begins by removing a draft that an interrupted one has left.
            if way == .exchange || nodes[path] == nil { move(path + ".draft", to: nil) }
            putPackage(path, content)
            return .ok
        case .transact(let path, _):
            guard hasRoom(path) else { return missing }
            put(path, nil)
            return .ok
        case .change(let path, _, _):
            return onFile(path) { $0.rewrite(path, content) }
        case .rename(let from, let to): return rename(from, to)
        case .exchange(let one, let other): return exchange(one, other)
        case .remove(let path): return remove(path)
        case .makeDirectory(let path): return create(path) { $0.nodes[path] = .directory }
        case .removeDirectory(let path): return removeDirectory(path)
        case .symlink(let path, let target):
            return create(path) { $0.nodes[path] = .symlink(target) }
        case .link(let from, let to):
            guard let node = nodes[from] else { return missing }
            return create(to) { $0.nodes[to] = node }
        case .date(let path, _): return nodes[path] == nil ? missing : .ok
        case .read(let path), .hold(let path, _): return onFile(path) { _ in }
        default: return .ok
        }
    }

    // MARK: The verbs

    private var missing: Answer { .refused("ENOENT") }

    private func parent(_ path: String) -> String {
        String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])
    }

    private func hasRoom(_ path: String) -> Bool { nodes[parent(path)] == .directory }

    private mutating func onFile(_ path: String, _ change: (inout OwnTree) -> Void) -> Answer {
        guard case .file? = nodes[path] else { return missing }
        change(&self)
        return .ok
    }

    private mutating func create(_ path: String, _ change: (inout OwnTree) -> Void) -> Answer {
        guard hasRoom(path) else { return missing }
        guard nodes[path] == nil else { return .refused("EEXIST") }
        change(&self)
        return .ok
    }

    private mutating func save(_ path: String, _ way: String, _ content: String?) -> Answer {
        guard hasRoom(path) else { return missing }
        let old = nodes[path]
        if way == "inPlace", old != nil {
            rewrite(path, content)
        } else {
            put(path, content)
            if old != nil && way == "backup" { nodes[path + "~"] = old }
            if old != nil && way == "backupAndRemove" { nodes[path + "~"] = nil }
        }
        if way == "replace" || way == "exchange" { nodes[path + ".draft"] = nil }
        return .ok
    }

    private mutating func rename(_ from: String, _ to: String) -> Answer {
        guard let node = nodes[from], hasRoom(to) else { return missing }
        if from == to || (nodes[to] == node && node != .directory) { return .ok }
        if node == .directory, nodes.keys.contains(where: { $0.hasPrefix(to + "/") }) {
            return .refused("ENOTEMPTY")
        }
        move(from, to: to)
        return .ok
    }

    private mutating func exchange(_ one: String, _ other: String) -> Answer {
        guard let first = nodes[one], let second = nodes[other] else { return missing }
        nodes[one] = second
        nodes[other] = first
        return .ok
    }

    private mutating func remove(_ path: String) -> Answer {
        guard nodes[path] != nil else { return missing }
        nodes[path] = nil
        return .ok
    }

    private mutating func removeDirectory(_ path: String) -> Answer {
        guard nodes[path] != nil else { return missing }
        if nodes.keys.contains(where: { $0.hasPrefix(path + "/") }) {
            return .refused("ENOTEMPTY")
        }
        nodes[path] = nil
        return .ok
    }

    /// Moves a path with everything below it, or removes it if `to` is nil.
    private mutating func move(_ from: String, to: String?) {
        for (path, node) in nodes where path == from || path.hasPrefix(from + "/") {
            nodes[path] = nil
            if let to { nodes[to + path.dropFirst(from.count)] = node }
        }
    }
}
