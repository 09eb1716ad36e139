import Control
import Glibc
import Model

/// Where a one-time code is read. On a command line every user of the machine could see it in the
/// list of processes.
enum OneTimeCode {
    /// - Parameters:
    ///   - argument: What the command line says; `-` stands for standard input, nil for asking.
    ///   - file: A file whose first line is the code.
    static func read(argument: String?, file: String?) throws(VolumeError) -> String {
        switch (argument, file) {
        case (_?, _?):
            throw VolumeError(.invalid, "give the code by --code or by --code-file, not by both")
        case ("-"?, nil): return try firstLine(of: readLine(), "standard input")
        case (let code?, nil):
            hide(code)
            Terminal.complain(
                "Other users of this machine could see the code in the list of processes. Without "
                    + "--code it is asked for; --code - reads it from standard input.")
            return code
        case (nil, let file?): return try firstLine(of: contents(of: file), file)
        case (nil, nil):
            if isatty(0) == 1 { Terminal.complain("The code that `concord hub invite` printed:") }
            return try firstLine(of: readLine(), "standard input")
        }
    }

    private static func contents(of file: String) throws(VolumeError) -> String? {
        guard let stream = fopen(file, "re") else {
            throw VolumeError(
                .notFound, "cannot read \(file): \(String(cString: strerror(errno)))")
        }
        defer { fclose(stream) }
        var bytes = [CChar](repeating: 0, count: 4096)
        guard fgets(&bytes, Int32(bytes.count), stream) != nil else { return nil }
        let line = bytes.prefix { $0 != 0 }.map(UInt8.init(bitPattern:))
        return String(decoding: line, as: UTF8.self)
    }

    private static func firstLine(of text: String?, _ place: String) throws(VolumeError) -> String {
        let line = text?.split(whereSeparator: \.isNewline).first.map(String.init) ?? ""
        let code = line.filter { !$0.isWhitespace }
        guard !code.isEmpty else {
            throw VolumeError(.invalid, "there is no code in \(place)")
        }
        return code
    }

    /// The kernel shows the process's own memory as its command line.
    private static func hide(_ code: String) {
        for index in 1..<Int(CommandLine.argc) {
            guard let argument = CommandLine.unsafeArgv[index] else { continue }
            let length = strlen(argument)
            guard String(cString: argument).hasSuffix(code), length >= code.utf8.count else {
                continue
            }
            memset(argument + (length - code.utf8.count), Int32(UInt8(ascii: "x")), code.utf8.count)
        }
    }
}
