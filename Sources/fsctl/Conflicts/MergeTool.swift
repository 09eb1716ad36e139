import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// A program in which a person merges, started as git starts it: `$LOCAL` is the current version,
/// `$REMOTE` the other one, `$BASE` what both come from (empty when that is not known), and
/// `$MERGED` is where the result goes.
struct MergeTool {
    private let name: String
    private let command: String

    init(_ name: String) throws(VolumeError) {
        self.name = name
        if let command = MergeTool.usual[name] ?? MergeTool.configured(name) {
            self.command = command
            return
        }
        let known = MergeTool.usual.keys.sorted().joined(separator: ", ")
        throw VolumeError(
            .notFound,
            "the merge tool \"\(name)\" is unknown: use \(known), or one that git knows "
                + "(git config mergetool.\(name).cmd 'PROGRAM \"$LOCAL\" \"$BASE\" \"$REMOTE\" "
                + "\"$MERGED\"')")
    }

    private static let all = "\"$LOCAL\" \"$BASE\" \"$REMOTE\" \"$MERGED\""

    private static let usual = [
        "vimdiff": "vim -f -d -c '4wincmd w | wincmd J' \(all)",
        "nvimdiff": "nvim -f -d -c '4wincmd w | wincmd J' \(all)",
        "meld": "meld \"$LOCAL\" \"$BASE\" \"$REMOTE\" --output \"$MERGED\"",
        "kdiff3": "kdiff3 --auto -o \"$MERGED\" \"$BASE\" \"$LOCAL\" \"$REMOTE\"",
        "emerge": "emacs -f emerge-files-with-ancestor-command "
            + "\"$LOCAL\" \"$REMOTE\" \"$BASE\" \"$MERGED\"",
    ]

    /// The command that git's settings give for `name`; nil when git is not installed or has none.
    /// A repository's own settings and files on a volume do not count: whoever can write there from
    /// another device could run any program here.
    private static func configured(_ name: String) -> String? {
        let key = "mergetool.\(name).cmd"
        let said = output(of: ["git", "-C", "/", "config", "--show-origin", "-z", "--get", key])
        let words = said?.split(separator: "\0", omittingEmptySubsequences: false) ?? []
        guard words.count > 1, !words[1].isEmpty else { return nil }
        let file = FilePath(String(words[0].drop { $0 != ":" }.dropFirst()))
        if words[0].hasPrefix("file:"), ScratchDirectory.isOnVolume(file) { return nil }
        return String(words[1])
    }

    /// A file name that every shell reads as one plain word, because tools are often configured
    /// without quotes. The end of the name stays, by which a tool recognizes the kind of text.
    static func safeName(_ word: String, _ name: Name) -> [UInt8] {
        Array("\(word)_".utf8)
            + name.bytes.suffix(240).map { ScratchDirectory.isSafe($0) ? $0 : 0x5f }
    }

    /// Runs the tool for one conflict version after the other. Each result is saved and settles
    /// that version.
    func merge(_ settling: ConflictResolver) throws(VolumeError) -> ResolutionReport {
        guard !settling.document.package else {
            throw VolumeError(
                .invalid,
                "\(settling.path) is a package, which no merge tool takes; choose with --keep")
        }
        let place = try Document(settling.path)
        let history = try place.history()
        var report = ResolutionReport(current: settling.document.current?.number, settled: [])
        let mode: UInt32
        do throws(Errno) { mode = try settling.path.status().st_mode } catch {
            throw VolumeError(.notFound, "cannot read \(settling.path): \(error)")
        }
        for conflict in settling.document.conflicts {
            let scratch = try ScratchDirectory()
            let base = history.versions.first { $0.number == conflict.base }
            let files = try [
                ("BASE", base.map(place.hiddenPath(of:))),
                ("REMOTE", place.hiddenPath(of: conflict.version)),
                ("LOCAL", settling.path), ("MERGED", settling.path),
            ].map { word, source throws(VolumeError) in
                let copy = try scratch.copy(
                    source, as: MergeTool.safeName(word, settling.path.name))
                setenv(word, String(decoding: copy.bytes, as: UTF8.self), 1)
                return copy
            }
            try run(in: scratch)
            let merged = try VersionContents(of: files[3], mode: mode)
            try Restoration(contents: merged, target: settling.path, replaces: true).run()
            let last = try settling.ask(nil, settling: [conflict.version.number])
            report = ResolutionReport(
                current: last.current, settled: report.settled + last.settled)
        }
        return report
    }

    /// Runs the tool in the directory of the copies, so that a tool that reads settings from its
    /// working directory, as git does, reads nothing from the volume.
    private func run(in scratch: ScratchDirectory) throws(VolumeError) {
        let line = ["sh", "-c", "cd -- \"$1\" && eval \"$2\"", "sh"].map(FilePath.init(_:))
        let all = line + [scratch.path, FilePath(command)]
        var words = all.map { $0.withCString { strdup($0) } } + [nil]
        defer { for word in words { free(word) } }
        let process = cl_spawn("sh", &words, 0, 1, 2, -1, 0)
        guard process >= 0 else {
            throw VolumeError(.system, "\(name) could not be started: \(Errno(-process))")
        }
        let status = cl_exit_status(cl_wait_process(process))
        guard status == 0 else {
            throw VolumeError(
                .cancelled, "\(name) ended with \(status): nothing was changed or settled")
        }
    }
}
