import ChunkStore
import Foundation
import Glibc
import Model
import NIOSSL

/// The certificate that the hub showed when it was started last: who invites a device tells its
/// fingerprint. A hub without one, or behind a proxy that does TLS, knows none.
struct ShownCertificate {
    /// Holds the fingerprint, as text.
    let path: String

    func note(_ certificate: NIOSSLCertificate?) throws {
        guard let certificate else {
            _ = unlink(path)
            return
        }
        let fingerprint = Fingerprint(Digest.sha256(try certificate.toDERBytes()))
        try Data("\(fingerprint)\n".utf8).write(to: URL(filePath: path), options: .atomic)
    }

    var fingerprint: Fingerprint? {
        (try? String(contentsOfFile: path, encoding: .utf8)).flatMap { Fingerprint($0) }
    }
}

extension Administration {
    /// Of the certificate that the hub shows, unless it speaks in clear.
    package var fingerprint: Fingerprint? {
        ShownCertificate(path: directory.certificatePath).fingerprint
    }
}
