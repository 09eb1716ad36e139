import CLinux
import Glibc
import Model
import SystemCalls

/// One of the three contents of a merge.
package enum MergeContent: Hashable, Sendable {
    case bytes([UInt8])
    /// The absolute path of a regular file, which must not change during the merge.
    case file(String)
    /// Contents of more than `Merger.sizeMax` bytes.
    case tooLarge
}

/// Two versions of a document and the version that both were made from. `ours` is the winner of the
/// conflict and `theirs` the loser, on every device, so that all devices get equal bytes.
package struct MergeInput: Sendable {
    /// The path from the volume's root.
    package var path: [Name]
    /// Nil when the versions have no base in common, or when its bytes are not available any more.
    package var base: MergeContent?
    package var ours: MergeContent
    package var theirs: MergeContent
    /// A user has asked for this merge, so `automerge=off` and `automerge=ask` do not apply.
    package var isAsked: Bool
    /// Who saved theirs; nil when unknown.
    package var source: Source?

    /// Who saved a version. The values are the same on all devices.
    package struct Source: Hashable, Sendable {
        /// The id of the version, in hexadecimal digits.
        package var version: String
        package var device: String
        /// Nanoseconds since 1970.
        package var saved: Int64

        package init(version: String, device: String, saved: Int64) {
            self.version = version
            self.device = device
            self.saved = saved
        }
    }

    package init(
        path: [Name], base: MergeContent?, ours: MergeContent, theirs: MergeContent,
        isAsked: Bool = false, source: Source? = nil
    ) {
        self.path = path
        self.base = base
        self.ours = ours
        self.theirs = theirs
        self.isAsked = isAsked
        self.source = source
    }
}

package enum MergeOutcome: Hashable, Sendable {
    package enum Origin: Hashable, Sendable {
        /// Both versions are equal.
        case same
        /// Only ours changed anything. `theirs` is the opposite case.
        case ours
        case theirs
        case driver(MergeDriver)
    }

    case clean([UInt8], by: Origin)
    /// Both sides changed the same: a sentence.
    case conflict(String)
    /// Such contents are never merged, or cannot be merged at present: a sentence.
    case unmergeable(String)
    /// A rule wants a user to be asked first.
    case ask
}

/// Merges versions of documents. A merge blocks its thread while programs run. Several merges may
/// run at once.
package struct Merger: Sendable {
    /// The largest size in bytes of each of the three contents: `textMax` for merges by lines and
    /// by key, `sizeMax` for programs and databases.
    package static let textMax = 8 << 20
    package static let sizeMax = 64 << 20

    /// The `application_id` (`CNCD`) of databases that are merged by rows without a rule.
    package static let databaseID: Int32 = 0x434e_4344

    package let rules: MergeRules
    package let tools: MergeTools
    /// The absolute path of a directory for temporary files. Only a crash leaves files there; they
    /// may be removed whenever no merge is running.
    package let scratch: String
    /// When it returns false, a program that merges is killed, and nothing is merged.
    let mayGoOn: @Sendable () -> Bool

    package init(
        rules: MergeRules, tools: MergeTools, scratch: String,
        mayGoOn: @escaping @Sendable () -> Bool = { true }
    ) {
        self.mayGoOn = mayGoOn
        self.rules = rules
        self.tools = tools
        self.scratch = scratch
    }

    /// Merges. The same three contents have the same outcome on every device with the same rules
    /// and tools.
    /// - Throws: `full` or `system` when a content or the scratch directory cannot be read or
    ///   written.
    package func merge(_ input: MergeInput) throws(VolumeError) -> MergeOutcome {
        guard let ours = try bytes(of: input.ours), let theirs = try bytes(of: input.theirs) else {
            return .unmergeable("A version has more than \(Merger.sizeMax >> 20) MiB.")
        }
        if ours == theirs { return .clean(ours, by: .same) }
        guard let content = input.base else {
            return .unmergeable("The version that both were made from is not available any more.")
        }
        guard let base = try bytes(of: content) else {
            return .unmergeable("The base has more than \(Merger.sizeMax >> 20) MiB.")
        }
        if base == ours { return .clean(theirs, by: .theirs) }
        if base == theirs { return .clean(ours, by: .ours) }
        var choice = rules.choice(for: input.path)
        if choice.driverLine == nil, SQLiteMerge.isManaged(ours), SQLiteMerge.isManaged(theirs) {
            choice.driver = .sqlite
        }
        if let outcome = Merger.refusal(choice, isAsked: input.isAsked) { return outcome }
        let three = MergeTriple(base: base, ours: ours, theirs: theirs)
        let result = try three.result(choice.driver, input, merger: self)
        switch result {
        case .clean(let bytes):
            if choice.driver != .sqlite, three.addsMarkers(bytes) {
                return .unmergeable("The driver \(choice.driver) wrote conflict markers.")
            }
            return .clean(bytes, by: .driver(choice.driver))
        case .conflict(let what): return .conflict("By \(choice.driver): \(what).")
        case .failed(let why): return .unmergeable("By \(choice.driver): \(why).")
        }
    }

    /// What the rules decide without looking at the contents; nil when a driver decides.
    static func refusal(_ choice: MergeRules.Choice, isAsked: Bool) -> MergeOutcome? {
        if choice.driver == .binary {
            return .unmergeable("\(place(choice.driverLine)) says that it is never merged.")
        }
        switch choice.automerge {
        case .off where !isAsked:
            return .unmergeable("\(place(choice.automergeLine)) turns merging off.")
        case .ask where !isAsked: return .ask
        default: return nil
        }
    }

    static func place(_ line: Int?) -> String {
        line.map { "\(MergeRules.fileName) line \($0)" } ?? "The default rule"
    }

    /// Returns nil when the content is too large.
    private func bytes(of content: MergeContent) throws(VolumeError) -> [UInt8]? {
        switch content {
        case .bytes(let bytes): return bytes.count <= Merger.sizeMax ? bytes : nil
        case .file(let path):
            let file: Descriptor
            do throws(Errno) { file = try Descriptor(opening: path, flags: O_RDONLY) } catch {
                throw VolumeError(.system, "\(path) cannot be read for a merge: \(error).")
            }
            return try Merge.bytes(of: file, named: path, sizeMax: Merger.sizeMax)
        case .tooLarge: return nil
        }
    }
}

/// The three contents of a merge. All of them differ.
struct MergeTriple {
    let base: [UInt8]
    let ours: [UInt8]
    let theirs: [UInt8]

    private var all: [[UInt8]] { [base, ours, theirs] }

    func result(_ driver: MergeDriver, _ input: MergeInput, merger: Merger)
        throws(VolumeError) -> DriverResult
    {
        switch driver {
        case .text: return try list(merger, isItem: ListMerge.isItem)
        case .list: return try list(merger, isItem: nil)
        case .union: return try lines(merger, isUnion: true)
        case .json: return try json(merger)
        case .sqlite:
            let merge = SQLiteMerge(directory: try merger.directory(), source: input.source)
            return try merge.merge(self)
        case .binary: return .failed("it is never merged")
        case .program(let name):
            guard let program = merger.tools.programs[name] else {
                return .failed("no [\(name)] is defined in this machine's own merge file")
            }
            let run = ProgramMerge(
                name: name, program: program, directory: try merger.directory(),
                mayGoOn: merger.mayGoOn)
            return try run.merge(self, path: input.path)
        }
    }

    /// Merges by lines. If that is a conflict, insertions of both sides at the same place are both
    /// kept, as long as all inserted lines are items.
    private func list(_ merger: Merger, isItem: ((ArraySlice<UInt8>) -> Bool)?)
        throws(VolumeError) -> DriverResult
    {
        let byLines = try lines(merger)
        guard case .conflict = byLines,
            let merged = ListMerge(base: base, ours: ours, theirs: theirs).merged(isItem)
        else { return byLines }
        return .clean(merged)
    }

    private func lines(_ merger: Merger, isUnion: Bool = false) throws(VolumeError) -> DriverResult
    {
        if all.contains(where: { $0.count > Merger.textMax }) {
            return .failed("a version has more than \(Merger.textMax >> 20) MiB")
        }
        if !all.allSatisfy(isText) { return .failed("it is not text in UTF-8") }
        let git = GitMerge(
            git: merger.tools.git, limits: merger.tools.gitLimits,
            directory: try merger.directory(), isUnion: isUnion, mayGoOn: merger.mayGoOn)
        return try git.merge(base: base, ours: ours, theirs: theirs)
    }

    /// Merges by lines. If that is not clean, or its result is not valid JSON, merges by key.
    private func json(_ merger: Merger) throws(VolumeError) -> DriverResult {
        let byLines = try lines(merger)
        if case .failed = byLines { return byLines }
        var values: [JSONText] = []
        for (name, content) in zip(["the base", "ours", "theirs"], all) {
            do throws(JSONText.SyntaxError) { values.append(try JSONText(content)) } catch {
                guard case .conflict(let what) = byLines else { return byLines }
                return .conflict(
                    "\(what), and a merge by key is not possible: in \(name), \(error)")
            }
        }
        if case .clean(let bytes) = byLines, (try? JSONText(bytes)) != nil { return byLines }
        do throws(JSONConflict) {
            let bytes = try JSONMerge(base: values[0], ours: values[1], theirs: values[2]).merged()
            return .clean(bytes)
        } catch {
            return .conflict(error.what)
        }
    }

    /// Whether a line of the result looks like a conflict marker and is not a line of any of the
    /// three.
    func addsMarkers(_ result: [UInt8]) -> Bool {
        let found = markers(in: result)
        return !found.isEmpty && !found.isSubset(of: Set(all.flatMap { markers(in: $0) }))
    }

    private func markers(in text: [UInt8]) -> Set<ArraySlice<UInt8>> {
        Set(
            text.split(whereSeparator: { $0 == 0x0a || $0 == 0x0d }).filter { line in
                guard let first = line.first, "<>=|".utf8.contains(first) else { return false }
                let length = line.prefix { $0 == first }.count
                return length >= 7 && (length == line.count || line.dropFirst(length).first == 0x20)
            })
    }
}

extension Merger {
    func directory() throws(VolumeError) -> Scratch { try Scratch(in: scratch) }
}

private func isText(_ bytes: [UInt8]) -> Bool {
    !bytes.contains(0) && String(validating: bytes, as: UTF8.self) != nil
}
