import Synchronization

/// The presenters of this process.
enum PresenterTable {
    private static let sessions = Mutex<[PresenterSession]>([])

    static var all: [any FilePresenter] { sessions.withLock { $0.map(\.presenter) } }

    static func add(_ presenter: any FilePresenter) {
        let session = sessions.withLock { sessions in
            if let known = sessions.first(where: { $0.presenter === presenter }) { return known }
            let session = PresenterSession(presenter)
            sessions.append(session)
            return session
        }
        session.settle()
    }

    static func remove(_ presenter: any FilePresenter) {
        let session = sessions.withLock { sessions -> PresenterSession? in
            guard let index = sessions.firstIndex(where: { $0.presenter === presenter }) else {
                return nil
            }
            return sessions.remove(at: index)
        }
        session?.retire()
    }

    static func session(of presenter: any FilePresenter) -> PresenterSession? {
        sessions.withLock { $0.first { $0.presenter === presenter } }
    }
}
