import ArgumentParser
import Control
import Foundation
import Glibc
import Hub
import HubPostgres
import HubS3
import Model

struct HubMoveCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "move",
        abstract: "Move the hub into PostgreSQL and S3, or back into a directory.",
        discussion: """
            The target must be empty. The hub may run: it serves while everything is copied, and \
            commits wait only while the last changes are, usually for less than a second. Then \
            the hub ends by itself. Devices need not sign in again: all ids, versions, tokens and \
            positions stay the same. The move can be interrupted at any time and said again. \
            Afterwards the hub is refused at its old place, until --undo, and is served from the \
            new one: with the same --data and the options --ledger and --blobs, or with the new \
            directory.

            EXAMPLES
              concord hub move --data /srv/hub --to postgres://hub@db/hub --blobs s3://bucket/hub
              concord hub move --data /srv/hub --ledger postgres://hub@db/hub \
            --blobs s3://bucket/hub --to /srv/hub-2
              concord hub move --data /srv/hub --undo
            """)

    @OptionGroup var hub: HubData

    @Option(
        help: ArgumentHelp(
            "A PostgreSQL database, with --blobs for the bucket; or a new directory.",
            valueName: "url|dir"))
    var to: String?

    @Flag(help: "Give up a move, or use the hub here again as an older state of it.")
    var undo = false

    func validate() throws {
        guard undo != (to != nil) else { throw ValidationError("Give --to PLACE, or --undo.") }
        guard let to, PostgresAddress.isAddress(to) else { return }
        guard hub.ledger == nil else {
            throw ValidationError(
                "A hub moves between a directory and a database, not between two databases: leave "
                    + "--ledger out.")
        }
        guard hub.blobs != nil else {
            throw ValidationError("--to postgres://… needs --blobs s3://… for the documents.")
        }
    }

    func run() throws {
        umask(0o077)
        guard let to else { return try giveUp() }
        let move = try self.move(to: to)
        let report = try BlockingCall.wait {
            try await move.run { step in
                switch step {
                case .packs(let done, let all, let bytes):
                    print("concord: \(done) of \(all) packs, \(bytes >> 20) MiB")
                case .rows(let count):
                    if count.isMultiple(of: 100_000) { print("concord: \(count) rows") }
                }
            }
        }
        print(
            "concord: moved to \(move.place): \(report.rows) rows, \(report.packs) packs, "
                + "\(report.bytes) bytes of chunks")
        let seconds = String(format: "%.1f", report.refused / .seconds(1))
        print("concord: commits waited \(seconds) s; serve the hub from there now")
    }

    private func move(to place: String) throws -> HubMove {
        let here = RawArgument.path(hub.data).absolute.description
        let log = LogFile(path: nil).logger("hub")
        guard PostgresAddress.isAddress(place) else {
            let directory = RawArgument.path(place).absolute.description
            return HubMove(from: try hub.directory(), to: DataDirectory(directory), log: log)
        }
        let target = DataDirectory(
            here, ledger: PostgresSource(try PostgresAddress(place)),
            blobs: try hub.blobs.map { S3Source(try S3Address($0)) })
        return HubMove(from: DataDirectory(here), to: target, log: log)
    }

    private func giveUp() throws {
        let directory = try hub.directory()
        let record = try BlockingCall.wait { try await HubMove.undo(in: directory) }
        guard record.state == .left else {
            print("concord: the move to \(record.place) was given up; remove what is there")
            return
        }
        print("concord: the hub is used here again, as it was before it moved to \(record.place).")
        print("concord: devices send what it lacks. Stop the other hub and remove it.")
    }
}
