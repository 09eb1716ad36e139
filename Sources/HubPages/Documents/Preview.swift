import Hub
import HubProtocol
import Model
import Reconcile

/// How a page shows the contents of a version.
struct Preview: Sendable {
    /// The address of a picture.
    let picture: String?
    /// The address of a PDF document.
    let pdf: String?
    let text: String?
    /// Whether the text is only the beginning.
    let isCut: Bool
    /// Why nothing is shown.
    let message: String?

    private init(
        picture: String? = nil, pdf: String? = nil, text: String? = nil, isCut: Bool = false,
        message: String? = nil
    ) {
        self.picture = picture
        self.pdf = pdf
        self.text = text
        self.isCut = isCut
        self.message = message
    }

    /// Returns nil if a page cannot show such contents.
    init?(_ document: Document, _ revision: Revision) async throws {
        let place = document.place
        let address = place.address(.preview) + "?revision=\(revision.id)"
        let type = FileType(name: place.item.name)
        switch type.preview {
        case .picture: self.init(picture: address)
        case .pdf: self.init(pdf: address)
        case .text, nil:
            guard type.mayBeText else { return nil }
            do {
                let content = try place.content(try await document.file(of: revision))
                let bytes = try await content.beginning(PageLimits.textBytes)
                guard let text = ShownText.text(bytes, isCut: content.size > UInt64(bytes.count))
                else { return nil }
                guard !text.isEmpty else {
                    self.init(message: "This document is empty.")
                    return
                }
                self.init(text: text, isCut: content.size > UInt64(bytes.count))
            } catch let failure as Failure
                where [.missing, .busy, .tooLarge].contains(failure.code)
            {
                self.init(message: failure.message)
            }
        }
    }
}

/// Decides whether contents are a text that a page can show.
enum ShownText {
    /// Returns nil if the bytes are not UTF-8, or have characters that no text has.
    ///
    /// - Parameter isCut: Whether the text goes on, so that its last character may be incomplete.
    static func text(_ bytes: [UInt8], isCut: Bool) -> String? {
        var bytes = bytes[...]
        if isCut {
            // At most three bytes of an incomplete character.
            for _ in 0..<4 where String(validating: bytes, as: UTF8.self) == nil {
                bytes = bytes.dropLast()
            }
        }
        guard !bytes.contains(where: { $0 == 0 }) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }
}
