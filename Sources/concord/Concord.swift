import CLinux
import Glibc
import Logging
import Mount
import Volume

// A throw-away for trials: concord-try TREE MOUNTPOINT [OPTIONS].
@main struct Concord {
    static func main() throws {
        let words = CommandLine.arguments
        guard words.count >= 3 else { fatalError("concord-try TREE MOUNTPOINT [OPTIONS]") }
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTERM)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGUSR1)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let root = cl_openat(AT_FDCWD, words[1], 0o10000000 | O_DIRECTORY, 0)
        guard root >= 0 else { fatalError("no tree") }
        let session = try MountSession(
            volume: Volume(root: root), source: words[1], mountPoint: words[2],
            options: MountOptions(parsing: words.count > 3 ? words[3] : "allow_other"),
            socketPath: "/run/try.sock")
        listen(session)
        session.run()
    }
}

nonisolated func listen(_ session: MountSession) {
    var id = pthread_t()
    pthread_create(
        &id, nil,
        { argument in
            let session = Unmanaged<MountSession>.fromOpaque(argument!).takeUnretainedValue()
            while true {
                var signals = sigset_t()
                sigemptyset(&signals)
                sigaddset(&signals, SIGTERM)
                sigaddset(&signals, SIGINT)
                sigaddset(&signals, SIGUSR1)
                var signal: Int32 = 0
                sigwait(&signals, &signal)
                if signal == SIGUSR1 {
                    print(
                        session.isPassthrough, session.nodeCount, session.descriptorCount,
                        session.requestCounts)
                    fflush(nil)
                    continue
                }
                session.stop()
            }
        }, Unmanaged.passUnretained(session).toOpaque())
}
