import ChunkStore
import Model
import Testing

@Suite struct DigestTests {
    /// The test vectors of FIPS 180-4.
    @Test func knownDigests() {
        #expect(
            Digest.sha256([]).description
                == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        #expect(
            Digest.sha256(Array("abc".utf8)).description
                == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        let million = [UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000)
        #expect(
            Digest.sha256(million).description
                == "sha256:cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    @Test func aNilBufferIsEmpty() {
        #expect(
            Digest.sha256(UnsafeRawBufferPointer(start: nil, count: 0)) == Digest.sha256([]))
    }
}
