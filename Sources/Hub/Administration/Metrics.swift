import Synchronization

/// The metrics for Prometheus: counters since the start, and a few gauges.
package final class Metrics: Sendable {
    package final class Counter: Sendable {
        private let value = Atomic<Int>(0)

        package func add(_ amount: Int = 1) { value.wrappingAdd(amount, ordering: .relaxed) }
        package var count: Int { value.load(ordering: .relaxed) }
    }

    package let transactions = Counter()
    package let operations = Counter()
    package let keptChunks = Counter()
    package let keptBytes = Counter()
    package let refusedChunks = Counter()
    package let damaged = Counter()
    package let collected = Counter()
    package let bytesIn = Counter()
    package let bytesOut = Counter()
    /// Requests that could not be served because the ledger's database or the server with the blobs
    /// could not be used.
    package let unavailable = Counter()

    private struct Kind: Hashable {
        let route: String
        let status: Int
    }

    private let served = Mutex<[Kind: Histogram]>([:])

    /// - Parameter route: The path with placeholders for ids, so that there are few different
    ///   labels.
    func serve(_ route: String, status: Int, seconds: Double) {
        served.withLock {
            $0[Kind(route: route, status: status), default: Histogram()].add(seconds)
        }
    }

    /// The time that each commit waited for its transaction, and the time of each transaction.
    private let commits = Mutex((waits: Histogram(), transactions: Histogram()))

    func commit(waits: [Double], seconds: Double) {
        commits.withLock { commits in
            for wait in waits { commits.waits.add(wait) }
            commits.transactions.add(seconds)
        }
    }

    /// The time from an announced head until a feed said it.
    private let tellings = Mutex(Histogram())

    func told(after delay: Duration) { tellings.withLock { $0.add(delay / .seconds(1)) } }

    /// Returns the metrics in Prometheus's text format, version 0.0.4.
    func text(gauges: [(name: String, help: String, value: Int)]) -> String {
        var text = ""
        func write(_ name: String, _ type: String, _ help: String, _ value: Int) {
            text += "# HELP concord_hub_\(name) \(help)\n# TYPE concord_hub_\(name) \(type)\n"
            text += "concord_hub_\(name) \(value)\n"
        }
        for gauge in gauges { write(gauge.name, "gauge", gauge.help, gauge.value) }
        let counters = [
            ("transactions_total", "Transactions of commits.", transactions),
            ("operations_total", "Operations that were answered.", operations),
            ("chunks_kept_total", "Uploaded chunks that were stored.", keptChunks),
            ("chunks_kept_bytes_total", "Uncompressed bytes of these chunks.", keptBytes),
            ("chunks_refused_total", "Chunks that did not match their ids.", refusedChunks),
            ("chunks_damaged_total", "Chunks that were found damaged or missing.", damaged),
            ("chunks_collected_total", "Chunks that were removed.", collected),
            ("received_bytes_total", "Bytes of request bodies.", bytesIn),
            ("sent_bytes_total", "Bytes of answer bodies.", bytesOut),
            (
                "unavailable_total",
                "Requests answered by 503, because the ledger or the blobs were unavailable.",
                unavailable
            ),
        ]
        for (name, help, counter) in counters { write(name, "counter", help, counter.count) }
        return text + histograms()
    }

    private func histograms() -> String {
        let (served, commits) = (served.withLock { $0 }, commits.withLock { $0 })
        let requests = served.sorted {
            ($0.key.route, $0.key.status) < ($1.key.route, $1.key.status)
        }
        return Histogram.text(
            "concord_hub_request_seconds", "Time until an answer began.",
            requests.map { ("route=\"\($0.key.route)\",status=\"\($0.key.status)\"", $0.value) })
            + Histogram.text(
                "concord_hub_commit_wait_seconds",
                "Time that a commit waited for its transaction.", [("", commits.waits)])
            + Histogram.text(
                "concord_hub_commit_seconds",
                "Time of a transaction of commits, until the ledger had it.",
                [("", commits.transactions)])
            + Histogram.text(
                "concord_hub_fan_out_seconds",
                "Time from a commit, or from another hub's word of it, until a feed said it.",
                [("", tellings.withLock { $0 })])
    }
}
