import Model

/// One line from the daemon: an answer (`ok` with a result or an error), or progress before it.
package struct Reply<Value: Codable & Sendable>: Codable, Sendable {
    /// The request's id; left out if its line could not be decoded.
    package var id: Int?
    package var ok: Bool?
    package var result: Value?
    package var error: Failure?
    package var progress: Progress?

    package struct Failure: Codable, Hashable, Sendable {
        package var code: String
        package var message: String

        package init(_ error: VolumeError) {
            code = error.code.rawValue
            message = error.message
        }

        package var error: VolumeError {
            VolumeError(VolumeError.Code(rawValue: code) ?? .system, message)
        }
    }

    package init(id: Int?, result: Value) {
        self.id = id
        ok = true
        self.result = result
    }

    package init(id: Int?, error: VolumeError) {
        self.id = id
        ok = false
        self.error = Failure(error)
    }

    package init(id: Int?, progress: Progress) {
        self.id = id
        self.progress = progress
    }
}

/// The progress of long work.
package struct Progress: Codable, Hashable, Sendable {
    /// A few words about the present step.
    package var text: String
    /// From 0 to 1.
    package var fraction: Double
    /// A sentence about what blocks the work and what to do; left out if nothing does.
    package var notice: String?

    package init(_ text: String, fraction: Double, notice: String? = nil) {
        self.text = text
        self.fraction = fraction
        self.notice = notice
    }
}

/// The result of a verb that returns nothing: `{}`.
package struct Nothing: Codable, Hashable, Sendable {
    package init() {}
}
