import CLinux
import Control
import Glibc
import Model
import Synchronization
import SystemCalls

/// The implementation of an agent's tools. They open documents in the mount as any program does, so
/// they have the permissions of the user who runs the agent.
final class AgentTools: Sendable {
    struct Outcome {
        var text: String
        var value: JSONValue

        init(_ value: JSONValue, text: String? = nil) {
            self.value = value
            self.text = text ?? String(decoding: json(value), as: UTF8.self)
        }
    }

    static let instructions = """
        The documents of a Concord volume: every save is a version, and others may save at the \
        same time. Read a document before you write it, and give the version that you read as \
        base. If a write answers "merged", read again: the document has others' changes too. If \
        it answers "conflict", nothing is lost: tell the person, or merge and resolve.
        """

    /// The served folder, with symbolic links resolved. The tools reach nothing outside it.
    let root: FilePath
    private let mountPoint: FilePath
    private let socket: String
    private let claims = Mutex(Claims())

    private struct Claims {
        var client: CoordinationClient?
        var last = 0
        var open: Set<Int> = []
    }

    init(root: FilePath) throws(VolumeError) {
        let place = try MountedPath(root)
        do throws(Errno) { self.root = try root.resolved() } catch {
            throw VolumeError(.notFound, "\(root) cannot be opened: \(error)")
        }
        guard FileKind.directory == self.root.kind else {
            throw VolumeError(.invalid, "\(root) is not a folder")
        }
        (mountPoint, socket) = (place.mountPoint, place.socket)
    }

    func call(_ tool: AgentTool, _ arguments: JSONValue) throws(VolumeError) -> Outcome {
        switch tool {
        case .list: return try list(arguments)
        case .read: return try read(arguments)
        case .write: return try write(arguments)
        case .claim: return try claim(arguments)
        case .release: return try release(arguments)
        case .versions: return try run(["versions", "--json", "--", path(arguments)])
        case .conflicts: return try run(["conflicts", "--json", "--", path(arguments)])
        case .merge:
            let words = arguments["explain"]?.bool == true ? ["--explain"] : []
            return try run(["merge", "--json"] + words + ["--", path(arguments)])
        case .resolve: return try resolve(arguments)
        case .rewind: return try rewind(arguments)
        case .restore:
            let version = try word("version", in: arguments)
            return try run(["restore", "--json", "--", path(arguments), version])
        }
    }

    private func resolve(_ arguments: JSONValue) throws(VolumeError) -> Outcome {
        if arguments["undo"]?.bool == true {
            return try run(["resolve", "--json", "--undo", "--", path(arguments)])
        }
        let keep = try word("keep", in: arguments)
        return try run(["resolve", "--json", "--keep", keep, "--", path(arguments)])
    }

    private func rewind(_ arguments: JSONValue) throws(VolumeError) -> Outcome {
        var words = ["rewind"]
        for name in ["to", "by", "since"] where arguments[name] != nil {
            words += ["--\(name)=" + (try word(name, in: arguments))]
        }
        if arguments["dry_run"]?.bool == true { words.append("--dry-run") }
        return try run(words + ["--", path(arguments)])
    }

    private func word(_ name: String, in arguments: JSONValue) throws(VolumeError) -> String {
        guard let word = arguments[name]?.text, !word.isEmpty, !word.utf8.contains(0) else {
            throw VolumeError(.invalid, "\(name) is missing")
        }
        return word
    }

    // MARK: Paths

    func path(_ arguments: JSONValue) throws(VolumeError) -> String {
        try place(arguments).description
    }

    /// Returns the path in the arguments, or the served folder if there is none. Refuses a path
    /// that leads out of the served folder, also by symbolic links.
    func place(_ arguments: JSONValue) throws(VolumeError) -> FilePath {
        let text = arguments["path"]?.text ?? ""
        if text.isEmpty || text == "." { return root }
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        let isPlain = parts.allSatisfy { !["", ".", ".."].contains($0) && !$0.utf8.contains(0) }
        guard isPlain else {
            throw VolumeError(
                .invalid,
                "\"\(text)\" is not a path in the served folder: it starts without /, and has no "
                    + "empty, . or .. part")
        }
        let path = root.appending(parts.map { Name(String($0)) })
        let resolved: FilePath
        do throws(Errno) {
            resolved =
                path.kind == .symlink ? try path.resolved() : try path.resolvedParent()
        } catch {
            throw VolumeError(.notFound, "\(text) and its folder do not exist")
        }
        guard resolved.bytes.starts(with: root.bytes + [UInt8(ascii: "/")]),
            try MountedPath(resolved).mountPoint == mountPoint
        else { throw VolumeError(.denied, "\(text) leads out of the served folder") }
        return resolved
    }

    private func components(_ path: FilePath) throws(VolumeError) -> [Name] {
        try MountedPath(path).components
    }

    // MARK: Claims

    private func claim(_ arguments: JSONValue) throws(VolumeError) -> Outcome {
        let path = try components(place(arguments))
        let access: AccessField
        switch arguments["access"]?.text {
        case "read": access = AccessField(reading: path)
        case "write": access = AccessField(writing: path)
        default: throw VolumeError(.invalid, "access is read or write")
        }
        let (client, number) = try connect()
        var request = Request(.claim)
        request.claim = number
        request.access = [access]
        request.`try` = arguments["wait"]?.bool != true
        // The claim belongs to the agent's process, and so also to its children.
        request.process = getppid()
        struct Granted: Codable { var paths: [RawText] }
        let granted = try client.ask(request, as: Granted.self)
        claims.withLock { _ = $0.open.insert(number) }
        return Outcome([
            "claim": .integer(Int64(number)), "path": .text(granted.paths.first?.text ?? ""),
        ])
    }

    private func connect() throws(VolumeError) -> (CoordinationClient, Int) {
        if let client = claims.withLock({ $0.client }) {
            return (
                client,
                claims.withLock {
                    $0.last += 1
                    return $0.last
                }
            )
        }
        let client = try CoordinationClient(
            socket: socket, pushed: { _ in },
            ended: { [weak self] in
                // The claims have ended with the connection.
                self?.claims.withLock { ($0.client, $0.open) = (nil, []) }
            })
        return claims.withLock {
            $0.client = client
            $0.last += 1
            return (client, $0.last)
        }
    }

    private func release(_ arguments: JSONValue) throws(VolumeError) -> Outcome {
        let number = Int(arguments["claim"]?.integer ?? 0)
        let client = claims.withLock { $0.open.remove(number) == nil ? nil : $0.client }
        guard let client else {
            throw VolumeError(.notFound, "there is no claim \(number) (any more)")
        }
        var request = Request(.release)
        request.claim = number
        _ = try client.ask(request, as: Nothing.self)
        return Outcome([:], text: "released")
    }

    // MARK: Other commands

    /// Runs another command of this program and returns its output.
    private func run(_ words: [String]) throws(VolumeError) -> Outcome {
        let result = try CommandOutput.run(words)
        guard result.status == 0 else {
            let text = result.error.isEmpty ? result.output : result.error
            throw VolumeError(.system, text.isEmpty ? "\(words[0]) failed" : text)
        }
        let value = try? Control.value(JSONValue.self, from: Array(result.output.utf8))
        if case .object = value { return Outcome(value!, text: result.output) }
        return Outcome(["text": .text(result.output)], text: result.output)
    }
}
