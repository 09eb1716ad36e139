import FileCoordination
import Foundation
import Synchronization

/// Everything that the program has, by name.
final class Desk: Sendable {
    private let state = Mutex(State())

    private struct State {
        var coordinators: [String: FileCoordinator] = [:]
        var showers: [String: Shower] = [:]
        var holds: [String: Hold] = [:]
        var editors: [String: Editor] = [:]
    }

    /// Where an accessor waits until it is told to end.
    private final class Hold: Sendable {
        private let gate = DispatchSemaphore(value: 0)
        private let failure = Mutex<Sentence?>(nil)
        private let asyncGate = AsyncStream.makeStream(of: Void.self)

        func end(_ failure: Sentence? = nil) {
            self.failure.withLock { $0 = failure }
            gate.signal()
            asyncGate.continuation.finish()
        }

        func wait() throws {
            gate.wait()
            if let failure = failure.withLock({ $0 }) { throw failure }
        }

        func wait() async throws {
            for await _ in asyncGate.stream {}
            if let failure = failure.withLock({ $0 }) { throw failure }
        }
    }

    func obey(_ words: Words) {
        switch words.verb {
        case "claim": claim(words)
        case "end": hold(words.name).end()
        case "throw": hold(words.name).end(Sentence(text: "thrown"))
        case "prepare": prepare(words)
        case "cancel": coordinator(words.name, words).cancel()
        case "present":
            let shower = Shower(words)
            state.withLock { $0.showers[words.name] = shower }
            FileCoordinator.addFilePresenter(shower)
            Line(at: "presenting", name: words.name).say()
        case "show": shower(words.name)?.show(words.rest[0])
        case "answer": shower(words.name)?.answer()
        case "retire":
            if let shower = shower(words.name) { FileCoordinator.removeFilePresenter(shower) }
            Line(at: "retired", name: words.name).say()
        case "moved":
            coordinator(words.name, words).item(
                at: URL(filePath: words.rest[0]), didMoveTo: URL(filePath: words.rest[1]))
            Line(at: "done", name: words.verb).say()
        case "stress": stress(words)
        case "edit", "type", "text": edit(words)
        default: file(words)
        }
    }

    // MARK: Files, without a turn

    private func file(_ words: Words) {
        var line = Line(at: "done", name: words.verb, path: words.name)
        let url = URL(filePath: words.name)
        do {
            switch words.verb {
            case "put": try Data(words.rest[0].utf8).write(to: url)
            case "get": line.text = try String(contentsOf: url, encoding: .utf8)
            case "rename":
                guard rename(words.name, words.rest[0]) == 0 else {
                    throw Sentence(text: String(cString: strerror(errno)))
                }
            case "remove": try FileManager.default.removeItem(at: url)
            case "conflicts": line.text = try conflicts(of: url)
            case "settle": try settle(words.rest[0], of: url)
            default: throw Sentence(text: "no command is called so")
            }
        } catch { line.add(error) }
        line.say()
    }

    /// A line a version in conflict: its identifier, device and text.
    private func conflicts(of url: URL) throws -> String {
        let versions = try FileVersion.unresolvedConflictVersionsOfItem(at: url) ?? []
        return try versions.map { version in
            let text = try version.url.map { try String(contentsOf: $0, encoding: .utf8) }
            let device = version.localizedNameOfSavingComputer
            return "\(version.persistentIdentifier) \(device ?? "?") \(text ?? "?")"
        }.joined(separator: "\n")
    }

    private func settle(_ identifier: String, of url: URL) throws {
        let version = try FileVersion.version(ofItemAt: url, forPersistentIdentifier: identifier)
        guard let version, version.isConflict, !version.isResolved else {
            throw Sentence(text: "that is in no conflict")
        }
        try version.setResolved(true)
        guard version.isResolved else { throw Sentence(text: "it is in conflict still") }
    }

    // MARK: The documented presenter

    private func edit(_ words: Words) {
        var line = Line(at: "done", name: words.verb)
        do {
            if words.verb == "edit" {
                let editor = try Editor(url: URL(filePath: words.rest[0]))
                state.withLock { $0.editors[words.name] = editor }
            }
            let editor = state.withLock { $0.editors[words.name] }
            if words.verb == "type" { editor?.edit(words.rest[0]) }
            line.text = editor?.text
            line.path = editor?.presentedItemURL?.path(percentEncoded: false)
        } catch { line.add(error) }
        line.say()
    }

    // MARK: Claims

    private func claim(_ words: Words) {
        let coordinator = coordinator(words["on"] ?? words.name, words)
        let items = words.rest.compactMap(Item.init)
        switch words["by"] {
        case "async":
            Task { await self.claimAsynchronously(words.name, coordinator, items) }
        case "queue": claimInQueue(words.name, coordinator, items)
        default:
            Thread.detachNewThread { self.claimWaiting(words.name, coordinator, items) }
        }
    }

    private func claimWaiting(_ name: String, _ coordinator: FileCoordinator, _ items: [Item]) {
        var line = Line(at: "ended", name: name)
        let first = items[0]
        do {
            switch (items.count, first.isWriting) {
            case (1, false):
                try coordinator.coordinate(readingItemAt: first.url, options: first.reading) {
                    try self.stay(name, [$0])
                }
            case (1, true):
                try coordinator.coordinate(writingItemAt: first.url, options: first.writing) {
                    try self.stay(name, [$0])
                }
            case (_, false):
                try coordinator.coordinate(
                    readingItemAt: first.url, options: first.reading,
                    writingItemAt: items[1].url, options: items[1].writing
                ) { try self.stay(name, [$0, $1]) }
            case (_, true):
                try coordinator.coordinate(
                    writingItemAt: first.url, options: first.writing,
                    writingItemAt: items[1].url, options: items[1].writing
                ) { try self.stay(name, [$0, $1]) }
            }
        } catch { line.add(error) }
        line.say()
    }

    private func claimAsynchronously(
        _ name: String, _ coordinator: FileCoordinator, _ items: [Item]
    ) async {
        var line = Line(at: "ended", name: name)
        let intents = items.map(\.intent)
        do {
            try await coordinator.coordinate(with: intents) {
                self.granted(name, intents.map(\.url)).say()
                try await self.hold(name).wait()
            }
        } catch { line.add(error) }
        line.say()
    }

    private func claimInQueue(_ name: String, _ coordinator: FileCoordinator, _ items: [Item]) {
        let intents = items.map(\.intent)
        coordinator.coordinate(with: intents, queue: OperationQueue()) { error in
            var line = Line(at: "ended", name: name)
            if let error {
                line.add(error)
            } else {
                try? self.stay(name, intents.map(\.url))
            }
            line.say()
        }
    }

    private func stay(_ name: String, _ urls: [URL]) throws {
        granted(name, urls).say()
        try hold(name).wait()
    }

    private func granted(_ name: String, _ urls: [URL]) -> Line {
        var line = Line(at: "granted", name: name)
        line.paths = urls.map { $0.path(percentEncoded: false) }
        line.text = urls.first.flatMap { try? String(contentsOf: $0, encoding: .utf8) }
        return line
    }

    private func prepare(_ words: Words) {
        let coordinator = coordinator(words.name, words)
        let items = words.rest.compactMap(Item.init)
        let (reads, writes) = (items.filter { !$0.isWriting }, items.filter(\.isWriting))
        Thread.detachNewThread {
            var line = Line(at: "prepared", name: words.name)
            do {
                try coordinator.prepare(
                    forReadingItemsAt: reads.map(\.url), options: reads.first?.reading ?? [],
                    writingItemsAt: writes.map(\.url), options: writes.first?.writing ?? []
                ) { done in done() }
            } catch { line.add(error) }
            line.say()
        }
    }

    /// Crossing pairs: without all turns at once this ends in a deadlock soon.
    private func stress(_ words: Words) {
        let urls = words.rest.prefix(2).map { URL(filePath: $0) }
        let rounds = Int(words.rest[2]) ?? 1
        Thread.detachNewThread {
            var line = Line(at: "stressed", name: words.name)
            do {
                for round in 0..<rounds {
                    let (a, b) = (urls[round % 2], urls[(round + 1) % 2])
                    let coordinator = FileCoordinator()
                    if round % 3 == 0 {
                        try coordinator.coordinate(writingItemAt: a, writingItemAt: b) {
                            try self.add(1, $0, $1)
                        }
                    } else {
                        try coordinator.coordinate(readingItemAt: b, writingItemAt: a) {
                            _ = try Data(contentsOf: $0)
                            try self.add(1, $1)
                        }
                    }
                }
            } catch { line.add(error) }
            line.say()
        }
    }

    /// Nobody else may come between the reading and the writing.
    private func add(_ number: Int, _ urls: URL...) throws {
        for url in urls {
            let known = Int(try String(contentsOf: url, encoding: .utf8)) ?? 0
            try Data("\(known + number)".utf8).write(to: url)
        }
    }

    // MARK: By name

    private func hold(_ name: String) -> Hold {
        state.withLock { state in
            if let hold = state.holds[name] { return hold }
            let hold = Hold()
            state.holds[name] = hold
            return hold
        }
    }

    private func shower(_ name: String) -> Shower? { state.withLock { $0.showers[name] } }

    private func coordinator(_ name: String, _ words: Words) -> FileCoordinator {
        state.withLock { state in
            if let known = state.coordinators[name] { return known }
            let coordinator = FileCoordinator(
                filePresenter: words["as"].flatMap { state.showers[$0] },
                waits: !words.plain.contains("try"))
            if let purpose = words["purpose"] { coordinator.purposeIdentifier = purpose }
            state.coordinators[name] = coordinator
            return coordinator
        }
    }
}
