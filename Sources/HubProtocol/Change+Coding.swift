import Model
import Reconcile

/// JSON: `{"do": "edit", …}`. The OpenAPI description lists the other fields of each kind.
extension Change: Codable {
    private enum Key: String, CodingKey {
        case deed = "do"
        case create, revision, placement, base, current, name, value, resolved
    }

    private enum Deed: String, Codable {
        case create, edit, move, delete, restore, attribute, resolve
    }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        switch try values.decode(Deed.self, forKey: .deed) {
        case .create: self = .create(try values.decode(Creation.self, forKey: .create))
        case .edit: self = .edit(try values.decode(Revision.self, forKey: .revision))
        case .move:
            self = .move(
                try values.decode(Placement.self, forKey: .placement),
                base: try values.decode(OperationID.self, forKey: .base))
        case .delete:
            self = .delete(current: try values.decodeIfPresent(Identifier.self, forKey: .current))
        case .restore: self = .restore
        case .attribute:
            self = .attribute(
                try values.decode(String.self, forKey: .name),
                try values.decodeIfPresent(Base64.self, forKey: .value)?.bytes)
        case .resolve:
            self = .resolve(
                try values.decode([Identifier].self, forKey: .resolved),
                try values.decodeIfPresent(Revision.self, forKey: .revision))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        switch self {
        case .create(let creation):
            try values.encode(Deed.create, forKey: .deed)
            try values.encode(creation, forKey: .create)
        case .edit(let revision):
            try values.encode(Deed.edit, forKey: .deed)
            try values.encode(revision, forKey: .revision)
        case .move(let placement, let base):
            try values.encode(Deed.move, forKey: .deed)
            try values.encode(placement, forKey: .placement)
            try values.encode(base, forKey: .base)
        case .delete(let current):
            try values.encode(Deed.delete, forKey: .deed)
            try values.encodeIfPresent(current, forKey: .current)
        case .restore:
            try values.encode(Deed.restore, forKey: .deed)
        case .attribute(let name, let value):
            try values.encode(Deed.attribute, forKey: .deed)
            try values.encode(name, forKey: .name)
            try values.encodeIfPresent(value.map { Base64($0) }, forKey: .value)
        case .resolve(let resolved, let revision):
            try values.encode(Deed.resolve, forKey: .deed)
            try values.encode(resolved, forKey: .resolved)
            try values.encodeIfPresent(revision, forKey: .revision)
        }
    }
}

extension Creation: Codable {
    private enum Key: CodingKey { case kind, placement, revision, target, attributes }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        self.init(
            kind: try values.decode(ItemKind.self, forKey: .kind),
            placement: try values.decode(Placement.self, forKey: .placement),
            revision: try values.decodeIfPresent(Revision.self, forKey: .revision),
            target: try values.decodeIfPresent(String.self, forKey: .target),
            attributes: try values.decode([String: Base64].self, forKey: .attributes)
                .mapValues(\.bytes))
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        try values.encode(kind, forKey: .kind)
        try values.encode(placement, forKey: .placement)
        try values.encodeIfPresent(revision, forKey: .revision)
        try values.encodeIfPresent(target, forKey: .target)
        try values.encode(attributes.mapValues { Base64($0) }, forKey: .attributes)
    }
}

/// JSON: `{"is": "overruled", "reason": "cycle"}`.
extension Verdict: Codable {
    private enum Key: String, CodingKey {
        case word = "is"
        case reason, into
    }

    private enum Word: String, Codable { case applied, overruled, bounced, unified, conflict }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        switch try values.decode(Word.self, forKey: .word) {
        case .applied: self = .applied
        case .overruled:
            let text = try values.decode(String.self, forKey: .reason)
            guard let reason = Reason(rawValue: text) else {
                throw values.fault(.reason, "This reason is unknown.")
            }
            self = .overruled(reason)
        case .bounced: self = .bounced
        case .unified: self = .unified(into: try values.decode(Identifier.self, forKey: .into))
        case .conflict: self = .conflict
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        switch self {
        case .applied: try values.encode(Word.applied, forKey: .word)
        case .overruled(let reason):
            try values.encode(Word.overruled, forKey: .word)
            try values.encode(reason.rawValue, forKey: .reason)
        case .bounced: try values.encode(Word.bounced, forKey: .word)
        case .unified(let into):
            try values.encode(Word.unified, forKey: .word)
            try values.encode(into, forKey: .into)
        case .conflict: try values.encode(Word.conflict, forKey: .word)
        }
    }
}
