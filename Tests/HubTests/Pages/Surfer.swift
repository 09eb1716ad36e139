import AsyncHTTPClient
import Foundation
import Hub
import HubProtocol
import Model
import NIOCore
import Support

/// A browser without a screen: it keeps cookies, follows no redirects, and runs no scripts.
struct Surfer: Sendable {
    let url: String
    var cookies: [String: String] = [:]
    /// Headers of every request.
    var headers: [String: String] = [:]

    private static let client = HTTPClient(
        eventLoopGroupProvider: .singleton, configuration: .init(redirectConfiguration: .disallow))

    struct Page: Sendable {
        let status: Int
        let headers: [(name: String, value: String)]
        let bytes: [UInt8]

        subscript(header: String) -> String { all(header).joined(separator: ", ") }
        func all(_ header: String) -> [String] {
            headers.filter { $0.name.lowercased() == header.lowercased() }.map(\.value)
        }
        var text: String { String(decoding: bytes, as: UTF8.self) }

        /// The values of a hidden field.
        func fields(_ name: String) -> [String] {
            let mark = "<input type=\"hidden\" name=\"\(name)\" value=\""
            return text.components(separatedBy: mark).dropFirst().map {
                String($0.prefix { $0 != "\"" })
            }
        }

        /// The hidden fields, and others that have a value, of the form that goes to this address.
        func form(to address: String, nth: Int = 0) throws -> [(String, String)] {
            let forms = text.components(separatedBy: "<form").filter {
                $0.prefix { $0 != ">" }.contains("action=\"\(address)\"")
            }
            guard forms.indices.contains(nth) else { throw SupportError("no form to \(address)") }
            let body = forms[nth].components(separatedBy: "</form>")[0]
            return body.matches(of: /name="(\w+)" value="([^"]*)"/).map {
                (String($0.1), String($0.2))
            }
        }

        /// The text without elements, and with characters in place of their names.
        var prose: String {
            var text = text.replacing(/<(script|style)[^>]*>.*?<\/\1>/, with: "")
                .replacing(/<[^>]*>/, with: "")
            for (name, character) in [
                ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&"),
            ] { text = text.replacing(name, with: character) }
            return text
        }
    }

    init(_ url: String) { self.url = url }

    mutating func get(
        _ path: String, method: String = "GET", _ more: [String: String] = [:]
    ) async throws -> Page {
        try await send(method, path, nil, more)
    }

    /// Sends a form.
    mutating func post(
        _ path: String, _ fields: [(String, String)], _ more: [String: String] = [:]
    ) async throws -> Page {
        let body = fields.map { "\(Surfer.encoded($0))=\(Surfer.encoded($1))" }
            .joined(separator: "&")
        let type = ["Content-Type": "application/x-www-form-urlencoded"]
        return try await send("POST", path, Array(body.utf8), type.merging(more) { $1 })
    }

    /// Sends a form with files, as browsers do.
    mutating func upload(
        _ path: String, _ fields: [(String, String)],
        _ files: [(name: String, contents: [UInt8])], _ more: [String: String] = [:]
    ) async throws -> Page {
        try await send(
            "POST", path, Surfer.multipart(fields, files), Surfer.type.merging(more) { $1 })
    }

    static let boundary = "----WebKitFormBoundaryx7MA4YWxkTrZu0gW"
    static let type = ["Content-Type": "multipart/form-data; boundary=\(boundary)"]

    static func multipart(
        _ fields: [(String, String)], _ files: [(name: String, contents: [UInt8])]
    ) -> [UInt8] {
        func escaped(_ name: String) -> String {
            String(
                name.unicodeScalars.flatMap { scalar -> [Character] in
                    switch scalar {
                    case "\"": Array("%22")
                    case "\r": Array("%0D")
                    case "\n": Array("%0A")
                    default: [Character(scalar)]
                    }
                })
        }
        var bytes: [UInt8] = []
        for (name, value) in fields {
            bytes +=
                "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(name)\"\r\n\r\n".utf8
            bytes += Array(value.utf8) + Array("\r\n".utf8)
        }
        for file in files {
            bytes += "--\(boundary)\r\nContent-Disposition: form-data; name=\"files\"; ".utf8
            bytes += "filename=\"\(escaped(file.name))\"\r\n".utf8
            bytes += "Content-Type: application/octet-stream\r\n\r\n".utf8
            bytes += file.contents + Array("\r\n".utf8)
        }
        return bytes + Array("--\(boundary)--\r\n".utf8)
    }

    mutating func send(
        _ method: String, _ path: String, _ body: [UInt8]?, _ more: [String: String]
    ) async throws -> Page {
        var request = HTTPClientRequest(url: url + path)
        request.method = .init(rawValue: method)
        for (name, value) in headers.merging(more, uniquingKeysWith: { $1 }) {
            request.headers.add(name: name, value: value)
        }
        if !cookies.isEmpty {
            let value = cookies.map { "\($0)=\($1)" }.joined(separator: "; ")
            request.headers.add(name: "Cookie", value: value)
        }
        if let body { request.body = .bytes(ByteBuffer(bytes: body)) }
        let response = try await Surfer.client.execute(request, timeout: .seconds(60))
        let bytes = try await response.body.collect(upTo: 1 << 28)
        for header in response.headers["Set-Cookie"] {
            let pair = header.prefix { $0 != ";" }.split(
                separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let isRemoved = header.contains("Max-Age=0")
            cookies[String(pair[0])] = isRemoved ? nil : String(pair[1])
        }
        return Page(
            status: Int(response.status.code), headers: response.headers.map { ($0, $1) },
            bytes: Array(bytes.readableBytesView))
    }

    static func encoded(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    }

    /// Loads the form for signing in, and sends it.
    mutating func signIn(_ code: String, to target: String = "", stays: Bool = false)
        async throws -> Page
    {
        let form = try await get(
            "/web/signin" + (target.isEmpty ? "" : "?to=\(Surfer.encoded(target))"))
        var fields = [("code", code), ("to", form.fields("to").first ?? "")]
        fields.append(("token", form.fields("token").first ?? ""))
        if stays { fields.append(("stay", "1")) }
        return try await post("/web/signin", fields)
    }
}

extension RunningHub {
    func code(_ user: String = "anna") async throws -> String {
        let administration = try self.administration()
        if try await !administration.accounts().contains(where: { $0.name == user }) {
            try await administration.addAccount(user, quota: nil)
        }
        let code = try await administration.invite(user)
        try administration.close()
        return code
    }

    /// A browser in which the user is signed in.
    func surfer(_ user: String = "anna") async throws -> Surfer {
        var surfer = Surfer(url)
        let answer = try await surfer.signIn(try await code(user))
        guard answer.status == 303 else { throw SupportError("not signed in: \(answer.text)") }
        return surfer
    }
}

extension RunningHub {
    /// The fields of the form that sends files to the root of the device's volume, and the cookie
    /// of the browser that has it.
    func form(of device: TestDevice) async throws -> (fields: [(String, String)], cookie: String) {
        var browser = try await surfer()
        let volume = "/web/v/\(device.volume.id)"
        let page = try await browser.get(volume)
        let cookie = browser.cookies.map { "\($0)=\($1)" }.joined(separator: "; ")
        return (try page.form(to: "\(volume)/\(Identifier.root)/upload"), cookie)
    }
}
