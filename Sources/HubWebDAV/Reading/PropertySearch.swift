import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model
import NIOCore
import Reconcile

/// Answers a PROPFIND. A directory is sent while it is read.
struct PropertySearch {
    private let place: Place
    private var session: Session { place.session }

    init(_ place: Place) { self.place = place }

    func answer() async throws -> Response {
        let depth = try session.depth()
        guard depth != .infinity else {
            throw Refusal(
                403, "This hub lists one folder at a time: send the header Depth: 1 or 0.",
                condition: "<D:propfind-finite-depth/>")
        }
        let request = try PropertyRequest(try await session.element())
        let locks = try await locks(request)
        let shown = ShownLocks(
            locks: locks?.covering(place) ?? [], label: place.address.parts.first ?? "",
            time: session.now)
        var first = try await own(request, shown).response(to: request)
        guard depth == .one else { return response(first) }
        switch try place.existing() {
        case .top:
            for (label, _) in try await labels().all {
                let address = place.address.appending(label)
                first += Properties(.volumeRoot, at: address).response(to: request)
            }
        case .item(let item) where item.kind == .directory:
            return try await list(item, after: first, request, shown, locks?.all ?? [])
        case .item(let item) where item.kind == .package:
            first += try await parts(of: item, below: [], request)
        case .part(let entry, let package) where entry.kind == .directory:
            first += try await parts(
                of: package, below: entry.path + [UInt8(ascii: "/")], request)
        default: break
        }
        return response(first)
    }

    private func locks(_ request: PropertyRequest) async throws -> Locks? {
        guard let volume = place.access?.volume, request.showsLocks else { return nil }
        return try await Locks(volume, session)
    }

    private func labels() async throws -> VolumeLabels {
        let account = session.caller.account
        return VolumeLabels(
            try await session.hub.ledger.read { try $0.membership.accessible(to: account) })
    }

    /// The properties of the target itself.
    private func own(_ request: PropertyRequest, _ shown: ShownLocks) async throws -> Properties {
        var properties: Properties
        switch try place.existing() {
        case .item(let item):
            properties = Properties(item, at: place.address)
            properties.locks = shown
        case .part(let entry, let package):
            properties = Properties(entry, of: package, at: place.address)
        default: return Properties(top: place.address)
        }
        let names = ["quota-available-bytes", "quota-used-bytes"]
        if names.contains(where: { request.wants(.dav($0)) }), properties.isCollection {
            properties.quota = try await quota()
        }
        return properties
    }

    private func quota() async throws -> (available: UInt64, used: UInt64)? {
        guard let owner = place.access?.volume.account,
            let account = try await session.hub.ledger.read({ try $0.account(owner) }),
            let quota = account.quota
        else { return nil }
        return (quota - min(quota, account.used), account.used)
    }

    // MARK: The members of a collection

    private func parts(
        of package: ItemState, below path: [UInt8], _ request: PropertyRequest
    ) async throws -> String {
        guard let volume = place.access?.volume.id, let current = package.current else { return "" }
        let entries = try await session.hub.ledger.read {
            [budget = session.budget] in
            try Content.entries(of: current.id, in: volume, $0, holding: budget) { _, entry in
                let name = entry.path.dropFirst(path.count)
                return entry.kind != .symlink && entry.path.starts(with: path) && !name.isEmpty
                    && !name.contains(UInt8(ascii: "/"))
            }
        }
        var text = ""
        for entry in entries {
            let bytes = entry.path.dropFirst(path.count)
            guard let name = String(validating: bytes, as: UTF8.self) else { continue }
            text += Properties(entry, of: package, at: place.address.appending(name))
                .response(to: request)
        }
        try session.budget.hold(text.utf8.count)
        return text
    }

    private func list(
        _ folder: ItemState, after first: String, _ request: PropertyRequest,
        _ shown: ShownLocks, _ locks: [Lock]
    ) async throws -> Response {
        guard let volume = place.access?.volume.id else { throw Place.nothing }
        var pages = ChildPages(
            of: folder.id, in: volume, session.hub, for: session.caller)
        // The first page is read before the answer begins, because only until then a failure can
        // have a status of its own.
        let page = try await pages.next()
        let (rest, address, budget) = (pages, place.address, session.budget)
        return Response(
            status: .init(code: 207), headers: PropertySearch.headers,
            body: ResponseBody { writer in
                // The budget counts the request until its answer has ended.
                defer { withExtendedLifetime(budget) {} }
                var (pages, page) = (rest, page)
                try await writer.write(ByteBuffer(string: PropertySearch.start + first))
                while let items = page {
                    var text = ""
                    for item in items where item.kind != .symlink {
                        var properties = Properties(item, at: address.appending(item.name))
                        properties.locks = shown.ofMember(item, from: locks)
                        text += properties.response(to: request)
                        guard text.utf8.count >= PropertySearch.pieceBytes else { continue }
                        try await writer.write(ByteBuffer(string: text))
                        text = ""
                    }
                    if !text.isEmpty { try await writer.write(ByteBuffer(string: text)) }
                    page = try await pages.next()
                }
                try await writer.write(ByteBuffer(string: PropertySearch.end))
                try await writer.finish(nil)
            })
    }

    // MARK: Answers

    /// The length from which a part of an answer is sent, so that little of it is in memory.
    private static let pieceBytes = 64 << 10

    static let start = Markup.declaration + "<D:multistatus xmlns:D=\"DAV:\">\n"
    static let end = "</D:multistatus>\n"

    private static var headers: HTTPFields {
        var headers = Reply.headers
        headers[.contentType] = "application/xml; charset=utf-8"
        return headers
    }

    private func response(_ responses: String) -> Response {
        Reply.multiStatus(responses)
    }
}

extension Reply {
    static func multiStatus(_ responses: String) -> Response {
        xml(207, "<D:multistatus xmlns:D=\"DAV:\">\n\(responses)</D:multistatus>\n")
    }
}
