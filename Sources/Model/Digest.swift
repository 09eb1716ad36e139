/// A content hash, tagged with its algorithm so that another one can be added later: 33 bytes.
package struct Digest: Hashable, Sendable, Comparable {
    package enum Algorithm: UInt8, Sendable {
        case sha256 = 1
        /// The name that a hub uses for content whose hash this device does not know yet. Equal
        /// contents have equal names.
        case keyed = 2
    }

    package let algorithm: Algorithm
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// The number of bytes of the tagged form.
    package static let byteCount = 33

    package init(_ algorithm: Algorithm, words: (UInt64, UInt64, UInt64, UInt64)) {
        self.algorithm = algorithm
        self.words = words
    }

    /// Makes a digest from the 32 bytes of the hash, without the tag.
    package init(_ algorithm: Algorithm, hash: UnsafeRawBufferPointer) {
        precondition(hash.count == 32)
        func word(_ index: Int) -> UInt64 {
            UInt64(bigEndian: hash.loadUnaligned(fromByteOffset: index * 8, as: UInt64.self))
        }
        self.init(algorithm, words: (word(0), word(1), word(2), word(3)))
    }

    /// Makes a digest from the tagged form. Returns nil when the length or the tag is unknown.
    package init?(bytes: some Collection<UInt8>) {
        let all = Array(bytes)
        guard all.count == Digest.byteCount, let algorithm = Algorithm(rawValue: all[0]) else {
            return nil
        }
        self = all.withUnsafeBytes {
            Digest(algorithm, hash: UnsafeRawBufferPointer(rebasing: $0[1...]))
        }
    }

    package var bytes: [UInt8] {
        var result = [algorithm.rawValue]
        result.reserveCapacity(Digest.byteCount)
        for word in [words.0, words.1, words.2, words.3] {
            withUnsafeBytes(of: word.bigEndian) { result.append(contentsOf: $0) }
        }
        return result
    }

    package static func == (a: Digest, b: Digest) -> Bool {
        a.words == b.words && a.algorithm == b.algorithm
    }

    package static func < (a: Digest, b: Digest) -> Bool {
        (a.words.0, a.words.1, a.words.2, a.words.3) < (b.words.0, b.words.1, b.words.2, b.words.3)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.3)
    }
}

extension Digest: CustomStringConvertible {
    /// The algorithm's name, a colon and 64 hexadecimal digits, such as `sha256:…`.
    package var description: String { "\(algorithm):\(hexadecimal(bytes.dropFirst()))" }
}
