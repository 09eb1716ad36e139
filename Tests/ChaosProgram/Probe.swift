import Foundation
import Glibc

/// A program of an ordinary user that reads all it can of users' files: the files, the directories
/// of old versions and of the past, and through the daemon's socket, where it also knows the ids of
/// documents that it cannot list. Each line is a `Finding`.
struct Probe {
    private let mountPoint: String
    private let round: String
    private let documents: [(id: String, path: String)]
    private var root: String { "\(mountPoint)/\(round)" }

    /// What the program could read, or learn.
    struct Finding {
        let way: String
        /// A path below the directory of the round.
        let path: String
        /// The contents, or `version ID`, or `number N` of the document with this id, if only their
        /// existence was told.
        var what: String
        var writers = ""
        var document = ""

        init(_ way: String, _ path: String, what: String, writers: String = "", of document: String)
        {
            (self.way, self.path, self.what) = (way, path, what)
            (self.writers, self.document) = (writers, document)
        }

        init?(line: String) {
            let words = line.split(separator: "\t", omittingEmptySubsequences: false)
                .map(String.init)
            guard words.count == 5 else { return nil }
            self.init(words[0], words[1], what: words[2], writers: words[3], of: words[4])
        }

        var line: String { [way, path, what, writers, document].joined(separator: "\t") }
    }

    /// - Parameter words: `probe`, the mount point, the directory of the round, and `ID=PATH` for
    ///   each document.
    init(_ words: [String]) {
        (mountPoint, round) = words.count > 2 ? (words[1], words[2]) : ("", "")
        documents = words.dropFirst(3).compactMap { word in
            let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
            return parts.count == 2 ? (parts[0], parts[1]) : nil
        }
    }

    /// Returns false if it learned less than it must, so that it would find no leak either.
    func run() -> Bool {
        for owner in names(in: root) where owner.hasPrefix("own") {
            let directory = "\(owner)/\(User.directory)"
            for name in names(in: "\(root)/\(directory)") {
                let path = "\(directory)/\(name)"
                read("file", path, at: "\(root)/\(path)")
                let versions = "\(root)/\(directory)/.versions/\(name)"
                for version in names(in: versions) {
                    read("versions", path, at: "\(versions)/\(version)")
                }
            }
            for past in pasts {
                let then = "\(root)/\(directory)/.versions/@\(past)"
                for name in names(in: then) {
                    read("past", "\(directory)/\(name)", at: "\(then)/\(name)")
                }
            }
        }
        do { return try Interrogation(mountPoint, round, documents).run() } catch {
            say("chaos: \(error)")
            return false
        }
    }

    /// Some moments of the last half a minute.
    private var pasts: [String] { stride(from: 1, through: 31, by: 3).map { "\($0)s" } }

    private func names(in path: String) -> [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: path))?.sorted() ?? []
    }

    private func read(_ way: String, _ path: String, at place: String) {
        guard let bytes = try? ProgramCalls.read(place) else { return }
        tell(way, path, bytes)
    }

    private func tell(_ way: String, _ path: String, _ bytes: Data) {
        guard !bytes.isEmpty else { return }
        say(Finding(way, path, of: bytes).line)
    }
}

extension Probe.Finding {
    init(_ way: String, _ path: String, of bytes: Data) {
        self.init(
            way, path, what: Content.name(bytes), writers: Content.writers(bytes), of: "")
    }
}
