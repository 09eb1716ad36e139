import ArgumentParser
import Control
import Model

/// How a person names one version of a document: by its number on this device, by its distance from
/// the current version, by its label, or by the beginning of its id, which is the same on all
/// devices.
package enum VersionSpecifier: Hashable, Sendable {
    case number(Int)
    /// Negative: -1 is the version before the current one.
    case offset(Int)
    case label(String)

    package init(_ text: String) {
        let plain =
            text.hasPrefix(VersionSpecifier.escapeMark + "-") ? text.dropFirst(1) : text[...]
        switch Int(plain) {
        case .some(let value) where value < 0: self = .offset(value)
        case .some(let value)
        where value > 0 && plain.first?.isNumber == true && plain.first != "0":
            self = .number(value)
        default: self = .label(String(plain))
        }
    }

    /// The version that this names. `versions` are those of one document, oldest first.
    package func find(in versions: [VersionReport], of document: String) throws(VolumeError)
        -> VersionReport
    {
        switch self {
        case .number(let number):
            if let version = versions.first(where: { $0.number == number }) { return version }
            // A text of digits alone can also be the beginning of an id.
            let text = "\(number)"
            if let version = try ShortIdentifiers.find(text, in: versions, of: document) {
                return version
            }
            throw VolumeError(
                .notFound,
                "\(document) has no version \(number); it has \(VersionSpecifier.span(versions))")
        case .label(let label):
            if let version = versions.first(where: { $0.label == label }) { return version }
            if let version = try ShortIdentifiers.find(label, in: versions, of: document) {
                return version
            }
            throw VolumeError(
                .notFound,
                "no version of \(document) has the label \"\(label)\"; fsctl versions lists them")
        case .offset(let offset):
            // Conflict versions lie beside the sequence of the others, so an offset does not count
            // them.
            let line = versions.filter { $0.kind != "conflict" }
            let now = line.firstIndex { $0.kind == "current" } ?? line.count
            if line.indices.contains(now + offset) { return line[now + offset] }
            throw VolumeError(
                .notFound,
                "\(document) has no version \(-offset) before the current one; it has "
                    + "\(VersionSpecifier.span(versions))"
            )
        }
    }

    private static func span(_ versions: [VersionReport]) -> String {
        guard let first = versions.first, let last = versions.last else { return "none" }
        return first.number == last.number
            ? "only version \(first.number)"
            : "\(Amount.count(versions.count, "version")), \(first.number) to \(last.number)"
    }

    private static let escapeMark = "@"

    /// Marks offsets such as `-1`, which the parser would take for options. After `--` it takes
    /// nothing for an option, so the rest is left as it is.
    package static func escapingOffsets(_ arguments: [String]) -> [String] {
        let end = arguments.firstIndex(of: "--") ?? arguments.endIndex
        return arguments[..<end].map { argument in
            let digits = argument.dropFirst()
            let isOffset =
                argument.hasPrefix("-") && !digits.isEmpty
                && digits.utf8.allSatisfy { (0x30...0x39).contains($0) }
            return isOffset ? escapeMark + argument : argument
        } + arguments[end...]
    }
}

extension VersionSpecifier: ExpressibleByArgument {
    package init?(argument: String) {
        guard !argument.isEmpty else { return nil }
        self.init(argument)
    }
}
