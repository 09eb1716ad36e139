/// A histogram of times, as Prometheus counts them: each bucket has all times up to its bound.
struct Histogram {
    private static let bounds = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10]

    private var count = 0
    private var seconds = 0.0
    private var buckets = [Int](repeating: 0, count: Histogram.bounds.count)

    mutating func add(_ seconds: Double) {
        count += 1
        self.seconds += seconds
        for (index, bound) in Histogram.bounds.enumerated() where seconds <= bound {
            buckets[index] += 1
        }
    }

    /// Returns one metric in Prometheus's text format, with a histogram for each set of labels.
    static func text(_ name: String, _ help: String, _ parts: [(labels: String, Histogram)])
        -> String
    {
        var text = "# HELP \(name) \(help)\n# TYPE \(name) histogram\n"
        for (labels, histogram) in parts {
            let (before, braces) = (
                labels.isEmpty ? "" : labels + ",", labels.isEmpty ? "" : "{\(labels)}"
            )
            for (bound, count) in zip(bounds, histogram.buckets) {
                text += "\(name)_bucket{\(before)le=\"\(bound)\"} \(count)\n"
            }
            text += "\(name)_bucket{\(before)le=\"+Inf\"} \(histogram.count)\n"
            text += "\(name)_sum\(braces) \(histogram.seconds)\n"
            text += "\(name)_count\(braces) \(histogram.count)\n"
        }
        return text
    }
}
