import ArgumentParser
import Control
import Model

struct MergeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge",
        abstract: "Merge versions in conflict, or explain what a merge would do.",
        discussion: """
            A three-way merge from the version that both come from: text by lines as git does, \
            items that both added to a list, JSON by key, managed documents row by row, packages \
            file by file; nothing else is merged by itself. Only a clean merge is saved. It is a \
            version with two parents, which fsctl resolve --undo takes back. Every device merges \
            by itself unless .concordattributes at the volume's root says otherwise:

              *.txt    merge=list
              list.md  merge=union
              *.svg    automerge=off
            """)

    @OptionGroup var output: OutputOptions

    @Flag(help: "Change nothing; print the rules that apply and what a merge would do.")
    var explain = false

    @Argument(help: "A document.", completion: .file())
    var file: String

    func run() throws {
        let document = try Document(file)
        let report = try document.ask(.merge, as: MergeReport.self) {
            $0.explain = explain ? true : nil
        }
        output.show(report) { report.text(of: file) }
        if !report.isClean { throw ArgumentParser.ExitCode(Control.ExitCode.notGood.rawValue) }
    }
}

extension MergeReport {
    var isClean: Bool { outcome.map { $0 == "clean" } ?? sentencesOfTheLeft.isEmpty }

    private var sentencesOfTheLeft: [String] { outcome == nil ? sentences : [] }

    func text(of file: String) -> String {
        var lines: [String] = []
        if !settled.isEmpty {
            let others = settled.map(String.init).joined(separator: ", ")
            let now = current.map { "version \($0)" } ?? "a new version"
            lines.append(
                "\(file) is \(now) now, merged with \(others). fsctl resolve --undo takes it back.")
        }
        lines += sentences
        return lines.joined(separator: "\n")
    }
}
