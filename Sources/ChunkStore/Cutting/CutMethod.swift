import Model

/// How one content is cut. Only its length and its first bytes decide, and not its history, so that
/// equal content is cut alike everywhere.
enum CutMethod {
    case whole(Int)
    /// Blocks of one length, in bytes. Programs that write in place move no bytes, so the cuts need
    /// not follow the content, and a changed page costs one small block.
    case blocks(Int)
    case content(Cutter)

    init<Source: ContentSource & ~Copyable>(of source: inout Source, size: Int64)
        throws(VolumeError)
    {
        guard let sizes = CutSizes.sizes(forFileOf: UInt64(size)) else {
            self = .whole(Int(size))
            return
        }
        let head = UnsafeMutableRawBufferPointer.allocate(
            byteCount: InPlaceFormat.headLength, alignment: 16)
        defer { head.deallocate() }
        let count = try source.read(into: head, at: 0)
        let start = UnsafeRawBufferPointer(rebasing: head[..<count])
        self =
            InPlaceFormat(start) == nil
            ? .content(Cutter(sizes)) : .blocks(InPlaceFormat.blockLength(forFileOf: size))
    }

    /// Whether a content of this length that begins alike is cut in the same way.
    func isRight(forContentOf size: Int64) -> Bool {
        let sizes = CutSizes.sizes(forFileOf: UInt64(size))
        return switch self {
        case .whole(let length): length == Int(size)
        case .blocks(let length):
            sizes != nil && length == InPlaceFormat.blockLength(forFileOf: size)
        case .content(let cutter): cutter.sizes == sizes
        }
    }

    var longest: Int {
        switch self {
        case .whole(let length), .blocks(let length): length
        case .content(let cutter): cutter.sizes.max
        }
    }

    /// The length of the first chunk of the bytes. There must be as many bytes as the longest chunk
    /// has, or all that are left.
    func length(in bytes: UnsafeRawBufferPointer) -> Int {
        switch self {
        case .whole(let length), .blocks(let length): min(length, bytes.count)
        case .content(let cutter): cutter.cut(bytes)
        }
    }
}

/// Formats whose programs change pages in place. They are recognized by the first bytes of the
/// file.
enum InPlaceFormat: CaseIterable {
    case sqlite
    case qcow
    case vhdx
    case vmdk
    case vdi

    static let headLength = 80

    init?(_ head: UnsafeRawBufferPointer) {
        let found = InPlaceFormat.allCases.first { format in
            let (offset, magic) = format.magic
            return head.count >= offset + magic.count
                && head[offset..<offset + magic.count].elementsEqual(magic)
        }
        guard let found else { return nil }
        self = found
    }

    private var magic: (offset: Int, bytes: [UInt8]) {
        switch self {
        case .sqlite: (0, Array("SQLite format 3\0".utf8))
        case .qcow: (0, Array("QFI".utf8) + [0xfb])
        case .vhdx: (0, Array("vhdxfile".utf8))
        case .vmdk: (0, Array("KDMV".utf8))
        case .vdi: (64, [0x7f, 0x10, 0xda, 0xbe])
        }
    }

    /// Close to the length at which some thirty changed pages, together with the list of chunks,
    /// cost the fewest bytes.
    static func blockLength(forFileOf size: Int64) -> Int {
        switch size {
        case ...(256 << 20): 16 << 10
        case ...(2 << 30): 64 << 10
        case ...(32 << 30): 256 << 10
        default: 1 << 20
        }
    }
}
