import FileCoordination
import Foundation
import Glibc
import Support
import Synchronization
import Testing

private let environment = ProcessInfo.processInfo.environment
private let soakMinutes = environment["CONCORD_SOAK_MINUTES"].flatMap { Double($0) }

/// A document grows and saves itself while `cp`, which does not coordinate, copies it.
@Suite("A document is copied while it grows", .serialized) struct AppendingTests {
    @Test("A19.2: 2,000 appends; every copy is a whole document, and none is older than the last")
    func some() throws { try append(2_000) }

    @Test(
        "CONCORD_EDITS appends, a million by default",
        .enabled(if: soakMinutes != nil, "soak"))
    func soak() throws {
        try append(environment["CONCORD_EDITS"].flatMap { Int($0) } ?? 1_000_000)
    }

    private func append(_ appends: Int) throws {
        let lines = Lines(appends)
        try withTurns([]) { root in
            let path = "\(root)/roll.txt"
            let copier = try Copier(path)
            let roll = Mutex<Roll?>(nil)
            let shown = Atomic(0)
            let isEnding = Atomic(false)
            try onMain {
                let document = Roll(fileURL: URL(filePath: path))
                try await document.save(to: document.fileURL, for: .creating)
                roll.withLock { $0 = document }
                Task {
                    // It gets only a little ahead of the last copy. So there are many copies, and
                    // now and then one during which nothing is appended, which cp requires.
                    let lead = max(50, appends / 250)
                    while document.count < appends, !isEnding.load(ordering: .relaxed) {
                        let isAhead = document.count >= shown.load(ordering: .relaxed) + lead
                        if !isAhead { document.append() }
                        guard isAhead || document.count % (lead / 10) == 0 else { continue }
                        try? await Task.sleep(for: .milliseconds(1))
                    }
                }
            }
            defer { isEnding.store(true, ordering: .relaxed) }
            var (copies, last) = (0, 0)
            while last < appends {
                let copy = try copier.copy()
                copies += 1
                let count = try #require(
                    lines.count(in: copy), "copy \(copies) is torn: \(copy.count) bytes")
                try #require(count >= last, "copy \(copies) is older than the one before")
                last = count
                shown.store(count, ordering: .relaxed)
                if copies % 1000 == 0 { print("\(count) lines in copy \(copies)") }
            }
            let document = try #require(roll.withLock { $0 })
            let saves = try onMain {
                try await document.close()
                return document.saves.load(ordering: .relaxed)
            }
            #expect(try lines.count(in: Data(contentsOf: URL(filePath: path))) == appends)
            // Each save is a version, and cutting all of them may take longer than writing them.
            var waiting = Programs.fsctl("wait", "--timeout", "3600", path)
            waiting.timeoutSeconds = 3600
            try waiting.succeed()
            print("\(appends) appends, \(saves) saves, \(copies) copies, ", terminator: "")
            print("\(copier.refusals) refused")
        }
    }
}

/// Lines of eight bytes that contain their numbers, after a first line with their count.
private struct Lines {
    private let all: Data

    init(_ count: Int) { all = (1...count).reduce(into: Data()) { $0 += Self.line($1) } }

    static func line(_ number: Int) -> [UInt8] {
        var (line, rest) = ([UInt8](repeating: 0x0A, count: 8), number)
        for place in (0..<7).reversed() {
            line[place] = 0x30 + UInt8(rest % 10)
            rest /= 10
        }
        return line
    }

    /// Nil when the contents are not whole.
    func count(in data: Data) -> Int? {
        guard data.count >= 8, let count = Int(String(decoding: data.prefix(7), as: UTF8.self)),
            count * 8 <= all.count, data.prefix(8).elementsEqual(Self.line(count)),
            data.dropFirst(8) == all.prefix(count * 8)
        else { return nil }
        return count
    }
}

private final class Roll: Document {
    private var lines = Data()
    private(set) var count = 0
    nonisolated let saves = Atomic(0)
    override var autosaveDelay: Duration { .milliseconds(5) }

    func append() {
        count += 1
        lines += Lines.line(count)
        updateChangeCount(.done)
    }

    override func contents(forType type: String) throws -> any Sendable {
        saves.add(1, ordering: .relaxed)
        return Data(Lines.line(count)) + lines
    }
}

/// A process of another program that runs `cp` on request. If another file replaces the one that
/// `cp` has examined, `cp` reports it and copies nothing; then it runs again.
private final class Copier {
    private let home: TemporaryDirectory
    private let asking: FileHandle

    init(_ path: String) throws {
        home = try TemporaryDirectory("copies")
        try #require(mkfifo("\(home.path)/asks", 0o600) == 0)
        let script = """
            cd '\(home.path)'
            while read -r _; do
                for try in $(seq 100); do cp '\(path)' copy 2>>said && break; done
                mv copy copied
            done <asks
            mv asks ended
            """
        try startStranger(script)
        asking = try FileHandle(forWritingTo: URL(filePath: "\(home.path)/asks"))
    }

    private var said: [Substring] {
        ((try? text("\(home.path)/said")) ?? "").split(separator: "\n")
    }

    var refusals: Int { said.count }

    func copy() throws -> Data {
        try asking.write(contentsOf: Data("\n".utf8))
        let url = URL(filePath: "\(home.path)/copied")
        try wait(seconds: 60, for: "a copy; cp said: \(said.suffix(3))") {
            access(url.path, F_OK) == 0 ? true : nil
        }
        // No other error is expected: a program's open never fails because a document saves.
        let others = said.filter { !$0.contains("it was replaced while being copied") }
        guard others.isEmpty else { throw SupportError("cp said: \(others)") }
        defer { unlink(url.path) }
        return try Data(contentsOf: url)
    }

    deinit {
        try? asking.close()
        _ = try? wait(for: "the shell to end") {
            access("\(home.path)/ended", F_OK) == 0 ? true : nil
        }
    }
}
