/// The tools that an agent is offered.
enum AgentTool: String, CaseIterable, Sendable {
    case list, read, write, claim, release, versions, conflicts, merge, resolve, rewind, restore

    private struct Field {
        enum Kind: String { case string, integer, boolean }

        var name: String
        var kind: Kind
        var isRequired = false
        var text: String
    }

    private static let path = Field(
        name: "path", kind: .string, isRequired: true,
        text: "A document, from the served folder, without / in front.")
    private static let dryRun = Field(
        name: "dry_run", kind: .boolean, text: "Change nothing; only say what would be done.")

    private var fields: [Field] {
        switch self {
        case .list:
            [
                Field(
                    name: "path", kind: .string,
                    text: "A folder, from the served folder; left out: that one.")
            ]
        case .read:
            [
                Self.path,
                Field(
                    name: "version", kind: .string,
                    text: "A version's number or id, or -1 for the one before the current; left "
                        + "out: the current one."),
            ]
        case .write:
            [
                Self.path,
                Field(name: "text", kind: .string, text: "All of the new contents, as text."),
                Field(
                    name: "base64", kind: .string, text: "The same in base64, instead of text."),
                Field(
                    name: "base", kind: .string,
                    text: "The version that the contents were made from, as read told it. Left "
                        + "out for a new document only."),
            ]
        case .claim:
            [
                Self.path,
                Field(
                    name: "access", kind: .string, isRequired: true,
                    text: "read or write."),
                Field(
                    name: "wait", kind: .boolean,
                    text: "Wait for who has it now; otherwise the claim fails at once."),
            ]
        case .release:
            [
                Field(
                    name: "claim", kind: .integer, isRequired: true,
                    text: "The number that claim gave.")
            ]
        case .versions: [Self.path]
        case .conflicts:
            [
                Field(
                    name: "path", kind: .string,
                    text: "A document or folder, from the served folder; left out: all of it.")
            ]
        case .merge:
            [
                Self.path,
                Field(
                    name: "explain", kind: .boolean,
                    text: "Change nothing; say what would come of it and why."),
            ]
        case .resolve:
            [
                Self.path,
                Field(
                    name: "keep", kind: .string,
                    text: "current, newest, both, or the number of the version that is kept."),
                Field(name: "undo", kind: .boolean, text: "Take the last decision back."),
            ]
        case .rewind:
            [
                Field(
                    name: "path", kind: .string,
                    text: "A document or folder, from the served folder; left out: all of it."),
                Field(
                    name: "to", kind: .string,
                    text: "A time: 2026-11-21 14:03, 14:03, yesterday, or 90s, 5min, 3h ago."),
                Field(
                    name: "by", kind: .string, text: "A session that is undone, instead of to."),
                Field(name: "since", kind: .string, text: "Only what it did since this time."),
                Self.dryRun,
            ]
        case .restore:
            [
                Self.path,
                Field(
                    name: "version", kind: .string, isRequired: true,
                    text: "The number or id of the version that becomes current again."),
            ]
        }
    }

    private var text: String {
        switch self {
        case .list: "List a folder: names, kinds, sizes."
        case .read:
            "Read a document with the version that it is. Give that version as base when you write."
        case .write:
            "Write all of a document, made from a base version. If somebody has saved another "
                + "version since, both are merged where that is clean; otherwise yours is current "
                + "and theirs is in conflict with it. Nothing is lost; the answer says which."
        case .claim:
            "Claim a document for reading or writing: other programs wait until it is released. "
                + "It holds for this agent and the programs that it starts."
        case .release: "End a claim."
        case .versions: "List the versions of a document, with who saved them in which session."
        case .conflicts: "List the documents that have versions in conflict."
        case .merge: "Merge a document's conflict versions into it, where that is clean."
        case .resolve: "Decide a conflict, or take the last decision back."
        case .rewind:
            "Make a folder what it was at a time, or undo what one session did in it. The answer "
                + "to an undone session ends with the command that takes it back."
        case .restore: "Make an older version the current one; it is saved as a new version."
        }
    }

    private var isReadOnly: Bool {
        switch self {
        case .list, .read, .versions, .conflicts: true
        default: false
        }
    }

    /// The tool's description for `tools/list`.
    var description: JSONValue {
        var properties: [String: JSONValue] = [:]
        for field in fields {
            properties[field.name] = [
                "type": .text(field.kind.rawValue), "description": .text(field.text),
            ]
        }
        return [
            "name": .text(rawValue), "description": .text(text),
            "inputSchema": [
                "type": "object", "properties": .object(properties),
                "required": .list(fields.filter(\.isRequired).map { .text($0.name) }),
                "additionalProperties": false,
            ],
            "annotations": ["readOnlyHint": .bool(isReadOnly), "openWorldHint": false],
        ]
    }

    /// Returns why the tool's schema does not allow these arguments; nil if it does.
    func objection(to arguments: JSONValue) -> String? {
        guard case .object(let given) = arguments else { return "arguments is an object" }
        for field in fields {
            guard let value = arguments[field.name] else {
                if field.isRequired { return "\(rawValue) needs \(field.name)" }
                continue
            }
            let fits =
                switch field.kind {
                case .string: value.text != nil
                case .integer: value.integer != nil
                case .boolean: value.bool != nil
                }
            if !fits { return "\(field.name) is a \(field.kind.rawValue)" }
        }
        let known = Set(fields.map(\.name))
        return given.keys.sorted().first { !known.contains($0) }.map {
            "\(rawValue) has no argument \($0)"
        }
    }
}
