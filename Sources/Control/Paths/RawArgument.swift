/// Returns the bytes of a command-line argument. If an argument is not UTF-8, Swift's string has
/// replacement characters instead.
package enum RawArgument {
    package static func path(_ text: String) -> FilePath {
        guard text.unicodeScalars.contains("\u{FFFD}") else { return FilePath(text) }
        for index in 0..<Int(CommandLine.argc) {
            guard let pointer = CommandLine.unsafeArgv[index] else { continue }
            let bytes = FilePath(cString: pointer).bytes
            if String(decoding: bytes, as: UTF8.self) == text { return FilePath(bytes: bytes) }
        }
        return FilePath(text)
    }
}
