import Foundation
import Journal
import Model
import SystemCalls

@testable import Volume

// What must hold when the recorder has nothing left to do.
extension IndexSimulation {
    /// Sets `problem` to the first thing that is wrong.
    func check() throws {
        let found = try tree.volume.journal.read { try Found($0) }
        problem =
            try compareTree(found) ?? compareDocuments(found)
            ?? comparePackages(found.items, found.living, found.versions) ?? compareStash()
            ?? compareRows(found)
    }

    /// Invariant 11, whenever the sync engine could read the journal.
    func checkPending() throws {
        let recorder = tree.volume.recorder
        guard problem == nil, recorder.processor.backlog.isEmpty,
            tree.volume.events.waiting.count == 0
        else { return }
        let found = try tree.volume.journal.read { try Found($0) }
        for (path, item) in found.living.sorted(by: { $0.key < $1.key })
        where item.kind == .file && item.changed != 0 && !recorder.isPending(item.key) {
            guard let current = found.versions[item.key]?.first(where: { $0.kind == .current }),
                let recorded = content(of: current), let shown = tree.contents(path),
                shown != recorded
            else { continue }
            problem = "\(path) is not pending, and has contents that are not recorded"
        }
    }

    /// The journal's items, as far as the check needs them.
    private struct Found {
        var living: [String: Item] = [:]
        var items: [Item] = []
        var versions: [Int64: [Version]] = [:]

        init(_ reader: Reader) throws {
            var items: [Item] = []
            try reader.forEachItem { items.append($0) }
            for item in items where item.key != Item.root {
                versions[item.key] = try reader.versions(of: item.key)
                guard item.deleted == nil else { continue }
                // Invariant 8: each item has a way to the root.
                guard let path = try reader.path(of: item.key) else {
                    throw SimulationError("\(item.name.text) has no way to the root")
                }
                living[path.map(\.text).joined(separator: "/")] = item
            }
            self.items = items
        }
    }

    /// Invariant 1: the living items are the names of the tree, each with its inode and its
    /// contents.
    private func compareTree(_ found: Found) throws -> String? {
        var seen: Set<String> = []
        for path in try FileManager.default.subpathsOfDirectory(atPath: tree.real("")) {
            if IndexSimulation.isInPackage(path) {
                if found.living[path] != nil { return "\(path) is in a package, and an item" }
                continue
            }
            if path.hasSuffix(".tmp") {
                if found.living[path] != nil { return "\(path) is local, and an item" }
                continue
            }
            seen.insert(path)
            guard let item = found.living[path] else { return "\(path) is no item" }
            var status = stat()
            guard lstat(tree.real(path), &status) == 0 else { continue }
            if item.inode != UInt64(status.st_ino) { return "\(path) has another inode" }
            guard item.kind == .file, !isOpen(path) else { continue }
            if item.changed == 0 { return "\(path) is not recorded" }
            let current = found.versions[item.key]?.first { $0.kind == .current }
            let shown = current.flatMap(content)
            // A new empty file has no version.
            if shown ?? [] != tree.contents(path) { return "\(path) has another current version" }
        }
        return found.living.keys.first { !seen.contains($0) }.map { "\($0) is not in the tree" }
    }

    private func compareDocuments(_ found: Found) throws -> String? {
        var reachable: Set<[UInt8]> = Set(tree.files().values)
        var histories: [Int64: [[UInt8]]] = [:]
        for item in found.items where item.kind == .file {
            let versions = found.versions[item.key] ?? []
            for version in versions { content(of: version).map { _ = reachable.insert($0) } }
            let lineage = versions.filter { $0.kind != .conflict }.compactMap(content)
            histories[item.key] = lineage
        }
        // Invariant 3: nothing that was closed is lost. While a program writes, what it replaces
        // waits in the stash.
        for document in model.documents where active.isEmpty {
            for content in document.contents + document.conflicts
            where !reachable.contains(content) && !model.lost.contains(content) {
                return "\(label(content)) is lost"
            }
        }
        for (path, number) in model.names.sorted(by: { $0.key < $1.key }) where !isOpen(path) {
            let document = model.documents[number]
            guard !document.isUncertain, let item = found.living[path] else { continue }
            // Invariants 2 and 4: a document has its own contents, all of them, and in their order.
            let history = histories[item.key] ?? []
            if history != document.contents {
                return "\(path) has the history \(history.map(label)) instead of "
                    + "\(document.contents.map(label))"
            }
            let conflicts = (found.versions[item.key] ?? []).filter { $0.kind == .conflict }
                .compactMap(content)
            if Set(conflicts) != Set(document.conflicts) {
                return "\(path) has the conflicts \(conflicts.map(label)) instead of "
                    + "\(document.conflicts.map(label))"
            }
        }
        return compareCopies(found) ?? compareRemoved(found, histories)
    }

    /// A copy of what a file held belongs to a document that had the file, and is no document of
    /// its own.
    private func compareCopies(_ found: Found) -> String? {
        guard active.isEmpty else { return nil }
        let documents = found.items.filter {
            $0.kind == .file && !$0.name.text.hasPrefix("recovered")
        }
        let contents = Set(documents.flatMap { found.versions[$0.key] ?? [] }.compactMap(content))
        return model.documents.flatMap(\.copies).first { !contents.contains($0) }.map {
            "\(label($0)) is a version of no document that had the file"
        }
    }

    /// A removed document has its history, too.
    private func compareRemoved(_ found: Found, _ histories: [Int64: [[UInt8]]]) -> String? {
        guard active.isEmpty else { return nil }
        let deleted = found.items.filter { $0.deleted != nil }.compactMap { histories[$0.key] }
        return model.documents.first { document in
            document.isRemoved && !document.isUncertain && !document.contents.isEmpty
                && !deleted.contains(document.contents)
        }.map { "no removed document has the history \($0.contents.map(label))" }
    }

    /// Invariant 5: no stash file is left without a document that needs it.
    private func compareStash() throws -> String? {
        guard active.isEmpty else { return nil }
        let left = try tree.volume.stash.entries().map(\.file)
        return left.isEmpty ? nil : "the stash has \(left)"
    }

    /// Invariant 6: a deleted row is that of a document with versions.
    private func compareRows(_ found: Found) -> String? {
        guard active.isEmpty else { return nil }
        return found.items.first {
            $0.deleted != nil && $0.kind != .directory && found.versions[$0.key]?.isEmpty != false
        }.map { "\($0.name.text) has a deleted row without a version" }
    }

    /// Nil if the only bytes were overwritten while no daemon could keep them.
    private func content(of version: Version) -> [UInt8]? { try? tree.bytes(of: version) }

    /// Whether a save that is under way concerns the name.
    private func isOpen(_ path: String) -> Bool { active.contains { $0.paths.contains(path) } }

    private func label(_ content: [UInt8]) -> String {
        String(decoding: content.prefix { $0 != 45 }, as: UTF8.self) + "(\(content.count))"
    }
}

struct SimulationError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
