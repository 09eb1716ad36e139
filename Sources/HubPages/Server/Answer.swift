import HTTPTypes
import Hummingbird
import NIOCore

/// How pages are answered.
enum Answer {
    /// Nothing may come from elsewhere, nothing in a page itself is a script or a style, and no
    /// other site may show a page in a frame.
    private static let policy = """
        default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
        connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; \
        frame-ancestors 'none'
        """

    /// The headers of every answer.
    static let headers: HTTPFields = [
        .xContentTypeOptions: "nosniff", .referrerPolicy: "same-origin",
        .resourcePolicy: "same-origin", .openerPolicy: "same-origin",
        .cacheControl: "no-store",
    ]

    static func page(
        _ template: String, _ view: Any, status: HTTPResponse.Status = .ok
    ) -> Response {
        let text = Templates.render(template, view)
        var headers = Answer.headers
        headers[.contentType] = "text/html; charset=utf-8"
        headers[.contentSecurityPolicy] = policy
        headers[.frameOptions] = "DENY"
        headers[.contentLength] = String(text.utf8.count)
        return Response(
            status: status, headers: headers,
            body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
    }

    static func redirect(to address: String) -> Response {
        var headers = Answer.headers
        headers[.location] = address
        headers[.contentLength] = "0"
        return Response(status: .seeOther, headers: headers)
    }

    /// An empty page that loads the same address again at once.
    static var reload: Response {
        var answer = page("reload", [String: String]())
        answer.headers[.refresh] = "0"
        return answer
    }
}

extension HTTPField.Name {
    static let referrerPolicy = HTTPField.Name("Referrer-Policy")!
    static let resourcePolicy = HTTPField.Name("Cross-Origin-Resource-Policy")!
    static let openerPolicy = HTTPField.Name("Cross-Origin-Opener-Policy")!
    static let frameOptions = HTTPField.Name("X-Frame-Options")!
    static let refresh = HTTPField.Name("Refresh")!
}
