import CLinux
import Glibc
import Model
import SystemCalls

/// The merge programs of this machine: git, and those that a file of this machine defines. That
/// file must never sync: who could write it from another device could run anything here.
///
/// ```
/// [NAME]
///     command = PROGRAM %O %A %B %P
///     seconds = 30
///     memory = 2048
/// ```
///
/// As in git, `%O` is the base, `%A` ours and the place of the result, `%B` theirs, `%P` the
/// document's path, `%L` the length of markers, `%%` a percent sign. No shell reads the command:
/// words are split at spaces, quoted by `'` or `"`.
package struct MergeTools: Sendable {
    struct Program: Hashable, Sendable {
        /// Never empty.
        var words: [String] = []
        var limits = ProgramLimits()
    }

    /// The name or path of git.
    package var git: String
    var gitLimits = ProgramLimits()
    private(set) var programs: [String: Program] = [:]
    /// What does not hold, each a sentence that names the file and the line.
    package private(set) var problems: [String] = []

    /// Bytes.
    private static let sizeMax = 1 << 16

    /// - Parameter file: the file of this machine; nil or not there: none but git.
    package init(file: String? = nil, git: String = "git") {
        self.git = git
        guard let file else { return }
        let text: [UInt8]
        do throws(Errno) {
            guard let found = try MergeTools.contents(of: file) else {
                problems = [
                    "\(file) defines no programs, since others could have written it: it must be"
                        + " yours, chmod go-w, and on no volume."
                ]
                return
            }
            text = found
        } catch {
            if error != .notFound { problems = ["\(file) cannot be read: \(error)."] }
            return
        }
        var section: String?
        for (index, line) in text.split(separator: 0x0a, omittingEmptySubsequences: false)
            .enumerated()
        {
            if let problem = read(String(decoding: line, as: UTF8.self), in: &section) {
                problems.append("\(file) line \(index + 1): \(problem).")
            }
        }
        for (name, program) in programs.sorted(by: { $0.key < $1.key })
        where program.words.isEmpty {
            problems.append("\(file): [\(name)] has no command.")
            programs[name] = nil
        }
    }

    /// Nil for one that others than this user and root could have written.
    private static func contents(of path: String) throws(Errno) -> [UInt8]? {
        let file = try Descriptor(opening: path, flags: O_RDONLY | O_NONBLOCK)
        let status = try file.status()
        guard status.st_mode & S_IFMT == S_IFREG, status.st_mode & 0o022 == 0,
            status.st_uid == geteuid() || status.st_uid == 0,
            cl_filesystem_type("/proc/self/fd/\(file.raw)") != Int(CL_FUSE)
        else { return nil }
        var bytes = [UInt8](repeating: 0, count: sizeMax)
        let count = try Merge.read(file, into: &bytes)
        return Array(bytes[..<count])
    }

    /// What is wrong with the line.
    private mutating func read(_ line: String, in section: inout String?) -> String? {
        let text = trimmed(line[...])
        guard let first = text.first, first != "#", first != ";" else { return nil }
        if first == "[" {
            section = nil
            let name = String(text.dropFirst().prefix { $0 != "]" })
            guard text.last == "]", text.utf8.count == name.utf8.count + 2 else {
                return "the section's name does not end in ]"
            }
            guard case .program? = MergeDriver(word: name) else {
                return "'\(name)' cannot be the name of a driver"
            }
            section = name
            programs[name] = programs[name] ?? Program()
            return nil
        }
        guard let name = section else { return "it stands below no [NAME] that holds" }
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else { return "it is no NAME = VALUE" }
        let value = trimmed(parts[1])
        switch trimmed(parts[0]) {
        case "command":
            guard let words = words(of: value) else { return "a quotation does not end" }
            if let problem = problem(with: words) { return problem }
            programs[name]?.words = words
        case "seconds":
            guard let number = Int(value), (1...3600).contains(number) else {
                return "seconds is a number from 1 to 3600"
            }
            programs[name]?.limits.seconds = number
        case "memory":
            guard let number = Int(value), (16...1_048_576).contains(number) else {
                return "memory is a number of MiB from 16 to 1048576"
            }
            programs[name]?.limits.memory = number
        case let other: return "'\(other)' is unknown: there are command, seconds and memory"
        }
        return nil
    }

    /// A path in the middle of a word would be read by whoever reads the word, a shell for one.
    private func problem(with words: [String]) -> String? {
        guard !words.isEmpty else { return "the command is empty" }
        for word in words where word != "%P" {
            var rest = word.utf8[...]
            while let at = rest.firstIndex(of: UInt8(ascii: "%")) {
                rest = rest[at...].dropFirst()
                guard let letter = rest.popFirst(), "OABL%".utf8.contains(letter) else {
                    return word.contains("%P")
                        ? "%P must be a word of its own"
                        : "'\(word)': there are %O, %A, %B, %P, %L and %%"
                }
            }
        }
        return nil
    }
}

private func trimmed(_ text: Substring) -> Substring {
    var text = text.drop(while: \.isWhitespace)
    while text.last?.isWhitespace == true { text.removeLast() }
    return text
}

/// Nil when a quotation does not end.
private func words(of text: Substring) -> [String]? {
    var words: [String] = []
    var word: String?
    var quote: Character?
    for character in text {
        if let open = quote {
            if character == open { quote = nil } else { word = (word ?? "") + String(character) }
        } else if character == "'" || character == "\"" {
            quote = character
            word = word ?? ""
        } else if character.isWhitespace {
            if let done = word { words.append(done) }
            word = nil
        } else {
            word = (word ?? "") + String(character)
        }
    }
    if let done = word { words.append(done) }
    return quote == nil ? words : nil
}
