import HubProtocol
import Model

/// A person's answer when they sign in with a passkey.
package struct PasskeyUse: Sendable {
    let credential: [UInt8]
    let answer: AuthenticatorAnswer
    let signature: [UInt8]

    package init(credential: [UInt8], answer: AuthenticatorAnswer, signature: [UInt8]) {
        (self.credential, self.answer, self.signature) = (credential, answer, signature)
    }
}

extension HubDevices {
    // MARK: Adding and removing

    /// - Parameter session: The token of the browser's session.
    package func challengeToAddPasskey(session: String) async throws -> [UInt8] {
        let secret = try await passkeySecret()
        return PasskeyChallenge(.adding, for: session, at: hub.clock(), secret: secret).bytes
    }

    /// Adds a passkey to the caller's account. Nobody attests what authenticator made it: the
    /// person who is signed in vouches for the key that their browser gives.
    ///
    /// - Parameter origin: Scheme, host and port of the pages, as the browser sees them.
    /// - Throws: `.code`, `.taken`, `.quota`, `.malformed`.
    package func addPasskey(
        _ answer: AuthenticatorAnswer, publicKey: [UInt8], named name: String, origin: String,
        session: String, for caller: Caller
    ) async throws {
        try name.checkName(of: "passkey")
        let (time, secret) = (hub.clock(), try await passkeySecret())
        guard PublicKey(publicKey) != nil, let credential = answer.credential,
            answer.isMade(for: .making, at: origin), let bytes = answer.challenge,
            let challenge = PasskeyChallenge(
                bytes, .adding, for: session, now: time, secret: secret)
        else {
            throw Failure(
                .code, "The passkey was not made for this page: load the page and try again.")
        }
        let passkey = Passkey(
            credential: credential, account: caller.account, device: caller.device, name: name,
            origin: origin, publicKey: publicKey, added: time, signatures: answer.signatures,
            challenged: challenge.time)
        try await hub.write(for: caller.account) { transaction in
            guard try transaction.passkeys[passkey.id] == nil else {
                throw Failure(.taken, "This passkey has been added already.")
            }
            let known = try transaction.passkeys.all(of: caller.account)
            guard known.count < Passkey.perAccount else {
                throw Failure(
                    .quota, "An account has at most \(Passkey.perAccount) passkeys: remove one.")
            }
            try transaction.passkeys.add(passkey)
        }
    }

    /// Removes a passkey. Sessions that began with it go on until their browser is revoked.
    ///
    /// - Throws: `.notFound`.
    package func removePasskey(_ id: Identifier, for caller: Caller) async throws {
        try await hub.write(for: caller.account) { transaction in
            guard try transaction.passkeys[id]?.account == caller.account else {
                throw Failure(.notFound, "There is no such passkey in this account.")
            }
            try transaction.passkeys.remove(id)
        }
    }

    // MARK: Signing in

    /// - Parameter browser: A secret of the browser.
    package func challengeToSignIn(browser: String) async throws -> [UInt8] {
        let secret = try await passkeySecret()
        return PasskeyChallenge(.signIn, for: browser, at: hub.clock(), secret: secret).bytes
    }

    /// Enrols a browser as a device of the account to which the passkey belongs. Revoking the
    /// browser in which the passkey was added revokes this one, too. Wrong passkeys are counted
    /// together with wrong codes.
    ///
    /// - Parameters:
    ///   - browser: The browser's secret that the challenge was made for.
    ///   - address: The client's address.
    /// - Throws: `.code`, `.tooMany`, `.taken` if the device belongs to another account.
    package func signIn(
        _ passkey: PasskeyUse, browser: String, as device: Identifier, named name: String,
        from address: String, for use: TokenUse
    ) async throws -> EnrolAnswer {
        try name.checkName(of: "device")
        let (time, secret) = (hub.clock(), try await passkeySecret())
        return try await countingWrong("passkeys", from: address, at: time) {
            guard let bytes = passkey.answer.challenge,
                let challenge = PasskeyChallenge(
                    bytes, .signIn, for: browser, now: time, secret: secret)
            else {
                throw Failure(.code, "This page was open for too long: try again.")
            }
            return try await hub.ledger.write { transaction in
                let known = try transaction.passkeys.used(passkey, challenge, at: time)
                let parent = known.device == device ? nil : known.device
                return try transaction.devices.enrolled(
                    device, named: name, account: known.account, from: parent, for: use, at: time)
            }
        }
    }

    /// The secret with which challenges are made. The first process of a hub chooses it.
    private func passkeySecret() async throws -> [UInt8] {
        if let known = hub.passkeySecret.withLock({ $0 }) { return known }
        let fresh = Secret.bytes(32)
        let secret = try await hub.ledger.write { transaction in
            try transaction.execute(
                "INSERT INTO secrets (name, value) VALUES ('passkeys', $1) ON CONFLICT DO NOTHING",
                [.bytes(fresh)])
            return try transaction.row("SELECT value FROM secrets WHERE name = 'passkeys'", [])?
                .bytes(0)
        }
        hub.passkeySecret.withLock { $0 = secret }
        return secret ?? fresh
    }
}

extension PasskeyTable {
    /// Returns the passkey if the answer is valid, and notes that it was used.
    ///
    /// - Throws: `.code`.
    fileprivate func used(_ use: PasskeyUse, _ challenge: PasskeyChallenge, at time: Int64) throws
        -> Passkey
    {
        guard var known = try self[Passkey.id(of: use.credential)],
            use.answer.isMade(for: .using, at: known.origin),
            let key = PublicKey(known.publicKey),
            key.hasSigned(use.answer.message, as: use.signature)
        else { throw AuthenticatorAnswer.refused }
        guard challenge.time > known.challenged else {
            throw Failure(.code, "The passkey was used since this page was loaded: try again.")
        }
        let signatures = use.answer.signatures
        guard signatures > known.signatures || signatures == 0 && known.signatures == 0 else {
            throw Failure(
                .code,
                "This passkey has been copied: its count of signatures is behind. Sign in with a "
                    + "code, and remove the passkey.")
        }
        (known.used, known.signatures, known.challenged) = (time, signatures, challenge.time)
        try noteUse(of: known)
        return known
    }
}
