import HTTPTypes
import Hummingbird

/// The headers `If-Match`, `If-None-Match` and `If-Range` (RFC 9110).
struct Conditions {
    private let request: Request

    init(_ request: Request) { self.request = request }

    /// - Throws: A refusal with the status 412. `If-None-Match` of a reader is not decided here.
    func check(exists: Bool, tag: String?) throws(Refusal) {
        if let wanted = tags(.ifMatch), !wanted.contains(where: { isNamed($0, exists, tag) }) {
            throw Refusal(
                412,
                "The document has changed since your program read it (If-Match). Nothing was "
                    + "done: read it again.")
        }
        let isReading = [.get, .head].contains(request.method)
        if !isReading, let refused = tags(.ifNoneMatch),
            refused.contains(where: { isNamed(weak($0), exists, tag) })
        {
            throw Refusal(412, "There is such a document already (If-None-Match).")
        }
    }

    private func isNamed(_ wanted: String, _ exists: Bool, _ tag: String?) -> Bool {
        wanted == "*" ? exists : wanted == tag
    }

    /// Whether the client has the same contents already.
    func isFresh(tag: String?) -> Bool {
        tags(.ifNoneMatch)?.contains { $0 == "*" || weak($0) == tag } ?? false
    }

    /// Whether a range is wanted, and not the whole because it has changed.
    func appliesRange(tag: String?) -> Bool {
        request.headers[.ifRange].map { Markup.trimmed($0) == tag } ?? true
    }

    /// If-None-Match compares weakly.
    private func weak(_ tag: String) -> String {
        tag.hasPrefix("W/") ? String(tag.dropFirst(2)) : tag
    }

    private func tags(_ name: HTTPField.Name) -> [String]? {
        let values = request.headers[values: name]
        guard !values.isEmpty else { return nil }
        return values.flatMap { $0.split(separator: ",").map { Markup.trimmed(String($0)) } }
    }
}
