import AsyncHTTPClient
import ChunkStore
import Foundation
import HubProtocol
import Logging
import Model
import NIOCore
import NIOHTTP1
import NIOSSL
import Synchronization

/// Requests to an S3 server. They are repeated when they fail for a reason that may pass. While the
/// server cannot be used, they fail at once, except one every two seconds.
final class S3Client: Sendable {
    let address: S3Address
    private let signature: RequestSignature
    private let log: Logger
    private let pace: S3Pace
    private let time: @Sendable () -> Int
    private let outage = Mutex<Outage?>(nil)

    private struct Outage {
        let fault: S3Fault
        var nextTry: ContinuousClock.Instant
    }

    struct Request: Sendable {
        var method: HTTPMethod
        /// The object's name after the prefix; empty for the bucket.
        var key: String
        var query: [(String, String)] = []
        var headers: [(String, String)] = []
        var body: [UInt8] = []
        /// The longest answer.
        var limit = 8 << 20
    }

    struct Answer: Sendable {
        let status: Int
        let headers: HTTPHeaders
        let body: [UInt8]
    }

    // It lives as long as the process, because a client must be shut down before it is released.
    private static let http: HTTPClient = {
        var configuration = HTTPClient.Configuration(
            redirectConfiguration: .disallow, timeout: .init(connect: .seconds(5)))
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 32
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.httpVersion = .http1Only
        var trust = TLSConfiguration.makeClientConfiguration()
        trust.minimumTLSVersion = .tlsv12
        configuration.tlsConfiguration = trust
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    /// - Parameter time: The time in seconds since 1970.
    init(
        _ address: S3Address, _ credentials: S3Credentials, pace: S3Pace, log: Logger,
        time: @escaping @Sendable () -> Int = S3Client.now
    ) {
        self.address = address
        self.time = time
        self.pace = pace
        self.log = log
        signature = RequestSignature(credentials: credentials, region: address.region)
    }

    /// Sends a request until it succeeds or fails for a reason that lasts.
    ///
    /// - Returns: A success, or one of the answers with the status 404 (there is no such object),
    ///   412 and 416.
    /// - Throws: `.offline` with a sentence that says why the server cannot be used.
    func send(_ request: Request) async throws(VolumeError) -> Answer {
        let start = ContinuousClock.now
        // Only one request at a time tries whether an outage is over.
        let isDown = try outage.withLock { outage throws(VolumeError) in
            guard let known = outage else { return false }
            guard start >= known.nextTry else { throw known.fault.error(of: address) }
            outage?.nextTry = start + pace.interval
            return true
        }
        for attempt in 1... {
            do throws(S3Fault) {
                let answer = try await sendOnce(request)
                endOutage()
                return answer
            } catch {
                let isLast =
                    !error.isTransient || isDown || attempt == pace.attempts
                    || ContinuousClock.now - start > pace.patience
                if isLast || Task.isCancelled { throw beginOutage(error) }
            }
            // Exponential, and at a random time in the second half, so that hubs spread.
            let delay = min(pace.firstDelay * (1 << (attempt - 1)), pace.lastDelay)
            try? await Task.sleep(for: delay * Double.random(in: 0.5...1))
        }
        fatalError("the loop does not end")
    }

    /// Throws while the server cannot be used. It sends a request only to find out whether that is
    /// over.
    func checkOutage() async throws(VolumeError) {
        guard outage.withLock({ $0 != nil }) else { return }
        _ = try await send(Request(method: .GET, key: "mark"))
    }

    private func beginOutage(_ fault: S3Fault) -> VolumeError {
        let error = fault.error(of: address)
        let wasDown = outage.withLock { outage in
            defer { outage = Outage(fault: fault, nextTry: .now + pace.interval) }
            return outage != nil
        }
        if !wasDown { log.error("blobs cannot be read or moved until this is over: \(error)") }
        return error
    }

    private func endOutage() {
        let wasDown = outage.withLock { outage in
            defer { outage = nil }
            return outage != nil
        }
        if wasDown { log.notice("\(address.name) is back") }
    }

    static let now: @Sendable () -> Int = { Int(Date().timeIntervalSince1970) }

    // MARK: One attempt

    private func sendOnce(_ request: Request) async throws(S3Fault) -> Answer {
        let path = "/\(address.bucket)/" + (request.key.isEmpty ? "" : address.prefix + request.key)
        let query = RequestSignature.canonical(request.query)
        var sent = HTTPClientRequest(
            url: address.endpoint + path + (query.isEmpty ? "" : "?\(query)"))
        sent.method = request.method
        let headers = signature.headers(
            request.method.rawValue, path, query: request.query,
            headers: request.headers + [("host", address.host)], body: .sha256(request.body),
            time: time())
        for (name, value) in headers { sent.headers.add(name: name, value: value) }
        if !request.body.isEmpty { sent.body = .bytes(ByteBuffer(bytes: request.body)) }
        let answer = try await answer(to: sent, request)
        let isSuccess = (200..<300).contains(answer.status)
        // A multipart upload that cannot be completed may be told after a status of success.
        let hidden = isSuccess && request.method == .POST ? S3Element(answer.body) : nil
        if isSuccess, hidden?.name != "Error" { return answer }
        let fault = S3Fault(
            status: answer.status, date: answer.headers.first(name: "date") ?? "", answer.body)
        if answer.status == 412 || answer.status == 416 { return answer }
        if answer.status == 404, fault.code != "NoSuchBucket" { return answer }
        throw hidden == nil ? fault : S3Fault(code: fault.code, status: 500, fault.message)
    }

    private func answer(to sent: HTTPClientRequest, _ request: Request) async throws(S3Fault)
        -> Answer
    {
        // The bytes of both sides get time at about 1 MB/s.
        let bytes = request.body.count + (request.method == .GET ? request.limit : 0)
        let time = pace.silence + .milliseconds(bytes >> 10)
        do {
            return try await withThrowingTaskGroup(of: Answer?.self) { group in
                group.addTask {
                    let response = try await Self.http.execute(sent, timeout: .hours(1))
                    let body = try await response.body.collect(upTo: request.limit)
                    return Answer(
                        status: Int(response.status.code), headers: response.headers,
                        body: Array(body.readableBytesView))
                }
                group.addTask {
                    try await Task.sleep(for: time)
                    return nil
                }
                defer { group.cancelAll() }
                guard let answer = try await group.next() ?? nil else {
                    throw S3Fault("it did not answer within \(time.components.seconds) s")
                }
                return answer
            }
        } catch {
            throw error as? S3Fault ?? S3Fault("\(error)")
        }
    }
}

/// How often and for how long a request is tried.
package struct S3Pace: Sendable {
    /// How long a server may be silent before a request counts as lost.
    package var silence = Duration.seconds(10)
    package var attempts = 6
    /// The time after which a request is not tried again.
    package var patience = Duration.seconds(20)
    package var firstDelay = Duration.milliseconds(100)
    package var lastDelay = Duration.seconds(3)
    /// The time between two attempts to reach a server that could not be used.
    package var interval = Duration.seconds(2)

    package init() {}
}
