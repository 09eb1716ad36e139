import Model

/// The body of `POST /v1/volumes/{volume}/leases`: all documents of the volume that programs have
/// open on the device that sends it. It replaces what the device has told before, and each lease
/// ends 60 seconds later unless it is told again.
package struct LeaseRequest: Codable, Hashable, Sendable {
    package struct Document: Codable, Hashable, Sendable {
        package var item: Identifier
        package var use: DocumentUse
        /// For how many nanoseconds it has been open.
        package var age: Int64

        package init(item: Identifier, use: DocumentUse, age: Int64) {
            self.item = item
            self.use = use
            self.age = age
        }
    }

    /// It grows with each request of one process, so that a request that arrives late is ignored.
    package var number: UInt64
    package var documents: [Document]

    package init(number: UInt64, documents: [Document]) {
        self.number = number
        self.documents = documents
    }
}

/// The answer of `GET /v1/volumes/{volume}/leases`: what is open on the volume's other devices.
package struct LeaseList: Codable, Hashable, Sendable {
    package struct Lease: Codable, Hashable, Sendable {
        package var item: Identifier
        package var device: Identifier
        package var deviceName: String
        /// The name of the account to which the device belongs.
        package var user: String
        package var use: DocumentUse
        /// For how many nanoseconds it has been open.
        package var age: Int64

        package init(
            item: Identifier, device: Identifier, deviceName: String, user: String,
            use: DocumentUse, age: Int64
        ) {
            self.item = item
            self.device = device
            self.deviceName = deviceName
            self.user = user
            self.use = use
            self.age = age
        }
    }

    /// The revision of the volume's leases, as hints have it: 0 if there are none.
    package var revision: UInt64
    package var leases: [Lease]

    package init(revision: UInt64, leases: [Lease]) {
        self.revision = revision
        self.leases = leases
    }
}

extension LeaseRequest {
    package var objection: String? {
        if documents.count > HubLimits.leases {
            return "At most \(HubLimits.leases) documents of a volume are open on a device."
        }
        if Set(documents.map(\.item)).count < documents.count {
            return "Each document is named once."
        }
        return number.objectionToSequence
            ?? documents.lazy.compactMap { $0.age.objectionToAge }.first
    }
}

extension LeaseList {
    package var objection: String? {
        if leases.count > HubLimits.leasesTogether {
            return "At most \(HubLimits.leasesTogether) leases are told together."
        }
        for lease in leases {
            let objection =
                lease.user.objectionToDisplay ?? lease.deviceName.objectionToDisplay
                ?? lease.age.objectionToAge
            if let objection { return objection }
        }
        return revision.objectionToSequence
    }
}

extension Int64 {
    fileprivate var objectionToAge: String? {
        (0..<3_153_600_000_000_000_000).contains(self)
            ? nil : "A document is open for less than a hundred years."
    }
}
