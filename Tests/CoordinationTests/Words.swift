import Coordination

// Short words, for failures that somebody can read.

extension ClaimID: CustomStringConvertible {
    package var description: String { "#\(number)" }
}

extension PresenterID: CustomStringConvertible {
    package var description: String { "P\(number)" }
}

extension Path: CustomStringConvertible {
    package var description: String { "/" + names.map(\.text).joined(separator: "/") }
}
