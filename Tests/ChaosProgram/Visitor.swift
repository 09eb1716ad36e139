import Foundation
import Support

/// Somebody without an account, who has the address of a shared document.
enum Visitor {
    /// What an address has answered.
    enum Answer: Equatable {
        case file(Data)
        case status(String)
        /// The hub could not be reached, or ended before it had answered everything.
        case nothing
    }

    /// - Parameter address: That of a link, as `fsctl share` prints it.
    /// - Parameter hub: Where the hub is reached without the device's proxy.
    static func visit(_ address: String, at hub: String) -> Answer {
        guard let link = address.range(of: "/s/") else { return .nothing }
        var command = Command(
            "/usr/bin/env", "python3", "-c", program, "\(hub)\(address[link.lowerBound...])/file")
        command.timeoutSeconds = 30
        guard let result = try? command.run(), result.status == 0,
            let end = result.outputData.firstIndex(of: UInt8(ascii: "\n"))
        else { return .nothing }
        let status = String(decoding: result.outputData[..<end], as: UTF8.self)
        return status == "200"
            ? .file(Data(result.outputData[(end + 1)...])) : .status(status)
    }

    private static let program = """
        import sys, urllib.error, urllib.request
        try:
            answer = urllib.request.urlopen(sys.argv[1], timeout=20)
        except urllib.error.HTTPError as error:
            answer = error
        body = answer.read()
        sys.stdout.buffer.write(b"%d\\n" % answer.status + body)
        """
}

extension DevicePrograms {
    /// Shares a document, opens the link, takes it back, and opens it once more.
    func visit(_ path: String, _ event: inout Event) {
        event.outcome = "no link"
        guard let link = share(path) else { return }
        let first = Visitor.visit(link.address, at: site.hubAddress)
        switch first {
        case .file(let bytes):
            event.outcome = "ok"
            event.content = Content.name(bytes)
            event.writers = Content.writers(bytes)
        case .status(let status): event.outcome = "status \(status)"
        case .nothing: event.outcome = "no answer"
        }
        var command = site.fsctl(["share", "--revoke", link.id])
        (command.directory, command.timeoutSeconds) = (site.volume.path, 20)
        guard (try? command.run())?.status == 0 else { return }
        if case .file = Visitor.visit(link.address, at: site.hubAddress) {
            event.outcome = "still open"
        }
    }

    /// Returns nil if the device makes no link now, for example because the hub does not answer.
    private func share(_ path: String) -> (address: String, id: String)? {
        var command = site.fsctl(["share", place(path), "--json"])
        command.timeoutSeconds = 20
        guard let result = try? command.run(), result.status == 0,
            let report = try? JSONSerialization.jsonObject(with: result.outputData),
            let object = report as? [String: Any], let address = object["address"] as? String,
            let links = object["links"] as? [[String: Any]], let id = links.first?["id"] as? String
        else { return nil }
        return (address, id)
    }
}
