import HubProtocol
import Model

extension HubClient {
    /// Tells the hub which documents are open on this device.
    package func tell(_ volume: Identifier, _ request: LeaseRequest, seconds: Int64 = 5)
        throws(HubFault)
    {
        let _: Done = try planner(
            .POST, Routes.volume(volume, .leases), request, seconds: seconds)
    }

    /// Asks for documents that only one device may edit.
    package func ask(_ volume: Identifier, _ request: GrantRequest, seconds: Int64)
        throws(HubFault) -> GrantAnswer
    {
        let answer: GrantAnswer = try planner(
            .POST, Routes.volume(volume, .grants), request, seconds: seconds)
        try refuse(answer.objection(to: request))
        return answer
    }

    /// What is open on other devices.
    package func leases(_ volume: Identifier) throws(HubFault) -> LeaseList {
        let answer: LeaseList = try ask(
            .GET, Routes.volume(volume, .leases), limit: HubLimits.bodyBytes)
        try refuse(answer.objection)
        return answer
    }
}
