import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// A text that is edited in the page.
struct EditPage {
    private let place: Place
    private let document: Document

    init(_ place: Place) {
        self.place = place
        document = Document(place)
    }

    private struct View {
        let frame: Frame
        let path: [Place.Step]
        let name: String
        let page: String
        let edit: String
        let token: String
        let position: String
        /// The version that the page shows; empty if the document has none.
        let shown: String
        let ends: String
        let text: String
        /// Why the text was not saved.
        let message: String?
    }

    func answer() async throws -> Response {
        try place.checkCanChange()
        guard place.item.kind == .file else {
            throw Failure(.malformed, "Only documents of one file are edited in a page.")
        }
        if place.session.call.request.method == .post { return try await save() }
        guard let current = place.item.current else { return page(EditedText(text: "", ends: .lf)) }
        guard current.size <= UInt64(PageLimits.editedBytes) else {
            let most = Shown.size(UInt64(PageLimits.editedBytes))
            throw Failure(
                .malformed,
                "Only texts of at most \(most) are edited in a page. Use a device for this one.")
        }
        let content = try place.content(try await document.file(of: current))
        let bytes = try await content.beginning(PageLimits.editedBytes)
        guard let text = EditedText(bytes) else {
            throw Failure(
                .malformed,
                "This is not a text that a browser leaves as it is: it is not in UTF-8, or its "
                    + "lines end in several ways. Use a device to edit it.")
        }
        return page(text)
    }

    private func page(
        _ text: EditedText, of shown: String? = nil, _ position: String? = nil,
        _ failure: Failure? = nil
    ) -> Response {
        let root = Place.Step(address: place.address(), name: place.name)
        let view = View(
            frame: Frame(title: "Edit \(place.name)", place.session), path: place.path + [root],
            name: place.name, page: place.address(), edit: place.address(.edit),
            token: place.session.formToken, position: position ?? place.position,
            shown: shown ?? place.item.current?.id.description ?? "", ends: text.ends.rawValue,
            text: text.text, message: failure?.message)
        return Answer.page("edit", view, status: .init(code: failure?.status ?? 200))
    }

    // MARK: Saving

    private func save() async throws -> Response {
        var none = NoFiles()
        // Browsers send each line end as two bytes.
        let limit = 2 * PageLimits.editedBytes + PageLimits.formBytes
        let form = try await MultipartForm(session: place.session, limit: limit).read(&none)
        try place.session.call.check(form, token: place.session.formToken)
        guard let sent = form["text"], let shown = form["shown"],
            let ends = form["ends"].flatMap({ EditedText.Ends(rawValue: $0) })
        else { throw Failure(.malformed, "The form has no text. Nothing was saved.") }
        let text = EditedText(sent: sent, ends: ends)
        let changes = try await place.changes(form)
        do {
            return try await save(text, after: shown, changes).redirect(to: place.address())
        } catch let failure as Failure
            where [.quota, .full, .busy, .tooLarge, .tooMany].contains(failure.code)
        {
            // The person can try again, and does not lose the text.
            return page(text, of: shown, form["position"], failure)
        }
    }

    /// Saves a version that follows the one that the page has shown. If another one was saved
    /// meanwhile, both are kept, in conflict.
    private func save(
        _ text: EditedText, after shown: String, _ changes: VolumeChanges
    ) async throws -> PageOperation.Outcome {
        let bytes = text.bytes
        guard bytes.count <= PageLimits.editedBytes else {
            throw Failure(
                .tooLarge,
                "The text has more than \(Shown.size(UInt64(PageLimits.editedBytes))). Nothing was "
                    + "saved.")
        }
        let old = shown.isEmpty ? nil : try await document.revision(shown)
        var receiver = try await ContentReceiver(
            to: changes.volume, of: changes.hub, for: changes.caller, upTo: UInt64(bytes.count),
            replacing: old?.size ?? 0, place.session.budget)
        try await receiver.append(bytes, beside: 2 * bytes.count)
        let contents = StoredContents(
            try await receiver.finish(beside: 2 * bytes.count), mode: place.item.mode,
            modified: changes.time, changes.names)
        if let old, old.id == place.item.current?.id,
            old.content == changes.names.content(contents.manifest)
        {
            return .unchanged
        }
        let steps = changes.edit(place.item, after: old.map { [$0.id] } ?? [], contents).steps
        switch try await changes.commit(steps).first {
        case .conflict: return .conflict
        case .overruled: throw PageOperation.changed
        default: return .saved
        }
    }
}

/// A text as the field of a form has it. A browser makes all line ends of a field alike.
struct EditedText: Sendable {
    enum Ends: String { case lf, crlf }

    /// With the line ends of the document.
    let text: String
    let ends: Ends

    init(text: String, ends: Ends) {
        self.text = text
        self.ends = ends
    }

    /// Returns nil if a browser would change the text.
    init?(_ bytes: [UInt8]) {
        guard let text = ShownText.text(bytes, isCut: false) else { return nil }
        var (pairs, returns, feeds, last) = (0, 0, 0, UInt8(0))
        for byte in bytes {
            if byte == 0x0D { returns += 1 }
            if byte == 0x0A { if last == 0x0D { pairs += 1 } else { feeds += 1 } }
            last = byte
        }
        guard returns == pairs, pairs == 0 || feeds == 0 else { return nil }
        self.init(text: text, ends: pairs > 0 ? .crlf : .lf)
    }

    /// - Parameter sent: As the browser has sent it.
    init(sent: String, ends: Ends) {
        var (bytes, last) = ([UInt8](), UInt8(0))
        bytes.reserveCapacity(sent.utf8.count)
        for byte in sent.utf8 {
            defer { last = byte }
            if byte == 0x0A, last == 0x0D { continue }
            guard byte == 0x0A || byte == 0x0D else {
                bytes.append(byte)
                continue
            }
            if ends == .crlf { bytes.append(0x0D) }
            bytes.append(0x0A)
        }
        self.init(text: String(decoding: bytes, as: UTF8.self), ends: ends)
    }

    var bytes: [UInt8] { Array(text.utf8) }
}
