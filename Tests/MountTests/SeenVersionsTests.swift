import Support
import Testing

@testable import Mount

/// What processes have seen of documents, tested without files.
@Suite("What processes have seen") struct SeenVersionsTests {
    private let a = SeenVersions.Process(id: 1, start: 1)
    private let b = SeenVersions.Process(id: 2, start: 1)
    private let place = SeenVersions.Place(directory: 1, name: [97, 0])

    private func content(_ inode: UInt64, _ modified: Int64 = 0) -> SeenVersions.Content {
        SeenVersions.Content(inode: inode, size: 1, modified: modified)
    }

    private func reading(_ processes: SeenVersions.Process...) -> SeenVersions {
        var seen = SeenVersions()
        for process in processes { read(&seen, content(10), by: process) }
        return seen
    }

    private func empty(
        _ seen: inout SeenVersions, _ content: SeenVersions.Content,
        by process: SeenVersions.Process
    ) -> SeenVersions.Sight {
        seen.emptied(content, as: content, by: process, stays: true)
    }

    private func read(
        _ seen: inout SeenVersions, _ content: SeenVersions.Content,
        by process: SeenVersions.Process
    ) {
        _ = seen.opened(content, by: process, reads: true, writes: false) { _ in true }
    }

    @Test("a save over another program's save is stale until the document is read again")
    func stale() {
        var seen = reading(a)
        seen.replaced(content(10), by: content(11), process: b)
        #expect(seen.base(of: a, replacing: content(11)) == content(10))
        #expect(seen.base(of: b, replacing: content(11)) == nil, "it has never read it")
        read(&seen, content(11), by: a)
        #expect(seen.base(of: a, replacing: content(11)) == nil)
    }

    @Test("a process has seen its own saves, and drafts that it has read")
    func own() {
        var seen = reading(a, b)
        seen.replaced(content(10), by: content(11), process: a)
        #expect(seen.base(of: a, replacing: content(11)) == nil)
        #expect(seen.base(of: b, replacing: content(11)) == content(10))
        read(&seen, content(12), by: b)
        seen.replaced(content(11), by: content(12), process: a)
        #expect(seen.base(of: b, replacing: content(12)) == nil)
    }

    @Test("a process that had seen the rest has seen what it writes in place")
    func inPlace() {
        var seen = reading(a)
        #expect(
            seen.opened(content(10, 1), by: a, reads: false, writes: true) { _ in true }
                == .partial,
            "somebody else has changed it")
        #expect(seen.base(of: a, replacing: content(10, 2)) == content(10))
        seen = reading(a)
        let sight = seen.opened(content(10), by: a, reads: false, writes: true) { _ in true }
        #expect(seen.base(of: a, replacing: content(10, 1)) == nil, "it writes still")
        seen.wrote(content(10, 1), by: a, sight)
        #expect(seen.base(of: a, replacing: content(10, 1)) == nil)
        #expect(seen.base(of: a, replacing: content(10, 2)) == content(10, 1))
    }

    @Test("a process that changes the length of contents it has seen has seen the result")
    func resized() {
        var seen = reading(a, b)
        seen.resized(content(10), as: content(10, 1), by: a)
        #expect(seen.base(of: a, replacing: content(10, 1)) == nil)
        #expect(seen.base(of: b, replacing: content(10, 1)) == content(10))
        seen.resized(content(10, 2), as: content(10, 3), by: a)
        #expect(seen.base(of: a, replacing: content(10, 3)) == content(10, 1))
    }

    @Test("a close reported after another process has emptied the file counts for nothing")
    func overtaken() {
        var seen = reading(a, b)
        let sights = [empty(&seen, content(10), by: a), empty(&seen, content(10, 1), by: b)]
        seen.wrote(content(10, 2), by: a, sights[0])
        seen.wrote(content(10, 2), by: b, sights[1])
        #expect(seen.base(of: a, replacing: content(10, 2)) == content(10, 1))
        #expect(seen.base(of: b, replacing: content(10, 2)) == nil)
    }

    @Test("a close reported after its process has replaced the file counts for nothing")
    func late() {
        var seen = reading(a, b)
        let first = empty(&seen, content(10), by: a)
        seen.replaced(content(10, 1), by: content(11), process: a)
        let second = empty(&seen, content(11), by: a)
        seen.wrote(content(10, 1), by: a, first)
        #expect(seen.base(of: a, replacing: content(11, 1)) == nil, "it writes the other one")
        seen.wrote(content(11, 1), by: a, second)
        #expect(seen.base(of: a, replacing: content(11, 1)) == nil)
        #expect(seen.base(of: a, replacing: content(11, 2)) == content(11, 1))
    }

    @Test("the close of a draft does not count as a later close of the document") func drafts() {
        var seen = reading(a)
        let draft = seen.created(11, by: a)
        #expect(draft == .full)
        seen.replaced(content(10), by: content(11), process: a)
        _ = empty(&seen, content(11), by: a)
        seen.wrote(content(11), by: a, draft)
        #expect(seen.base(of: a, replacing: content(11, 1)) == nil)
    }

    @Test("a late close of a handle that knew nothing of the document hides no change of others")
    func unknown() {
        var seen = SeenVersions()
        read(&seen, content(10), by: b)
        let first = empty(&seen, content(10), by: a)
        #expect(first == .full)
        read(&seen, content(10, 1), by: a)
        _ = empty(&seen, content(10, 1), by: b)
        seen.wrote(content(10, 2), by: a, first)
        #expect(seen.base(of: a, replacing: content(10, 2)) == content(10, 1), "b has emptied it")

        seen = reading(a)
        read(&seen, content(20), by: b)
        let other = empty(&seen, content(20), by: a)
        seen.exchanged(content(10), content(20, 1), process: b)
        seen.wrote(content(20, 1), by: a, other)
        #expect(seen.base(of: a, replacing: content(20, 1)) == content(10), "b has exchanged it")
    }

    @Test("setting times is no save") func times() {
        var seen = reading(a)
        seen.retimed(content(10), as: content(10, 5))
        #expect(seen.base(of: a, replacing: content(10, 5)) == nil)
    }

    @Test("a name that a process removes and fills again is the same document")
    func names() {
        var seen = reading(a)
        seen.vacated(place, content(10), by: b)
        #expect(seen.filled(place, by: content(11), process: b) == nil)
        #expect(seen.base(of: a, replacing: content(11)) == content(10))
        seen.vacated(place, content(11), by: a)
        #expect(seen.filled(place, by: content(12), process: a) == content(10))
        #expect(seen.created(12, by: a) != .full)
        seen.vacated(place, content(12, 4), by: a)
        #expect(
            seen.filled(place, by: content(13), process: a) == nil,
            "its own, of which the close was not heard yet")
    }

    @Test("a backup is no longer the document, nor is another link of what was replaced")
    func backups() {
        var seen = reading(a)
        seen.vacated(place, content(10), by: b)
        _ = seen.filled(place, by: content(11), process: b)
        read(&seen, content(10), by: b)
        #expect(seen.base(of: b, replacing: content(11)) == nil)
        seen.replaced(content(11), isGone: false, by: content(12), process: nil)
        read(&seen, content(11), by: b)
        #expect(seen.base(of: b, replacing: content(12)) == nil)
        #expect(seen.base(of: a, replacing: content(12)) == content(10))
    }

    @Test("an exchange replaces both") func exchange() {
        var seen = reading(a)
        read(&seen, content(20), by: a)
        seen.exchanged(content(10), content(20), process: b)
        #expect(seen.base(of: a, replacing: content(20)) == content(10))
        #expect(seen.base(of: a, replacing: content(10)) == content(20))
    }

    @Test("a reused inode number belongs to a different file") func numbers() {
        var seen = reading(a)
        seen.replaced(content(10), by: content(11), process: b)
        seen.made(10)
        #expect(seen.base(of: a, replacing: content(10, 3)) == nil)
        #expect(seen.base(of: a, replacing: content(11)) == content(10))
    }

    @Test("entries are limited: those of ended processes are dropped first") func limits() {
        var seen = SeenVersions(
            limits: SeenVersions.Limits(documentsOfProcess: 50, pairs: 100))
        read(&seen, content(1), by: a)
        for number in 100..<10_000 {
            let process = SeenVersions.Process(id: Int32(number), start: 1)
            _ = seen.opened(
                content(UInt64(number)), by: process, reads: true, writes: false
            ) { $0 == a }
            #expect(seen.pairs <= 101)
        }
        #expect(seen.base(of: a, replacing: content(1, 1)) == content(1))
        for number in 100..<10_000 { read(&seen, content(UInt64(number)), by: b) }
        #expect(seen.pairs <= 101)
        #expect(seen.base(of: a, replacing: content(1, 1)) == content(1))
    }

    /// A model that knows which content each process has seen of each document, and nothing of
    /// inodes.
    private struct Model {
        var current: SeenVersions.Content
        var seen: [SeenVersions.Process: SeenVersions.Content] = [:]
    }

    /// A close that is not reported yet.
    private struct Closing {
        var process: SeenVersions.Process
        var inode: UInt64
        var sight: SeenVersions.Sight
    }

    @Test("500 runs of random steps agree with a model that follows documents, not files")
    func random() {
        var random = SeededRandom(named: "SeenVersions")
        // Many short runs: the longer one is, the fewer of its late closes concern a document's
        // present file.
        for run in 0..<500 { agree(run, random.fork()) }
    }

    private func agree(_ run: Int, _ random: SeededRandom) {
        var random = random
        var seen = SeenVersions()
        let processes = (1...5).map { SeenVersions.Process(id: $0, start: 1) }
        var models = (1...6).map { Model(current: content(UInt64($0))) }
        var next: UInt64 = 100
        var closings: [Closing] = []
        var contents: [UInt64: SeenVersions.Content] = [:]
        for step in 0..<200 {
            let (index, process) = (random.below(6), random.pick(processes))
            let (old, other) = (models[index].current, random.below(6))
            next += 1
            let stale = models[index].seen[process].flatMap { $0 == old ? nil : $0 }
            guard seen.base(of: process, replacing: old) == stale else {
                Issue.record("run \(run), step \(step): \(process) saw \(stale as Any)")
                return
            }
            for model in models { contents[model.current.inode] = model.current }
            switch random.below(7) {
            case 0, 1:
                read(&seen, old, by: process)
                models[index].seen[process] = old
            case 2:
                models[index].current = content(next)
                seen.replaced(old, by: models[index].current, process: process)
                save(&models[index], process)
            case 3:
                let sight = seen.emptied(old, as: old, by: process, stays: true)
                models[index].current.modified += 1
                closings.append(
                    Closing(process: process, inode: old.inode, sight: sight))
                save(&models[index], process)
            case 6 where !closings.isEmpty:
                let closing = closings.remove(at: random.below(closings.count))
                seen.wrote(contents[closing.inode]!, by: closing.process, closing.sight)
            case 4:
                seen.vacated(place, old, by: process)
                models[index].current = content(next)
                let base = seen.filled(place, by: models[index].current, process: process)
                guard base == stale else {
                    Issue.record("run \(run), step \(step): \(process) saw \(stale as Any)")
                    return
                }
                save(&models[index], process)
            default:
                guard index != other else { continue }
                let there = models[other].current
                seen.exchanged(old, there, process: process)
                (models[index].current, models[other].current) = (there, old)
                save(&models[index], process)
                save(&models[other], process)
            }
        }
    }

    private func save(_ model: inout Model, _ process: SeenVersions.Process) {
        if model.seen[process] != nil { model.seen[process] = model.current }
    }
}
