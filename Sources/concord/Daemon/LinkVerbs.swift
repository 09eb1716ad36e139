import Control
import HubProtocol
import Model
import Sync
import Volume

/// The verbs about links for people without an account.
struct LinkVerbs {
    let volume: Volume
    let membership: Membership

    func answer(_ request: Request) throws(VolumeError) -> Answer {
        guard try request.known() == .link else { return .links(try list(request)) }
        switch request.change {
        case ShareLinkRequest.Change.make.rawValue?: return .links(try make(request))
        case ShareLinkRequest.Change.revoke.rawValue?:
            guard let id = request.link.flatMap({ Identifier($0) }) else {
                throw request.missing("link")
            }
            return .links(report(try membership.change(ShareLinkRequest(revoking: id))))
        case nil: throw request.missing("change")
        case let other?:
            throw VolumeError(.invalid, "\"\(other)\" is neither make nor revoke")
        }
    }

    private func make(_ request: Request) throws(VolumeError) -> LinksReport {
        let path = try request.components()
        guard !path.isEmpty else {
            throw VolumeError(.invalid, "a link leads to a document, not to a volume")
        }
        guard let document = try volume.history.document(at: path) else {
            throw VolumeError(
                .notFound,
                "\(path.shown) is not a document of this volume: only files and packages have links"
            )
        }
        let list = try membership.change(
            ShareLinkRequest(
                linkTo: document.id, edits: request.edits ?? false, password: request.password,
                ends: request.time))
        var report = report(list)
        let hub = membership.account?.address.text ?? ""
        report.address = list.token.map { "\(hub)\(Routes.links)/\($0)" }
        return report
    }

    /// All links, or those to the documents at and below a path.
    private func list(_ request: Request) throws(VolumeError) -> LinksReport {
        var list = try membership.links()
        guard request.path != nil else { return report(list) }
        let path = try request.components()
        let document = try volume.history.document(at: path)?.id
        list.links = list.links.filter { link in
            path.isEmpty || link.item == document || link.path.hasPrefix(path.shown + "/")
        }
        return report(list)
    }

    private func report(_ list: ShareLinkList) -> LinksReport {
        LinksReport(
            links: list.links.map { link in
                LinksReport.Link(
                    id: link.id.description, path: link.path, maker: link.maker,
                    edits: link.edits, password: link.hasPassword, made: link.made,
                    ends: link.ends, used: link.used, ended: link.hasEnded,
                    deleted: link.isDeleted)
            })
    }
}
