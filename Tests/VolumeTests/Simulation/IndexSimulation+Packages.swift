import Foundation
import Journal
import Model
import Support

@testable import Volume

// Packages in the simulation: which one does what, and what must hold of them.
extension IndexSimulation {
    /// Work on a package; nil if there is none that is free.
    func packageSave() -> SimulatedSave? {
        let free = model.packageNames.keys.filter { isFree([$0 + "/"]) }.sorted()
        let (program, content) = (program(), content())
        guard let path = free.isEmpty ? nil : random.pick(free), !random.oneIn(8) else {
            return newPackagePath().map { .makingPackage($0, content, self.content(), program) }
        }
        let files = packageFiles(path)
        let names = files.keys.sorted()
        let new = random.pick(["x", "y", "z"])
        guard let name = names.isEmpty ? nil : random.pick(names) else {
            return .writingPart(path, new, content, program)
        }
        switch random.below(12) {
        case 0, 1: return .writingPart(path, name, content, program)
        case 2: return .writingPart(path, new, content, program)
        case 3, 4: return .replacingPart(path, name, content, draft: "new\(counter)", program)
        case 5: return .removingPart(path, name, program)
        case 6: return newPackagePath().map { .movingPackage(path, $0, program) }
        case 7, 8:
            let prefix = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
            return .exchangingPackage(
                path, draft: prefix + "draft\(counter).pages", content, program)
        case 9:
            guard let text = files[name], !text.isEmpty else { return nil }
            return newPath().map {
                .takingOut(path, name, Array(text.utf8), to: $0, program)
            }
        case 10:
            let documents = model.names.keys.filter {
                !$0.hasSuffix("~") && isFree([$0, $0 + "~"]) && model.knowsContents($0)
            }
            guard files[new] == nil, !documents.isEmpty else { return nil }
            return .puttingIn(random.pick(documents.sorted()), path, new, program)
        default: return .removingPackage(path, program)
        }
    }

    private func newPackagePath() -> String? {
        let directory = random.pick([""] + directories.sorted().map { $0 + "/" })
        let path = directory + random.pick(["p.pages", "q.pages"])
        return model.packageNames[path] == nil && isFree([path + "/"]) ? path : nil
    }

    /// What the files of a package hold, by their paths in it.
    func packageFiles(_ path: String) -> [String: String] {
        var files: [String: String] = [:]
        let root = tree.real(path)
        for inner in (try? FileManager.default.subpathsOfDirectory(atPath: root)) ?? [] {
            guard let bytes = tree.contents(path + "/" + inner) else { continue }
            files[inner] = String(decoding: bytes, as: UTF8.self)
        }
        return files
    }

    /// Whether the path is that of something in a package.
    static func isInPackage(_ path: String) -> Bool {
        path.split(separator: "/").dropLast().contains { $0.hasSuffix(".pages") }
    }

    /// Each package is what the tree has, and has had all that it must have had, in that order.
    func comparePackages(_ items: [Item], _ living: [String: Item], _ versions: [Int64: [Version]])
        throws -> String?
    {
        var known: Set<Int> = []
        for (path, number) in model.packageNames.sorted(by: { $0.key < $1.key }) {
            known.insert(number)
            guard isFree([path + "/"]) else { continue }
            guard let item = living[path], item.kind == .package else {
                return "\(path) is no package"
            }
            let files = packageFiles(path)
            let history = versions[item.key] ?? []
            let current = history.first { $0.kind == .current }
            let shown = try current.map { try tree.packageFiles($0) } ?? [:]
            if shown != files { return "\(path) has \(shown) instead of \(files)" }
            // A package that never held anything has no version.
            if history.isEmpty { continue }
            note(files, inPackage: path)
            if let missing = try firstMissing(number, history) {
                return "\(path) has no version with \(missing)"
            }
        }
        guard active.isEmpty else { return nil }
        let deleted = items.filter { $0.kind == .package && $0.deleted != nil }
        for number in model.packages.indices
        where !known.contains(number) && !model.packages[number].contents.isEmpty {
            let isKept = try deleted.contains {
                try firstMissing(number, versions[$0.key] ?? []) == nil
            }
            if !isKept { return "a removed package has lost \(model.packages[number].contents)" }
        }
        return nil
    }

    /// The first of a package's contents that is not among these versions, in their order.
    private func firstMissing(_ number: Int, _ versions: [Version]) throws -> [String: String]? {
        var histories = try versions.filter { $0.kind != .conflict }.map {
            try tree.packageFiles($0)
        }[...]
        for content in model.packages[number].contents {
            guard let index = histories.firstIndex(of: content) else { return content }
            histories = histories[(index + 1)...]
        }
        return nil
    }
}
