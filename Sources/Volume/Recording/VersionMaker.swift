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
        // Only what replaces the current version can be made by a program that has not seen it.
        let unseen = kind == .current ? recording.unseen.take() : nil
        let parent = unseen.map(\.base) ?? current
        let version = Version(
            number: recording.item.latest, parents: parent.map { [$0.id] } ?? [], kind: kind,
            device: device.id, deviceName: device.name, person: person(save.actor.uid),
            program: save.actor.program, session: save.actor.session,
            name: recording.item.name, size: cut.manifest.size,
            modified: snapshot.modified, saved: save.time, content: cut.digest,
            protection: protection)
        if kind == .current, let current {
            let isUnseen = unseen?.version == current.id
            if let index = recording.versions.firstIndex(where: { $0.version.id == current.id }) {
                recording.versions[index].version.kind = isUnseen ? .conflict : .history
            } else if isUnseen {
                recording.conflicts.append(current.id)
            } else {
                recording.outdated.append(current.id)
            }
        }
        recording.versions.append((version, cut.manifest.encoded))
        return version
    }

    /// Adds a conflict version with the contents of the current one, and returns its id.
    func append(
        conflict current: Version, _ cut: CutContent, to recording: inout Recording,
        _ protection: Protection, after base: Version?
    ) -> Identifier {
        recording.item.latest += 1
        var copy = current
        (copy.id, copy.number) = (.random(), recording.item.latest)
        (copy.kind, copy.durability, copy.label) = (.conflict, .disk, nil)
        copy.parents = base.map { [$0.id] } ?? []
        copy.protection = protection
        recording.versions.append((copy, cut.manifest.encoded))
        return copy.id
    }

    func person(_ uid: UInt32) -> String {
        if let account = device.account { return account }
        if let known = people[uid] { return known }
        let name = RecordingDevice.userName(uid)
        people[uid] = name
        return name
    }
}
