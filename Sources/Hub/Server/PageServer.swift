import Hummingbird

/// Answers paths that are not part of the protocol: pages that people see in a browser, or WebDAV.
package protocol PageServer: Sendable {
    /// The name of these paths in the metrics.
    var route: String { get }

    /// Whether the path, which may have a query, is one of these.
    func owns(_ path: String) -> Bool

    /// Returns an answer to each request, also if it is refused or the hub fails.
    func answer(_ request: Request, from client: PageClient) async -> Response
}

/// The client of a request to a page.
package struct PageClient: Sendable {
    /// The client's IP address; behind a local proxy, the address that the proxy names.
    package let address: String
    /// Whether the client's connection is encrypted, here or at a local proxy.
    package let isEncrypted: Bool
}
