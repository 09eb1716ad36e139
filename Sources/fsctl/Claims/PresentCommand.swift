import ArgumentParser
import Control
import Model

struct PresentCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "present",
        abstract: "Present a document as an editor does: receive messages, and answer.",
        discussion: """
            Prints one line of JSON for each message: its kind and, where there is one, the \
            turn, path, to and version. The first line says "presenting" when registration is \
            complete. Paths are absolute. Every message is answered at once, with nothing to \
            save, unless an option says otherwise. The command ends after it has let the \
            document be deleted.

            With --interactive another program answers. It writes one line of JSON for each \
            message that asks (relinquishToReader, relinquishToWriter, save, \
            accommodateDeletion, accommodateSubitemDeletion): {"turn":12}, or \
            {"turn":12,"failure":"No space."}; the end of standard input ends the command. So \
            an editor's plugin can be a presenter.

            EXAMPLES
              fsctl present letter.txt --save-text 'as it is on the screen'
              fsctl present letter.txt --save-command 'date >"$CONCORD_PATH"' --delay 2
              fsctl present letter.txt --refuse 'the disk is full'
            """)

    @Option(
        help: """
            The kinds of messages to receive, separated by commas; claims do not wait for \
            answers to the others.
            """)
    var hears: Kinds = .init(all: PresenterMessage.Kind.allCases)

    @Option(help: "The process that presents; it must be an ancestor of this one.")
    var process: Int32?

    @Option(help: "When asked to save, run this in a shell; CONCORD_PATH names the document.")
    var saveCommand: String?

    @Option(help: "Unsaved text: written to the document when first asked to save.")
    var saveText: String?

    @Option(help: "When asked to save or to allow a deletion, refuse for this reason.")
    var refuse: String?

    @Option(help: "Seconds to wait before each answer.")
    var delay: Double = 0

    @Flag(help: "Never answer: programs wait until their time is over.")
    var neverAnswer = false

    @Flag(help: "Read the answers from standard input.")
    var interactive = false

    @Argument(help: "A document or directory.", completion: .file())
    var path: String

    func validate() throws {
        guard delay.isFinite, delay >= 0 else {
            throw ValidationError("The delay is a number of seconds, 0 or more.")
        }
        let ways = [saveCommand != nil, saveText != nil, refuse != nil, neverAnswer, interactive]
        guard ways.count(where: \.self) <= 1 else {
            throw ValidationError(
                "Give one of --save-command, --save-text, --refuse, --never-answer, --interactive.")
        }
        guard !interactive || delay == 0 else {
            throw ValidationError("--interactive takes no --delay.")
        }
    }

    func run() throws {
        let answerMode: Presentation.AnswerMode =
            if interactive { .fromStandardInput } else if neverAnswer { .neverAnswer } else {
                .answer(save: save, afterSeconds: delay)
            }
        let place = try MountedPath(RawArgument.path(path))
        let presentation = try Presentation(of: place, answerMode: answerMode)
        try presentation.run(hears: hears.all, process: process)
    }

    private var save: Presentation.Save {
        if let saveCommand { return .command(saveCommand) }
        if let saveText { return .text(saveText) }
        return refuse.map { .refusal($0) } ?? .nothing
    }

    /// `save,changed,moved`
    struct Kinds: ExpressibleByArgument {
        var all: [PresenterMessage.Kind]
        var defaultValueDescription: String { "all" }
    }
}

extension PresentCommand.Kinds {
    init?(argument: String) {
        let names = argument.split(separator: ",").map(String.init)
        let known = names.compactMap(PresenterMessage.Kind.init(rawValue:))
        guard known.count == names.count else { return nil }
        self.init(all: known)
    }

    static var allValueStrings: [String] { PresenterMessage.Kind.allCases.map(\.rawValue) }
}
