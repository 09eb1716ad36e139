import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model

/// Takes the files of a form while they arrive, one after another.
protocol FormFiles {
    /// What is held in memory of the files.
    var heldBytes: Int { get }

    /// Begins with a file.
    ///
    /// - Parameters:
    ///   - fields: The fields that came before the file.
    ///   - size: The most bytes that the file can have.
    mutating func begin(_ name: String, after fields: Fields, upTo size: UInt64) async throws

    /// - Parameter others: What is held in memory of the form besides.
    mutating func append(_ bytes: ArraySlice<UInt8>, beside others: Int) async throws
    mutating func end(beside others: Int) async throws
}

/// The files of a form that has none.
struct NoFiles: FormFiles {
    let heldBytes = 0

    func begin(_ name: String, after fields: Fields, upTo size: UInt64) throws {
        throw Failure(.malformed, "This form has no files.")
    }
    func append(_ bytes: ArraySlice<UInt8>, beside others: Int) {}
    func end(beside others: Int) {}
}

/// A form of the type `multipart/form-data`. Its files are passed on while they arrive, and what is
/// in memory counts in the budget of the request.
struct MultipartForm {
    let session: Session
    /// The most bytes that all fields may have.
    let limit: Int

    /// - Returns: The fields.
    /// - Throws: `.malformed` also if the form does not arrive whole.
    func read(_ files: inout some FormFiles) async throws -> Fields {
        let request = session.call.request
        var parser = try MultipartParser(type: request.headers[.contentType] ?? "")
        guard let length = request.headers[.contentLength].flatMap({ UInt64($0) }) else {
            throw Failure(.malformed, "The header Content-Length must say how long the form is.")
        }
        var arrival = Arrival()
        var arrived: UInt64 = 0
        try await request.forEachBodyPart { part in
            arrived += UInt64(part.readableBytes)
            parser.append(part.readableBytesView)
            while let event = try parser.next() {
                // A file ends before what follows each part.
                let follows = UInt64(parser.heldBytes)
                let rest = length - min(length, arrived - follows)
                let most = rest - min(rest, UInt64(parser.bytesAfterPart))
                try await arrival.take(
                    event, upTo: most, &files, beside: parser.heldBytes, limit)
            }
            try session.budget.hold(
                parser.heldBytes + arrival.heldBytes + files.heldBytes)
        }
        guard arrival.isComplete else {
            throw Failure(.malformed, "The form did not arrive whole. Nothing was changed.")
        }
        return arrival.fields
    }

    /// What has arrived of a form.
    private struct Arrival {
        var fields = Fields()
        var isComplete = false
        private var part: MultipartParser.Part?
        private var value: [UInt8] = []
        private var fieldBytes = 0

        var heldBytes: Int { fieldBytes }

        mutating func take(
            _ event: MultipartParser.Event, upTo most: UInt64, _ files: inout some FormFiles,
            beside held: Int, _ limit: Int
        ) async throws {
            switch event {
            case .part(let next):
                part = next
                guard let file = next.file, !file.isEmpty else { return }
                try await files.begin(file, after: fields, upTo: most)
            case .bytes(let bytes):
                guard part?.file?.isEmpty ?? true else {
                    return try await files.append(bytes, beside: held + heldBytes)
                }
                guard part?.file == nil else { throw Failure(.malformed, "A file has no name.") }
                fieldBytes += bytes.count
                guard fieldBytes <= limit else {
                    throw Failure(.tooLarge, "A form has at most \(limit) bytes besides its files.")
                }
                value += bytes
            case .partEnd:
                if let file = part?.file {
                    if !file.isEmpty { try await files.end(beside: held + heldBytes) }
                } else if let part {
                    guard let text = String(validating: value, as: UTF8.self) else {
                        throw Failure(.malformed, "The form is not in UTF-8.")
                    }
                    fields.add(part.name, text)
                    value = []
                }
                part = nil
            case .end: isComplete = true
            }
        }
    }
}
