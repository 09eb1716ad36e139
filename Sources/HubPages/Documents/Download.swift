import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// Sends the contents of a document, or of one file in a package.
struct Download {
    private let place: Place
    /// Whether the browser shows the contents instead of storing them.
    private let isPreview: Bool

    init(_ place: Place, isPreview: Bool) {
        self.place = place
        self.isPreview = isPreview
    }

    /// The address names the version (`revision`), and the file of a package by its number
    /// (`entry`).
    func answer() async throws -> Response {
        let query = try place.session.call.query
        let document = Document(place)
        let revision = try await document.revision(query["revision"])
        // A link shows the present contents only. Former versions may have what was removed.
        guard place.session.visit == nil || revision.id == place.item.current?.id else {
            throw PageOperation.changed
        }
        let entry = try await document.file(
            query["entry"].flatMap { Int($0) } ?? 0, of: revision)
        let name =
            entry.path.isEmpty
            ? place.item.name
            : String(
                decoding: entry.path.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
        let content = try place.content(entry)
        // It counts in the budget of the contents now.
        try place.session.budget.hold(0)
        return answer(content, of: revision, named: name)
    }

    private func answer(_ content: Content, of revision: Revision, named name: String) -> Response {
        let type = FileType(name: name)
        var headers = Answer.headers
        headers[.contentType] = type.media
        headers[.acceptRanges] = "bytes"
        headers[.cacheControl] = "private, no-store"
        headers[.contentSecurityPolicy] = policy(type)
        headers[.contentDisposition] = disposition(name, type)
        // The address does not say which version it is, and parts of two versions must not be put
        // together.
        let tag = "\"\(revision.id)\""
        headers[.eTag] = tag
        let request = place.session.call.request.headers
        let isOther = request[.ifRange].map { $0 != tag } ?? false
        return content.response(range: isOther ? nil : request[.range], headers)
    }

    /// A document is anything that somebody has written, so it has no rights: no script, no style
    /// from elsewhere, no origin. Browsers' viewers of PDF do not work in a sandbox; they run no
    /// script of the page's origin.
    private func policy(_ type: FileType) -> String {
        let rules = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
        return isPreview && type.preview == .pdf ? rules : "sandbox; " + rules
    }

    private func disposition(_ name: String, _ type: FileType) -> String {
        let shows = isPreview && type.preview != nil
        let plain = name.utf8.map { byte -> UInt8 in
            (32..<127).contains(byte) && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
                && byte != UInt8(ascii: "%") ? byte : UInt8(ascii: "_")
        }
        return (shows ? "inline" : "attachment")
            + "; filename=\"\(String(decoding: plain, as: UTF8.self))\""
            + "; filename*=UTF-8''\(Fields.encoded(name))"
    }
}
