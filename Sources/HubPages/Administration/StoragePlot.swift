import HTTPTypes
import Hub
import Hummingbird
import Model
import NIOCore

/// How much the hub has stored over time, as a picture.
struct StoragePlot: Sendable {
    private let days: [StorageHistory.Day]

    /// Returns nil if there are no two days that could be compared.
    init?(_ days: [StorageHistory.Day]) {
        guard days.count > 1 else { return nil }
        self.days = days
    }

    /// What the picture shows, in words.
    var caption: String {
        let most = days.max { $0.bytes < $1.bytes } ?? days[0]
        return [("", days[0]), ("at most ", most), ("", days[days.count - 1])].map { word, day in
            let date = ShownTime(day.number * Timestamp.span(seconds: 86_400)).text.prefix(10)
            return "\(word)\(Shown.size(day.bytes)) on \(date)"
        }.joined(separator: ", ")
    }

    private static let (width, height) = (Int64(720), Int64(160))

    /// SVG without text and styles. The colors have contrast on light and on dark pages.
    var picture: String {
        let (first, last) = (days[0].number, days[days.count - 1].number)
        let most = max(1, days.map(\.bytes).max() ?? 1)
        let (width, height) = (StoragePlot.width, StoragePlot.height)
        let points: String = days.map { day -> String in
            let x = (day.number - first) * (width - 4) / max(1, last - first) + 2
            let y = height - 2 - Int64(Double(day.bytes) / Double(most) * Double(height - 4))
            return "\(x),\(y)"
        }.joined(separator: " ")
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(width) \(height)">
            <polygon points="2,\(height - 2) \(points) \(width - 2),\(height - 2)" fill="#5b84e0" \
            fill-opacity=".25"/>
            <polyline points="\(points)" fill="none" stroke="#5b84e0" stroke-width="3" \
            stroke-linejoin="round"/>
            </svg>

            """
    }

    func answer() -> Response {
        var headers = Answer.headers
        headers[.contentType] = "image/svg+xml"
        headers[.contentSecurityPolicy] = "default-src 'none'; sandbox"
        headers[.contentLength] = String(picture.utf8.count)
        return Response(
            status: .ok, headers: headers,
            body: ResponseBody(byteBuffer: ByteBuffer(string: picture)))
    }
}
