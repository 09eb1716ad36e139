import FileCoordination
import Foundation
import Glibc
import Support
import Synchronization
import Testing

/// Queries that run while two devices work (Rows.md, B6).
@Suite("Metadata queries", .serialized) struct MetadataQueryTests {
    /// Collects what a query reports.
    private final class Listener: Sendable {
        private let updates = Mutex<[MetadataQuery.Update]>([])
        private let task = Mutex<Task<Void, Never>?>(nil)
        private let root: String

        init(
            _ fleet: Fleet, sorted: [KeyPathComparator<MetadataItem>] = [],
            _ predicate: @escaping @Sendable (MetadataItem) -> Bool
        ) {
            root = fleet.devices[1].path + "/"
            var query = MetadataQuery(searchScopes: [URL(filePath: root)], predicate: predicate)
            query.notificationBatchingInterval = .milliseconds(50)
            query.sortComparators = sorted
            let stream = query.updates
            let task = Task.detached { [weak self] in
                for await update in stream { self?.updates.withLock { $0.append(update) } }
            }
            self.task.withLock { $0 = task }
        }

        deinit { task.withLock { $0?.cancel() } }

        var all: [MetadataQuery.Update] { updates.withLock { $0 } }
        func names(_ items: [MetadataItem]) -> [String] {
            items.map { String($0.url.path.dropFirst(root.count)) }
        }
        var results: [String] { names(all.last?.results ?? []) }

        func wait(_ what: String, _ condition: @Sendable (MetadataQuery.Update) -> Bool) throws {
            try Support.wait(seconds: 30, for: "\(what); there is \(results)") {
                all.contains(where: condition) ? true : nil
            }
        }
    }

    @Test("B6.2, B6.4: first all documents, packages as one; then changes of the other device")
    func living() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                """
                mkdir -p d/e p.rtfd; touch a.txt d/e/b.txt p.rtfd/c.txt d/x .hidden.txt
                """)
            try fleet.settle()
            let all = Listener(fleet) { !$0.isDirectory }
            let texts = Listener(fleet) { $0.name.hasSuffix(".txt") }
            for listener in [all, texts] { try listener.wait("the first") { _ in true } }
            #expect(all.results == ["a.txt", "d/e/b.txt", "d/x", "p.rtfd"])
            #expect(all.all.first?.results.last?.isPackage == true)
            #expect(texts.results == ["a.txt", "d/e/b.txt"])
            #expect(texts.names(texts.all[0].added).sorted() == ["a.txt", "d/e/b.txt"])

            try fleet.shell(0, "printf new > d/n.txt")
            try texts.wait("a new one") { texts.names($0.added).contains("d/n.txt") }
            try texts.wait("its size") { $0.results.contains { $0.size == 3 } }
            try fleet.shell(0, "printf more > p.rtfd/c.txt")
            try all.wait("the package") { all.names($0.changed).contains("p.rtfd") }
            try fleet.shell(0, "mv d/e f; rm a.txt")
            try wait(seconds: 30, for: "what is left; there is \(texts.results)") {
                texts.results == ["d/n.txt", "f/b.txt"] ? true : nil
            }
            #expect(texts.all.contains { texts.names($0.removed).contains("a.txt") })
            #expect(texts.all.contains { texts.names($0.removed).contains("d/e/b.txt") })
        }
    }

    @Test("results are sorted by comparators, also after changes, and at last by path")
    func sorting() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "printf 1 > c.txt; printf 333 > a.txt; printf 1 > b.txt")
            try fleet.settle()
            let sorted = Listener(
                fleet, sorted: [KeyPathComparator(\.size, order: .reverse)]
            ) { !$0.isDirectory }
            try sorted.wait("the first") { _ in true }
            #expect(sorted.results == ["a.txt", "b.txt", "c.txt"])
            try fleet.shell(0, "printf 22 > d.txt; printf 55555 > c.txt; rm b.txt")
            try wait(seconds: 30, for: "the new order; there is \(sorted.results)") {
                sorted.results == ["c.txt", "a.txt", "d.txt"] ? true : nil
            }
        }
    }

    @Test("B6.3: evicted and downloaded contents, and the progress") func downloading() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "head -c 9000000 /dev/urandom > a.bin")
            try fleet.settle()
            let url = URL(filePath: "\(fleet.devices[1].path)/a.bin")
            let query = Listener(fleet) { $0.name == "a.bin" }
            try query.wait("the first") { $0.results.count == 1 }
            try UbiquityContainer.startDownloadingItem(at: url)
            try query.wait("all of it") {
                $0.results.first?.ubiquity?.downloadingStatus == .current
            }
            try UbiquityContainer.evictItem(at: url)
            try query.wait("its end") {
                $0.changed.first?.ubiquity?.downloadingStatus == .notDownloaded
            }
            try Programs.fsctl("limit", "--down", "3000", "--at", fleet.devices[1].path).succeed()
            try UbiquityContainer.startDownloadingItem(at: url)
            try query.wait("a part of it") {
                guard let values = $0.changed.first?.ubiquity else { return false }
                return values.isDownloading && (1..<100).contains(values.percentDownloaded ?? 0)
            }
            try wait(seconds: 30, for: "all of it again") {
                query.all.last?.results.first?.ubiquity?.downloadingStatus == .current
                    ? true : nil
            }
        }
    }

    @Test("a query that is cancelled while it collects changes ends, with its thread")
    func ending() throws {
        try Fleet.with(2) { fleet in
            for round in 1...10 {
                let query = Listener(fleet) { _ in true }
                try query.wait("the first") { _ in true }
                try fleet.put(1, "a", "\(round)")
                // It collects changes for 50 milliseconds.
                usleep(10_000)
                withExtendedLifetime(query) {}
            }
            try wait(for: "the queries to end") {
                try QueryThread.all(of: getpid()).isEmpty ? true : nil
            }
        }
    }

    @Test("while nothing happens its thread does not run, and what this process saves is reported")
    func resting() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir d; touch d/a.txt")
            try fleet.settle()
            let query = Listener(fleet) { !$0.isDirectory }
            try query.wait("the first") { !$0.results.isEmpty }
            let path = "\(fleet.devices[1].path)/d/b.txt"
            try Data("mine".utf8).write(to: URL(filePath: path))
            try query.wait("its own file") { query.names($0.added).contains("d/b.txt") }
            try query.wait("that the hub has it") {
                $0.results.contains { $0.size == 4 && $0.ubiquity?.isUploaded == true }
            }
            try fleet.settle()
            // A thread that rests is not switched.
            let thread = try wait(for: "the queries of other tests to end") {
                try QueryThread(of: getpid())
            }
            try wait(seconds: 30, for: "the query to rest") {
                let count = try thread.switches
                usleep(700_000)
                return try thread.switches == count ? true : nil
            }
            try fleet.shell(0, "touch d/c.txt")
            try query.wait("the next") { query.names($0.added).contains("d/c.txt") }
        }
    }

    @Test("a document being read is downloading, in queries and in the daemon's status")
    func reading() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "head -c 9000000 /dev/urandom > a.bin")
            try fleet.settle()
            let path = "\(fleet.devices[1].path)/a.bin"
            let query = Listener(fleet) { $0.name == "a.bin" }
            try query.wait("the first") { $0.results.count == 1 }
            try Programs.fsctl("limit", "--down", "3000", "--at", fleet.devices[1].path).succeed()
            let null = open("/dev/null", O_RDWR | O_CLOEXEC)
            defer { close(null) }
            let reader = try ChildProcess(
                "cat", [path], input: null, output: null, errors: null)
            defer { reader.killGroup() }
            try wait(seconds: 30, for: "what is moving") {
                try fleet.report(fleet.devices[1]).hub?.moving.first {
                    $0.path == "a.bin" && $0.direction == "down" && $0.total == 9_000_000
                        && (1..<9_000_000).contains($0.done)
                }
            }
            try query.wait("a part of it") {
                guard let values = $0.changed.first?.ubiquity else { return false }
                return values.isDownloading && (1..<100).contains(values.percentDownloaded ?? 0)
            }
            #expect(try reader.waitForEnd(seconds: 30) == 0)
            try wait(seconds: 30, for: "nothing to be moving") {
                try fleet.report(fleet.devices[1]).hub?.moving.isEmpty == true ? true : nil
            }
            try query.wait("all of it") {
                $0.changed.first?.ubiquity?.downloadingStatus == .current
            }
        }
    }
}
