import Control

/// The messages that a presenter implements.
///
/// Other messages are neither sent nor waited for. Apple's systems ask the object which selectors
/// it responds to. Swift cannot do that, so a presenter lists them in
/// ``FilePresenter/presentedItemMessages``, or receives all.
public struct FilePresenterMessages: OptionSet, Hashable, Sendable {
    /// The bits of the set.
    public let rawValue: UInt
    /// Makes a set of its bits.
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// ``FilePresenter/relinquishPresentedItem(toReader:)``
    public static let relinquishToReader = FilePresenterMessages(rawValue: 1)
    /// ``FilePresenter/relinquishPresentedItem(toWriter:)``
    public static let relinquishToWriter = FilePresenterMessages(rawValue: 1 << 1)
    /// ``FilePresenter/savePresentedItemChanges(completionHandler:)``
    public static let save = FilePresenterMessages(rawValue: 1 << 2)
    /// ``FilePresenter/accommodatePresentedItemDeletion(completionHandler:)``
    public static let accommodateDeletion = FilePresenterMessages(rawValue: 1 << 3)
    /// ``FilePresenter/accommodatePresentedSubitemDeletion(at:completionHandler:)``
    public static let accommodateSubitemDeletion = FilePresenterMessages(rawValue: 1 << 4)
    /// ``FilePresenter/presentedItemDidChange()``
    public static let change = FilePresenterMessages(rawValue: 1 << 5)
    /// ``FilePresenter/presentedItemDidMove(to:)``
    public static let move = FilePresenterMessages(rawValue: 1 << 6)
    /// The three messages about versions of the item.
    public static let versions = FilePresenterMessages(rawValue: 1 << 7)
    /// ``FilePresenter/presentedSubitemDidAppear(at:)``
    public static let subitemAppearance = FilePresenterMessages(rawValue: 1 << 8)
    /// ``FilePresenter/presentedSubitemDidChange(at:)``
    public static let subitemChange = FilePresenterMessages(rawValue: 1 << 9)
    /// ``FilePresenter/presentedSubitem(at:didMoveTo:)``
    public static let subitemMove = FilePresenterMessages(rawValue: 1 << 10)
    /// The three messages about versions of what a directory contains.
    public static let subitemVersions = FilePresenterMessages(rawValue: 1 << 11)

    /// ``FilePresenter/accommodatePresentedItemEviction(completionHandler:)``
    public static let accommodateEviction = FilePresenterMessages(rawValue: 1 << 12)
    /// ``FilePresenter/presentedItemDidChangeUbiquityAttributes(_:)``
    public static let ubiquityAttributes = FilePresenterMessages(rawValue: 1 << 13)

    /// All messages about items in a presented directory or package.
    public static let subitems: FilePresenterMessages = [
        .accommodateSubitemDeletion, .subitemAppearance, .subitemChange, .subitemMove,
        .subitemVersions,
    ]
    /// All messages.
    public static let all = FilePresenterMessages(rawValue: (1 << 14) - 1)

    /// The names of the messages in the control protocol.
    var kinds: [String] {
        let all: [(FilePresenterMessages, [PresenterMessage.Kind])] = [
            (.relinquishToReader, [.relinquishToReader]),
            (.relinquishToWriter, [.relinquishToWriter]),
            ([.relinquishToReader, .relinquishToWriter], [.reacquire]),
            (.save, [.save]), (.accommodateDeletion, [.accommodateDeletion]),
            (.accommodateSubitemDeletion, [.accommodateSubitemDeletion]),
            (.accommodateEviction, [.accommodateEviction]),
            (.ubiquityAttributes, [.ubiquityChanged]),
            (.change, [.changed]), (.move, [.moved]),
            (.versions, [.versionGained, .versionLost, .versionResolved]),
            (.subitemAppearance, [.subitemAppeared]), (.subitemChange, [.subitemChanged]),
            (.subitemMove, [.subitemMoved]),
            (
                .subitemVersions,
                [.subitemVersionGained, .subitemVersionLost, .subitemVersionResolved]
            ),
        ]
        return all.filter { !isDisjoint(with: $0.0) }.flatMap(\.1).map(\.rawValue)
    }
}
