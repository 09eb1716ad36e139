import Mustache

/// The templates of all pages. They are files in `Resources` and become part of the program when
/// it is built.
enum Templates {
    private static let library: MustacheLibrary = {
        MustacheContentTypes.register(PageText(), named: PageText.name)
        let sources: [String: [UInt8]] = [
            "frame": PackageResources.frame_mustache,
            "error": PackageResources.error_mustache,
            "reload": PackageResources.reload_mustache,
            "signin": PackageResources.signin_mustache,
            "volumes": PackageResources.volumes_mustache,
            "folder": PackageResources.folder_mustache,
            "past": PackageResources.past_mustache,
            "document": PackageResources.document_mustache,
            "compare": PackageResources.compare_mustache,
            "edit": PackageResources.edit_mustache,
            "move": PackageResources.move_mustache,
            "change": PackageResources.change_mustache,
            "activity": PackageResources.activity_mustache,
            "devices": PackageResources.devices_mustache,
            "hub": PackageResources.hub_mustache,
            "path": PackageResources.path_mustache,
            "preview": PackageResources.preview_mustache,
            "parts": PackageResources.parts_mustache,
            "link": PackageResources.link_mustache,
            "entrance": PackageResources.entrance_mustache,
            "share": PackageResources.share_mustache,
        ]
        var library = MustacheLibrary()
        for (name, bytes) in sources {
            let text = String(decoding: bytes, as: UTF8.self)
            do {
                try library.register("{{% CONTENT_TYPE:\(PageText.name)}}" + text, named: name)
            } catch {
                preconditionFailure("The template \(name) is not valid: \(error)")
            }
        }
        return library
    }()

    /// - Parameter view: A value whose stored properties have the names that the template uses.
    static func render(_ template: String, _ view: Any) -> String {
        guard let text = library.render(values(of: view) ?? view, withTemplate: template) else {
            preconditionFailure("There is no template \(template).")
        }
        return text
    }

    /// The same value with dictionaries instead of structures. For each name in a template,
    /// Mustache would reflect all properties of a structure, which took most of the time of a page
    /// with many rows.
    private static func values(of value: Any) -> Any? {
        let mirror = Mirror(reflecting: value)
        switch mirror.displayStyle {
        case .optional: return mirror.children.first.flatMap { values(of: $0.value) }
        case .collection: return mirror.children.compactMap { values(of: $0.value) }
        case .struct where !mirror.children.isEmpty:
            var result: [String: Any] = [:]
            for child in mirror.children {
                if let name = child.label { result[name] = values(of: child.value) }
            }
            return result
        default: return value
        }
    }
}

/// Escapes text for HTML. Mustache's own escaping looks at whole characters, so it leaves a
/// quotation mark as it is when a combining mark follows it, and the name of a document could end
/// an attribute.
struct PageText: MustacheContentType {
    static let name = "PAGE"

    func escapeText(_ text: String) -> String {
        guard text.utf8.contains(where: { PageText.escape(of: $0) != nil }) else { return text }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count + 32)
        for byte in text.utf8 {
            if let escape = PageText.escape(of: byte) {
                bytes += Array(escape.utf8)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func escape(of byte: UInt8) -> String? {
        switch byte {
        case UInt8(ascii: "<"): "&lt;"
        case UInt8(ascii: ">"): "&gt;"
        case UInt8(ascii: "&"): "&amp;"
        case UInt8(ascii: "\""): "&quot;"
        case UInt8(ascii: "'"): "&#39;"
        default: nil
        }
    }
}
