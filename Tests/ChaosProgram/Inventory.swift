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
        case S_IFDIR: event.detail = "directory \(mode)"
        case S_IFLNK:
            event.detail = "symlink \(mode)"
            event.content = try? FileManager.default.destinationOfSymbolicLink(atPath: place)
        default:
            event.detail = "file \(mode)"
            do throws(Errno) {
                let bytes = try ProgramCalls.read(place)
                event.content = Content.name(bytes)
                event.writers = Content.writers(bytes)
            } catch { event.outcome = ProgramCalls.name(error) }
        }
        return event
    }

    /// Records everything in the round's directory.
    func tree(ofRound round: Int, as kind: Event.Kind) {
        let root = "\(site.volume.path)/r\(round)"
        for path in (try? FileManager.default.subpathsOfDirectory(atPath: root))?.sorted() ?? [] {
            history.note(
                Inventory.look(at: "\(root)/\(path)", named: path, kind, site.name), round: round)
        }
    }

    /// Records each version of each document that is or was in the round's directory.
    func versions(ofRound round: Int) throws {
        var line = try VolumeLine(mountPoint: site.volume.path)
        for (document, path) in try documents(ofRound: round) {
            let report = try line.ask("versions", ["document": document])
            for version in report["versions"] as? [VolumeLine.Object] ?? [] {
                var event = Event(.version, site.name)
                event.path = path
                event.document = document
                event.detail = version["kind"] as? String
                event.version = version["id"] as? String
                event.parents = version["parents"] as? [String]
                do {
                    let bytes = try line.contents(
                        document: document, number: version["number"] as? Int ?? 0,
                        size: version["size"] as? Int ?? 0)
                    event.content = Content.name(bytes)
                    event.writers = Content.writers(bytes)
                } catch {
                    event.outcome = "\(error)"
                    line = try VolumeLine(mountPoint: site.volume.path)
                }
                history.note(event, round: round)
            }
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
            WHERE i.latest > 0 AND i.kind IN (1, 3) ORDER BY i.key
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
