import Control
import Glibc
import Model

/// Reads a one-time code. The command line is the worst place for one, because every user of the
/// machine can see it in the list of processes.
enum OneTimeCode {
    /// - Parameters:
    ///   - argument: The command line's value; `-` means standard input, nil means to ask for it.
    ///   - file: A file whose first line is the code.
    static func read(argument: String?, file: String?) throws(VolumeError) -> String {
        switch (argument, file) {
        case (_?, _?):
            throw VolumeError(.invalid, "give the code by --code or by --code-file, not by both")
        case ("-"?, nil): return try firstLine(of: readLine(), "standard input")
        case (let code?, nil):
            hide(code)
            Terminal.printError(
                "Other users of this machine could see the code in the list of processes. Without "
                    + "--code it is asked for; --code - reads it from standard input.")
            return code
        case (nil, let file?): return try firstLine(of: contents(of: file), file)
        case (nil, nil):
            if isatty(0) == 1 { Terminal.printError("The code that `concord hub invite` printed:") }
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

    /// Overwrites the code in the process's memory, which the kernel shows as its command line.
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
