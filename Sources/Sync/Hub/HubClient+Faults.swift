import AsyncHTTPClient
import Glibc
import HubProtocol
import Model
import NIOSSL

// Why a hub cannot be reached, in sentences that say what to do.
extension HubClient {
    func fault(_ error: any Error) -> HubFault { address.fault(error) }
}

extension HubAddress {
    /// Converts an error of the HTTP client into a fault with a sentence for people.
    func fault(_ error: any Error) -> HubFault {
        if let error = error as? HTTPClientError,
            error == .readTimeout || error == .deadlineExceeded
        {
            return .silent("The hub \(self) did not answer in time.")
        }
        if let sentence = objectionToCertificate(error) { return .unreachable(sentence) }
        if let error = error as? HTTPClientError, error == .remoteConnectionClosed,
            !isEncrypted
        {
            return .unreachable(
                "The hub \(self) closed the connection without an answer. If it has a "
                    + "certificate, its address begins with https://.")
        }
        return .unreachable("The hub \(self) cannot be reached: \(error).")
    }

    private func objectionToCertificate(_ error: any Error) -> String? {
        guard isEncrypted else { return nil }
        if let certificate, access(certificate, R_OK) != 0 {
            return "The certificate file \(certificate), needed for the hub \(self), cannot be "
                + "read: restore the file."
        }
        if certificate == nil, known == nil, !HubAddress.hasAuthorities {
            return "The certificate of the hub \(self) cannot be verified, because this machine "
                + "has no list of certificate authorities: install the package ca-certificates, "
                + "or sign in with the --fingerprint that concord hub invite prints."
        }
        let text = "\(error)"
        func tells(_ words: String...) -> Bool { words.contains { text.contains($0) } }
        if let certificate,
            tells("failedToLoadCertificate", "NO_START_LINE", "NO_CERTIFICATE_OR_CRL")
        {
            return "\(certificate) has no certificate: it must be a PEM file."
        }
        if tells("CERTIFICATE_VERIFY_FAILED"), known != nil {
            return "The certificate of the hub \(self) is not the one that it had when this device "
                + "signed in, or it has expired. On the hub's machine, concord hub invite "
                + "prints the fingerprint of a new one: sign in again with --fingerprint."
        }
        if tells("CERTIFICATE_VERIFY_FAILED") {
            let trusted = certificate.map { "of those in \($0)" } ?? "that this machine trusts"
            return "The certificate of the hub \(self) is not one \(trusted). If it was made by "
                + "hand, sign in with the --fingerprint that concord hub invite prints, or copy "
                + "it from the hub and sign in with --certificate FILE."
        }
        if tells("failedToValidateHostname", "unableToValidateCertificate") {
            return "The certificate of the hub \(self) is for another name or address: use the "
                + "one in the certificate, or make a certificate for this one."
        }
        if tells("WRONG_VERSION_NUMBER", "HTTP_REQUEST") {
            return "The hub \(self) does not speak TLS: it has no certificate, and its address "
                + "begins with http://."
        }
        if tells("UNSUPPORTED_PROTOCOL", "PROTOCOL_VERSION") {
            return "The hub \(self) supports only old versions of TLS: 1.2 is needed."
        }
        return nil
    }

    /// Whether this machine has one of the lists that NIOSSL reads.
    private static var hasAuthorities: Bool {
        let lists = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"]
        return lists.contains { access($0, R_OK) == 0 }
    }
}
