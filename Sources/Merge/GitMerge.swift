import Glibc
import Model

/// The result of a merge driver.
enum DriverResult: Hashable {
    case clean([UInt8])
    /// What both sides changed: the end of a sentence.
    case conflict(String)
    /// Why the merge could not be tried: the end of a sentence.
    case failed(String)
}

/// A merge by lines with the same result as `git merge`, that is with its strategy `ort` and the
/// histogram difference. `git merge-file` cannot use the histogram before git 2.44 and has other
/// results without it. So a temporary repository is made for the three contents. Settings and
/// attributes of the user and the machine do not affect it.
struct GitMerge {
    let git: String
    let limits: ProgramLimits
    let directory: Scratch
    var isUnion = false
    var mayGoOn: @Sendable () -> Bool = { true }

    /// Longer than any line of markers in a document, so that git's conflict markers cannot be
    /// confused with text.
    private static let markerLength = 61

    func merge(base: [UInt8], ours: [UInt8], theirs: [UInt8]) throws(VolumeError) -> DriverResult {
        guard let path = LimitedProgram.path(of: git) else {
            return .failed("git is not installed (or not in PATH), and it is needed to merge lines")
        }
        try makeRepository()
        try directory.write(stream(base, ours, theirs), to: "stream")
        let program = LimitedProgram(
            path: path, directory: directory, limits: limits,
            environment: [
                "GIT_DIR=\(directory.path)/git", "GIT_CONFIG_NOSYSTEM=1", "GIT_ATTR_NOSYSTEM=1",
                "HOME=\(directory.path)",
            ], mayGoOn: mayGoOn)
        func run(_ arguments: String..., input: String? = nil) throws(VolumeError)
            -> LimitedProgram.Ending
        {
            try program.run(arguments.map { Array($0.utf8) }, input: input)
        }
        let taken = try run("fast-import", "--quiet", input: "stream")
        guard taken == .exit(0) else { return failure(taken, of: program) }
        let ending = try run("merge-tree", "--write-tree", "--no-messages", "ours", "theirs")
        if ending == .exit(129) { return .failed("git 2.38 or newer is needed to merge lines") }
        guard ending == .exit(0) || ending == .exit(1) else { return failure(ending, of: program) }
        let said = try directory.read(LimitedProgram.output, sizeMax: 1 << 16) ?? []
        let tree = String(decoding: said.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        let shown = try run("cat-file", "blob", "\(tree):document")
        guard shown == .exit(0),
            let bytes = try directory.read(
                LimitedProgram.output, sizeMax: Int(ProgramLimits.fileMax))
        else { return failure(shown, of: program) }
        return ending == .exit(0) ? .clean(bytes) : .conflict(places(in: bytes))
    }

    private func failure(_ ending: LimitedProgram.Ending, of program: LimitedProgram)
        -> DriverResult
    {
        switch ending {
        case .exit(let code): .failed("git ended with \(code): \(program.firstErrorLine())")
        case .failed(let why): .failed("git \(why)")
        }
    }

    private func makeRepository() throws(VolumeError) {
        for name in ["git", "git/objects", "git/refs", "git/info"] {
            try directory.makeDirectory(name)
        }
        let settings = """
            [core]
            \trepositoryformatversion = 0
            \tbare = true
            \tcompression = 0
            [fastimport]
            \tunpackLimit = 0

            """
        let driver = isUnion ? "merge=union" : "merge=text"
        let attributes = "* \(driver) conflict-marker-size=\(GitMerge.markerLength)\n"
        try directory.write(Array("ref: refs/heads/ours\n".utf8), to: "git/HEAD")
        try directory.write(Array(settings.utf8), to: "git/config")
        try directory.write(Array(attributes.utf8), to: "git/info/attributes")
    }

    /// Makes three commits of one file, in the format that git-fast-import reads.
    private func stream(_ base: [UInt8], _ ours: [UInt8], _ theirs: [UInt8]) -> [UInt8] {
        var stream: [UInt8] = []
        stream.reserveCapacity(base.count + ours.count + theirs.count + 1024)
        for (name, content) in [("base", base), ("ours", ours), ("theirs", theirs)] {
            stream += "commit refs/heads/\(name)\ncommitter c <c> 0 +0000\ndata 0\n".utf8
            if name != "base" { stream += "from refs/heads/base\n".utf8 }
            stream += "M 100644 inline document\ndata \(content.count)\n".utf8
            stream += content
            stream += "\n".utf8
        }
        return stream + Array("done\n".utf8)
    }

    /// Describes what both sides changed, from the text with conflict markers that git has written.
    private func places(in text: [UInt8]) -> String {
        func isMarker(_ line: ArraySlice<UInt8>, _ character: Character) -> Bool {
            let mark = repeatElement(character.asciiValue!, count: GitMerge.markerLength)
            return line.starts(with: mark)
        }
        var count = 0
        var first: [Substring] = []
        var isOpen = false
        for line in text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            if isMarker(line, "<") {
                count += 1
                isOpen = count == 1
            } else if isMarker(line, ">") || isMarker(line, "=") {
                isOpen = isMarker(line, "=") && count == 1
            } else if isOpen, first.count < 1 {
                first.append(String(decoding: line, as: UTF8.self).prefix(60))
            }
        }
        let places = count == 1 ? "one place was" : "\(count) places were"
        let near = first.first.map { ", the first of them near “\($0)”" } ?? ""
        return "\(places) changed on both sides\(near)"
    }
}
