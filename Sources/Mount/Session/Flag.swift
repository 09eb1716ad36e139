import Glibc

/// Open flags and bits as numbers, because several are macros that Swift cannot import.
enum Flag {
    static let path: Int32 = 0o10000000 | O_NOFOLLOW  // O_PATH
    static let direct: Int32 = 0o40000  // O_DIRECT
    static let temporary: Int32 = 0o20000000 | O_DIRECTORY  // O_TMPFILE
    static let noAccessTime: Int32 = 0o1000000  // O_NOATIME
    static let emptyPath: Int32 = 0x1000  // AT_EMPTY_PATH
    static let noFollow: Int32 = 0x100  // AT_SYMLINK_NOFOLLOW
    static let renameExchange: UInt32 = 2
    static let renameNoReplace: UInt32 = 1
    static let immutable: UInt64 = 0x10  // STATX_ATTR_IMMUTABLE
    static let appendOnly: UInt64 = 0x20  // STATX_ATTR_APPEND
    static let keepSize: Int32 = 1  // FALLOC_FL_KEEP_SIZE
    static let punchHole: Int32 = 2  // FALLOC_FL_PUNCH_HOLE

    /// Flags of a program's open that our own descriptor must not have. O_DIRECT: our buffers are
    /// not aligned. O_CREAT, O_EXCL and O_NOFOLLOW: the file was found or created already. O_TRUNC:
    /// truncation is a separate step. O_APPEND: each write says whether it appends, because the
    /// kernel writes back pages of a mapping by the same handle.
    static let notOurs =
        direct | O_NOFOLLOW | O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_APPEND
}
