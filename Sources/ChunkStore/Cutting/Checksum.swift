/// CRC-32 as in zlib and PNG. It detects every damaged run of up to 32 bits.
func crc32(_ bytes: UnsafeRawBufferPointer) -> UInt32 {
    var remainder = UInt32.max
    for byte in bytes {
        remainder = table[Int(UInt8(truncatingIfNeeded: remainder) ^ byte)] ^ remainder >> 8
    }
    return ~remainder
}

private let table: [UInt32] = (0..<256).map { byte in
    (0..<8).reduce(UInt32(byte)) { remainder, _ in
        remainder >> 1 ^ (remainder & 1 == 1 ? 0xEDB8_8320 : 0)
    }
}
