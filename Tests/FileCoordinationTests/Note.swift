import Control
import Foundation
import Model
import Support
import Synchronization

@testable import FileCoordination

/// A text that records what is done with it. It saves by itself only if a test wants that.
final class Note: Document {
    var text = "" { didSet { updateChangeCount(.done) } }
    var delay = Duration.seconds(3600)
    var pages: FileWrapper?
    var type: String?
    var errors: [any Error] = []
    nonisolated let log = Mutex<[String]>([])
    /// Called in the file queue, where a write would be.
    nonisolated let writing = Mutex<@Sendable () throws -> Void>({})

    /// Whether it ignores requests to save.
    nonisolated let isStubborn = Mutex(false)

    nonisolated func say(_ text: String) {
        log.withLock { $0.append(text + (isOnMain() ? " on main" : "")) }
    }
    nonisolated var said: [String] { log.withLock { $0 } }

    override var autosaveDelay: Duration { delay }
    override var savingFileType: String { type ?? fileType }

    nonisolated override func read(from url: URL) throws -> any Sendable {
        say("read")
        return try super.read(from: url)
    }

    override func load(fromContents contents: any Sendable, ofType type: String) throws {
        say("load")
        if let package = contents as? FileWrapper {
            pages = package
            let index = package.fileWrappers?["index.txt"]?.regularFileContents
            text = String(decoding: index ?? Data(), as: UTF8.self)
        } else {
            text = String(decoding: contents as? Data ?? Data(), as: UTF8.self)
        }
    }

    override func contents(forType type: String) throws -> any Sendable {
        say("contents")
        guard type == "notes" || type == "rtfd" else { return Data(text.utf8) }
        let snapshot = FileWrapper(directoryWithFileWrappers: pages?.fileWrappers ?? [:])
        if let old = snapshot.fileWrappers?["index.txt"] { snapshot.removeFileWrapper(old) }
        snapshot.addRegularFile(withContents: Data(text.utf8), preferredFilename: "index.txt")
        return snapshot
    }

    nonisolated override func writeContents(
        _ contents: any Sendable, to url: URL, for operation: SaveOperation,
        originalContentsURL: URL?
    ) throws {
        say("write")
        try writing.withLock { $0 }()
        try super.writeContents(
            contents, to: url, for: operation, originalContentsURL: originalContentsURL)
    }

    override func handleError(_ error: any Error, userInteractionPermitted: Bool) {
        errors.append(error)
    }

    override func autosave() async throws {
        if !isStubborn.withLock({ $0 }) { try await super.autosave() }
    }

    override func disableEditing() {
        say("disable")
        super.disableEditing()
    }

    override func enableEditing() {
        super.enableEditing()
        say("enable")
    }
}

extension Note {
    /// Makes and opens a note.
    nonisolated static func opened(_ path: String) throws -> Note {
        try onMain {
            let note = Note(fileURL: URL(filePath: path))
            try await note.open()
            return note
        }
    }

    /// Makes and creates a note.
    nonisolated static func created(_ path: String, _ text: String = "old") throws -> Note {
        try onMain {
            let note = Note(fileURL: URL(filePath: path))
            note.text = text
            try await note.save(to: note.fileURL, for: .creating)
            return note
        }
    }

    nonisolated func type(_ text: String) throws { try onMain { self.text = text } }
    nonisolated func shown() throws -> String { try onMain { self.text } }
    nonisolated func light() throws -> State { try onMain { self.documentState } }
    nonisolated func shut() throws { try onMain { try await self.close() } }

    nonisolated func wait(
        for what: String, _ condition: @escaping @MainActor @Sendable (Note) -> Bool
    ) throws {
        try Support.wait(for: "\(what); it said \(said)") {
            try onMain { condition(self) } ? true : nil
        }
    }
}

private let mainKey: DispatchSpecificKey<Bool> = {
    let key = DispatchSpecificKey<Bool>()
    DispatchQueue.main.setSpecific(key: key, value: true)
    return key
}()

/// Whether this runs on the main actor's queue, which may use any thread.
func isOnMain() -> Bool { DispatchQueue.getSpecific(key: mainKey) == true }

/// The versions of a document, oldest first.
func versions(of path: String) throws -> HistoryReport {
    let place = try MountedPath(FilePath(path))
    return try ControlClient(socket: place.socket).ask(
        Request(.versions, path: place.components), as: HistoryReport.self)
}

/// The names of deleted documents in a volume's root, without drafts of saves.
func deleted(in root: String) throws -> [String] {
    let place = try MountedPath(FilePath(root))
    var request = Request(.versions, path: place.components)
    request.deleted = true
    return try ControlClient(socket: place.socket).ask(request, as: DeletedReport.self)
        .documents.map(\.name.text)
}

func text(_ path: String) throws -> String {
    try String(contentsOfFile: path, encoding: .utf8)
}

/// Starts a shell script in a process that is no child of ours, because a child's accesses would
/// count as ours.
func startStranger(_ script: String) throws {
    // Until setsid(1) has ended, the script is a descendant of this process.
    let begin = #"while [ "$(cat /proc/$PPID/comm 2>&1)" = setsid ]; do sleep 0.01; done"#
    try Command("setsid", "--fork", "sh", "-c", "\(begin)\n\(script)").succeed()
}

/// Runs such a script to its end.
func stranger(_ script: String) throws {
    let home = try TemporaryDirectory("stranger")
    let end = "echo $? > '\(home.path)/writing'; mv '\(home.path)/writing' '\(home.path)/ended'"
    try startStranger("(\(script)); \(end)")
    let status = try wait(for: "\(script) to end") { try? text("\(home.path)/ended") }
    if status != "0\n" { throw SupportError("\(script): it ended with \(status)") }
}
