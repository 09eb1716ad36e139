import Foundation
import Glibc
import Model

/// The keys that requests are signed with.
struct S3Credentials: Hashable, Sendable {
    var key: String
    var secret: String
    /// Of temporary keys.
    var session: String?

    private static let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]

    init(key: String, secret: String, session: String? = nil) {
        (self.key, self.secret, self.session) = (key, secret, session)
    }

    /// Reads the keys from the file that the address names, or else from the environment.
    ///
    /// - Throws: `.denied` if there are none, or if others may read the file.
    init(
        for address: S3Address, environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(VolumeError) {
        let values = try address.credentials.map(Self.values) ?? environment
        guard let key = values[Self.names[0]], let secret = values[Self.names[1]], !key.isEmpty,
            !secret.isEmpty
        else {
            throw VolumeError(
                .denied,
                address.credentials.map {
                    "The file \($0) lacks a line \(Self.names[0])=… or \(Self.names[1])=…."
                }
                    ?? "There are no keys for \(address.name): set \(Self.names[0]) and "
                    + "\(Self.names[1]) in the environment, or name a file with ?credentials=FILE.")
        }
        self.init(key: key, secret: secret, session: values[Self.names[2]])
    }

    /// Reads lines `NAME=VALUE`.
    private static func values(of file: String) throws(VolumeError) -> [String: String] {
        var status = stat()
        guard stat(file, &status) == 0,
            let text = try? String(contentsOfFile: file, encoding: .utf8)
        else {
            throw VolumeError(
                .denied, "The keys in \(file) cannot be read: check that it exists, and its owner.")
        }
        guard status.st_mode & 0o077 == 0 else {
            throw VolumeError(
                .denied, "Others may read the keys in \(file): give it the mode 0600.")
        }
        var values: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) {
            guard let equals = line.firstIndex(of: "=") else { continue }
            values[line[..<equals].trimmingCharacters(in: .whitespaces)] =
                line[line.index(after: equals)...].trimmingCharacters(in: .whitespaces)
        }
        return values
    }
}
