import HubProtocol
import Model

// Requests about a volume's members and about what devices have.
extension HubClient {
    package func members(_ volume: Identifier) throws(HubFault) -> MemberList {
        let answer: MemberList = try ask(.GET, Routes.volume(volume, .members))
        try refuse(answer.objection)
        return answer
    }

    package func change(_ volume: Identifier, _ request: MemberRequest) throws(HubFault)
        -> MemberList
    {
        let answer: MemberList = try planner(.POST, Routes.volume(volume, .members), request)
        try refuse(answer.objection)
        return answer
    }

    package func holding(
        _ volume: Identifier, _ revisions: [Identifier], gone: [Identifier] = []
    ) throws(HubFault) {
        let _: Done = try planner(
            .POST, Routes.volume(volume, .holding),
            HoldingRequest(revisions: revisions, gone: gone.isEmpty ? nil : gone))
    }

    package func durability(_ volume: Identifier, _ revisions: [Identifier]) throws(HubFault)
        -> [Int?]
    {
        let answer: DurabilityAnswer = try planner(
            .POST, Routes.volume(volume, .durability), RevisionList(revisions: revisions))
        try refuse(answer.objection(toCount: revisions.count))
        return answer.devices
    }

    package func wanted(_ volume: Identifier) throws(HubFault) -> [Digest] {
        let answer: WantedAnswer = try ask(.GET, Routes.volume(volume, .wanted))
        try refuse(answer.objection)
        return answer.chunks.ids
    }
}
