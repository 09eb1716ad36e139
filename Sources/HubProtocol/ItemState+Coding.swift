import Model
import Reconcile

extension Placement: Codable {
    private enum Key: CodingKey { case parent, name, key, spare, spareKey }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        self.init(
            parent: try values.decode(Identifier.self, forKey: .parent),
            name: try values.decode(String.self, forKey: .name),
            key: try values.decode(NameKey.self, forKey: .key),
            spare: try values.decode(String.self, forKey: .spare),
            spareKey: try values.decode(NameKey.self, forKey: .spareKey))
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        try values.encode(parent, forKey: .parent)
        try values.encode(name, forKey: .name)
        try values.encode(key, forKey: .key)
        try values.encode(spare, forKey: .spare)
        try values.encode(spareKey, forKey: .spareKey)
    }
}

extension Revision.Note: Codable {
    private enum Key: CodingKey { case deviceName, person, program, name, modified, saved }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        self.init(
            deviceName: try values.decode(String.self, forKey: .deviceName),
            person: try values.decode(String.self, forKey: .person),
            program: try values.decode(String.self, forKey: .program),
            name: try values.decode(String.self, forKey: .name),
            modified: try values.decode(Int64.self, forKey: .modified),
            saved: try values.decode(Int64.self, forKey: .saved))
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        try values.encode(deviceName, forKey: .deviceName)
        try values.encode(person, forKey: .person)
        try values.encode(program, forKey: .program)
        try values.encode(name, forKey: .name)
        try values.encode(modified, forKey: .modified)
        try values.encode(saved, forKey: .saved)
    }
}

extension Revision: Codable {
    private enum Key: CodingKey {
        case id, parents, content, size, moment, sequence, recordedBy, equals, note
    }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        self.init(
            id: try values.decode(Identifier.self, forKey: .id),
            parents: try values.decode([Identifier].self, forKey: .parents),
            content: try values.decode(Digest.self, forKey: .content),
            size: try values.decodeCount(forKey: .size),
            moment: try values.decode(Moment.self, forKey: .moment),
            sequence: try values.decodeCount(forKey: .sequence),
            recordedBy: try values.decodeIfPresent(OperationID.self, forKey: .recordedBy),
            equals: try values.decode([Identifier].self, forKey: .equals),
            note: try values.decode(Note.self, forKey: .note))
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        try values.encode(id, forKey: .id)
        try values.encode(parents, forKey: .parents)
        try values.encode(content, forKey: .content)
        try values.encode(size, forKey: .size)
        try values.encode(moment, forKey: .moment)
        try values.encode(sequence, forKey: .sequence)
        try values.encodeIfPresent(recordedBy, forKey: .recordedBy)
        try values.encode(equals, forKey: .equals)
        try values.encode(note, forKey: .note)
    }
}

extension Register: Codable {
    private enum Key: CodingKey { case value, moment, sequence }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        self.init(
            value: try values.decodeIfPresent(Base64.self, forKey: .value)?.bytes,
            moment: try values.decode(Moment.self, forKey: .moment),
            sequence: try values.decodeCount(forKey: .sequence))
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        try values.encodeIfPresent(value.map { Base64($0) }, forKey: .value)
        try values.encode(moment, forKey: .moment)
        try values.encode(sequence, forKey: .sequence)
    }
}

/// JSON: `{}` if the item is alive, `{batch, sequence}` if it is in the trash.
extension Life: Codable {
    private enum Key: CodingKey { case batch, sequence }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        guard let batch = try values.decodeIfPresent(OperationID.self, forKey: .batch) else {
            self = .alive
            return
        }
        self = .trashed(batch: batch, sequence: try values.decodeCount(forKey: .sequence))
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        guard case .trashed(let batch, let sequence) = self else { return }
        try values.encode(batch, forKey: .batch)
        try values.encode(sequence, forKey: .sequence)
    }
}

/// JSON: the raw value of `ItemKind`.
extension ItemKind: Codable {}

extension ItemState: Codable {
    private enum Key: CodingKey {
        case id, kind, target, placement, placedBy, placedAt, placedSequence, isBounced, current
        case conflicts, attributes, life, sequence
    }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        self.init(
            id: try values.decode(Identifier.self, forKey: .id),
            kind: try values.decode(ItemKind.self, forKey: .kind),
            target: try values.decodeIfPresent(String.self, forKey: .target),
            placement: try values.decode(Placement.self, forKey: .placement),
            placedBy: try values.decode(OperationID.self, forKey: .placedBy),
            placedAt: try values.decode(Moment.self, forKey: .placedAt),
            placedSequence: try values.decodeCount(forKey: .placedSequence),
            isBounced: try values.decode(Bool.self, forKey: .isBounced),
            current: try values.decodeIfPresent(Revision.self, forKey: .current),
            conflicts: try values.decode([Revision].self, forKey: .conflicts),
            attributes: try values.decode([String: Register].self, forKey: .attributes),
            life: try values.decode(Life.self, forKey: .life),
            sequence: try values.decodeCount(forKey: .sequence))
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        try values.encode(id, forKey: .id)
        try values.encode(kind, forKey: .kind)
        try values.encodeIfPresent(target, forKey: .target)
        try values.encode(placement, forKey: .placement)
        try values.encode(placedBy, forKey: .placedBy)
        try values.encode(placedAt, forKey: .placedAt)
        try values.encode(placedSequence, forKey: .placedSequence)
        try values.encode(isBounced, forKey: .isBounced)
        try values.encodeIfPresent(current, forKey: .current)
        try values.encode(conflicts, forKey: .conflicts)
        try values.encode(attributes, forKey: .attributes)
        try values.encode(life, forKey: .life)
        try values.encode(sequence, forKey: .sequence)
    }
}
