import CLinux
import ChunkStore
import Foundation
import Glibc
import Journal
import Model
import SystemCalls
import Testing

@testable import Volume

// The invariants of every store when no work is left.
extension ProgramTree {
    /// Waits for quiet, then checks everything.
    func checkInvariants(
        stashMayHold: Int = 0, _ location: SourceLocation = #_sourceLocation
    ) throws {
        #expect(quiet(), "the recorder does not come to rest", sourceLocation: location)
        let left = try volume.stash.entries()
        #expect(left.count <= stashMayHold, "stash: \(left.map(\.file))", sourceLocation: location)
        let report = volume.recorder.reports.report
        #expect(report.problems.isEmpty, "\(report.problems)", sourceLocation: location)
        for finding in Examination.findings(in: volume, repair: false, progress: { _, _ in })
        where finding.severity == .damage {
            Issue.record("doctor: \(finding)", sourceLocation: location)
        }
        var items: [Item] = []
        try volume.journal.read { try $0.forEachItem { items.append($0) } }
        for item in items { try check(item, location) }
        try checkTree(location)
        try checkMemory(location)
    }

    private func check(_ item: Item, _ location: SourceLocation) throws {
        let versions = try volume.journal.read { try $0.versions(of: item.key) }
        let what = "\(item.name) (item \(item.key), deleted \(item.deleted != nil))"
        let current = versions.filter { $0.kind == .current }
        #expect(current.count <= 1, "\(what): current", sourceLocation: location)
        #expect(current.first?.id == item.current, "\(what): current id", sourceLocation: location)
        if item.deleted == nil, !versions.isEmpty {
            #expect(current.count == 1, "\(what): no current", sourceLocation: location)
        }
        if item.deleted != nil, item.kind == .file || item.kind == .package {
            #expect(
                !versions.isEmpty, "\(what): a deleted row for nothing", sourceLocation: location)
        }
        var last = 0
        for version in versions {
            #expect(version.number > last, "\(what): numbers", sourceLocation: location)
            last = version.number
        }
        #expect(last <= item.latest, "\(what): latest", sourceLocation: location)
        for version in versions {
            let content = try volume.versions.content(of: version.id)
            for (index, entry) in content.manifest.entries.enumerated() where entry.kind == .file {
                let bytes = try? bytes(content, entry: index)
                #expect(
                    bytes?.count == Int(entry.size),
                    "\(what): version \(version.number) cannot be read", sourceLocation: location)
            }
        }
        guard item.deleted == nil, item.kind == .file, item.changed != 0,
            let path = try volume.journal.read({ try $0.path(of: item.key) }),
            let real = contents(path.map(\.text).joined(separator: "/"))
        else { return }
        let shown = try current.first.map { try bytes(of: $0) } ?? []
        #expect(
            shown == real, "\(what): current is not what the tree has", sourceLocation: location)
    }

    /// Whether each file of the tree that is not local is an item, recorded and with the same
    /// inode. Prints what a step has left that the journal does not have.
    func isTreeKnown(_ step: String) throws -> Bool {
        let known = try volume.journal.read { reader in
            var known: Set<String> = []
            try reader.forEachItem { item in
                guard item.deleted == nil, let path = try reader.path(of: item.key) else { return }
                known.insert(path.map(\.text).joined(separator: "/"))
            }
            return known
        }
        let names = volume.ignoreFile.current
        let unknown = (try FileManager.default.subpathsOfDirectory(atPath: real(""))).filter {
            !known.contains($0) && !names.matches(Name($0.split(separator: "/").last!))
        }
        if let first = unknown.first {
            var status = stat()
            lstat(real(first), &status)
            let items = try volume.journal.read { try $0.items(inode: UInt64(status.st_ino)) }
            let twins = try FileManager.default.subpathsOfDirectory(atPath: real("")).filter {
                var other = stat()
                return lstat(real($0), &other) == 0 && other.st_ino == status.st_ino
            }
            Issue.record(
                "after \(step): \(unknown), \(twins): \(items.map { "\($0.key) \($0.name)" })"
            )
        }
        return unknown.isEmpty
    }

    /// Checks that the items are exactly those of the tree, each in its place.
    func checkTree(_ location: SourceLocation = #_sourceLocation) throws {
        let known = try volume.journal.read { reader in
            var known: [String: Item] = [:]
            try reader.forEachItem { item in
                guard item.deleted == nil else { return }
                guard let path = try reader.path(of: item.key) else {
                    Issue.record("\(item.name) has no way to the root", sourceLocation: location)
                    return
                }
                known[path.map(\.text).joined(separator: "/")] = item
            }
            return known
        }
        var seen: Set<String> = [""]
        let names = volume.ignoreFile.current
        func walk(_ path: String) throws {
            for name in try FileManager.default.contentsOfDirectory(atPath: real(path)) {
                let inner = path.isEmpty ? name : path + "/" + name
                var status = stat()
                guard lstat(real(inner), &status) == 0 else { continue }
                let isDirectory = status.st_mode & S_IFMT == S_IFDIR
                if !isDirectory, names.matches(Name(name)) {
                    #expect(known[inner] == nil, "\(inner) is local", sourceLocation: location)
                    continue
                }
                seen.insert(inner)
                guard let item = known[inner] else {
                    Issue.record("\(inner) is no item", sourceLocation: location)
                    continue
                }
                #expect(item.inode == status.st_ino, "\(inner): inode", sourceLocation: location)
                if item.kind == .file {
                    #expect(item.changed != 0, "\(inner) is not recorded", sourceLocation: location)
                }
                let path = inner.split(separator: "/").map { Name($0) }
                if isDirectory, item.kind == .directory,
                    !names.matches(path: path, isDirectory: true)
                {
                    try walk(inner)
                }
            }
        }
        try walk("")
        for path in known.keys where !seen.contains(path) {
            Issue.record("item \(path) is not in the tree", sourceLocation: location)
        }
    }

    /// When it is idle, the recorder has no state of single documents.
    private func checkMemory(_ location: SourceLocation) throws {
        _ = location
    }
}
