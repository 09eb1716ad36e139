import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// The user accounts of this machine, which translate the names of owners into ids and back.
package final class Accounts: Sendable {
    /// Nil unless this process is root. Other users cannot change owners, and see nothing about
    /// them that another machine should know.
    package static let ofThisMachine: Accounts? = geteuid() == 0 ? Accounts() : nil

    /// The ids of files whose owner is not known here, as NFS and user namespaces use them.
    static let overflow = (uid: number("overflowuid"), gid: number("overflowgid"))

    /// Accounts with lower ids are those of the system, which other devices must not use.
    private static let firstOrdinary: uid_t = 1000
    /// How long an answer of the account database holds. Looking up an account may take a request
    /// to a directory server.
    private static let answersHold = Timestamp.span(seconds: 30)
    private static let answersMax = 1000

    enum Answer<Value: Sendable>: Sendable {
        case found(Value)
        case missing
        /// The database could not be asked.
        case failed
    }

    struct Account: Sendable {
        let uid: uid_t
        let gid: gid_t
    }

    private struct Answers<Key: Hashable & Sendable, Value: Sendable>: Sendable {
        var all: [Key: (answer: Answer<Value>, until: Int64)] = [:]

        mutating func find(_ key: Key, _ ask: () -> Answer<Value>) -> Answer<Value> {
            let now = cl_clock_monotonic_ns()
            if let (answer, until) = all[key], now < until { return answer }
            if all.count >= answersMax { all = [:] }
            let answer = ask()
            if case .failed = answer { return answer }
            all[key] = (answer, now + answersHold)
            return answer
        }
    }

    private let byName = Mutex(Answers<String, Account>())
    private let byNumber = Mutex(Answers<uid_t, OwnerName>())

    /// The owner of a file that belongs to `name` elsewhere. Root, accounts of the system and
    /// unknown accounts become the overflow ids: another device must not make files that this
    /// machine trusts, and a private file of an unknown owner stays private.
    func owner(named name: OwnerName) -> FileOwner {
        guard case .found(let account) = account(named: name),
            account.uid >= Accounts.firstOrdinary, account.uid != Accounts.overflow.uid
        else { return .account(uid: Accounts.overflow.uid, gid: Accounts.overflow.gid) }
        return .account(uid: account.uid, gid: account.gid)
    }

    func account(named name: OwnerName) -> Answer<Account> {
        if name.isNumber { return .missing }
        return byName.withLock {
            $0.find(name.text) {
                Accounts.look({ getpwnam_r(name.text, $0, $1, $2, $3) }) {
                    Account(uid: $0.pw_uid, gid: $0.pw_gid)
                }
            }
        }
    }

    func name(of uid: uid_t) -> Answer<OwnerName> {
        byNumber.withLock {
            $0.find(uid) {
                Accounts.look({ getpwuid_r(uid, $0, $1, $2, $3) }) { record in
                    record.pw_name.flatMap { OwnerName(Name(cString: $0).bytes) }
                }
            }
        }
    }

    /// What other devices are told about the owner of an item.
    ///
    /// They are told nothing about an item that belongs, like its directory, to the owner of the
    /// volume's root. So the volume of one person, whose user may have another name on each
    /// machine, has no owners. Everything else has the name of its owner: then neither a move nor a
    /// change of a directory's owner changes what was said about other items.
    ///
    /// - Parameters:
    ///   - root: The owner of the volume's root.
    ///   - directory: The owner of the directory that contains the item; nil if unknown.
    ///   - known: What devices and hub agreed on. It stays if the file's owner is the one that
    ///     stands for it here, or if this device does not know whom the file belongs to.
    func shared(
        _ uid: uid_t, root: uid_t, directory: () -> uid_t?, known: OwnerName?
    ) -> OwnerName? {
        guard uid != Accounts.overflow.uid else { return known }
        var isKnownHere = false
        if let known {
            switch account(named: known) {
            case .found(let account) where account.uid == uid && uid >= Accounts.firstOrdinary:
                return known
            case .found: isKnownHere = true
            case .missing: break
            case .failed: return known
            }
        }
        if uid == root, directory() ?? uid == root { return nil }
        switch name(of: uid) {
        case .found(let name): return name
        case .missing, .failed:
            return isKnownHere ? OwnerName(uid: uid) : known ?? OwnerName(uid: uid)
        }
    }

    // MARK: The databases

    private typealias Call = (
        UnsafeMutablePointer<passwd>, UnsafeMutablePointer<CChar>, Int,
        UnsafeMutablePointer<UnsafeMutablePointer<passwd>?>
    ) -> Int32

    private static func look<Value>(_ call: Call, _ value: (passwd) -> Value?) -> Answer<Value> {
        var size = 4096
        while size <= 1 << 20 {
            let answer: Answer<Value>? = withUnsafeTemporaryAllocation(
                of: CChar.self, capacity: size
            ) {
                var record = passwd()
                var found: UnsafeMutablePointer<passwd>?
                switch call(&record, $0.baseAddress!, size, &found) {
                case ERANGE: return nil
                // Databases differ in how they say that there is no such account: getpwnam(3).
                case 0, ENOENT, ESRCH:
                    return found == nil ? .missing : value(record).map { .found($0) } ?? .missing
                default: return .failed
                }
            }
            if let answer { return answer }
            size *= 4
        }
        return .failed
    }

    private static func number(_ name: String) -> UInt32 {
        guard let file = fopen("/proc/sys/kernel/\(name)", "re") else { return nobody }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 32)
        guard fgets(&line, Int32(line.count), file) != nil else { return nobody }
        return UInt32(truncatingIfNeeded: strtoul(line, nil, 10))
    }

    /// The kernel's default.
    private static let nobody: UInt32 = 65534
}
