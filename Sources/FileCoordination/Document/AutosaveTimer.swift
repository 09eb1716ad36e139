/// Saves a document some time after its first unsaved change. It holds the attempt that is pending,
/// and how many saves have failed in a row.
@MainActor final class AutosaveTimer {
    private var pending: Task<Void, Never>?
    private var failures = 0

    func start(for document: Document) {
        guard pending == nil, document.hasUnsavedChanges else { return }
        // After failures the delay grows, so that a full disk is not tried all the time.
        let longest = max(document.autosaveDelay, .seconds(30))
        let delay = min(document.autosaveDelay * (1 << min(failures, 5)), longest)
        pending = Task { [weak self, weak document] in
            try? await Task.sleep(for: delay)
            guard let self, let document, !Task.isCancelled else { return }
            pending = nil
            // A failed save has been reported to handleError already.
            try? await document.autosave()
        }
    }

    func cancel() {
        pending?.cancel()
        pending = nil
    }

    func noteSave() { failures = 0 }
    func noteFailure() { failures += 1 }
}
