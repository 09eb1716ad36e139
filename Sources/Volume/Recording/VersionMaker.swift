import Model

/// Makes new versions. Only the recorder's thread uses it.
final class VersionMaker {
    /// The device named in new versions. It changes when a hub knows this device by another name.
    var device: RecordingDevice
    private var people: [UInt32: String] = [:]

    init(device: RecordingDevice) { self.device = device }

    func append(
        _ cut: CutContent, to recording: inout Recording, snapshot: FileSnapshot,
        _ protection: Protection,
        save: PendingDocument.Save, kind: Version.Kind, after current: Version?
    ) -> Version {
        recording.item.latest += 1
        let version = Version(
            number: recording.item.latest, parents: current.map { [$0.id] } ?? [], kind: kind,
            device: device.id, deviceName: device.name, person: person(save.actor.uid),
            program: save.actor.program, session: save.actor.session,
            name: recording.item.name, size: cut.manifest.size,
            modified: snapshot.modified, saved: save.time, content: cut.digest,
            protection: protection)
        if kind == .current, let current {
            if let index = recording.versions.firstIndex(where: { $0.version.id == current.id }) {
                recording.versions[index].version.kind = .history
            } else {
                recording.outdated.append(current.id)
            }
        }
        recording.versions.append((version, cut.manifest.encoded))
        return version
    }

    func person(_ uid: UInt32) -> String {
        if let account = device.account { return account }
        if let known = people[uid] { return known }
        let name = RecordingDevice.userName(uid)
        people[uid] = name
        return name
    }
}
