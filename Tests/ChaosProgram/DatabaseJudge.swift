/// Judges the databases that one device alone writes: each committed row is there, no row is
/// invented, and each version is a whole database.
struct DatabaseJudge {
    let device: String
    private let events: [Event]
    private(set) var findings: [(Event, Violation.Kind, String)] = []

    init(device: String, events: [Event]) {
        self.device = device
        self.events = events.filter { $0.path.map(Database.isNamed) == true }
    }

    mutating func run() {
        let mine = events.filter { $0.actor == device && $0.verb?.first == "transact" }
        let begun = Set(mine.filter { $0.kind == .began }.flatMap { $0.rows ?? [] })
        let committed = Set(mine.filter { $0.kind == .did }.flatMap { $0.rows ?? [] })
        var found: Set<String> = []
        for event in events where event.kind == .item || event.kind == .version {
            guard let path = event.path, Checker.owner(of: path) == device, let rows = event.rows
            else { continue }
            if event.content == "damaged" {
                findings.append((event, .invented, "the database is damaged on \(event.actor)"))
            }
            let invented = rows.filter { !begun.contains($0) }
            if !invented.isEmpty {
                findings.append((event, .invented, "holds \(invented.prefix(3))"))
            }
            if event.actor == device { found.formUnion(rows) }
        }
        let lost = committed.subtracting(found).sorted()
        guard !lost.isEmpty, let event = mine.last else { return }
        findings.append(
            (event, .lost, "\(lost.count) committed rows: \(lost.prefix(5).joined(separator: " "))")
        )
    }
}
