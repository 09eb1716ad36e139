import Foundation
import Glibc

/// All questions of an ordinary user to a daemon about documents, by their paths and by their ids.
/// Whatever the daemon tells is said as a `Probe.Finding`, also that a version exists.
struct Interrogation {
    private let line: VolumeLine
    private let mountPoint: String
    private let round: String
    private let documents: [(id: String, path: String)]

    init(_ mountPoint: String, _ round: String, _ documents: [(id: String, path: String)]) throws {
        line = try VolumeLine(mountPoint: mountPoint)
        (self.mountPoint, self.round, self.documents) = (mountPoint, round, documents)
    }

    /// Returns false if the daemon does not answer what it must.
    func run() throws -> Bool {
        // Everybody who may connect may ask this; a daemon that refuses it would tell no leak.
        _ = try line.ask("status")
        for document in documents {
            let path = "\(round)/\(document.path)"
            askOfVersions(document, ["document": document.id], isItsOwn: true)
            // A path means the newest of the documents that have had it.
            let namesakes = documents.filter { $0.path == document.path }
            askOfVersions(document, ["path": path], isItsOwn: namesakes.count == 1)
            askOfThePast(document, path)
            guard isOwn(document.path) else { continue }
            let own = try line.ask("versions", ["path": path])
            if versions(in: own).isEmpty {
                say("chaos: the daemon tells no version of \(path) to its owner")
                return false
            }
        }
        return true
    }

    private func isOwn(_ path: String) -> Bool {
        var status = stat()
        return lstat("\(mountPoint)/\(round)/\(path)", &status) == 0
            && status.st_uid == geteuid() && !path.hasSuffix(".draft")
    }

    private func versions(in answer: VolumeLine.Object?) -> [VolumeLine.Object] {
        answer?["versions"] as? [VolumeLine.Object] ?? []
    }

    private func tell(_ way: String, _ document: (id: String, path: String), _ what: String) {
        say(Probe.Finding(way, document.path, what: what, of: document.id).line)
    }

    /// Asks for the versions that it may list, and for the first numbers, whether it may or not.
    /// The answer to a number does not say which document it is about (`isItsOwn`).
    private func askOfVersions(
        _ document: (id: String, path: String), _ name: VolumeLine.Object, isItsOwn: Bool
    ) {
        let listed = versions(in: try? line.ask("versions", name))
        for version in listed {
            if let id = version["id"] as? String { tell("versions", document, "version \(id)") }
        }
        let numbers = Set(listed.compactMap { $0["number"] as? Int }).union(1...12).sorted()
        for number in numbers {
            var question = name
            question["number"] = number
            if isItsOwn, (try? line.ask("contents", question)) != nil {
                tell("contents", document, "number \(number)")
            }
            // A daemon may refuse to read beyond the end, so one piece must do.
            question["entry"] = 0
            question["offset"] = 0
            question["length"] = 512 << 10
            let text = (try? line.ask("extract", question))?["data"] as? String ?? ""
            let bytes = Data(base64Encoded: text) ?? Data()
            if !bytes.isEmpty { say(Probe.Finding("extract", document.path, of: bytes).line) }
        }
    }

    private func askOfThePast(_ document: (id: String, path: String), _ path: String) {
        let conflicts = try? line.ask("conflicts", ["path": path])
        for found in conflicts?["documents"] as? [VolumeLine.Object] ?? [] {
            let all =
                [found["current"] as? VolumeLine.Object].compactMap(\.self)
                + (found["conflicts"] as? [VolumeLine.Object] ?? [])
                .compactMap { $0["version"] as? VolumeLine.Object }
            for version in all {
                if let id = version["id"] as? String {
                    tell("conflicts", document, "version \(id)")
                }
            }
        }
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        for seconds in stride(from: 1, through: 31, by: 3) {
            let time = (now.tv_sec - seconds) * 1_000_000_000
            let past = try? line.ask("past", ["path": path, "time": time])
            for step in past?["steps"] as? [VolumeLine.Object] ?? [] {
                if let version = step["version"] as? VolumeLine.Object,
                    let id = version["id"] as? String
                {
                    tell("past", document, "version \(id)")
                }
            }
        }
    }
}
