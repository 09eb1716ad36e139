import CLinux
import Glibc
import Model
import SystemCalls

/// The limits for the resources of a merge program.
package struct ProgramLimits: Hashable, Sendable {
    /// The elapsed time of the whole run, and the processor time of each of its processes: 1 to
    /// 3600.
    package var seconds: Int
    /// The address space of each of its processes, in MiB.
    package var memory: Int

    package init(seconds: Int = 10, memory: Int = 1024) {
        self.seconds = seconds
        self.memory = memory
    }

    /// The largest file that it may write, in bytes.
    static let fileMax: UInt64 = 256 << 20
}

/// A program that runs in its own directory and its own session, with a small environment and with
/// limits. `path(of:)` finds its path first.
struct LimitedProgram {
    let path: String
    let directory: Scratch
    let limits: ProgramLimits
    /// Additional variables, as `NAME=VALUE`.
    var environment: [String] = []
    /// Asked several times a second. When it returns false, the program is killed.
    var mayGoOn: @Sendable () -> Bool = { true }

    enum Ending: Equatable {
        case exit(Int32)
        /// The program was killed or could not start. The text says why: the end of a sentence.
        case failed(String)
    }

    /// Milliseconds between two questions whether the program may go on.
    private static let pause = 100

    /// The files of the directory to which the program's output and errors go.
    static let output = "output"
    static let errors = "errors"

    /// The absolute path of a program; nil when PATH has no program of that name.
    static func path(of program: String) -> String? {
        if program.contains("/") { return access(program, X_OK) == 0 ? program : nil }
        for directory in searchPath.split(separator: ":") where directory.first == "/" {
            let path = "\(directory)/\(program)"
            var status = stat()
            if access(path, X_OK) == 0, stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG
            {
                return path
            }
        }
        return nil
    }

    static var searchPath: String {
        getenv("PATH").map { String(cString: $0) } ?? "/usr/local/bin:/usr/bin:/bin"
    }

    /// Runs the program until it ends. Its standard input is `input`, a file of the directory.
    /// `arguments` does not include the program's name. Paths in it need not be UTF-8.
    func run(_ arguments: [[UInt8]], input: String? = nil) throws(VolumeError) -> Ending {
        let input = try directory.open(input ?? "/dev/null", flags: O_RDONLY)
        let make = O_WRONLY | O_CREAT | O_TRUNC
        let output = try directory.open(LimitedProgram.output, flags: make)
        let errors = try directory.open(LimitedProgram.errors, flags: make)
        var allowed = cl_limits(
            seconds: UInt64(limits.seconds), memory: UInt64(limits.memory) << 20,
            file: ProgramLimits.fileMax)
        let words = strings([Array(path.utf8)] + arguments)
        let usual = ["PATH=\(LimitedProgram.searchPath)", "LC_ALL=C.UTF-8", "TZ=UTC"]
        let variables = strings(
            (usual + ["TMPDIR=\(directory.path)"] + environment).map { Array($0.utf8) })
        defer { for string in words + variables { free(string) } }
        let process = cl_start_limited(
            path, words, variables, directory.path, input.raw, output.raw, errors.raw, &allowed)
        if process < 0 { return .failed("could not be started: \(Errno(-process))") }
        var milliseconds = limits.seconds * 1000
        while milliseconds > LimitedProgram.pause, mayGoOn(),
            cl_await_limited(process, Int32(LimitedProgram.pause)) == 0
        {
            milliseconds -= LimitedProgram.pause
        }
        let status = cl_finish_limited(process, mayGoOn() ? Int32(milliseconds) : 0)
        if status == -ETIMEDOUT, !mayGoOn() {
            return .failed("was ended, because the volume is being unmounted")
        }
        if status == -ETIMEDOUT { return .failed("took longer than \(limits.seconds) seconds") }
        if status < 0 { return .failed("could not be waited for: \(Errno(-status))") }
        let code = cl_exit_status(status)
        guard code > 128, status & 0x7f != 0 else { return .exit(code) }
        switch code - 128 {
        case SIGXCPU, SIGKILL:
            return .failed("was killed: more than \(limits.seconds) seconds, or too much memory")
        case SIGXFSZ: return .failed("wrote a file larger than 256 MiB")
        default: return .failed("was ended by signal \(code - 128)")
        }
    }

    /// The first line that the program wrote to its standard error, at most 200 bytes.
    func firstErrorLine() -> String {
        let said = (try? directory.read(LimitedProgram.errors, sizeMax: 4096)) ?? []
        let line = said.split(separator: UInt8(ascii: "\n")).first ?? []
        return String(decoding: line.prefix(200), as: UTF8.self)
    }

    private func strings(_ words: [[UInt8]]) -> [UnsafeMutablePointer<CChar>?] {
        words.map { word in Name(bytes: word).withCString { strdup($0) } } + [nil]
    }
}
