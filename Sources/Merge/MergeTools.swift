import CLinux
import Glibc
import Model
import SystemCalls

/// The merge programs of this machine: git, and those that a configuration file of this machine
/// defines. That file must never be synchronized: another device that could write it could run any
/// program here.
///
/// ```
/// [NAME]
///     command = PROGRAM %O %A %B %P
///     seconds = 30
///     memory = 2048
/// ```
///
/// As in git, `%O` is the base, `%A` is ours and receives the result, `%B` is theirs, `%P` is the
/// document's path, `%L` is the length of conflict markers, and `%%` is a percent sign. The command
/// is not run by a shell: words are separated by spaces and may be quoted by `'` or `"`.
package struct MergeTools: Sendable {
    struct Program: Hashable, Sendable {
        /// The words of the command. Never empty once the file has been read.
        var words: [String] = []
        var limits = ProgramLimits()
    }

    /// The name or path of git.
    package var git: String
    var gitLimits = ProgramLimits()
    private(set) var programs: [String: Program] = [:]
    /// What is wrong with the file: sentences that name the file and the line.
    package private(set) var problems: [String] = []

    /// The largest file in bytes.
    private static let sizeMax = 1 << 16

    /// - Parameter file: The configuration file of this machine. If it is nil or does not exist,
    ///   only git is available.
    package init(file: String? = nil, git: String = "git") {
        self.git = git
        guard let file else { return }
        let text: [UInt8]
        do throws(Errno) {
            guard let found = try MergeTools.contents(of: file) else {
                problems = [
                    "\(file) is ignored, because others could have written it: it must belong to"
                        + " you, be writable only for you (chmod go-w), and not be on a volume."
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

    /// Returns nil when a user other than this one and root could have written the file, or when it
    /// is on a volume.
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

    /// Parses a line and returns what is wrong with it.
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
        guard let name = section else { return "it is below no [NAME] that is valid" }
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else { return "it is not NAME = VALUE" }
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
        case let other: return "'\(other)' is unknown: use command, seconds or memory"
        }
        return nil
    }

    /// `%P` must be a word of its own. Inside a longer word the path would be parsed by the program
    /// that reads the word, for example a shell.
    private func problem(with words: [String]) -> String? {
        guard !words.isEmpty else { return "the command is empty" }
        for word in words where word != "%P" {
            var rest = word.utf8[...]
            while let at = rest.firstIndex(of: UInt8(ascii: "%")) {
                rest = rest[at...].dropFirst()
                guard let letter = rest.popFirst(), "OABL%".utf8.contains(letter) else {
                    return word.contains("%P")
                        ? "%P must be a word of its own"
                        : "'\(word)': use only %O, %A, %B, %P, %L and %%"
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

/// Returns nil when a quotation does not end.
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
