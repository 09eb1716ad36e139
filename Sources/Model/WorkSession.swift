/// The session in which a program saved: the terminal, the service or the agent that started it.
/// The history shows it, and `fsctl rewind --by` undoes all edits of one session. It is a label: no
/// permission ever depends on it.
///
/// It has two forms. If a process has `CONCORD_SESSION=NAME` in its environment, the text is that
/// name. Otherwise it is made of what the kernel knows, as `pts/3.4711.1c9f03aa`: the terminal,
/// systemd unit or program, the session leader's process number, and a number for the time at which
/// the leader began, so that a reused process number makes another session.
package struct WorkSession: Hashable, Sendable {
    /// From 1 to `bytesMax` bytes of ASCII: letters, digits and `._/@+=-`.
    package let text: String

    package static let bytesMax = 64
    /// The variable of the environment.
    package static let variable = "CONCORD_SESSION"

    /// Parses a text of the journal, the hub or a request. Returns nil if it is not valid.
    package init?(_ text: String) {
        guard (1...WorkSession.bytesMax).contains(text.utf8.count),
            text.utf8.allSatisfy(WorkSession.isAllowed)
        else { return nil }
        self.text = text
    }

    /// Parses the name that a process gives its session. A name in the form of the kernel's facts
    /// is refused, so that the two forms cannot be confused.
    package init?(label: String) {
        guard let session = WorkSession(label), !session.isKernels else { return nil }
        self = session
    }

    /// Makes the text from what the kernel knows.
    ///
    /// - Parameters:
    ///   - origin: A terminal, a unit or a program. Characters that are not allowed become `_`.
    ///   - start: A number for when the leader began.
    package init(origin: String, leader: Int32, start: UInt64) {
        let end = "." + String(UInt32(bitPattern: leader)) + "." + WorkSession.number(start)
        let name = origin.utf8.prefix(WorkSession.bytesMax - end.utf8.count).map {
            WorkSession.isAllowed($0) ? $0 : UInt8(ascii: "_")
        }
        text = String(decoding: name, as: UTF8.self) + end
    }

    /// Eight hexadecimal digits.
    private static func number(_ start: UInt64) -> String {
        let mixed = UInt32(truncatingIfNeeded: start ^ start >> 32)
        let digits = String(mixed, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }

    /// Whether the text has the form that is made of the kernel's facts.
    package var isKernels: Bool {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count > 2, let number = parts.last, let leader = parts.dropLast().last else {
            return false
        }
        return number.utf8.count == 8 && UInt32(number, radix: 16) != nil && Int32(leader) != nil
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x61...0x7A, 0x41...0x5A, 0x30...0x39: true
        default: "._/@+=-".utf8.contains(byte)
        }
    }
}

/// A program and its session as one text, in the event log, in the stash's rows and for the hub:
/// `sed (agent-7)`. An older build takes all of it for the program's name.
package enum Signature {
    package static func text(program: String, _ session: WorkSession?) -> String {
        // A program name that ends with `)` gets empty brackets, so that the last brackets are
        // always those of the session.
        guard session != nil || program.hasSuffix(")") else { return program }
        return "\(program) (\(session?.text ?? ""))"
    }

    package static func parse(_ text: String) -> (program: String, session: WorkSession?) {
        guard let (program, inside) = text.split(atLast: "(", ")") else { return (text, nil) }
        let session = WorkSession(String(inside))
        return session != nil || inside.isEmpty ? (program, session) : (text, nil)
    }
}

extension String {
    /// Splits a text that ends with a space and something in brackets, as `sed (agent-7)`. Nil for
    /// any other text.
    func split(atLast opening: Unicode.Scalar, _ closing: Unicode.Scalar)
        -> (before: String, inside: Substring)?
    {
        guard utf8.last == UInt8(ascii: closing),
            let open = utf8.lastIndex(of: UInt8(ascii: opening)), open > startIndex
        else { return nil }
        let space = utf8.index(before: open)
        guard utf8[space] == UInt8(ascii: " ") else { return nil }
        return (String(self[..<space]), self[utf8.index(after: open)...].dropLast())
    }
}
