/// Where a document stands in the history of its changes, and where it was saved last.
///
/// Changes are positions on a line: one further with each that is done or done again, one back with
/// each undone. What is done after something was undone begins another line: positions ahead of it
/// are not what they were, and if the document was saved in one, it cannot come back there.
struct ChangeCount {
    private var position = 0
    /// As far as the present line goes.
    private var end = 0
    /// Nil: on a line that was left.
    private var saved: Int? = 0
    private var serial: UInt64 = 0
    /// Where lines were left, and when; positions grow.
    private var branches: [(position: Int, serial: UInt64)] = []

    var isDirty: Bool { saved != position }

    mutating func done() {
        serial += 1
        if position < end {
            if let place = saved, place > position { saved = nil }
            branches.removeAll { $0.position >= position }
            branches.append((position, serial))
        }
        position += 1
        end = position
    }

    mutating func undone() {
        serial += 1
        position -= 1
    }

    mutating func redone() {
        serial += 1
        position += 1
        end = max(end, position)
    }

    /// What was done last is not what it was any more.
    mutating func doneMore() {
        undone()
        done()
    }

    mutating func clear() { saved = position }

    var token: ChangeCountToken { ChangeCountToken(position: position, serial: serial) }

    /// What was written is the document as it was when the token was taken.
    mutating func save(_ token: ChangeCountToken) {
        let isLeft = branches.contains {
            $0.position < token.position && $0.serial > token.serial
        }
        saved = isLeft ? nil : token.position
        branches.removeAll { $0.serial <= token.serial }
    }
}

/// The moment in which a document's contents were taken for saving: what was changed afterwards
/// stays unsaved when they are written.
public struct ChangeCountToken: Hashable, Sendable {
    let position: Int
    let serial: UInt64
}
