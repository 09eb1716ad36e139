import Model
import Testing

@testable import Volume

/// The names under which old versions are shown are valid, whatever the hub has sent.
struct VersionNameTests {
    private func version(_ device: String, name: Name = Name("report.txt")) -> Version {
        Version(
            number: 3, device: .random(), deviceName: device, person: "", program: "", name: name,
            size: 1, modified: 0, saved: 0, content: .sha256([1]))
    }

    @Test(arguments: [
        "laptop", "", "../..", "a/b", "a\u{0}b", "a\u{1b}[2Jb", "a\nb", ".",
        String(repeating: "x", count: 1024), String(repeating: "ä", count: 512),
    ])
    func deviceNames(_ device: String) {
        let document = Name("report.txt")
        let name = version(device).fileName(of: document)
        #expect(name.isSafe && name.bytes.allSatisfy { $0 >= 32 })
        #expect(String(validating: name.bytes, as: UTF8.self) != nil)
        #expect(name.text.hasPrefix("1970-01-01 00.00.00 ") && name.text.hasSuffix(" 3.txt"))
        let long = Name("a." + String(repeating: "e", count: 253))
        #expect(version(device).fileName(of: long).isSafe)
    }

    @Test func namesStayAsTheyAre() {
        let name = version("Anna's laptop").fileName(of: Name("report.txt"))
        #expect(name.text == "1970-01-01 00.00.00 Anna's laptop 3.txt")
    }

    /// A past directory shows the names that documents had.
    @Test(arguments: ["../up", "a/b", "..", "", "a\u{0}", String(repeating: "x", count: 256)])
    func pastNames(_ text: String) {
        let now = Name("now")
        #expect(version("d", name: Name(text)).pastName(of: now) == now)
        #expect(version("d").pastName(of: now) == Name("report.txt"))
    }
}
