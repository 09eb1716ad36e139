import Coordination

// Short descriptions, so that failures are readable.

extension ClaimID: CustomStringConvertible {
    package var description: String { "#\(number)" }
}

extension PresenterID: CustomStringConvertible {
    package var description: String { "P\(number)" }
}

extension Path: CustomStringConvertible {
    package var description: String { "/" + names.map(\.text).joined(separator: "/") }
}
