import Control
import Glibc
import Model

/// Asks on the terminal how to settle the conflict of one document.
struct Dialogue {
    private let settling: ConflictResolver
    private let place: Document
    private let history: HistoryReport

    init(_ settling: ConflictResolver) throws(VolumeError) {
        self.settling = settling
        place = try Document(settling.path)
        history = try place.history()
    }

    /// Returns nil when the person leaves the conflict as it is.
    func run() throws(VolumeError) -> ResolutionReport? {
        print(settling.document.table)
        while true {
            print(question)
            guard let answer = readLine(strippingNewline: true) else { return nil }
            switch answer.trimmed {
            case "c": return try settling.keep(.current)
            case "b": return try settling.keep(.both)
            case "m": if let report = try settling.merge() { return report }
            case "p": try showPreview()
            case "d": try showSideBySide()
            case "o" where !settling.document.package: try showChanges()
            case "v" where !settling.document.package:
                return try MergeTool("vimdiff").merge(settling)
            case "q", "": return nil
            case let text:
                if let number = Int(text), settling.numbers.contains(number) {
                    return try settling.keep(.version("\(number)"))
                }
                print("\"\(text.printable)\" is not one of the choices.")
            }
        }
    }

    private var question: String {
        var lines = ["", "  c  keep the current version"]
        lines += settling.numbers.map { "  \($0)  make version \($0) current" }
        lines += ["  b  keep both: the other one becomes a document of its own"]
        lines += ["  m  merge them, if that is clean", "  p  show what a merge would change"]
        lines += ["  d  show them side by side"]
        if !settling.document.package {
            lines += ["  o  show what each changed", "  v  merge them in vimdiff"]
        }
        return (lines + ["  q  leave it as it is", "Your choice:"]).joined(separator: "\n")
    }

    private func showSideBySide() throws(VolumeError) {
        for conflict in settling.document.conflicts {
            print(Terminal.bold("current | version \(conflict.version.number)"))
            let width = Terminal.width ?? 80
            let how =
                settling.document.package
                ? ["-rq"] : ["--side-by-side", "--width=\(width)", "--expand-tabs"]
            try Dialogue.diff(
                how, settling.path, place.hiddenPath(of: conflict.version))
        }
    }

    /// Shows what each version changed since their common base.
    private func showChanges() throws(VolumeError) {
        for conflict in settling.document.conflicts {
            guard let base = history.versions.first(where: { $0.number == conflict.base }) else {
                print("The base of version \(conflict.version.number) is not known here.")
                continue
            }
            let old = place.hiddenPath(of: base)
            print(Terminal.bold("from version \(base.number) to the current one"))
            try Dialogue.diff(["-u"], old, settling.path)
            let other = conflict.version.number
            print(Terminal.bold("from version \(base.number) to version \(other)"))
            try Dialogue.diff(["-u"], old, place.hiddenPath(of: conflict.version))
        }
    }

    private func showPreview() throws(VolumeError) {
        let (sentences, text) = try settling.preview()
        for sentence in sentences { print(sentence) }
        guard let text else { return }
        let scratch = try ScratchDirectory()
        let merged = try scratch.write(text, as: Array("merged".utf8))
        try Dialogue.diff(["-u"], settling.path, merged)
    }

    private static func diff(_ how: [String], _ old: FilePath, _ new: FilePath)
        throws(VolumeError)
    {
        fflush(nil)
        let colour = Terminal.hasColour ? ["--color=always"] : []
        let all = (["diff"] + how + colour + ["--"]).map(FilePath.init(_:)) + [old, new]
        _ = try DiffCommand.spawn(all, quietly: false)
    }
}

extension String {
    fileprivate var trimmed: String {
        String(drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    }
}
