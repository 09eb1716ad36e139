import Model

// The stored form of an agreement, encoded by the same rules as in Coding.swift.
extension Agreement {
    package var encoded: [UInt8] {
        var writer = Writer(capacity: 160)
        writer.append(byte: 2)
        writer.append(byte: image.kind.rawValue | (image.isAlive ? 0x80 : 0))
        writer.append(optional: image.target) { $0.append($1) }
        writer.append(image.parent)
        writer.append(image.name)
        writer.append(optional: image.revision) { $0.append($1) }
        writer.append(optional: image.content) { $0.append(fixed: $1.bytes) }
        writer.append(list: image.conflicts) { $0.append($1) }
        writer.append(list: image.attributes.sorted { $0.key < $1.key }) {
            $0.append($1.key)
            $0.append(run: $1.value)
        }
        writer.append(optional: placedBy) {
            $0.append($1.device)
            $0.append(number: UInt64($1.epoch))
            $0.append(number: $1.number)
        }
        writer.append(optional: placedAt) {
            $0.append(signed: $1.time)
            $0.append($1.device)
        }
        writer.append(number: sequence)
        writer.append(volumeEpoch)
        writer.append(number: generation)
        writer.append(list: attributedAt.sorted { $0.key < $1.key }) {
            $0.append($1.key)
            $0.append(signed: $1.value.time)
            $0.append($1.value.device)
        }
        return writer.bytes
    }

    /// Returns nil when the bytes are not a complete agreement.
    package init?(encoded bytes: [UInt8]) {
        var reader = Reader(bytes: bytes)
        do {
            // The first form ends before the times of attributes.
            let form = try reader.byte()
            guard form == 1 || form == 2 else { return nil }
            let image = try reader.image()
            let placedBy = try reader.optional { r throws(Malformed) in
                let device = try r.identifier()
                guard let epoch = UInt32(exactly: try r.number()) else { throw Malformed() }
                return OperationID(device: device, epoch: epoch, number: try r.number())
            }
            let placedAt = try reader.optional { r throws(Malformed) in
                Moment(time: try r.signed(), device: try r.identifier())
            }
            self.init(
                image: image, placedBy: placedBy, placedAt: placedAt,
                sequence: try reader.number(), volumeEpoch: try reader.identifier(),
                generation: try reader.number())
            let count = form == 2 ? try reader.count() : 0
            for _ in 0..<count {
                let name = try reader.text()
                attributedAt[name] = Moment(
                    time: try reader.signed(), device: try reader.identifier())
            }
        } catch {
            return nil
        }
        guard reader.isAtEnd else { return nil }
    }
}

extension Reader {
    fileprivate mutating func image() throws(Malformed) -> Image {
        let first = try byte()
        guard let kind = ItemKind(rawValue: first & 0x7F) else { throw Malformed() }
        var image = Image(
            kind: kind, target: try optional { r throws(Malformed) in try r.text() },
            parent: try identifier(), name: try text(),
            revision: try optional { r throws(Malformed) in try r.identifier() },
            content: try optional { r throws(Malformed) in try r.digest() },
            conflicts: try list { r throws(Malformed) in try r.identifier() },
            isAlive: first & 0x80 != 0)
        for _ in 0..<(try count()) {
            let name = try text()
            image.attributes[name] = try run()
        }
        return image
    }
}
