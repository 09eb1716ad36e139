import Model

extension LedgerTransaction {
    package var operations: OperationTable { OperationTable(transaction: self) }
}

/// The operations that devices have sent: the number of the last one, and the answers to them.
package struct OperationTable {
    let transaction: any LedgerTransaction

    /// Returns the number of the device's last completed operation; 0 if there is none.
    package func lastNumber(of device: Identifier, epoch: UInt32, in volume: Identifier) throws
        -> UInt64
    {
        try transaction.row(
            "SELECT last FROM numbers WHERE volume = $1 AND device = $2 AND epoch = $3",
            [.id(volume), .id(device), .count(UInt64(epoch))])?.count(0) ?? 0
    }

    package func setLastNumber(
        of device: Identifier, epoch: UInt32, in volume: Identifier, _ number: UInt64
    ) throws {
        try transaction.executeLater(
            """
            INSERT INTO numbers (volume, device, epoch, last) VALUES ($1, $2, $3, $4)
            ON CONFLICT (volume, device, epoch) DO UPDATE SET last = $4
            """, [.id(volume), .id(device), .count(UInt64(epoch)), .count(number)])
    }

    package func answer(
        to number: UInt64, of device: Identifier, epoch: UInt32, in volume: Identifier
    ) throws -> (fingerprint: Digest, result: [UInt8])? {
        let found = try transaction.row(
            """
            SELECT fingerprint, result FROM answers
            WHERE volume = $1 AND device = $2 AND epoch = $3 AND number = $4
            """, [.id(volume), .id(device), .count(UInt64(epoch)), .count(number)])
        return try found.map { (try $0.digest(0), try $0.bytes(1)) }
    }

    package func setAnswer(
        to number: UInt64, of device: Identifier, epoch: UInt32, in volume: Identifier,
        fingerprint: Digest, result: [UInt8]
    ) throws {
        try transaction.executeLater(
            """
            INSERT INTO answers (volume, device, epoch, number, fingerprint, result)
            VALUES ($1, $2, $3, $4, $5, $6)
            """,
            [
                .id(volume), .id(device), .count(UInt64(epoch)), .count(number),
                .digest(fingerprint), .bytes(result),
            ])
    }

    /// Removes the stored answers to operations up to `number`.
    package func forgetAnswers(
        to device: Identifier, epoch: UInt32, in volume: Identifier, upTo number: UInt64
    ) throws {
        try transaction.execute(
            """
            DELETE FROM answers WHERE volume = $1 AND device = $2 AND epoch = $3 AND number <= $4
            """, [.id(volume), .id(device), .count(UInt64(epoch)), .count(number)])
    }
}
