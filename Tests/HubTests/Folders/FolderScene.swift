import Foundation
import HubProtocol
import Model
import Reconcile
import Support

@testable import Hub

/// A volume of anna, `team`, of which bert sees only the folder `shared`, as the volume
/// `team/shared`.
///
///     shared/plan.txt  shared/sub/deep/note.txt  private/salary.txt  private/inner/
struct FolderScene {
    let hub: RunningHub
    var anna: TestDevice
    var bert: TestDevice
    let shared = Identifier.random()
    let sub = Identifier.random()
    let deep = Identifier.random()
    let hidden = Identifier.random()
    let inner = Identifier.random()
    let plan = Identifier.random()
    let note = Identifier.random()
    let salary = Identifier.random()
    /// The first versions of the documents, by their items.
    private(set) var versions: [Identifier: Revision] = [:]

    static func with(
        _ role: Role = .editor, limits: CallerLimits = CallerLimits(),
        _ body: (inout FolderScene) async throws -> Void
    ) async throws {
        try await RunningHub.with(limits: limits) { hub in
            var scene = try await FolderScene(role, at: hub)
            try await body(&scene)
        }
    }

    private init(_ role: Role, at hub: RunningHub) async throws {
        self.hub = hub
        anna = try await hub.device(of: "anna", volume: "team")
        bert = try await hub.device(of: "bert")
        try await anna.commit([
            anna.directory("shared", id: shared), anna.directory("private", id: hidden),
            anna.directory("sub", id: sub, in: shared), anna.directory("deep", id: deep, in: sub),
            anna.directory("inner", id: inner, in: hidden),
        ])
        try await anna.upload([bytes("plan"), bytes("note"), bytes("salary")])
        let entries = [
            anna.creation("plan.txt", bytes("plan"), id: plan, in: shared),
            anna.creation("note.txt", bytes("note"), id: note, in: deep),
            anna.creation("salary.txt", bytes("salary"), id: salary, in: hidden),
        ]
        try await anna.commit(entries)
        for entry in entries { versions[entry.item] = entry.change.revision }
        try await anna.send(MemberRequest(.add, "bert", role: role, folder: shared))
        bert.volume = try await bert.open("team/shared", of: "anna")
    }

    func version(_ item: Identifier) -> Revision { versions[item]! }

    /// Moves an item, as a device does that has seen everything.
    mutating func move(_ item: Identifier, to parent: Identifier, named name: String) async throws {
        try await anna.commit([anna.move(item, to: parent, named: name)])
    }

    /// What bert's devices know when they have received everything, by the items' ids.
    func seen() async throws -> [Identifier: ItemState] { try await bert.states() }

    /// The operation's result without ids and numbers.
    static func plain(_ result: OperationResult) -> String {
        "\(String(describing: result.verdict)) \(String(describing: result.refusal?.code)) "
            + "\(result.refusal?.message ?? "") \(result.refusal?.takenItem != nil) "
            + "\(result.refusal?.takenVersion != nil)"
    }
}

extension TestDevice {
    mutating func move(
        _ item: Identifier, to parent: Identifier, named name: String
    ) -> OperationEntry {
        var entry = entry(item, .move(placement(name, in: parent), base: .unknown))
        // The hub limits it to its own time, and each move is later than the ones before.
        entry.time = .max
        return entry
    }

    mutating func deletion(_ item: Identifier, seen: UInt64) -> OperationEntry {
        var entry = entry(item, .delete(current: nil))
        entry.base = seen
        return entry
    }

    /// The states that a device has after it has received all pages from a position on.
    func states(after: UInt64 = 0, limit: Int? = nil, trash: Bool = true) async throws
        -> [Identifier: ItemState]
    {
        var (states, after) = ([Identifier: ItemState](), after)
        while true {
            let page = try await changes(
                after: after, limit: limit, query: trash ? "&trashedAfter=0" : "")
            for case .item(let item) in page.changes { states[item.id] = item }
            after = page.next
            if after >= page.head { return states }
        }
    }
}
