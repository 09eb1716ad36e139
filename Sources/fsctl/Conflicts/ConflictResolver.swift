import Control
import Glibc
import Model

/// The conflict of one document, as it was when it was listed, and the ways to settle it.
struct ConflictResolver {
    let document: ConflictsReport.Document
    let path: FilePath
    let client: ControlClient

    init(_ document: ConflictsReport.Document, in conflicts: Conflicts) {
        self.document = document
        path = conflicts.path(of: document)
        client = conflicts.client
    }

    /// The numbers of the versions in conflict with the current one.
    var numbers: [Int] { document.conflicts.map(\.version.number) }

    func keep(_ choice: ConflictChoice) throws(VolumeError) -> ResolutionReport {
        switch choice {
        case .current: return try ask(nil)
        case .newest:
            let all = [document.current].compactMap(\.self) + document.conflicts.map(\.version)
            return try ask(all.max { $0.saved < $1.saved }?.number)
        case .version(let text):
            let all = [document.current].compactMap(\.self) + document.conflicts.map(\.version)
            guard let number = try? VersionSpecifier(text).find(in: all, of: "\(path)").number
            else {
                throw VolumeError(
                    .notFound,
                    "version \(text) of \(path) is not in this conflict; fsctl restore brings an "
                        + "older one back")
            }
            return try ask(number)
        case .both: return try keepBoth()
        }
    }

    /// Settles the versions `settled`, or all, and makes version `number` current; nil keeps the
    /// current one.
    func ask(_ number: Int?, settling settled: [Int]? = nil) throws(VolumeError)
        -> ResolutionReport
    {
        var request = Request(.resolve, path: document.path.path ?? [])
        request.number = number
        request.numbers = settled ?? numbers
        return try client.ask(request, as: ResolutionReport.self, progress: Terminal.show)
    }

    /// Merges on the daemon. Returns nil, after printing why, when no version merged cleanly.
    func merge() throws(VolumeError) -> ResolutionReport? {
        var request = Request(.merge, path: document.path.path ?? [])
        request.numbers = numbers
        let report = try client.ask(request, as: MergeReport.self, progress: Terminal.show)
        for sentence in report.sentences {
            Terminal.printError("\(document.path.text.printable): \(sentence)")
        }
        guard !report.settled.isEmpty else { return nil }
        return ResolutionReport(current: report.current, settled: report.settled)
    }

    /// What a merge with the first conflict version would make. The text is nil when the merge is
    /// not clean or the document is not text.
    func preview() throws(VolumeError) -> (sentences: [String], text: [UInt8]?) {
        var request = Request(.merge, path: document.path.path ?? [])
        request.explain = true
        let report = try client.ask(request, as: MergeReport.self)
        return (report.sentences, report.text.flatMap { bytes(base64: $0) })
    }

    private func keepBoth() throws(VolumeError) -> ResolutionReport {
        let place = try Document(path)
        for conflict in document.conflicts {
            let contents = try VersionContents(of: conflict.version, in: place)
            try Restoration(contents: contents, target: freeName(), replaces: false).run()
        }
        return try ask(nil)
    }

    /// A path beside the document: `letter 2.odt`, or with the next free number.
    private func freeName() -> FilePath {
        let name = path.name
        let ending = name.fileExtension
        let end = ending.isEmpty ? [] : [UInt8(ascii: ".")] + ending
        let stem = name.bytes.dropLast(end.count)
        var number = 2
        while true {
            let tail = Array(" \(number)".utf8) + end
            let candidate = path.parent.appending(
                Name(bytes: stem.prefix(255 - tail.count) + tail))
            if candidate.kind == nil { return candidate }
            number += 1
        }
    }

    /// The sentence that tells the person what was decided.
    func sentence(_ report: ResolutionReport) -> String {
        let now = report.current.map { "version \($0)" } ?? "deleted"
        let others = report.settled.map(String.init).joined(separator: ", ")
        return "\(document.path.text.printable) is \(now) now; settled: \(others). "
            + "fsctl resolve --undo takes it back."
    }
}
