/// What a device's daemon says of its synchronization.
struct DeviceStatus {
    private let report: VolumeLine.Object
    private let hub: VolumeLine.Object

    /// Returns nil if the device is signed out.
    init?(_ report: VolumeLine.Object) {
        guard let hub = report["hub"] as? VolumeLine.Object else { return nil }
        (self.report, self.hub) = (report, hub)
    }

    /// How far the device has read the hub's journal.
    var cursor: Int { count("cursor", of: hub) }
    var holdsDeletions: Bool { count("held", of: hub) > 0 }

    /// What the device says about documents that need somebody's attention, a line for each.
    var problems: String {
        let atHub = hub["problems"] as? [String: String] ?? [:]
        let lines = (report["problems"] as? [String] ?? []) + atHub.map { "\($0): \($1)" }
        return lines.sorted().joined(separator: "\n")
    }

    /// The beginning of the problem of a document that is not sent because neither the hub nor this
    /// device has its contents.
    static let lost = "It is not at the hub: some of its contents cannot be read on this device."

    /// What the device waits for; nil if it is in step with the hub.
    ///
    /// - Parameter hubLostContents: Whether the hub came back as an older copy of itself, or
    ///   devices were at another one, so that placeholders may be left of what this hub does not
    ///   have.
    func unrest(hubLostContents: Bool = false) -> String? {
        var waiting =
            ["sending", "due"].map { ($0, count($0, of: hub)) }
            + ["pendingEvents", "waitingToBeCut", "unexaminedConflicts"]
            .map { ($0, count($0, of: report)) }
        let lost = hubLostContents ? unsentPaths.count(where: isLost) : 0
        waiting.append(("unsent", count("unsent", of: hub) - unfinished - lost))
        let open = waiting.filter { $0.1 > 0 }.map { "\($0.1) \($0.0)" }
        let (state, head) = (hub["state"] as? String ?? "", count("head", of: hub))
        let isScanning = report["scanning"] as? Bool == true
        if open.isEmpty && state == "up" && head == cursor && !isScanning { return nil }
        let reasons = [
            hub["reason"] as? String ?? "", "\(hub["problems"] ?? "")", "\(hub["waiting"] ?? "")",
            "\(report["problems"] ?? "")", "\(report["notices"] ?? "")",
        ]
        return "\(open.joined(separator: ", ")), hub \(state), \(cursor) of \(head)"
            + (isScanning ? ", scanning" : "") + " " + reasons.joined(separator: " ")
    }

    private func count(_ key: String, of object: VolumeLine.Object) -> Int {
        object[key] as? Int ?? 0
    }

    /// How many documents stay unsent until they are saved again, because they are new and a loss
    /// of power may have left only a part of them. The daemon names a few documents only.
    private var unfinished: Int {
        let problems = report["problems"] as? [String] ?? []
        return unsentPaths.count { path in
            problems.contains { $0.hasPrefix("\(path) was being saved when the machine stopped") }
        }
    }

    private var unsentPaths: [String] {
        (hub["waiting"] as? [VolumeLine.Object] ?? []).compactMap { $0["path"] as? String }
    }

    private func isLost(_ path: String) -> Bool {
        (hub["problems"] as? [String: String])?[path]?.hasPrefix(DeviceStatus.lost) == true
    }
}
