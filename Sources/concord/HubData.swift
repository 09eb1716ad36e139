import ArgumentParser
import Control
import Dispatch
import Glibc
import Hub
import Model
import Synchronization

/// `--data`, which every command about a hub takes.
struct HubData: ParsableArguments {
    @Option(help: "The hub's directory.", completion: .directory)
    var data: String

    var directory: DataDirectory {
        DataDirectory(RawArgument.path(data).absolute.description)
    }

    /// Opens what is there, and closes it when `body` is done.
    func administer<Result: Sendable>(
        mayCreate: Bool = false,
        _ body: @escaping @Sendable (Administration) async throws -> Result
    ) throws -> Result {
        let directory = self.directory
        // What a hub keeps is nobody else's, also in a directory that others may enter.
        umask(0o077)
        return try Waiting.wait {
            let administration = try Administration(directory, mayCreate: mayCreate)
            let result = try await body(administration)
            try administration.close()
            return result
        }
    }
}

/// The hub's calls are asynchronous, and a command has one thing to do.
enum Waiting {
    /// Keeps the calling thread, which is none of those that tasks run on.
    static func wait<Value: Sendable>(
        for body: @escaping @Sendable () async throws -> Value
    ) throws -> Value {
        let (done, outcome) = (DispatchSemaphore(value: 0), Outcome<Value>())
        Task {
            do {
                let value = try await body()
                outcome.result.withLock { $0 = .success(value) }
            } catch {
                outcome.result.withLock { $0 = .failure(error) }
            }
            done.signal()
        }
        done.wait()
        return try outcome.result.withLock { try $0!.get() }
    }

    private final class Outcome<Value: Sendable>: Sendable {
        let result = Mutex<Result<Value, any Error>?>(nil)
    }
}
