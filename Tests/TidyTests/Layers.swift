/// The order of the modules in Design.md. A module may import only modules before it, and the
/// tables below restrict some modules further.
struct Layers: Sendable {
    static let order = [
        "CFuse", "CPostgres", "CLinux", "CFuseRing", "CZstd", "CCrypto", "CSQLite", "SystemCalls",
        "Model", "Reconcile", "Coordination",
        "ChunkStore", "Journal",
        "Merge", "Volume",
        "HubProtocol", "Hub", "HubPages", "HubWebDAV", "HubPostgres", "HubS3", "Sync",
        "Mount", "Control", "FileCoordination",
        "concord", "fsctl",
        "CloudNotes", "Shoebox",
    ]

    /// The modules of ours that each of these may import, where the order alone would allow more.
    static let only: [String: Set<String>] = [
        "Model": [],
        "Reconcile": ["Model"],
        "Coordination": ["Model"],
        "Merge": ["Model", "SystemCalls", "CLinux", "CSQLite"],
        "HubProtocol": ["Model", "Reconcile"],
        "HubPages": ["Hub", "HubProtocol", "ChunkStore", "Reconcile", "Model"],
        "HubWebDAV": ["Hub", "HubProtocol", "ChunkStore", "Reconcile", "Model"],
        "HubPostgres": ["Hub", "Model", "CPostgres"],
        "HubS3": ["Hub", "HubProtocol", "ChunkStore", "Model"],
        "Control": ["Model", "SystemCalls", "CLinux"],
        "FileCoordination": ["Control", "Merge", "Model"],
        "CloudNotes": ["FileCoordination"],
        "Shoebox": ["FileCoordination"],
    ]

    /// The only modules that may import these.
    static let reserved: [String: Set<String>] = [
        "CFuse": ["Mount"],
        "CFuseRing": ["Mount"],
        "CZstd": ["ChunkStore"],
        "CSQLite": ["Merge"],
        "CPostgres": ["HubPostgres"],
        "HubPostgres": ["concord"],
        "HubS3": ["concord"],
        "AsyncHTTPClient": ["Sync", "HubS3"],
        "GRDB": ["Journal", "Hub", "FileCoordination"],
        "ArgumentParser": ["concord", "fsctl"],
        "Foundation": [
            "FileCoordination", "Hub", "HubPages", "HubWebDAV", "HubS3", "Sync", "concord", "fsctl",
            "CloudNotes", "Shoebox",
        ],
        "Volume": ["Sync", "Mount", "concord", "fsctl"],
    ]

    /// Returns why a module may not import another one, or nil if it may.
    static func objection(to imported: String, in module: String) -> String? {
        if let users = reserved[imported], !users.contains(module) {
            return "\(module) imports \(imported), which only \(users.sorted()) may"
        }
        guard let there = order.firstIndex(of: imported) else { return nil }
        guard let here = order.firstIndex(of: module) else {
            return "\(module) is not among the layers of Design.md: give it its place there"
        }
        if there >= here { return "\(module) imports \(imported), which stands above it" }
        if let allowed = only[module], !allowed.contains(imported) {
            return "\(module) imports \(imported), and may import only \(allowed.sorted())"
        }
        return nil
    }

    /// The module that an import line names.
    static func imported(by line: Substring) -> String? {
        guard line.contains("import ") else { return nil }
        let words = line.split(separator: " ")
        guard let at = words.firstIndex(of: "import") else { return nil }
        let access: Set<Substring> = ["package", "public", "internal", "fileprivate", "private"]
        for word in words[..<at] where !access.contains(word) && !word.hasPrefix("@") {
            return nil
        }
        let kinds: Set<Substring> = ["struct", "class", "enum", "func", "var", "typealias"]
        let named = words[(at + 1)...].drop { kinds.contains($0) }.first
        return named.map { String($0.prefix { $0 != "." }) }
    }
}
