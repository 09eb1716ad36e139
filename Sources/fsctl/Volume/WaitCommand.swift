import ArgumentParser
import Control
import Model

struct WaitCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract: "Wait until a document, or all in a directory, is safe.",
        discussion: """
            "disk" means that bytes, name and history survive a loss of power, "hub" that they \
            survive the loss of this device. What keeps a document from that is printed at once.
            """)

    enum Durability: String, ExpressibleByArgument, CaseIterable { case memory, disk, hub }

    @OptionGroup var output: OutputOptions

    @Option(help: "The durability to wait for: memory, disk or hub.")
    var durable: Durability = .disk

    @Option(help: "Fail after this many seconds.")
    var timeout: Double = 300

    @Argument(help: "A document or directory.", completion: .file())
    var path: String

    func validate() throws {
        guard timeout.isFinite, timeout >= 0 else {
            throw ValidationError("The timeout is a number of seconds, 0 or more.")
        }
    }

    func run() throws {
        let document = try Document(path)
        var request = Request(.wait, path: document.place.components)
        request.durability = durable.rawValue
        request.timeoutSeconds = timeout
        var said: String?
        let done = try document.client.ask(request, as: Nothing.self) { step in
            Terminal.show(step)
            guard let notice = step.notice, notice != said else { return }
            said = notice
            Terminal.clearProgress()
            Terminal.printError("fsctl: \(step.text)")
        }
        output.show(done) { "" }
    }
}
