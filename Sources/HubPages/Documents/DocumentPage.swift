import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// A document: what it contains, and where it can be downloaded.
struct DocumentPage {
    private let place: Place

    init(_ place: Place) { self.place = place }

    private struct View {
        let frame: Frame
        let path: [Place.Step]
        let name: String
        let kind: String
        let kindText: String
        let isDeleted: Bool
        let size: String?
        let time: ShownTime?
        let device: String?
        let target: String?
        let file: String?
        let preview: Preview?
        let isPackage: Bool
        let parts: [Part]
        let hiddenParts: String?
    }

    /// No name is one of `View`, because the template would take the page's value where this one
    /// is nil.
    private struct Part {
        /// The address of a file.
        let part: String?
        let inner: String
        let bytes: String?
    }

    func answer() async throws -> Response {
        let item = place.item
        let kind = ShownKind(item)
        var (entries, preview) = ([Manifest.Entry](), Preview?.none)
        if let current = item.current {
            let volume = place.volume.id
            entries = try await place.session.hub.ledger.read {
                try $0.entries(of: current.id, in: volume)
            }
            if item.kind == .file, let entry = entries.first {
                preview = try await Preview(place, current, entry)
            }
        }
        let isPackage = item.kind == .package
        let shown = entries.enumerated().prefix(PageLimits.packageEntries)
        let view = View(
            frame: Frame(title: place.name, place.session), path: place.path, name: place.name,
            kind: kind.rawValue, kindText: kind.text, isDeleted: !item.life.isAlive,
            size: item.current.map { Shown.size($0.size) },
            time: item.current.map { ShownTime($0.note.saved) },
            device: item.current.flatMap {
                $0.note.deviceName.isEmpty ? nil : Shown.name($0.note.deviceName)
            },
            target: item.target.map { Shown.name($0) },
            file: item.current == nil || isPackage ? nil : place.address(.file),
            preview: preview, isPackage: isPackage, parts: isPackage ? shown.map(part) : [],
            hiddenParts: entries.count > shown.count
                ? Shown.count(entries.count - shown.count, "more file", "more files") : nil)
        return Answer.page("document", view)
    }

    private func part(_ number: Int, _ entry: Manifest.Entry) -> Part {
        Part(
            part: entry.kind == .file ? place.address(.file) + "?entry=\(number)" : nil,
            inner: Shown.name(String(decoding: entry.path, as: UTF8.self)),
            bytes: entry.kind == .file ? Shown.size(entry.size) : nil)
    }
}
