import ChunkStore
import HTTPTypes
import HubProtocol
import Hummingbird
import Model
import NIOCore

/// The files that all pages use: style, script and icon.
struct Asset: Sendable {
    let name: String
    let type: String
    let bytes: [UInt8]

    /// The address contains a hash of the contents, so browsers may keep the file for ever.
    let address: String

    private init(_ name: String, _ type: String, _ bytes: [UInt8]) {
        let hash = hexadecimal(Digest.sha256(bytes).bytes.dropFirst().prefix(6))
        self.name = name
        self.type = type
        self.bytes = bytes
        address = "\(PagePath.top)/assets/\(hash)-\(name)"
    }

    static let style = Asset(
        "pages.css", "text/css; charset=utf-8", PackageResources.pages_css)
    static let script = Asset(
        "pages.js", "text/javascript; charset=utf-8", PackageResources.pages_js)
    static let icon = Asset("icon.svg", "image/svg+xml", PackageResources.icon_svg)
    static let icons = Asset("icons.svg", "image/svg+xml", PackageResources.icons_svg)

    private static let all = [style, script, icon, icons]

    /// - Throws: `.notFound`.
    static func answer(_ name: String) throws(Failure) -> Response {
        guard let asset = all.first(where: { $0.address.hasSuffix("/\(name)") }) else {
            throw Failure(.notFound, "There is no such file among the hub's pages.")
        }
        var headers = Answer.headers
        headers[.contentType] = asset.type
        headers[.contentLength] = String(asset.bytes.count)
        headers[.contentSecurityPolicy] = "default-src 'none'; sandbox"
        headers[.cacheControl] = "public, max-age=31536000, immutable"
        return Response(
            status: .ok, headers: headers,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: asset.bytes)))
    }
}
