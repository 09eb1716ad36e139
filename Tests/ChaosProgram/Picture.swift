/// A picture of a document's history on all devices: one column for each device, time from top to
/// bottom, and a line from each content to what was made from it.
struct Picture {
    private let document: String
    private let events: [Event]
    private let actors: [String]
    private let rowHeight = 22
    private let columnWidth = 330

    /// - Parameter document: A path as in the history.
    init(of document: String, events: [Event]) {
        self.document = document
        let concerning = events.filter {
            $0.path == document || $0.kind == .fault || $0.verb?.contains(document) == true
        }
        // An action is shown once, at its end.
        let shown = concerning.filter { $0.kind != .began }
        let first = shown.firstIndex { $0.kind != .fault } ?? 0
        self.events = Array(shown[first...])
        actors = Set(self.events.map(\.actor)).sorted()
    }

    var svg: String {
        let (width, height) = (actors.count * columnWidth + 80, (events.count + 3) * rowHeight)
        var lines = [
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"\(width)\" height=\"\(height)\" "
                + "font-family=\"monospace\" font-size=\"11\">",
            "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>",
            text(8, 14, document, "black"),
        ]
        for (column, actor) in actors.enumerated() {
            let x = self.x(column)
            lines.append(text(x + 8, 32, actor, "black"))
            lines.append(
                "<line x1=\"\(x)\" y1=\"36\" x2=\"\(x)\" y2=\"\(height)\" stroke=\"#ccc\"/>")
        }
        lines += ancestry
        for (row, event) in events.enumerated() { lines += marks(event, row) }
        return (lines + ["</svg>"]).joined(separator: "\n")
    }

    private func x(_ column: Int) -> Int { 70 + column * columnWidth }
    private func y(_ row: Int) -> Int { 36 + (row + 1) * rowHeight }
    private func column(_ event: Event) -> Int { actors.firstIndex(of: event.actor) ?? 0 }

    /// Returns lines from the last place where a content was written to where another one was made
    /// from it.
    private var ancestry: [String] {
        var written: [String: (Int, Int)] = [:]
        var lines: [String] = []
        for (row, event) in events.enumerated() where event.kind == .did && event.isOK {
            let here = (x(column(event)), y(row))
            if let base = event.base, let from = written[base] {
                lines.append(
                    "<path d=\"M\(from.0) \(from.1) C\(from.0 - 30) \(from.1) \(here.0 - 30) "
                        + "\(here.1) \(here.0) \(here.1)\" stroke=\"#69c\" fill=\"none\"/>")
            }
            if let content = event.content { written[content] = here }
        }
        return lines
    }

    private func marks(_ event: Event, _ row: Int) -> [String] {
        let (x, y) = (x(column(event)), y(row))
        let color = color(event)
        return [
            text(4, y + 4, "\(event.at) ms", "#888"),
            "<circle cx=\"\(x)\" cy=\"\(y)\" r=\"4\" fill=\"\(color)\"/>",
            text(x + 8, y + 4, words(event), color),
        ]
    }

    private func words(_ event: Event) -> String {
        let what = (event.verb ?? []).filter { $0 != document }.joined(separator: " ")
        let outcome = event.isOK || event.outcome == nil ? "" : " → \(event.outcome ?? "")"
        let number = event.action.map { "\($0) " } ?? ""
        let detail = event.kind == .fault ? "" : event.detail.map { " (\($0))" } ?? ""
        let kind = event.kind == .did || event.kind == .fault ? "" : "\(event.kind) "
        return "\(number)\(kind)\(what) \(event.writers ?? "")\(outcome)\(detail)"
    }

    private func color(_ event: Event) -> String {
        switch event.kind {
        case .fault: "#c60"
        case .version: event.detail == "conflict" ? "#c0c" : "#888"
        case .item, .left: "#080"
        case .promised: "#06c"
        default: event.isOK || event.outcome == nil ? "black" : "#c00"
        }
    }

    private func text(_ x: Int, _ y: Int, _ words: String, _ color: String) -> String {
        let plain = words.prefix(60).map { character in
            switch character {
            case "<": "&lt;"
            case "&": "&amp;"
            default: String(character)
            }
        }
        return "<text x=\"\(x)\" y=\"\(y)\" fill=\"\(color)\">\(plain.joined())</text>"
    }
}
