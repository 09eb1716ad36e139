import ArgumentParser

/// The hidden command that the daemon of a mount runs as its applier process.
struct ApplierCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "applier",
        abstract: "Carry out the orders of a mount's daemon, read from standard input.",
        shouldDisplay: false)

    @Argument var mountPoint: String
    @Argument var socket: String

    func run() throws { ApplierProgram(mountPoint: mountPoint, socket: socket).run() }
}
