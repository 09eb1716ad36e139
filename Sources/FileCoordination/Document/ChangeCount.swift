/// Counts a document's changes and knows whether it has unsaved ones.
///
/// A change is a position on a line: one step forward for each change that is done or redone, one
/// step back for each that is undone. A change after an undo starts a new branch: the positions
/// ahead of it now mean other contents. If the document was saved at such a position, no undo or
/// redo can return to the saved contents.
struct ChangeCount {
    private var position = 0
    /// The last position of the present branch.
    private var end = 0
    /// The position that was saved; nil when it lies on a branch that was left.
    private var saved: Int? = 0
    private var serial: UInt64 = 0
    /// Where branches were left, and the serial number of that moment. Positions ascend.
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

    /// The last change has been extended, so its position no longer means what was saved there.
    mutating func extendLastChange() {
        undone()
        done()
    }

    mutating func clear() { saved = position }

    var token: ChangeCountToken { ChangeCountToken(position: position, serial: serial) }

    /// Records that the contents at the moment of `token` were written.
    mutating func save(_ token: ChangeCountToken) {
        let isLeft = branches.contains {
            $0.position < token.position && $0.serial > token.serial
        }
        saved = isLeft ? nil : token.position
        branches.removeAll { $0.serial <= token.serial }
    }
}

/// The moment at which a document's contents were taken for saving. Changes made after it stay
/// unsaved when these contents are written.
public struct ChangeCountToken: Hashable, Sendable {
    let position: Int
    let serial: UInt64
}
