import Foundation
import Glibc

/// A program of an ordinary user that reads all it can of users' files: the files, the directories
/// of old versions and of the past, and through the daemon's socket, where it also knows the ids of
/// documents that it cannot list. Each line has the way, the path, the content and its writers.
struct Probe {
    private let mountPoint: String
    private let root: String
    private let documents: [String]

    /// - Parameter words: `probe`, the mount point, the directory of the round, and ids.
    init(_ words: [String]) {
        mountPoint = words.count > 2 ? words[1] : ""
        root = words.count > 2 ? "\(words[1])/\(words[2])" : ""
        documents = Array(words.dropFirst(3))
    }

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
        askDaemon()
        return true
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
        say("\(way)\t\(path)\t\(Content.name(bytes))\t\(Content.writers(bytes))")
    }

    /// Asks for the versions that it may list, and for the first numbers, whether it may or not.
    private func askDaemon() {
        for document in documents {
            guard let line = try? VolumeLine(mountPoint: mountPoint) else { return }
            let report = try? line.ask("versions", ["document": document])
            let listed = (report?["versions"] as? [VolumeLine.Object] ?? [])
                .compactMap { $0["number"] as? Int }
            for number in Set(listed).union(1...12).sorted() {
                // A daemon may refuse to read beyond the end, so one piece must do.
                let answer = try? line.ask(
                    "extract",
                    [
                        "document": document, "number": number, "entry": 0, "offset": 0,
                        "length": 512 << 10,
                    ])
                let text = answer?["data"] as? String ?? ""
                tell("extract", document, Data(base64Encoded: text) ?? Data())
            }
        }
    }
}
