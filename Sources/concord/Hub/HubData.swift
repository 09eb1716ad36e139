import ArgumentParser
import Control
import Dispatch
import Glibc
import Hub
import Model
import Synchronization

/// The option `--data`, which every hub command takes.
struct HubData: ParsableArguments {
    @Option(help: "The hub's directory.", completion: .directory)
    var data: String

    var directory: DataDirectory {
        DataDirectory(RawArgument.path(data).absolute.description)
    }

    /// Opens the hub's directory, calls `body`, and closes the directory.
    func administer<Result: Sendable>(
        mayCreate: Bool = false,
        _ body: @escaping @Sendable (Administration) async throws -> Result
    ) throws -> Result {
        let directory = self.directory
        // The files must be private to the hub's user, even in a directory that others may enter.
        umask(0o077)
        return try BlockingCall.wait {
            let administration = try Administration(directory, mayCreate: mayCreate)
            let result = try await body(administration)
            try administration.close()
            return result
        }
    }
}

/// Runs asynchronous calls of the hub from a synchronous command.
enum BlockingCall {
    /// Blocks the calling thread until `body` has finished. Do not call it on a thread of the
    /// concurrency pool.
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
