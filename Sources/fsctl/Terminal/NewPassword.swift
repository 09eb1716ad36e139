import Glibc
import Model

/// Reads a new password. It is never on the command line, because every user of the machine can
/// see that in the list of processes.
enum NewPassword {
    /// Asks on the terminal, where it is not shown, or reads the first line of standard input.
    static func read() throws(VolumeError) -> String {
        guard isatty(0) == 1 else {
            guard let line = readLine(), !line.isEmpty else {
                throw VolumeError(.invalid, "there is no password in standard input")
            }
            return line
        }
        let first = ask("Password for the link: ")
        guard !first.isEmpty else { throw VolumeError(.invalid, "there is no password") }
        guard ask("The same again: ") == first else {
            throw VolumeError(.invalid, "the two passwords are different")
        }
        return first
    }

    private static func ask(_ question: String) -> String {
        var former = termios()
        let isTerminal = tcgetattr(0, &former) == 0
        var hidden = former
        hidden.c_lflag &= ~tcflag_t(ECHO)
        // Before the question, because what was typed until then is dropped.
        if isTerminal { tcsetattr(0, TCSAFLUSH, &hidden) }
        let bytes = Array(question.utf8)
        _ = write(2, bytes, bytes.count)
        defer {
            if isTerminal { tcsetattr(0, TCSAFLUSH, &former) }
            _ = write(2, "\n", 1)
        }
        return readLine() ?? ""
    }
}
