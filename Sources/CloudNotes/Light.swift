import FileCoordination

/// The state of a note as a colour, and as a word for people who do not see colours.
enum Light: Equatable {
    case closed, green, yellow
    case red(String)

    @MainActor init(_ note: Note) {
        let state = note.documentState
        if state.contains(.closed) {
            self = .closed
        } else if state.contains(.savingError) {
            self = .red(note.trouble)
        } else {
            self = state.contains(.inConflict) ? .yellow : .green
        }
    }

    var word: String {
        switch self {
        case .closed: "closed"
        case .green: "saved"
        case .yellow: "in conflict: C-r settles it"
        case .red(let trouble): "not saved: \(trouble)"
        }
    }

    var style: Style {
        switch self {
        case .closed: .dim
        case .green: .green
        case .yellow: .yellow
        case .red: .red
        }
    }
}
