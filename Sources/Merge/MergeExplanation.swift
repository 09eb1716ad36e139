import Model

/// Explains the outcome of a merge.
package struct MergeExplanation: Sendable {
    package let outcome: MergeOutcome
    /// In this order: what the rules say, what happens, and what is wrong with the rules and tools.
    package let sentences: [String]
}

extension Merger {
    /// Merges and explains the outcome.
    package func explain(_ input: MergeInput) throws(VolumeError) -> MergeExplanation {
        let choice = rules.choice(for: input.path)
        let outcome = try merge(input)
        var sentences = [driver(choice)]
        if let line = choice.automergeLine {
            let asked = input.isAsked && choice.automerge != .on ? "; but you asked" : ""
            sentences.append(
                "\(Merger.place(line)) says automerge=\(choice.automerge.rawValue)\(asked).")
        }
        switch outcome {
        case .clean(let bytes, by: let origin): sentences.append(clean(bytes.count, by: origin))
        case .conflict(let what): sentences += [what, "Both versions stay until one is chosen."]
        case .unmergeable(let why): sentences += [why, "Both versions stay until one is chosen."]
        case .ask: sentences.append("Nothing is merged until a user asks for it.")
        }
        sentences += rules.problems.map { "\($0)." } + tools.problems
        return MergeExplanation(outcome: outcome, sentences: sentences)
    }

    private func driver(_ choice: MergeRules.Choice) -> String {
        guard let line = choice.driverLine else {
            let how =
                choice.driver == .json
                ? "JSON is merged by lines, or by key if that is not clean"
                : "text is merged by lines, and databases that allow it are merged by rows"
            return "No line of \(MergeRules.fileName) names a driver: \(how). "
                + "Other contents are never merged."
        }
        return "\(Merger.place(line)) says merge=\(choice.driver)."
    }

    private func clean(_ count: Int, by origin: MergeOutcome.Origin) -> String {
        switch origin {
        case .same: "Both versions are equal."
        case .ours: "Only the current version changed anything: it stays."
        case .theirs: "Only the other version changed anything: it is taken."
        case .driver(let driver): "The merge by \(driver) is clean: \(count) bytes."
        }
    }
}
