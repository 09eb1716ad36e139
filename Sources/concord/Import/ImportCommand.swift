import ArgumentParser
import Control
import Glibc
import Model
import SystemCalls

struct ImportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Take over a folder of Dropbox, Nextcloud or Syncthing, or any other directory.",
        discussion: """
            The folder is copied into a directory of a mounted volume, and stays as it is. Files \
            in which those programs keep the other side of a conflict ("a (Anna's conflicted \
            copy 2024-01-02).txt", "a.sync-conflict-20240102-101112-ABCDEFG.txt") become conflict \
            versions of their documents. Old versions that Syncthing keeps in .stversions become \
            versions, with the times of their files; a document of which only those are left \
            becomes a deleted document. They stay on this device; conflict versions are on all.

            What is there already with the same size and time is left as it is, so a command that \
            was interrupted can be said again. Where a document with other contents has the \
            name, the file becomes a conflict version of it. Exits with 1 if something could not \
            be imported; it says what and why.

            EXAMPLES
              concord import ~/Dropbox ~/Documents.c/Dropbox
              fsctl conflicts ~/Documents.c/Dropbox
              fsctl versions --deleted ~/Documents.c/Dropbox
            """)

    @Argument(help: "The folder to take over.", completion: .directory)
    var folder: String

    @Argument(
        help: "A directory on a mounted volume; created if missing.", completion: .directory)
    var destination: String

    func run() throws {
        let folder = try self.source()
        let given = RawArgument.path(destination).absolute
        let target = (try? given.resolved()) ?? given
        let place = try MountedPath(target)
        if try MountedPath(ifOnVolume: folder.root)?.mountPoint == place.mountPoint {
            throw VolumeError(
                .invalid, "\(folder.root) is on that volume already: move it there with mv")
        }
        switch target.kind {
        case .directory: break
        case nil:
            guard target.withCString({ mkdir($0, 0o777) }) == 0 else {
                throw VolumeError(.system, "\(target) cannot be made: \(Errno(errno))")
            }
        default: throw VolumeError(.invalid, "\(target) is not a directory")
        }
        let isWatched = isatty(2) != 0
        let work = try FolderImport(folder, to: place) { report in
            guard isWatched, report.documents.isMultiple(of: 1_000), report.documents > 0 else {
                return
            }
            printError("\(report.documents) documents so far")
        }
        let report = try work.run()
        for problem in report.problems { printError(problem) }
        print("concord: imported \(report.text) from \(folder.root)")
        if report.conflicts > 0 {
            print("concord: fsctl conflicts \(place.path) lists the conflicts")
        }
        if !report.problems.isEmpty { throw ArgumentParser.ExitCode(ExitCode.notGood.rawValue) }
    }

    private func source() throws(VolumeError) -> SyncedFolder {
        let given = RawArgument.path(folder).absolute
        guard let root = try? given.resolved(), root.kind == .directory else {
            throw VolumeError(.notFound, "\(given) is not a directory")
        }
        return SyncedFolder(root: root)
    }
}

extension FolderImport.Report {
    fileprivate var text: String {
        func count(_ number: Int, _ one: String, _ many: String) -> String {
            "\(number) \(number == 1 ? one : many)"
        }
        return count(documents, "document", "documents") + ", "
            + count(versions, "old version", "old versions") + ", "
            + count(conflicts, "conflict", "conflicts") + " and "
            + count(deleted, "deleted document", "deleted documents")
            + (present > 0 ? " (\(present) were there already)" : "")
    }
}
