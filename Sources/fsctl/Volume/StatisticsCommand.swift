import ArgumentParser
import Control
import Model

struct StatisticsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "statistics",
        abstract: "Show what the daemon has counted since the mount.", shouldDisplay: false)

    @OptionGroup var output: OutputOptions

    @Argument(help: "A path on the volume.", completion: .file())
    var path: String = "."

    func run() throws {
        let document = try Document(path)
        let report = try document.client.ask(Request(.statistics), as: StatisticsReport.self)
        output.show(report) {
            var table = Table([.init("WHAT"), .init("COUNT", .right)])
            for (name, count) in report.requests.sorted(by: { $0.key < $1.key }) {
                table.add(["request \(name)", Amount.count(count)])
            }
            for (name, count) in report.volume.sorted(by: { $0.key < $1.key }) {
                table.add([name, Amount.count(count)])
            }
            return table.text(width: Terminal.width, heading: Terminal.bold)
        }
    }
}
