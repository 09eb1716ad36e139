import FileCoordination
import Foundation
import Synchronization

/// A presenter that says all it hears, and answers as it was told to.
final class Shower: FilePresenter {
    let name: String
    let presentedItemOperationQueue = OperationQueue()
    let presentedItemMessages: FilePresenterMessages
    private let words: Words
    private let state: Mutex<State>

    private struct State {
        var url: URL?
        var held: [@Sendable () -> Void] = []
    }

    init(_ words: Words) {
        self.words = words
        name = words.name
        let path = words.rest.first ?? "-"
        state = Mutex(State(url: path == "-" ? nil : URL(filePath: path)))
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
        let known: [String: FilePresenterMessages] = [
            "relinquish": [.relinquishToReader, .relinquishToWriter], "save": .save,
            "accommodate": .accommodateDeletion,
            "accommodateSubitem": .accommodateSubitemDeletion, "change": .change, "move": .move,
            "versions": .versions, "subitems": .subitems, "evict": .accommodateEviction,
            "ubiquity": .ubiquityAttributes,
        ]
        let heard = words.list("hears").compactMap { known[$0] }
        presentedItemMessages =
            words["hears"] == nil ? .all : heard.reduce(into: []) { $0.formUnion($1) }
    }

    var observedPresentedItemUbiquityAttributes: Set<UbiquityResourceValues.Attribute> {
        words["hears"] == nil ? [] : [.downloadingStatus, .isUploaded, .hasUnresolvedConflicts]
    }
    var presentedItemURL: URL? { state.withLock { $0.url } }
    func show(_ path: String) { state.withLock { $0.url = URL(filePath: path) } }

    func answer() {
        let held = state.withLock { state in
            defer { state.held = [] }
            return state.held
        }
        for answer in held { answer() }
    }

    private func say(_ message: String, _ url: URL? = nil, to: URL? = nil, _ version: String? = nil)
    {
        Line(
            at: "message", name: name, message: message, path: url?.path(percentEncoded: false),
            to: to?.path(percentEncoded: false), version: version
        ).say()
    }

    private func reply(_ kind: String, _ answer: @escaping @Sendable () -> Void) {
        guard words.list("holds").contains(kind) else { return answer() }
        state.withLock { $0.held.append(answer) }
    }

    // MARK: Asked

    func relinquishPresentedItem(
        toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
    ) {
        say("relinquishToReader")
        reply("relinquish") { reader { self.say("reacquire") } }
    }

    func relinquishPresentedItem(
        toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
    ) {
        say("relinquishToWriter")
        reply("relinquish") { writer { self.say("reacquire") } }
    }

    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        say("save")
        if let sentence = words["fails"] {
            let text = sentence.replacingOccurrences(of: "_", with: " ")
            return completionHandler(Sentence(text: text))
        }
        reply("save") {
            do {
                if let text = self.words["saves"], let url = self.presentedItemURL {
                    try FileCoordinator(filePresenter: self).coordinate(writingItemAt: url) {
                        try Data(text.utf8).write(to: $0)
                    }
                    self.say("saved")
                }
                completionHandler(nil)
            } catch { completionHandler(error) }
        }
    }

    func accommodatePresentedItemDeletion(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        say("accommodateDeletion")
        if words.plain.contains("closes") { FileCoordinator.removeFilePresenter(self) }
        reply("accommodate") { completionHandler(nil) }
    }

    func accommodatePresentedItemEviction(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        say("accommodateEviction")
        if let sentence = words["keeps"] {
            let text = sentence.replacingOccurrences(of: "_", with: " ")
            return completionHandler(Sentence(text: text))
        }
        reply("evict") { completionHandler(nil) }
    }

    func accommodatePresentedSubitemDeletion(
        at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        say("accommodateSubitemDeletion", url)
        reply("accommodate") { completionHandler(nil) }
    }

    // MARK: Told

    func presentedItemDidChange() { say("changed") }
    func presentedItemDidMove(to newURL: URL) {
        state.withLock { $0.url = newURL }
        say("moved", to: newURL)
    }
    func presentedItemDidChangeUbiquityAttributes(
        _ attributes: Set<UbiquityResourceValues.Attribute>
    ) {
        for attribute in attributes.map(\.rawValue).sorted() { say("ubiquity \(attribute)") }
    }
    func presentedItemDidGain(_ version: FileVersion) {
        say("versionGained", nil, version.persistentIdentifier)
    }
    func presentedItemDidLose(_ version: FileVersion) {
        say("versionLost", nil, version.persistentIdentifier)
    }
    func presentedItemDidResolveConflict(_ version: FileVersion) {
        say("versionResolved", nil, version.persistentIdentifier)
    }
    func presentedSubitemDidAppear(at url: URL) { say("subitemAppeared", url) }
    func presentedSubitemDidChange(at url: URL) { say("subitemChanged", url) }
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) {
        say("subitemMoved", oldURL, to: newURL)
    }
    func presentedSubitem(at url: URL, didGain version: FileVersion) {
        say("subitemVersionGained", url, version.persistentIdentifier)
    }
    func presentedSubitem(at url: URL, didLose version: FileVersion) {
        say("subitemVersionLost", url, version.persistentIdentifier)
    }
    func presentedSubitem(at url: URL, didResolve version: FileVersion) {
        say("subitemVersionResolved", url, version.persistentIdentifier)
    }
    func presentedItemRegistrationDidFail(with error: FileCoordinationError) {
        var line = Line(at: "failed", name: name)
        line.add(error)
        line.say()
    }
}
