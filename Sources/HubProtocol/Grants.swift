import Glibc
import Model

/// The body of `POST /v1/volumes/{volume}/grants`: what a device asks about documents that only one
/// device may edit. The hub answers each step, in order.
package struct GrantRequest: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        /// Asks for the document.
        case take
        /// A new process of the device goes on with the grant of an earlier one.
        case resume
        /// Asks for more time.
        case renew
        /// The grant is not needed any more.
        case release
    }

    package struct Step: Codable, Hashable, Sendable {
        package var kind: Kind
        package var item: Identifier
        /// It grows with each step of one process, so that a step that arrives late is ignored.
        package var number: UInt64
        /// The grant's token; nil if the document is asked for.
        package var token: UInt64?

        package init(_ kind: Kind, _ item: Identifier, number: UInt64, token: UInt64? = nil) {
            self.kind = kind
            self.item = item
            self.number = number
            self.token = token
        }
    }

    package var steps: [Step]

    package init(steps: [Step]) { self.steps = steps }
}

package struct GrantAnswer: Codable, Hashable, Sendable {
    package struct Result: Codable, Hashable, Sendable {
        package var number: UInt64
        /// The token of the device's grant; nil if it has none now.
        package var token: UInt64?
        /// The device that has the document instead, with its account; nil if there is none, or if
        /// it is no member's any more.
        package var device: Identifier?
        package var deviceName: String?
        package var user: String?

        package init(number: UInt64, token: UInt64? = nil) {
            self.number = number
            self.token = token
        }
    }

    /// One result for each step, in the same order.
    package var results: [Result]

    package init(results: [Result]) { self.results = results }
}

extension GrantRequest {
    package var objection: String? {
        if steps.isEmpty || steps.count > HubLimits.grants {
            return "A request has 1 to \(HubLimits.grants) steps."
        }
        for step in steps {
            if step.item == .root { return "The volume's root is no document." }
            if (step.token == nil) != (step.kind == .take) {
                return "Only who asks for a document has no token."
            }
            let objection = step.number.objectionToSequence ?? step.token?.objectionToSequence
            if let objection { return objection }
        }
        return nil
    }
}

extension GrantAnswer {
    /// - Parameter request: What was asked.
    package func objection(to request: GrantRequest) -> String? {
        guard results.map(\.number) == request.steps.map(\.number) else {
            return "The answer has other steps than the request."
        }
        for (result, step) in zip(results, request.steps) {
            if let asked = step.token, let token = result.token, asked != token {
                return "The answer renews another grant."
            }
            let objection =
                result.token?.objectionToSequence ?? result.user?.objectionToDisplay
                ?? result.deviceName?.objectionToDisplay
            if let objection { return objection }
        }
        return nil
    }
}

/// The variable by which tests shorten how long grants last.
package enum GrantTimes {
    /// How long a hub keeps a grant that is not renewed, in nanoseconds, if the environment
    /// variable `CONCORD_GRANT_SECONDS` says it. Devices with the same variable rely on a grant for
    /// three quarters of that. Nil for the usual times (`LeaseTerms`).
    package static let shortened = getenv("CONCORD_GRANT_SECONDS")
        .flatMap { Double(String(cString: $0)) }
        .flatMap { (1...60).contains($0) ? Timestamp.span(seconds: $0) : nil }
}
