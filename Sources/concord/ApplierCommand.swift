import ArgumentParser

/// What the mount's daemon starts for itself; nobody else has a use for it.
struct ApplierCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "applier",
        abstract: "Carry out what the daemon of a mount says on standard input.",
        shouldDisplay: false)

    @Argument var mountPoint: String
    @Argument var socket: String

    func run() throws { ApplierProgram(mountPoint: mountPoint, socket: socket).run() }
}
