import FileCoordination
import Foundation
import Synchronization

/// Shows beside a picture where its contents are, and keeps them here while somebody looks at them.
final class PictureBadge: FilePresenter {
    let presentedItemURL: URL?
    let presentedItemOperationQueue = OperationQueue()
    let presentedItemMessages: FilePresenterMessages = [.accommodateEviction, .ubiquityAttributes]
    let observedPresentedItemUbiquityAttributes: Set<UbiquityResourceValues.Attribute> = [
        .downloadingStatus, .isUploaded,
    ]
    let isLookedAt = Mutex(false)
    let text = Mutex("")

    init(_ url: URL) {
        presentedItemURL = url
        FileCoordinator.addFilePresenter(self)
        // What changes from now on is reported.
        update()
    }

    func accommodatePresentedItemEviction(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        completionHandler(isLookedAt.withLock { $0 } ? CocoaError(.fileLocking) : nil)
    }

    func presentedItemDidChangeUbiquityAttributes(
        _ attributes: Set<UbiquityResourceValues.Attribute>
    ) { update() }

    private func update() {
        guard let url = presentedItemURL,
            let values = try? UbiquityContainer.resourceValues(ofItemAt: url)
        else { return }
        let isHere = values.downloadingStatus != .notDownloaded
        text.withLock { $0 = !isHere ? "in the cloud" : values.isUploaded ? "" : "only here" }
    }
}
