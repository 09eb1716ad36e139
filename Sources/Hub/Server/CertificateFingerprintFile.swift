import ChunkStore
import Foundation
import Glibc
import Model
import NIOSSL

/// Remembers the certificate with which the hub was last started, so that `concord hub invite` can
/// print its fingerprint. There is none if the hub has no certificate, or if a proxy does TLS.
struct CertificateFingerprintFile {
    /// The path of a text file with the fingerprint.
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
    /// The fingerprint of the hub's certificate; nil if the hub has none.
    package var fingerprint: Fingerprint? {
        CertificateFingerprintFile(path: directory.certificatePath).fingerprint
    }
}
