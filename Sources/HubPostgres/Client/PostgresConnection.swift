import CPostgres
import Glibc
import Hub
import Model

/// A connection to a PostgreSQL server. Its calls block, and only one thread may use it at a time.
final class PostgresConnection {
    private let pq: cp_library
    private let raw: OpaquePointer
    /// The names of the prepared statements. The types belong to the key because an argument that
    /// is null has no type.
    private var statements: [Statement: String] = [:]

    /// Whether statements are sent without waiting for the results of those before.
    private var isPipelined = false
    /// Whether the end of the pipeline was sent.
    private var isEnding = false
    /// The statements whose results were not read, and the results that were.
    private var sentCount = 0
    private var finished: [PostgresResult] = []

    private struct Statement: Hashable {
        let sql: String
        let types: [Oid]
    }

    /// How long the server may send nothing while it owes an answer, in milliseconds. Then the
    /// connection is given up, because the server has stopped or the network is broken.
    private static let silence: Int32 = 60_000

    /// - Throws: `PostgresFault`; `VolumeError` (`.notFound`) if libpq is not installed.
    init(_ address: PostgresAddress) throws {
        pq = try Libpq.load()
        let parameters = address.parameters
        let texts = parameters.map { strdup($0.name) } + parameters.map { strdup($0.value) }
        defer { for text in texts { free(text) } }
        let keywords = texts.prefix(parameters.count).map { UnsafePointer($0) } + [nil]
        let values = texts.suffix(parameters.count).map { UnsafePointer($0) } + [nil]
        guard let raw = pq.PQconnectdbParams(keywords, values, 1) else {
            throw PostgresFault(lost: "there is no memory for a connection")
        }
        self.raw = raw
        guard pq.PQstatus(raw) == CONNECTION_OK else { throw connectionFault }
        _ = pq.PQsetNoticeProcessor(raw, cp_ignore_notice, nil)
        _ = pq.PQsetnonblocking(raw, 1)
    }

    deinit { pq.PQfinish(raw) }

    var descriptor: Int32 { pq.PQsocket(raw) }

    /// Executes statements without arguments in one round trip, and returns the result of the last
    /// one that has rows. Its values are texts.
    @discardableResult
    func run(_ script: String) throws(PostgresFault) -> PostgresResult {
        try leavePipeline()
        guard pq.PQsendQuery(raw, script) == 1 else { throw lost }
        let results = try results { _, bytes in .text(String(decoding: bytes, as: UTF8.self)) }
        var last = results.last { !$0.rows.isEmpty } ?? PostgresResult()
        last.tag = results.last?.tag ?? ""
        return last
    }

    /// Executes one statement with arguments.
    func query(_ sql: String, _ arguments: [SQLValue]) throws(PostgresFault) -> PostgresResult {
        if isEnding { try leavePipeline() }
        guard !isPipelined else {
            try send(sql, arguments)
            return try finish().last ?? PostgresResult()
        }
        let name = try prepared(Statement(sql: sql, types: arguments.map(\.postgresType)))
        guard sendPrepared(name, arguments) else { throw lost }
        return try results { type, bytes throws(PostgresFault) in
            try SQLValue(bytes, of: type)
        }.last ?? PostgresResult()
    }

    private func sendPrepared(_ name: String, _ arguments: [SQLValue]) -> Bool {
        var (buffer, ends) = ([UInt8](), [Int]())
        for argument in arguments {
            argument.append(to: &buffer)
            ends.append(buffer.count)
        }
        // An empty value must have an address, because null means an SQL null.
        buffer.append(0)
        let isSent = buffer.withUnsafeBytes { bytes in
            let starts = [0] + ends.dropLast()
            let pointers = zip(arguments, starts).map { argument, start in
                argument == .null
                    ? nil
                    : bytes.baseAddress!.advanced(by: start).assumingMemoryBound(to: CChar.self)
            }
            let lengths = zip(starts, ends).map { Int32($1 - $0) }
            let formats = [Int32](repeating: 1, count: arguments.count)
            return pq.PQsendQueryPrepared(
                raw, name, Int32(arguments.count), pointers, lengths, formats, 1)
        }
        return isSent == 1
    }

    // MARK: Pipelines

    /// Sends a statement without waiting for its result, which `finish` returns. Until then, the
    /// server executes the statements that were sent in their order. After one that fails it
    /// executes none.
    func send(_ sql: String, _ arguments: [SQLValue]) throws(PostgresFault) {
        if isEnding { try leavePipeline() }
        let statement = Statement(sql: sql, types: arguments.map(\.postgresType))
        if statements[statement] == nil { finished += try finishPipeline() }
        let name = try prepared(statement)
        if !isPipelined {
            guard pq.PQenterPipelineMode(raw) == 1 else { throw lost }
            isPipelined = true
        }
        guard sendPrepared(name, arguments) else { throw lost }
        sentCount += 1
        // The server begins while the next statement is being made.
        guard pq.PQflush(raw) >= 0 else { throw lost }
    }

    /// Sends a statement whose result nobody needs, and that is the last one for some time.
    func end(_ sql: String) throws(PostgresFault) {
        try send(sql, [])
        guard pq.PQpipelineSync(raw) == 1, pq.PQflush(raw) >= 0 else { throw lost }
        isEnding = true
    }

    /// Reads the results that nobody needs. A transaction of which a statement has failed can only
    /// be rolled back, whatever is sent next.
    private func leavePipeline() throws(PostgresFault) {
        do throws(PostgresFault) { _ = try finish() } catch {
            if error.endsConnection { throw error }
        }
    }

    /// Waits until all statements were executed, and returns their results.
    func finish() throws(PostgresFault) -> [PostgresResult] {
        defer { finished = [] }
        return finished + (try finishPipeline())
    }

    private func finishPipeline() throws(PostgresFault) -> [PostgresResult] {
        guard isPipelined else { return [] }
        let count = sentCount
        sentCount = 0
        if !isEnding { guard pq.PQpipelineSync(raw) == 1 else { throw lost } }
        isEnding = false
        try flush()
        var (results, fault) = ([PostgresResult](), PostgresFault?.none)
        // The results of each statement end with a null, and those of all with that of the sync.
        defer { if pq.PQstatus(raw) == CONNECTION_OK { _ = pq.PQexitPipelineMode(raw) } }
        for _ in 0...count {
            let found = try answers { type, bytes throws(PostgresFault) in
                try SQLValue(bytes, of: type)
            }
            results += found.results
            fault = fault ?? found.fault
        }
        isPipelined = false
        if let fault { throw fault }
        guard results.count == count else { throw lost }
        return results
    }

    private func prepared(_ statement: Statement) throws(PostgresFault) -> String {
        if let known = statements[statement] { return known }
        let name = "s\(statements.count)"
        let count = Int32(statement.types.count)
        guard pq.PQsendPrepare(raw, name, statement.sql, count, statement.types) == 1 else {
            throw lost
        }
        _ = try results { _, _ in .null }
        statements[statement] = name
        return name
    }

    /// Returns the texts of the notifications that have arrived. It does not wait.
    func notifications() throws(PostgresFault) -> [String] {
        guard pq.PQconsumeInput(raw) == 1 else { throw lost }
        var texts: [String] = []
        while let notification = pq.PQnotifies(raw) {
            texts.append(text(notification.pointee.extra))
            pq.PQfreemem(notification)
        }
        return texts
    }

    // MARK: Answers

    /// Sends what is still to be sent, waits for all answers, and converts their values.
    private func results(
        _ value: (Oid, UnsafeRawBufferPointer) throws(PostgresFault) -> SQLValue
    ) throws(PostgresFault) -> [PostgresResult] {
        try flush()
        let found = try answers(value)
        if let fault = found.fault { throw fault }
        guard pq.PQstatus(raw) == CONNECTION_OK else { throw lost }
        return found.results
    }

    private func flush() throws(PostgresFault) {
        while true {
            let left = pq.PQflush(raw)
            guard left >= 0 else { throw lost }
            if left == 0 { return }
            // A server that cannot send does not read either, so both are waited for.
            try wait(for: Int16(POLLIN | POLLOUT))
        }
    }

    /// Reads the results of what was sent in one piece, or in a pipeline those of one statement.
    private func answers(
        _ value: (Oid, UnsafeRawBufferPointer) throws(PostgresFault) -> SQLValue
    ) throws(PostgresFault) -> (results: [PostgresResult], fault: PostgresFault?) {
        var (results, fault) = ([PostgresResult](), PostgresFault?.none)
        while true {
            while pq.PQisBusy(raw) == 1 { try wait(for: Int16(POLLIN)) }
            guard let result = pq.PQgetResult(raw) else { break }
            defer { pq.PQclear(result) }
            switch pq.PQresultStatus(result) {
            case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY:
                do throws(PostgresFault) { results.append(try converted(result, value)) } catch {
                    fault = fault ?? error
                }
            case PGRES_PIPELINE_SYNC: return (results, fault)
            // A statement before it has failed.
            case PGRES_PIPELINE_ABORTED: break
            default: fault = fault ?? self.fault(of: result)
            }
        }
        return (results, fault)
    }

    private func converted(
        _ result: OpaquePointer,
        _ value: (Oid, UnsafeRawBufferPointer) throws(PostgresFault) -> SQLValue
    ) throws(PostgresFault) -> PostgresResult {
        var converted = PostgresResult()
        converted.tag = text(pq.PQcmdStatus(result))
        converted.changed = Int(text(pq.PQcmdTuples(result))) ?? 0
        let types = (0..<pq.PQnfields(result)).map { pq.PQftype(result, $0) }
        for row in 0..<pq.PQntuples(result) {
            var values: [SQLValue] = []
            for (column, type) in zip(Int32(0)..., types) {
                guard pq.PQgetisnull(result, row, column) == 0 else {
                    values.append(.null)
                    continue
                }
                let bytes = UnsafeRawBufferPointer(
                    start: pq.PQgetvalue(result, row, column),
                    count: Int(pq.PQgetlength(result, row, column)))
                values.append(try value(type, bytes))
            }
            converted.rows.append(LedgerRow(values))
        }
        return converted
    }

    /// Waits until the socket is ready, and reads what has arrived.
    private func wait(for events: Int16) throws(PostgresFault) {
        var waiting = pollfd(fd: pq.PQsocket(raw), events: events, revents: 0)
        var ready: Int32
        repeat { ready = poll(&waiting, 1, Self.silence) } while ready < 0 && errno == EINTR
        guard ready > 0 else {
            throw PostgresFault(lost: "the server did not answer within \(Self.silence / 1000) s")
        }
        guard Int32(waiting.revents) & (POLLIN | POLLHUP | POLLERR) != 0 else { return }
        guard pq.PQconsumeInput(raw) == 1 else { throw lost }
    }

    private func text(_ bytes: UnsafeMutablePointer<CChar>?) -> String {
        bytes.map { String(cString: $0) } ?? ""
    }

    // MARK: Faults

    private var connectionFault: PostgresFault {
        let text = text(pq.PQerrorMessage(raw))
        // libpq gives no code for a refused connection.
        if text.contains("does not exist") && text.contains("database \"") {
            return PostgresFault(sqlState: "3D000", message: text)
        }
        let refusals = ["authentication", "password", "pg_hba.conf", "role \""]
        return refusals.contains { text.contains($0) }
            ? PostgresFault(sqlState: "28000", message: text) : PostgresFault(lost: text)
    }

    private var lost: PostgresFault {
        PostgresFault(lost: text(pq.PQerrorMessage(raw)))
    }

    private func fault(of result: OpaquePointer) -> PostgresFault {
        func field(_ code: Character) -> String? {
            pq.PQresultErrorField(result, Int32(code.asciiValue!)).map { String(cString: $0) }
        }
        // libpq itself makes a result without a code when the connection breaks.
        guard let state = field("C") else { return lost }
        return PostgresFault(sqlState: state, message: field("M") ?? "no reason given")
    }
}
