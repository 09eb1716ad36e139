import Model

/// The media type of a file, by its name, and how a page can show it.
package struct FileType: Hashable, Sendable {
    package enum Preview: Hashable, Sendable { case text, picture, pdf }

    package let media: String
    package let preview: Preview?

    /// Whether the contents may be a text although the name does not say so.
    package var mayBeText: Bool { preview == .text || media == FileType.octets }

    private static let octets = "application/octet-stream"

    package init(name: String) {
        let ending = String(decoding: Name(name).fileExtension, as: UTF8.self).lowercased()
        if let picture = FileType.pictures[ending] {
            (media, preview) = (picture, .picture)
        } else if ending == "pdf" {
            (media, preview) = ("application/pdf", .pdf)
        } else if FileType.texts.contains(ending) {
            (media, preview) = ("text/plain; charset=utf-8", .text)
        } else {
            (media, preview) = (FileType.others[ending] ?? FileType.octets, nil)
        }
    }

    /// Only types that a browser shows without running anything.
    private static let pictures = [
        "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
        "webp": "image/webp", "avif": "image/avif", "bmp": "image/bmp", "svg": "image/svg+xml",
    ]

    /// Also the source text of what a browser would run, such as HTML.
    private static let texts: Set<String> = [
        "txt", "md", "markdown", "rst", "tex", "bib", "org", "adoc", "log", "csv", "tsv", "json",
        "jsonl", "xml", "yaml", "yml", "toml", "ini", "conf", "cfg", "env", "html", "htm", "xhtml",
        "css", "js", "mjs", "ts", "tsx", "jsx", "c", "h", "cc", "cpp", "hpp", "m", "mm", "swift",
        "py", "rb", "rs", "go", "java", "kt", "scala", "sh", "bash", "zsh", "fish", "pl", "php",
        "sql", "r", "jl", "lua", "el", "vim", "diff", "patch", "srt", "vtt", "ics", "vcf", "gpx",
        "mk", "cmake", "service",
    ]

    private static let others = [
        "zip": "application/zip", "gz": "application/gzip", "tar": "application/x-tar",
        "7z": "application/x-7z-compressed", "mp3": "audio/mpeg", "ogg": "audio/ogg",
        "flac": "audio/flac", "wav": "audio/wav", "m4a": "audio/mp4", "mp4": "video/mp4",
        "webm": "video/webm", "mkv": "video/x-matroska", "mov": "video/quicktime",
        "epub": "application/epub+zip", "doc": "application/msword",
        "odt": "application/vnd.oasis.opendocument.text",
        "ods": "application/vnd.oasis.opendocument.spreadsheet",
        "odp": "application/vnd.oasis.opendocument.presentation",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ]
}
