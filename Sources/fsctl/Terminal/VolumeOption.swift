import ArgumentParser
import Control
import Model

/// The volume that a command works on, named by any path on it.
struct VolumeOption: ParsableArguments {
    @Option(
        help: "A path on the volume. Default: the working directory.", completion: .directory)
    var at: String = "."

    func document() throws(VolumeError) -> Document { try Document(at) }

    func ask<Value: Codable & Sendable>(
        _ verb: Verb, as type: Value.Type, _ fill: (inout Request) -> Void = { _ in }
    ) throws(VolumeError) -> Value {
        var request = Request(verb)
        fill(&request)
        return try document().client.ask(request, as: type, progress: Terminal.show)
    }
}
