import CLinux
import Glibc
import Logging
import Synchronization
import SystemCalls

/// A log: a file that is started anew when it has grown too large, or standard error.
final class LogFile: Sendable {
    /// The size in bytes at which a new file is started. One old file is kept as `.1`.
    static let sizeMax: Int64 = 4 << 20

    /// Nil means standard error.
    private let path: String?
    private let descriptor = Mutex<Int32>(-1)

    init(path: String?) { self.path = path }

    func logger(_ label: String) -> Logger {
        Logger(label: label) { label in Handler(file: self, label: label) }
    }

    /// If the file cannot be written, the line is lost: the volume must be served in any case.
    fileprivate func append(_ line: String) {
        let bytes = Array(line.utf8)
        guard let path else {
            _ = write(2, bytes, bytes.count)
            return
        }
        descriptor.withLock { descriptor in
            if descriptor >= 0, lseek(descriptor, 0, SEEK_END) > LogFile.sizeMax {
                _ = cl_close(descriptor)
                descriptor = -1
                rename(path, path + ".1")
            }
            if descriptor < 0 {
                descriptor = cl_openat(
                    AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0o600)
            }
            if descriptor >= 0 { _ = write(descriptor, bytes, bytes.count) }
        }
    }

    private struct Handler: LogHandler {
        let file: LogFile
        let label: String
        var metadata: Logger.Metadata = [:]
        var metadataProvider: Logger.MetadataProvider?
        var logLevel = Logger.Level.info

        init(file: LogFile, label: String) {
            self.file = file
            self.label = label
        }

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        /// `2026-11-20T14:03:22Z warning mount: the message key=value`
        func log(event: LogEvent) {
            let facts = metadata.merging(event.metadata ?? [:]) { $1 }
                .sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
            let text = "\(event.message)\(facts)".split(separator: "\n").joined(separator: " ")
            file.append("\(LogFile.now()) \(event.level) \(label): \(text)\n")
        }
    }

    private static func now() -> String {
        var seconds = time(nil)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        var text = [CChar](repeating: 0, count: 32)
        strftime(&text, text.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
