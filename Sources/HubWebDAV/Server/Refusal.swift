import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import NIOCore

/// Why a request is refused, where WebDAV asks for another status than that of a `Failure`, or for
/// a precondition.
struct Refusal: Error {
    let status: Int
    let message: String
    /// An element of the namespace `DAV:`, with its content.
    let condition: String?

    init(_ status: Int, _ message: String, condition: String? = nil) {
        self.status = status
        self.message = message
        self.condition = condition
    }

    static let notAllowed = Refusal(405, "This method is not possible here.")
}

/// How requests are answered.
enum Reply {
    /// A document is anything that somebody has written. A browser must give it no rights, because
    /// the hub's pages have the same origin.
    static let headers: HTTPFields = [
        .xContentTypeOptions: "nosniff", .cacheControl: "private, no-store",
        .contentSecurityPolicy: "sandbox; default-src 'none'; frame-ancestors 'none'",
        .resourcePolicy: "same-origin",
    ]

    static func empty(_ status: Int, _ more: HTTPFields = [:]) -> Response {
        var headers = headers
        for field in more { headers[field.name] = field.value }
        if status != 204, status != 304 { headers[.contentLength] = "0" }
        return Response(status: .init(code: status), headers: headers)
    }

    static func xml(_ status: Int, _ text: String, _ more: HTTPFields = [:]) -> Response {
        body(status, Markup.declaration + text, type: "application/xml; charset=utf-8", more)
    }

    private static func body(
        _ status: Int, _ text: String, type: String, _ more: HTTPFields
    ) -> Response {
        var headers = headers
        for field in more { headers[field.name] = field.value }
        headers[.contentType] = type
        headers[.contentLength] = String(text.utf8.count)
        return Response(
            status: .init(code: status), headers: headers,
            body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
    }

    static func refusal(_ refusal: Refusal) -> Response {
        guard let condition = refusal.condition else {
            return body(
                refusal.status, refusal.message + "\n", type: "text/plain; charset=utf-8", [:])
        }
        return xml(
            refusal.status,
            "<D:error xmlns:D=\"DAV:\">\(condition)"
                + "<m:message xmlns:m=\"urn:concord\">\(Markup.escaped(refusal.message))"
                + "</m:message></D:error>\n")
    }

    static func failure(_ failure: Failure) -> Response {
        var condition: String?
        switch failure.code {
        case .quota: condition = "<D:quota-not-exceeded/>"
        case .full: condition = "<D:sufficient-disk-space/>"
        default: break
        }
        var answer = refusal(Refusal(failure.status, failure.message, condition: condition))
        switch failure.code {
        case .unauthenticated:
            answer.headers[.wwwAuthenticate] = "Basic realm=\"Concord\", charset=\"UTF-8\""
        case .tooMany: answer.headers[.retryAfter] = "60"
        case .busy: answer.headers[.retryAfter] = "2"
        default: break
        }
        return answer
    }
}

extension HTTPField.Name {
    static let dav = HTTPField.Name("DAV")!
    static let depth = HTTPField.Name("Depth")!
    static let destination = HTTPField.Name("Destination")!
    static let overwrite = HTTPField.Name("Overwrite")!
    static let ifHeader = HTTPField.Name("If")!
    static let lockToken = HTTPField.Name("Lock-Token")!
    static let timeout = HTTPField.Name("Timeout")!
    static let host = HTTPField.Name("Host")!
    static let author = HTTPField.Name("MS-Author-Via")!
    static let modifiedTime = HTTPField.Name("X-OC-Mtime")!
    static let expectedLength = HTTPField.Name("X-Expected-Entity-Length")!
    static let resourcePolicy = HTTPField.Name("Cross-Origin-Resource-Policy")!
}
