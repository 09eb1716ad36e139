import CLinux
import Foundation
import Glibc
import Support
import SystemCalls

/// The programs of one device: they do what an action says and record the results.
struct DevicePrograms {
    let site: Site
    let history: History
    let round: Int
    /// The programs that read in parallel with the others.
    let readers: DispatchGroup

    private var root: String { "\(site.volume.path)/r\(round)" }
    func place(_ path: String) -> String { "\(root)/\(path)" }
    /// The name includes the round, because the numbers of actions repeat.
    private var writer: String { "\(site.name)r\(round)" }

    func perform(_ action: Action) {
        let beginning = site.waitUntilUp()
        var event = Event(.did, site.name)
        event.action = action.number
        event.verb = action.verb.words
        event.path = action.verb.paths.first
        do throws(Errno) {
            try perform(action, &event)
            if event.outcome == nil { event.outcome = "ok" }
            // A user's program leaves its draft when the disk is full or its device was killed.
            let error: Errno? =
                switch event.outcome {
                case "ENOENT": Errno(ENOENT)
                case "refused", "ENOSPC": Errno(ENOSPC)
                default: nil
                }
            if let error, site.circumstances.excuse(error, since: beginning) {
                event.detail = "excused"
            }
        } catch {
            event.outcome = ProgramCalls.name(error)
            let isOfTheHub = error.code == EACCES && site.mayRefusePrograms
            if isOfTheHub || site.circumstances.excuse(error, since: beginning) {
                event.detail = "excused"
            }
        }
        if event.outcome == "beside" { return }
        history.note(event)
        if event.detail == "excused" { observe(action) }
    }

    private func began(_ event: Event) {
        var event = event
        event.kind = .began
        history.note(event)
    }

    private func perform(_ action: Action, _ event: inout Event) throws(Errno) {
        switch action.verb {
        case .save(let path, let way, let size, let synced):
            let whole = WholeContent(writer: writer, sequence: action.number)
            let bytes = whole.bytes(length: size)
            event.content = Content.name(bytes)
            event.writers = Content.writers(bytes)
            event.base = (try? ProgramCalls.read(place(path))).map(Content.name)
            began(event)
            try way.save(bytes, to: place(path), synced: synced)
        case .saveAs(let user, let path, let size, let mode):
            let bytes = WholeContent(writer: writer, sequence: action.number).bytes(length: size)
            event.content = Content.name(bytes)
            event.writers = Content.writers(bytes)
            began(event)
            admitUsers(beside: place(path))
            event.outcome = user.save(bytes, to: place(path), mode: mode) ?? "ok"
        case .change(let path, let way, let size):
            var announced = event
            defer { event = announced }
            try ProgramCalls.change(
                place(path), way, writer: writer, number: action.number, size: size
            ) { old, new in
                announced.base = Content.name(old)
                announced.content = Content.name(new)
                announced.writers = Content.writers(new)
                began(announced)
            }
        case .package(let path, let way, let size):
            let package = Package(writer: writer, number: action.number, size: size)
            event.content = package.content.name
            event.writers = package.content.writers
            began(event)
            try package.save(to: place(path), way)
        case .transact(let path, let rows):
            let database = Database(path: place(path))
            event.rows = database.rows(of: "\(writer).\(action.number)", count: rows)
            began(event)
            let done = database.insert(event.rows ?? [])
            event.outcome = done.errors.isEmpty ? "ok" : "refused"
            if !done.errors.isEmpty { event.detail = done.errors }
            event.rows = done.rows
        case .read(let path):
            let bytes = try ProgramCalls.read(place(path))
            event.content = Content.name(bytes)
            event.writers = Content.writers(bytes)
        case .hold(let path, let milliseconds):
            try hold(place(path), milliseconds, event)
            event.outcome = "beside"
        case .think(let milliseconds):
            usleep(UInt32(milliseconds * 1_000))
            event.outcome = "beside"
        case .visit(let path): visit(path, &event)
        case .wait(let path, let durability): try wait(path, durability, &event)
        case .restore(let path, let back): try restore(path, back, &event)
        case .rewind(let path, let seconds): rewind(path, seconds, &event)
        case .purge(let path):
            began(event)
            ask(&event, "purge", "--yes", place(path))
        // The other hub is gone after the round, and with it what only that one has.
        case .evict where site.isElsewhere: event.outcome = "not now"
        case .evict(let path): ask(&event, "evict", place(path))
        case .pin(let path): ask(&event, "pin", place(path))
        case .unpin(let path): ask(&event, "unpin", place(path))
        default: try ProgramCalls.changeNames(action.verb, in: root)
        }
    }

    /// The program that made the directory may have been interrupted before it had admitted all
    /// users.
    private func admitUsers(beside path: String) {
        let directory = URL(filePath: path).deletingLastPathComponent().path
        var status = stat()
        if stat(directory, &status) == 0, status.st_mode & 0o002 == 0 { chmod(directory, 0o777) }
    }

    /// Reads a file through one handle while other programs continue.
    private func hold(_ path: String, _ milliseconds: Int, _ event: Event) throws(Errno) {
        let faults = site.faultCount
        let file = try ProgramCalls.opened(path, O_RDONLY)
        let begun = ContinuousClock.now
        began(event)
        readers.enter()
        Thread {
            defer { readers.leave() }
            var event = event
            do throws(Errno) {
                var half = [UInt8](repeating: 0, count: 2_000)
                let count = try check(cl_pread(file, &half, half.count, 0))
                usleep(UInt32(milliseconds * 1_000))
                let bytes =
                    Data(half[..<count]) + (try ProgramCalls.rest(of: file, from: count))
                event.content = Content.name(bytes)
                event.writers = Content.writers(bytes)
                // A reader that takes longer than the reader's time limit may see later writes.
                event.outcome =
                    ContinuousClock.now - begun < .milliseconds(900) ? "ok" : "too late"
            } catch {
                event.outcome = ProgramCalls.name(error)
                // A device without power answers EIO.
                if faults != site.faultCount { event.detail = "excused" }
            }
            close(file)
            history.note(event)
        }.start()
    }

    // MARK: The product's tools

    private func ask(_ event: inout Event, _ words: String...) {
        var command = site.fsctl(words)
        command.timeoutSeconds = 100
        let result = try? command.run()
        event.outcome = result?.status == 0 ? "ok" : "status \(result?.status ?? -1)"
    }

    private func wait(_ path: String, _ durability: String, _ event: inout Event) throws(Errno) {
        let before = try looked(path).name
        ask(&event, "wait", "--durable", durability, "--timeout", "5", place(path))
        guard event.isOK, let after = try? looked(path), after.name == before else { return }
        var promise = event
        promise.kind = .promised
        promise.content = before
        promise.writers = after.writers
        // What another hub confirmed is not at the hub at the end of the round.
        promise.detail = site.isElsewhere ? "disk" : durability
        history.note(promise)
    }

    private func looked(_ path: String) throws(Errno) -> (name: String, writers: String) {
        if Package.isNamed(path) { return try Package.content(at: place(path)) }
        let bytes = try ProgramCalls.read(place(path))
        return (Content.name(bytes), Content.writers(bytes))
    }

    private func restore(_ path: String, _ back: Int, _ event: inout Event) throws(Errno) {
        event.outcome = "no version"
        let result = try? site.fsctl(["versions", place(path), "--json"]).run()
        let report = try? JSONSerialization.jsonObject(with: result?.outputData ?? Data())
        let versions = (report as? [String: Any])?["versions"] as? [[String: Any]] ?? []
        let numbers = versions.compactMap { $0["number"] as? Int }
        guard numbers.count > back else { return }
        ask(&event, "restore", place(path), "\(numbers[numbers.count - 1 - back])")
        guard event.isOK else { return }
        let bytes = try ProgramCalls.read(place(path))
        event.content = Content.name(bytes)
        event.writers = Content.writers(bytes)
    }

    /// Records what is at and below the path afterwards, before the result of the action.
    private func rewind(_ path: String, _ seconds: Int, _ event: inout Event) {
        began(event)
        let faults = site.faultCount
        ask(&event, "rewind", "--to", "\(seconds)s", place(path))
        let all = looks {
            let below = try? FileManager.default.subpathsOfDirectory(atPath: place(path))
            return [path] + (below ?? []).sorted().map { "\(path)/\($0)" }
        }
        for var seen in all {
            (seen.action, seen.verb) = (event.action, event.verb)
            history.note(seen)
        }
        if faults != site.faultCount { event.detail = "excused" }
    }

    // MARK: Observing

    /// After a fault it is not known how far the action came, so the present state is recorded.
    private func observe(_ action: Action) {
        let all = looks {
            action.verb.paths.flatMap { [$0, $0 + "~", $0 + ".draft"] }
        }
        for var event in all {
            event.action = action.number
            history.note(event)
        }
    }

    /// What is at these paths. A device that is killed meanwhile shows nothing, so they are looked
    /// at again then.
    private func looks(at paths: () -> [String]) -> [Event] {
        while true {
            site.waitUntilUp()
            let faults = site.faultCount
            let seen = paths().filter(Inventory.lists).map {
                var event = Inventory.look(at: place($0), named: $0, .observed, site.name)
                event.detail = event.detail?.split(separator: " ").first.map(String.init)
                return event
            }
            if faults == site.faultCount { return seen }
        }
    }
}

extension Verb {
    /// The paths that the verb concerns; the document that it changes is first.
    var paths: [String] {
        switch self {
        case .save(let path, _, _, _), .change(let path, _, _), .remove(let path),
            .saveAs(_, let path, _, _),
            .makeDirectory(let path), .removeDirectory(let path), .symlink(let path, _),
            .package(let path, _, _), .transact(let path, _), .purge(let path),
            .read(let path), .hold(let path, _), .wait(let path, _), .restore(let path, _),
            .rewind(let path, _), .date(let path, _), .evict(let path), .pin(let path),
            .unpin(let path), .visit(let path):
            [path]
        case .rename(let from, let to), .exchange(let from, let to), .link(let from, let to):
            [from, to]
        default: []
        }
    }
}
