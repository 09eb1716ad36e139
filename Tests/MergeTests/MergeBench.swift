import Foundation
import Model
import Support

@testable import Merge

/// A merger with its own scratch directory, and functions that write files as text.
struct MergeBench {
    let directory: TemporaryDirectory
    var rules = MergeRules()
    var tools = MergeTools()

    init(rules: String = "") throws {
        directory = try TemporaryDirectory("merge")
        self.rules = MergeRules(file: Array(rules.utf8))
    }

    var scratch: String { directory.path + "/scratch" }
    var merger: Merger { Merger(rules: rules, tools: tools, scratch: scratch) }

    /// The files that merges have left behind; it must be empty.
    var left: [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: scratch)) ?? []
    }

    func merge(
        _ path: String, _ base: [UInt8]?, _ ours: [UInt8], _ theirs: [UInt8], isAsked: Bool = false
    ) throws -> MergeOutcome {
        try merger.merge(input(path, base, ours, theirs, isAsked: isAsked))
    }

    func input(
        _ path: String, _ base: [UInt8]?, _ ours: [UInt8], _ theirs: [UInt8], isAsked: Bool = false
    ) -> MergeInput {
        MergeInput(
            path: components(path), base: base.map { .bytes($0) }, ours: .bytes(ours),
            theirs: .bytes(theirs), isAsked: isAsked)
    }

    func merge(
        _ path: String, _ base: String, _ ours: String, _ theirs: String, isAsked: Bool = false
    ) throws -> MergeOutcome {
        try merge(
            path, Array(base.utf8), Array(ours.utf8), Array(theirs.utf8), isAsked: isAsked)
    }
}

func components(_ path: String) -> [Name] { path.split(separator: "/").map { Name($0) } }

extension MergeOutcome {
    /// The text of a clean result that a driver made.
    var text: String? {
        if case .clean(let bytes, by: .driver) = self {
            String(decoding: bytes, as: UTF8.self)
        } else {
            nil
        }
    }

    var reason: String? {
        switch self {
        case .conflict(let why), .unmergeable(let why): why
        default: nil
        }
    }

    var isConflict: Bool { if case .conflict = self { true } else { false } }
    var isUnmergeable: Bool { if case .unmergeable = self { true } else { false } }
}
