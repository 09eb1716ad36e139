import HubProtocol
import Model

extension HubClient {
    func links(_ volume: Identifier) throws(HubFault) -> ShareLinkList {
        let answer: ShareLinkList = try ask(
            .GET, Routes.volume(volume, .links), limit: HubLimits.bodyBytes)
        try refuse(answer.objection)
        return answer
    }

    func change(_ volume: Identifier, _ request: ShareLinkRequest) throws(HubFault)
        -> ShareLinkList
    {
        let answer: ShareLinkList = try planner(
            .POST, Routes.volume(volume, .links), request, limit: HubLimits.bodyBytes)
        try refuse(answer.objection)
        return answer
    }
}

extension Membership {
    /// The links to documents of the volume that this account may revoke.
    package func links() throws(VolumeError) -> ShareLinkList {
        guard let engine, let account else { throw notSignedIn }
        do throws(HubFault) { return try engine.client.links(account.volume) } catch {
            throw VolumeError(error)
        }
    }

    /// Makes or revokes a link.
    package func change(_ request: ShareLinkRequest) throws(VolumeError) -> ShareLinkList {
        guard let engine, let account else { throw notSignedIn }
        if let objection = request.objection { throw VolumeError(.invalid, objection) }
        do throws(HubFault) { return try engine.client.change(account.volume, request) } catch {
            throw VolumeError(error)
        }
    }
}
