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

    private struct Kind: Hashable {
        let route: String
        let status: Int
    }

    private struct Served {
        var count = 0
        var seconds = 0.0
        var buckets = [Int](repeating: 0, count: Metrics.bounds.count)
    }

    private static let bounds = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10]
    private let served = Mutex<[Kind: Served]>([:])

    /// - Parameter route: The path with placeholders for ids, so that there are few different
    ///   labels.
    func serve(_ route: String, status: Int, seconds: Double) {
        served.withLock { served in
            var kind = served[Kind(route: route, status: status), default: Served()]
            kind.count += 1
            kind.seconds += seconds
            for (index, bound) in Metrics.bounds.enumerated() where seconds <= bound {
                kind.buckets[index] += 1
            }
            served[Kind(route: route, status: status)] = kind
        }
    }

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
        ]
        for (name, help, counter) in counters { write(name, "counter", help, counter.count) }
        return text + requests()
    }

    private func requests() -> String {
        let name = "concord_hub_request_seconds"
        var text = "# HELP \(name) Time until an answer began.\n# TYPE \(name) histogram\n"
        let served = served.withLock { $0 }
        for (kind, value) in served.sorted(by: {
            ($0.key.route, $0.key.status) < ($1.key.route, $1.key.status)
        }) {
            let labels = "route=\"\(kind.route)\",status=\"\(kind.status)\""
            for (bound, count) in zip(Metrics.bounds, value.buckets) {
                text += "\(name)_bucket{\(labels),le=\"\(bound)\"} \(count)\n"
            }
            text += "\(name)_bucket{\(labels),le=\"+Inf\"} \(value.count)\n"
            text += "\(name)_sum{\(labels)} \(value.seconds)\n"
            text += "\(name)_count{\(labels)} \(value.count)\n"
        }
        return text
    }
}
