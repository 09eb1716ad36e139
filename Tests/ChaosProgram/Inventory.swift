import Foundation
import Glibc
import Support
import SystemCalls

/// Takes an inventory of a device: what its tree shows, and each version that it can return.
struct Inventory {
    let site: Site
    let history: History

    /// Returns an event that describes what is at a path; `detail` is its kind and mode.
    static func look(
        at place: String, named path: String, _ kind: Event.Kind, _ actor: String
    ) -> Event {
        var event = Event(kind, actor)
        event.path = path
        guard let status = try? ProgramCalls.status(place) else {
            event.detail = "nothing"
            return event
        }
        let mode = String(status.st_mode & 0o7777, radix: 8)
        switch status.st_mode & S_IFMT {
        case S_IFDIR where Package.isNamed(path):
            event.detail = "package \(mode)"
            do throws(Errno) {
                let found = try Package.content(at: place)
                (event.content, event.writers) = (found.name, found.writers)
            } catch { event.outcome = ProgramCalls.name(error) }
        case S_IFDIR: event.detail = "directory \(mode)"
        case S_IFLNK:
            event.detail = "symlink \(mode)"
            event.content = try? FileManager.default.destinationOfSymbolicLink(atPath: place)
        default:
            event.detail = "file \(mode)"
            do throws(Errno) {
                let bytes = try ProgramCalls.read(place)
                event.describe(bytes)
            } catch { event.outcome = ProgramCalls.name(error) }
        }
        return event
    }

    /// Whether the path is that of a document, a directory or a link, and not of a part of one, or
    /// of a file that comes and goes with programs. A restore that was killed leaves a part file,
    /// until the next restore or mount removes it.
    static func lists(_ path: String) -> Bool {
        !Package.isInside(path) && !Database.isLog(path)
            && !path.contains(".concord-restore.part")
    }

    /// Records everything in the round's directory.
    func tree(ofRound round: Int, as kind: Event.Kind) {
        let root = "\(site.volume.path)/r\(round)"
        for path in (try? FileManager.default.subpathsOfDirectory(atPath: root))?.sorted() ?? []
        where Inventory.lists(path) {
            history.note(
                Inventory.look(at: "\(root)/\(path)", named: path, kind, site.name), round: round)
        }
    }

    /// Records each version of each document that is or was in the round's directory.
    func versions(ofRound round: Int) throws {
        var line = try VolumeLine(mountPoint: site.volume.path)
        for (document, path) in try documents(ofRound: round) where !Package.isInside(path) {
            let report = try line.ask("versions", ["document": document])
            for version in report["versions"] as? [VolumeLine.Object] ?? [] {
                var event = Event(.version, site.name)
                event.path = path
                event.document = document
                event.detail = version["kind"] as? String
                event.version = version["id"] as? String
                event.number = version["number"] as? Int
                event.parents = version["parents"] as? [String]
                do {
                    let number = version["number"] as? Int ?? 0
                    // An exchange makes the package a folder, which keeps the package's versions.
                    if report["package"] as? Bool == true || path.hasSuffix(".rtfd.draft") {
                        let members = try line.members(document: document, number: number)
                        (event.content, event.writers) = Package.content(of: members)
                    } else {
                        event.describe(
                            try line.contents(
                                document: document, number: number,
                                size: version["size"] as? Int ?? 0))
                    }
                } catch {
                    event.outcome = "\(error)"
                    line = try VolumeLine(mountPoint: site.volume.path)
                }
                history.note(event, round: round)
            }
        }
    }

    /// Records what an ordinary user can read of users' files, with a program that tries.
    func reading(of user: User, inRound round: Int) {
        let documents = (try? self.documents(ofRound: round)) ?? []
        let named = documents.filter { User.isSaved($0.1) }.map { "\($0.0)=\($0.1)" }
        guard !named.isEmpty else { return }
        let findings: [Probe.Finding]
        do { findings = try user.probe(site.volume.path, round, named.sorted()) } catch {
            var event = Event(.examined, site.name)
            (event.outcome, event.detail) = ("failed", "the probe of \(user) failed: \(error)")
            return history.note(event, round: round)
        }
        for finding in findings {
            var event = Event(.readBy, site.name)
            event.detail = user.rawValue
            (event.path, event.verb) = (finding.path, [finding.way])
            let words = finding.what.split(separator: " ").map(String.init)
            switch words.first {
            case "version": event.version = words.last
            case "number":
                (event.document, event.number) = (finding.document, words.last.flatMap { Int($0) })
            default: (event.content, event.writers) = (finding.what, finding.writers)
            }
            history.note(event, round: round)
        }
    }

    /// Reads ids and paths from the journal, because no tool lists documents that were deleted with
    /// their directory. Everything else is requested through the product's tools.
    private func documents(ofRound round: Int) throws -> [(String, String)] {
        let query = """
            WITH RECURSIVE below(key, path) AS (
                SELECT key, '' FROM items WHERE parent = 1 AND name = CAST('r\(round)' AS BLOB)
                UNION ALL
                SELECT i.key, b.path || '/' || CAST(i.name AS TEXT)
                FROM items i JOIN below b ON i.parent = b.key)
            SELECT lower(hex(i.id)), substr(b.path, 2) FROM below b JOIN items i ON i.key = b.key
            WHERE i.latest > 0 ORDER BY i.key
            """
        let journal = "\(site.volume.store)/journal.sqlite"
        let output = try Command("sqlite3", "-readonly", "-separator", " ", journal, query)
            .succeed()
        return output.split(separator: "\n").map { row in
            let words = row.split(separator: " ", maxSplits: 1).map(String.init)
            return (words[0], words.count > 1 ? words[1] : "")
        }
    }
}

extension Event {
    /// Describes the contents of a file.
    fileprivate mutating func describe(_ bytes: Data) {
        guard let path, Database.isNamed(path) else {
            content = Content.name(bytes)
            writers = Content.writers(bytes)
            return
        }
        let found = Database.rows(in: bytes)
        rows = found ?? []
        content = found.map { Content.name(Data($0.joined(separator: " ").utf8)) } ?? "damaged"
        writers = found.map { "\($0.count) rows" } ?? "damaged"
    }
}
