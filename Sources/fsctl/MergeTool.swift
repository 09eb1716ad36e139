import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// A program that merges under a person's eyes, started as git starts it: `$LOCAL` is the current
/// version, `$REMOTE` the other one, `$BASE` what both come from (empty where that is not known),
/// and `$MERGED` is where the result goes.
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
            "no merge tool \"\(name)\" is known: there are \(known), and those that git knows "
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

    /// Nil: git is not there, or knows none of that name.
    private static func configured(_ name: String) -> String? {
        let said = output(of: ["git", "config", "--get", "mergetool.\(name).cmd"])
        let line = said.map { $0.prefix { $0 != "\n" } } ?? ""
        return line.isEmpty ? nil : String(line)
    }

    /// One conflict version after the other; each merge is a save, which settles that version.
    func merge(_ settling: Settling) throws(VolumeError) -> ResolutionReport {
        guard !settling.document.package else {
            throw VolumeError(
                .invalid,
                "\(settling.path) is a package, which no merge tool takes; choose with --keep")
        }
        let place = try Document(settling.path)
        let history = try place.history()
        var report = ResolutionReport(current: settling.document.current?.number, settled: [])
        for conflict in settling.document.conflicts {
            let scratch = try Scratch()
            let base = history.versions.first { $0.number == conflict.base }
            let files = try [
                ("BASE", base.map(place.hiddenPath(of:))),
                ("REMOTE", place.hiddenPath(of: conflict.version)),
                ("LOCAL", settling.path), ("MERGED", settling.path),
            ].map { word, source throws(VolumeError) in
                let copy = try scratch.copy(
                    source, as: Array("\(word) ".utf8) + settling.path.name.bytes.prefix(240))
                setenv(word, String(decoding: copy.bytes, as: UTF8.self), 1)
                return copy
            }
            try run()
            let merged = files[3]
            try Restoration(
                contents: VersionContents(of: merged), target: settling.path, replaces: true
            ).run()
            let last = try settling.ask(nil, settling: [conflict.version.number])
            report = ResolutionReport(
                current: last.current, settled: report.settled + last.settled)
        }
        return report
    }

    private func run() throws(VolumeError) {
        let line = ["sh", "-c", command]
        var words = line.map { strdup($0) } + [nil]
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
