/// The program behind a request, as far as history cares. (Not Swift's actors: the one who acts.)
package struct Actor: Hashable, Sendable {
    /// The thread id that the kernel names in a request.
    package var process: Int32
    package var uid: UInt32
    /// The command's name, at most 15 bytes; empty when it could not be found out.
    package var program: String

    package init(process: Int32, uid: UInt32, program: String) {
        self.process = process
        self.uid = uid
        self.program = program
    }
}
