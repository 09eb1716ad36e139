import Foundation
import Glibc
import Journal
import Model
import Support

@testable import Volume

/// One schedule of the index, from a seed: programs save in all their ways, step by step and beside
/// each other; in between the recorder's steps are done by this thread, in any order; scans race
/// with events; the daemon is killed between any two steps, or the tree is changed while it is not
/// mounted. The index, the journal, the stash and the files are the real ones, in memory.
///
/// `DocumentModel` says what must have become of each document.
final class IndexSimulation {
    let tree: ProgramTree
    var random: SeededRandom
    private(set) var model = DocumentModel()
    private(set) var directories: Set<String> = []
    private(set) var active: [SimulatedSave] = []
    private(set) var counter = 0
    /// Whether programs use packages, too.
    private let withPackages: Bool
    /// Whether programs also work while a scan is under way.
    private let scansRace: Bool
    /// Whether the power may still fail, which destroys the events that are not processed yet. It
    /// fails once.
    private var mayLosePower: Bool
    private(set) var log: [String] = []
    var problem: String?

    init(seed: UInt64, bugs: Set<IndexBug> = [], scansRace: Bool = true) throws {
        self.scansRace = scansRace
        withPackages = seed.isMultiple(of: 3)
        mayLosePower = seed % 4 == 2
        random = SeededRandom(seed: seed)
        var settings = ProgramTree.fast
        // The simulation decides when something is done, not the clock.
        settings.packageQuietSeconds = 0
        settings.releaseSeconds = 0
        settings.busySeconds = 3_600
        settings.tombstoneSeconds = 3_600
        // A scan compares one directory in each step.
        settings.scanSeconds = 0
        // Some files are large, so that old blocks are saved as they are overwritten.
        settings.copiedSizeMax = seed.isMultiple(of: 2) ? 120 : 1 << 20
        settings.bugs = bugs
        tree = try ProgramTree(settings: settings, isStepwise: true)
        _ = recorder.begin(tree.volume.logged)
        if !scansRace { _ = hasComeToRest() }
    }

    private var recorder: Recorder { tree.volume.recorder }

    /// Runs the schedule until something is wrong, which `problem` says then.
    func run(steps: Int = 60) {
        do {
            for _ in 0..<steps where problem == nil {
                try step()
                try checkPending()
            }
            while let save = active.first, problem == nil { try advance(save, 0) }
            if problem == nil { try rest() }
        } catch {
            problem = "\(log.last ?? "the beginning"): \(error)"
        }
        tree.volume.recorder.abandon()
    }

    // MARK: Steps

    private func step() throws {
        switch random.below(40) {
        case 0..<14:
            if active.count < 3, let save = newSave() {
                log.append(save.label)
                active.append(save)
                // Directories are made and moved at once, because others use them then.
                if save.paths[0].hasSuffix("/") { try advance(save, active.count - 1) }
            }
        case 14..<28:
            guard !active.isEmpty else { return }
            let index = random.below(active.count)
            try advance(active[index], index)
        case 28..<34: recorderStep()
        case 34, 35: if mayLosePower { try crash() } else { recorderStep() }
        case 36:
            guard scansRace else { return }
            log.append("scan")
            recorder.writer.startScan()
        case 37: try rest()
        case 38: try crash()
        default: try remount()
        }
    }

    private func advance(_ save: SimulatedSave, _ index: Int) throws {
        log.append("  step \(active[index].steps.count) before the end: \(save.label)")
        try active[index].steps.removeFirst()(tree)
        guard active[index].steps.isEmpty else { return }
        active.remove(at: index)
        save.outcome(&model)
        log.append("  done: \(save.label)")
    }

    private func recorderStep() {
        switch random.below(6) {
        case 0, 1:
            log.append("  events")
            recorder.processor.processEvents(now: true)
        case 2:
            log.append("  scan step")
            _ = recorder.scanner.step()
        case 3:
            log.append("  settle what is missing")
            _ = recorder.settleMissing()
        case 4:
            guard isInStep else { return }
            log.append("  record")
            recorder.queue.recordAll()
        default: _ = recorder.queue.recordPending()
        }
    }

    /// What the recorder's loop sees to before it records.
    private var isInStep: Bool { recorder.state.scan == nil && recorder.processor.backlog.isEmpty }

    func note(_ files: [String: String], inPackage path: String) {
        model.note(files, inPackage: path)
    }

    /// Lets the recorder work until it has nothing left to do, and compares.
    private func rest() throws {
        log.append("rest")
        guard hasComeToRest() else {
            let pending = recorder.state.pending.all.map { "\($0): \($1)" }
            problem = "the recorder does not come to rest: \(pending)"
            return
        }
        try check()
    }

    private func hasComeToRest() -> Bool {
        for _ in 0..<200 {
            recorder.processor.processEvents(now: true)
            if recorder.scanner.step() || recorder.settleMissing() { continue }
            if isInStep { recorder.queue.recordAll() }
            if recorder.queue.recordPending() { continue }
            let state = recorder.state
            let isDone =
                recorder.processor.backlog.isEmpty && tree.volume.events.waiting.count == 0
                && state.scan == nil && state.missing.isEmpty && state.unresolved.isEmpty
                && state.pending.all.values.allSatisfy { !active.isEmpty || !$0.isWriting }
                && (state.pending.all.isEmpty || !active.isEmpty)
            if isDone { return true }
        }
        return false
    }

    /// Kills the daemon. The programs' files are closed with the mount, so their saves end.
    private func crash() throws {
        let losesEvents = mayLosePower && random.oneIn(2)
        if losesEvents {
            mayLosePower = false
            try saveTwice()
        }
        log.append("kill")
        let paths = active.flatMap(\.paths)
        active = []
        var hasMoved = false
        let copies = losesEvents ? try unassignedCopies() : [:]
        try tree.crash {
            if losesEvents { return try loseEvents() }
            // What nobody was saving may be moved before the daemon starts again.
            let path = model.names.keys.sorted().first { path in
                !paths.contains { $0 == path || $0 == path + "~" }
            }
            guard random.oneIn(3), let path, let other = newPath(), !paths.contains(other) else {
                return
            }
            log.append("unmounted: move \(path) to \(other)")
            try FileManager.default.moveItem(atPath: tree.real(path), toPath: tree.real(other))
            model.move(path, other)
            hasMoved = true
        }
        _ = recorder.begin(tree.volume.logged)
        if hasMoved || !scansRace { _ = hasComeToRest() }
        let files = paths.filter { !$0.hasSuffix("/") && !isLocal($0) }
        model.forget(files) { tree.contents($0) != nil }
        for path in paths where path.hasSuffix(".pages/") {
            let package = String(path.dropLast())
            model.forgetPackage(
                package, isThere: access(tree.real(package), F_OK) == 0)
        }
        if losesEvents { try forgetEvents(copies) }
    }

    /// Saves a document by a new file, and then in place: what the new file held is in the stash
    /// only, and the journal does not know that the document has this file.
    private func saveTwice() throws {
        let paths = model.names.keys.filter {
            !$0.hasSuffix("~") && isFree([$0]) && model.knowsContents($0)
        }
        guard let path = paths.sorted().first else { return }
        let draft = path + ".new\(counter)"
        try finish(.replacing(path, by: draft, content(), program()))
        try finish(.overwriting(path, content(), program()))
    }

    private func finish(_ save: SimulatedSave) throws {
        log.append(save.label)
        active.append(save)
        let index = active.count - 1
        for _ in save.steps { try advance(active[index], index) }
    }

    /// Contents in the stash that were copied from the file with this inode, and that the journal
    /// does not know yet.
    private func unassignedCopies() throws -> [UInt64: [[UInt8]]] {
        var copies: [UInt64: [[UInt8]]] = [:]
        for entry in try tree.volume.stash.entries()
        where entry.kind == .copied && !recorder.state.pending.needs(entry) {
            let bytes = try Data(contentsOf: URL(filePath: "\(tree.store)/stash/\(entry.file)"))
            copies[entry.inode, default: []].append(Array(bytes))
        }
        return copies
    }

    private func loseEvents() throws {
        log.append("the power fails")
        for name in try FileManager.default.contentsOfDirectory(atPath: tree.store)
        where name.hasPrefix("events.") {
            try FileManager.default.removeItem(atPath: "\(tree.store)/\(name)")
        }
    }

    /// Programs go on at once, before the scan has found out what the lost events would have said.
    private func forgetEvents(_ copies: [UInt64: [[UInt8]]]) throws {
        model.loseEvents(
            contents: tree.contents,
            copies: { path in
                var status = stat()
                guard lstat(tree.real(path), &status) == 0 else { return [] }
                return copies[UInt64(status.st_ino)] ?? []
            })
        for path in model.packageNames.keys.sorted() {
            model.forgetPackage(path, isThere: access(tree.real(path), F_OK) == 0)
        }
        for _ in 0..<random.below(4) { if let save = newSave() { try finish(save) } }
        for _ in 0..<random.below(6) { _ = recorder.scanner.step() }
        log.append("  settle what is missing")
        _ = recorder.settleMissing()
    }

    /// Ends the daemon in order, and changes the tree while nobody watches.
    private func remount() throws {
        guard active.isEmpty else { return }
        try rest()
        guard problem == nil else { return }
        let paths = model.names.keys.sorted()
        try tree.remount {
            guard paths.count > 2 else { return }
            let path = random.pick(paths)
            switch random.below(4) {
            case 0, 1:
                guard let other = newPath() else { return }
                log.append("unmounted: move \(path) to \(other)")
                try FileManager.default.moveItem(atPath: tree.real(path), toPath: tree.real(other))
                model.move(path, other)
            case 2:
                log.append("unmounted: remove \(path)")
                model.loseContent(of: path, inFile: tree.contents(path))
                try FileManager.default.removeItem(atPath: tree.real(path))
                model.remove(path)
            default:
                log.append("unmounted: overwrite \(path)")
                let content = content()
                model.loseContent(of: path, inFile: tree.contents(path))
                try Data(content).write(to: URL(filePath: tree.real(path)))
                model.save(path, content)
            }
        }
        _ = recorder.begin(tree.volume.logged)
        // A program that makes a name before the scan has looked for what had it continues that
        // document, and what was moved is a new one.
        _ = hasComeToRest()
    }

    // MARK: Choices

    func content() -> [UInt8] {
        counter += 1
        return Array("<\(counter)>".utf8) + [UInt8](repeating: 45, count: random.below(300))
    }

    private func isLocal(_ path: String) -> Bool { path.hasSuffix(".tmp") }

    func isFree(_ paths: [String]) -> Bool {
        let used = active.flatMap(\.paths)
        return paths.allSatisfy { path in
            !used.contains { $0 == path || $0.hasPrefix(path) && path.hasSuffix("/") }
        }
    }

    func newPath() -> String? {
        for _ in 0..<8 {
            let directory = random.pick([""] + directories.sorted().map { $0 + "/" })
            let path = directory + random.pick(["a", "b", "c.txt", "d.txt"])
            if !model.has(path), isFree([path]) { return path }
        }
        return nil
    }

    /// Each save is the work of a program of its own.
    func program() -> Program {
        counter += 1
        return Program(process: Int32(1_000 + counter), name: "p\(counter)")
    }

    private func newSave() -> SimulatedSave? {
        let paths = model.names.keys.filter {
            !$0.hasSuffix("~") && isFree([$0, $0 + "~"]) && model.knowsContents($0)
        }
        let save: SimulatedSave?
        if withPackages, random.oneIn(4) {
            save = packageSave()
        } else if paths.count < 3 || random.oneIn(6) {
            save =
                random.oneIn(3)
                ? directory() : newPath().map { .overwriting($0, content(), program()) }
        } else {
            save = self.save(random.pick(paths.sorted()), paths)
        }
        return save.flatMap { isFree($0.paths) ? $0 : nil }
    }

    private func save(_ path: String, _ paths: [String]) -> SimulatedSave? {
        guard let old = model.document(path)?.contents.last else { return nil }
        let (program, content) = (program(), content())
        let prefix = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        let draft = prefix + ".draft\(counter).tmp"
        switch random.below(19) {
        case 0, 1: return .overwriting(path, content, program)
        case 2: return .editing(path, old, content, at: random.below(old.count), program)
        case 3: return .appending(path, old, content, program)
        case 4: return .replacing(path, by: draft, content, program)
        case 5: return .replacing(path, by: path + ".new\(counter)", content, program)
        case 6, 7:
            return .withBackup(
                path, old, content, draft: path + ".new\(counter)", removes: random.oneIn(2),
                prepares: random.oneIn(2), program)
        case 8:
            return .withLinkedBackup(
                path, old, content, draft: draft, hasBackup: model.has(path + "~"), program)
        case 9: return .removingFirst(path, content, program)
        case 10: return .exchanging(path, content, draft: draft, program)
        case 11:
            let other = random.pick(paths.sorted())
            return other == path ? nil : .exchanging(path, other, program)
        case 12: return newPath().map { .moving(path, $0, program) }
        case 13:
            let other = random.pick(paths.sorted())
            return other == path ? nil : .moving(path, other, program)
        case 14: return .hiding(path, as: draft, program, self.program())
        case 15:
            return random.oneIn(2)
                ? .removing(path, program)
                : .removingForAnother(path, content, program, self.program())
        case 16: return newPath().map { .linking(path, $0, content, program) }
        case 17: return .opening(path, program)
        default:
            return .late(path, old, content, self.content(), draft: draft, program, self.program())
        }
    }

    /// Makes a directory, or gives one another name.
    private func directory() -> SimulatedSave? {
        let all = ["d", "e", "d/f", "e/g"]
        let program = program()
        let missing = all.filter { path in
            let parent = path.split(separator: "/").dropLast().joined(separator: "/")
            return !directories.contains(path) && (parent.isEmpty || directories.contains(parent))
        }
        if let path = missing.first, directories.count < 2 || random.oneIn(3) {
            directories.insert(path)
            return SimulatedSave(
                paths: [path + "/"], label: "make \(path)",
                steps: [{ try $0.mkdir(path, by: program) }]
            ) { _ in }
        }
        guard let other = missing.last,
            let path = directories.sorted().first(where: {
                !other.hasPrefix($0 + "/") && isFree([$0 + "/"])
            })
        else { return nil }
        for inner in directories
        where inner.hasPrefix(path) && (inner == path || inner.hasPrefix(path + "/")) {
            directories.remove(inner)
            directories.insert(other + inner.dropFirst(path.count))
        }
        return .movingDirectory(path, other, program)
    }
}
