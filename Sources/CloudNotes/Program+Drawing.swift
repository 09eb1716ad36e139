import FileCoordination
import Foundation

// Draws the screen.
extension Program {
    func draw() {
        guard let terminal else { return }
        var screen = Screen(terminal.size)
        if let note, conflicts.isEmpty {
            draw(note, &screen)
        } else if note != nil {
            drawConflicts(&screen)
        } else {
            drawList(&screen)
        }
        terminal.show(screen)
    }

    private func drawList(_ screen: inout Screen) {
        let title = list.presentedItemURL?.lastPathComponent ?? ""
        screen.add((.reverse, " \(title) "))
        if entries.isEmpty { screen.add((.dim, "No notes yet: n makes one.")) }
        let width = min(30, screen.columns / 2)
        let room = screen.room
        let top = max(0, min(selected - room / 2, entries.count - room))
        for (number, entry) in entries.enumerated().dropFirst(top).prefix(room) {
            let name = entry.name.prefix(fitting: width - 1)
            let gap = String(repeating: " ", count: max(1, width - name.width))
            screen.add(
                (entry.isInConflict ? .yellow : .dim, entry.isInConflict ? "● " : "  "),
                (number == selected ? .reverse : .plain, name),
                (.plain, gap), (.dim, entry.preview))
        }
        finish(&screen, "Enter open  n new  r rename  d delete  q quit")
    }

    private func draw(_ note: Note, _ screen: inout Screen) {
        let light = Light(note)
        let isUnsaved = light == .green && note.hasUnsavedChanges
        screen.add(
            (.reverse, " \(note.fileURL.lastPathComponent) "), (.plain, "  "),
            (light.style, "● \(isUnsaved ? "saving" : light.word)"))
        if let progress = note.progress {
            screen.add((.dim, "downloading: \(Int(progress.fractionCompleted * 100)) %"))
        }
        if !note.attachments.isEmpty {
            screen.add((.dim, "with " + note.attachments.keys.sorted().joined(separator: ", ")))
        }
        let (start, rows) = (screen.count, screen.room)
        let shown = buffer.shown(columns: screen.columns, rows: rows)
        for line in shown.lines { screen.add((.plain, line)) }
        screen.cursor = (start + shown.cursor.row, shown.cursor.column)
        finish(&screen, "Esc list  C-z undo  C-y redo  C-a attach  C-r conflicts  C-c quit")
    }

    private func drawConflicts(_ screen: inout Screen) {
        screen.add((.yellow, "● Several versions were saved at the same time. Which one to keep?"))
        for (number, conflict) in conflicts.enumerated() {
            screen.add(
                (number == pointed ? .reverse : .plain, conflict.origin),
                (.dim, conflict.isCurrent ? "  (shown now)" : ""))
        }
        screen.add()
        var text = TextBuffer()
        text.text = conflicts[pointed].text
        for line in text.shown(columns: screen.columns, rows: screen.room).lines {
            screen.add((.plain, line))
        }
        finish(&screen, "Up Down choose  k keep this one  b keep both  Esc later")
    }

    private func finish(_ screen: inout Screen, _ keys: String) {
        guard let prompt else { return screen.finish(message.isEmpty ? keys : message) }
        let question = "\(prompt.question): "
        screen.finish(question + prompt.answer.text)
        let before = String(prompt.answer.text.prefix(prompt.answer.column))
        screen.cursor = (screen.rows - 1, question.width + before.width)
    }
}
