import Model

/// One line from the daemon: the end of an answer (`ok` with a result or an error), or, before it,
/// progress.
package struct Reply<Value: Codable & Sendable>: Codable, Sendable {
    /// The request's; left out when its line could not be understood.
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

/// How far long work is.
package struct Progress: Codable, Hashable, Sendable {
    /// What is being done, a few words.
    package var text: String
    /// 0 to 1.
    package var fraction: Double
    /// What keeps it from going on, and what to do: a sentence. Left out while nothing does.
    package var notice: String?

    package init(_ text: String, fraction: Double, notice: String? = nil) {
        self.text = text
        self.fraction = fraction
        self.notice = notice
    }
}

/// The result of what has nothing to tell: `{}`.
package struct Nothing: Codable, Hashable, Sendable {
    package init() {}
}
