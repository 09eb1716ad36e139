import Model

// The stored form: a format byte, then the fields in the order of the initializers. Numbers are
// LEB128; signed numbers are zigzag-encoded first. Ids are 16 bytes. Texts and byte strings follow
// their length.

extension Revision {
    package var encoded: [UInt8] { encoding(capacity: 160) { $0.append(self) } }

    /// Returns nil when the bytes are not a complete revision.
    package init?(encoded bytes: [UInt8]) {
        guard let decoded = decoding(bytes, { r throws(Malformed) in try r.revision() }) else {
            return nil
        }
        self = decoded
    }
}

extension ItemState {
    package var encoded: [UInt8] { encoding(capacity: 448) { $0.append(self) } }

    /// Returns nil when the bytes are not a complete item.
    package init?(encoded bytes: [UInt8]) {
        guard let decoded = decoding(bytes, { r throws(Malformed) in try r.item() }) else {
            return nil
        }
        self = decoded
    }
}

extension Operation {
    package var encoded: [UInt8] { encoding(capacity: 384) { $0.append(self) } }

    /// Returns nil when the bytes are not a complete operation.
    package init?(encoded bytes: [UInt8]) {
        guard let decoded = decoding(bytes, { r throws(Malformed) in try r.operation() }) else {
            return nil
        }
        self = decoded
    }
}

private let format: UInt8 = 1

private func encoding(capacity: Int, _ body: (inout Writer) -> Void) -> [UInt8] {
    var writer = Writer(capacity: capacity)
    writer.append(byte: format)
    body(&writer)
    return writer.bytes
}

private func decoding<Value>(
    _ bytes: [UInt8], _ body: (inout Reader) throws(Malformed) -> Value
) -> Value? {
    var reader = Reader(bytes: bytes)
    guard let first = try? reader.byte(), first == format, let value = try? body(&reader),
        reader.isAtEnd
    else { return nil }
    return value
}

// MARK: Items and revisions

extension Writer {
    fileprivate mutating func append(_ operation: OperationID) {
        append(operation.device)
        append(number: UInt64(operation.epoch))
        append(number: operation.number)
    }

    fileprivate mutating func append(_ moment: Moment) {
        append(signed: moment.time)
        append(moment.device)
    }

    fileprivate mutating func append(_ placement: Placement) {
        append(placement.parent)
        append(placement.name)
        append(run: placement.key.bytes)
        append(placement.spare)
        append(run: placement.spareKey.bytes)
    }

    fileprivate mutating func append(_ revision: Revision) {
        append(revision.id)
        append(list: revision.parents) { $0.append($1) }
        append(fixed: revision.content.bytes)
        append(number: revision.size)
        append(revision.moment)
        append(number: revision.sequence)
        append(optional: revision.recordedBy) { $0.append($1) }
        append(list: revision.equals) { $0.append($1) }
        append(revision.note.deviceName)
        append(revision.note.person)
        append(revision.note.program)
        append(revision.note.name)
        append(signed: revision.note.modified)
        append(signed: revision.note.saved)
    }

    fileprivate mutating func append(_ item: ItemState) {
        append(item.id)
        append(byte: item.kind.rawValue)
        append(optional: item.target) { $0.append($1) }
        append(item.placement)
        append(item.placedBy)
        append(item.placedAt)
        append(number: item.placedSequence)
        append(byte: item.isBounced ? 1 : 0)
        append(optional: item.current) { $0.append($1) }
        append(list: item.conflicts) { $0.append($1) }
        append(list: item.attributes.sorted { $0.key < $1.key }) { writer, attribute in
            writer.append(attribute.key)
            writer.append(optional: attribute.value.value) { $0.append(run: $1) }
            writer.append(attribute.value.moment)
            writer.append(number: attribute.value.sequence)
        }
        switch item.life {
        case .alive: append(byte: 0)
        case .trashed(let batch, let sequence):
            append(byte: 1)
            append(batch)
            append(number: sequence)
        }
        append(number: item.sequence)
    }
}

extension Reader {
    fileprivate mutating func operationID() throws(Malformed) -> OperationID {
        let device = try identifier()
        guard let epoch = UInt32(exactly: try number()) else { throw Malformed() }
        return OperationID(device: device, epoch: epoch, number: try number())
    }

    fileprivate mutating func moment() throws(Malformed) -> Moment {
        Moment(time: try signed(), device: try identifier())
    }

    fileprivate mutating func placement() throws(Malformed) -> Placement {
        Placement(
            parent: try identifier(), name: try text(), key: NameKey(try run()),
            spare: try text(), spareKey: NameKey(try run()))
    }

    fileprivate mutating func revision() throws(Malformed) -> Revision {
        Revision(
            id: try identifier(), parents: try identifiers(), content: try digest(),
            size: try number(), moment: try moment(), sequence: try number(),
            recordedBy: try optional { r throws(Malformed) in try r.operationID() },
            equals: try identifiers(),
            note: Revision.Note(
                deviceName: try text(), person: try text(), program: try text(),
                name: try text(), modified: try signed(), saved: try signed()))
    }

    private mutating func identifiers() throws(Malformed) -> [Identifier] {
        try list { r throws(Malformed) in try r.identifier() }
    }

    private mutating func attributes() throws(Malformed) -> [String: Register] {
        var attributes: [String: Register] = [:]
        for _ in 0..<(try count()) {
            let name = try text()
            let value = try optional { r throws(Malformed) in try r.run() }
            let register = Register(
                value: value, moment: try moment(), sequence: try number())
            guard attributes.updateValue(register, forKey: name) == nil else { throw Malformed() }
        }
        return attributes
    }

    private mutating func life() throws(Malformed) -> Life {
        switch try byte() {
        case 0: .alive
        case 1: .trashed(batch: try operationID(), sequence: try number())
        default: throw Malformed()
        }
    }

    fileprivate mutating func kind() throws(Malformed) -> ItemKind {
        guard let kind = ItemKind(rawValue: try byte()) else { throw Malformed() }
        return kind
    }

    fileprivate mutating func item() throws(Malformed) -> ItemState {
        ItemState(
            id: try identifier(), kind: try kind(),
            target: try optional { r throws(Malformed) in try r.text() },
            placement: try placement(), placedBy: try operationID(), placedAt: try moment(),
            placedSequence: try number(), isBounced: try flag(),
            current: try optional { r throws(Malformed) in try r.revision() },
            conflicts: try list { r throws(Malformed) in try r.revision() },
            attributes: try attributes(), life: try life(), sequence: try number())
    }
}

// MARK: Operations

extension Writer {
    fileprivate mutating func append(_ operation: Operation) {
        append(operation.id)
        append(operation.item)
        append(operation.moment)
        append(number: operation.base)
        append(operation.change)
    }

    private mutating func append(_ change: Change) {
        switch change {
        case .create(let creation):
            append(byte: 1)
            append(creation)
        case .edit(let revision):
            append(byte: 2)
            append(revision)
        case .move(let placement, let base):
            append(byte: 3)
            append(placement)
            append(base)
        case .delete(let current):
            append(byte: 4)
            append(optional: current) { $0.append($1) }
        case .restore: append(byte: 5)
        case .attribute(let name, let value):
            append(byte: 6)
            append(name)
            append(optional: value) { $0.append(run: $1) }
        case .resolve(let settled, let revision):
            append(byte: 7)
            append(list: settled) { $0.append($1) }
            append(optional: revision) { $0.append($1) }
        }
    }

    private mutating func append(_ creation: Creation) {
        append(byte: creation.kind.rawValue)
        append(creation.placement)
        append(optional: creation.revision) { $0.append($1) }
        append(optional: creation.target) { $0.append($1) }
        append(list: creation.attributes.sorted { $0.key < $1.key }) { writer, attribute in
            writer.append(attribute.key)
            writer.append(run: attribute.value)
        }
    }
}

extension Reader {
    fileprivate mutating func operation() throws(Malformed) -> Operation {
        Operation(
            id: try operationID(), item: try identifier(), moment: try moment(),
            base: try number(), change: try change())
    }

    private mutating func change() throws(Malformed) -> Change {
        switch try byte() {
        case 1: .create(try creation())
        case 2: .edit(try revision())
        case 3: .move(try placement(), base: try operationID())
        case 4: .delete(current: try optional { r throws(Malformed) in try r.identifier() })
        case 5: .restore
        case 6: .attribute(try text(), try optional { r throws(Malformed) in try r.run() })
        case 7:
            .resolve(
                try list { r throws(Malformed) in try r.identifier() },
                try optional { r throws(Malformed) in try r.revision() })
        default: throw Malformed()
        }
    }

    private mutating func creation() throws(Malformed) -> Creation {
        let (kind, placement) = (try kind(), try placement())
        let revision = try optional { r throws(Malformed) in try r.revision() }
        let target = try optional { r throws(Malformed) in try r.text() }
        var attributes: [String: [UInt8]] = [:]
        for _ in 0..<(try count()) {
            let name = try text()
            guard attributes.updateValue(try run(), forKey: name) == nil else { throw Malformed() }
        }
        return Creation(
            kind: kind, placement: placement, revision: revision, target: target,
            attributes: attributes)
    }
}
