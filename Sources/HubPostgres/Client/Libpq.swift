import CPostgres
import Model

/// The functions of libpq.
enum Libpq {
    private struct Loaded: @unchecked Sendable {
        let functions: cp_library?
        let objection: String
    }

    private static let loaded: Loaded = {
        var functions = cp_library()
        var reason: UnsafePointer<CChar>?
        guard cp_load(&functions, &reason) == 0 else {
            let text = reason.map { String(cString: $0) } ?? "no reason given"
            return Loaded(functions: nil, objection: text)
        }
        return Loaded(functions: functions, objection: "")
    }()

    static func load() throws(VolumeError) -> cp_library {
        guard let functions = loaded.functions else {
            throw VolumeError(
                .notFound,
                "A ledger in PostgreSQL needs libpq: install the package libpq5 "
                    + "(\(loaded.objection)).")
        }
        return functions
    }
}
