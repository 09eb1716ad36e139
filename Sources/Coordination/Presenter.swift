/// A program that shows an item and wants to be notified about it.
package struct Presenter: Hashable, Sendable {
    package var path: Path
    /// A directory that is not a package: its presenter is notified of changes in it afterwards,
    /// and asked nothing.
    package var isDirectory: Bool
    package var hears: Capabilities
    package var clientSession: ClientSession

    package init(
        _ path: Path, isDirectory: Bool = false, hears: Capabilities, clientSession: ClientSession
    ) {
        self.path = path
        self.isDirectory = isDirectory
        self.hears = hears
        self.clientSession = clientSession
    }

    /// The messages that a presenter implements. Other messages are not sent to it, and no claim
    /// waits for them.
    package struct Capabilities: OptionSet, Hashable, Sendable {
        package let rawValue: UInt16
        package init(rawValue: UInt16) { self.rawValue = rawValue }
        package static let relinquishToReader = Capabilities(rawValue: 1)
        package static let relinquishToWriter = Capabilities(rawValue: 1 << 1)
        package static let save = Capabilities(rawValue: 1 << 2)
        package static let accommodateDeletion = Capabilities(rawValue: 1 << 3)
        package static let accommodateSubitemDeletion = Capabilities(rawValue: 1 << 4)
        package static let change = Capabilities(rawValue: 1 << 5)
        package static let move = Capabilities(rawValue: 1 << 6)
        package static let versions = Capabilities(rawValue: 1 << 7)
        package static let subitemAppearance = Capabilities(rawValue: 1 << 8)
        package static let subitemChange = Capabilities(rawValue: 1 << 9)
        package static let subitemMove = Capabilities(rawValue: 1 << 10)
        package static let subitemVersions = Capabilities(rawValue: 1 << 11)
        package static let accommodateEviction = Capabilities(rawValue: 1 << 12)
        package static let ubiquityAttributes = Capabilities(rawValue: 1 << 13)
        package static let all = Capabilities(rawValue: (1 << 14) - 1)
    }
}
