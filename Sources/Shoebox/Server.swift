import FileCoordination
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import ServiceLifecycle

/// Why a request fails: a status and a sentence.
struct Failure: LocalizedError {
    let status: HTTPResponse.Status
    let errorDescription: String?

    init(_ status: HTTPResponse.Status, _ sentence: String) {
        (self.status, errorDescription) = (status, sentence)
    }
}

/// Serves the page on this machine only, to browsers that know the token.
struct Server {
    let shoebox: Shoebox
    /// 0 chooses a free port.
    let port: Int
    /// A secret in the page's address, because other users of this machine can connect, too.
    private let token = (0..<4).map { _ in
        String(UInt32.random(in: .min ... .max), radix: 16)
    }.joined()

    func run() async throws {
        var log = Logger(label: "shoebox")
        log.logLevel = .warning
        let router = Router()
        let group = router.group("/\(token)").add(middleware: Faults())
        group.get("/") { _, _ in answer(Page.html, "text/html; charset=utf-8") }
        group.get("/shoebox.js") { _, _ in answer(Page.script, "text/javascript") }
        group.get("/shoebox.css") { _, _ in answer(Page.style, "text/css") }
        group.get("/pictures") { _, _ in try answer(shoebox.pictures) }
        group.get("/events") { _, _ in events() }
        group.get("/picture") { request, _ in
            let url = try shoebox.url(of: request.uri.queryParameters.require("path"))
            return answer(try await shoebox.contents(of: url), type(of: url), isKept: true)
        }
        group.get("/rivals") { request, _ in
            let url = try shoebox.url(of: request.uri.queryParameters.require("path"))
            return try answer(await shoebox.rivals(of: url))
        }
        group.get("/version") { request, _ in
            let url = try shoebox.url(of: request.uri.queryParameters.require("path"))
            let id = try request.uri.queryParameters.require("id")
            return answer(try await shoebox.version(id, of: url), type(of: url), isKept: true)
        }
        group.post("/keep") { request, _ in
            let url = try shoebox.url(of: request.uri.queryParameters.require("path"))
            try await shoebox.keep(request.uri.queryParameters.require("id"), of: url)
            return try answer(["ok": true])
        }
        let application = Application(
            router: router,
            configuration: .init(
                address: .hostname("127.0.0.1", port: port), serverName: "shoebox"),
            onServerRunning: { channel in
                print("http://127.0.0.1:\(channel.localAddress?.port ?? 0)/\(token)/")
                fflush(nil)
            }, logger: log)
        let following = Task { await shoebox.follow() }
        defer { following.cancel() }
        try await application.runService()
    }

    private func type(of url: URL) -> String {
        Picture.types[url.pathExtension.lowercased()] ?? "application/octet-stream"
    }

    private func answer(_ value: some Encodable) throws -> Response {
        answer(try JSONEncoder().encode(value), "application/json")
    }

    private func answer(_ text: String, _ type: String) -> Response {
        answer(Data(text.utf8), type)
    }

    /// - Parameter isKept: Whether the URL names contents that never change.
    private func answer(_ data: Data, _ type: String, isKept: Bool = false) -> Response {
        Response(
            status: .ok,
            headers: [
                .contentType: type, .contentLength: "\(data.count)",
                .cacheControl: isKept ? "private, max-age=86400" : "no-store",
                .contentSecurityPolicy: "default-src 'self'", .xContentTypeOptions: "nosniff",
                .referrerPolicy: "no-referrer",
            ], body: ResponseBody(byteBuffer: ByteBuffer(bytes: data)))
    }

    /// Server-sent events: one at once, and one for each change.
    private func events() -> Response {
        let changes = shoebox.changes
        return Response(
            status: .ok,
            headers: [.contentType: "text/event-stream", .cacheControl: "no-store"],
            body: ResponseBody { writer in
                try await writer.write(ByteBuffer(string: "data: here\n\n"))
                for await _ in changes.cancelOnGracefulShutdown() {
                    try await writer.write(ByteBuffer(string: "data: changed\n\n"))
                }
                try await writer.finish(nil)
            })
    }
}

/// Answers a failed request with its error as a sentence.
private struct Faults: RouterMiddleware {
    @concurrent func handle(
        _ request: Request, context: BasicRequestContext,
        next: @concurrent (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
        do { return try await next(request, context) } catch {
            if error is HTTPError { throw error }
            let status = (error as? Failure)?.status ?? .serviceUnavailable
            return Response(
                status: status, headers: [.contentType: "text/plain; charset=utf-8"],
                body: ResponseBody(byteBuffer: ByteBuffer(string: error.localizedDescription)))
        }
    }
}

extension HTTPField.Name {
    fileprivate static let referrerPolicy = HTTPField.Name("Referrer-Policy")!
}
