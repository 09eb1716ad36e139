import HubProtocol
import Model
import ServiceLifecycle

/// The periodic work of a running hub: it records the heads, sends heartbeats, detects what
/// commands of `concord hub` have written to the ledger, and collects unused chunks.
struct PeriodicMaintenance: Service {
    let hub: Hub

    private static let beatSeconds = 15
    private static let collectionSeconds = 6 * 3600
    /// Two days, because an upload over a slow connection may take that long.
    static let grace: Int64 = Timestamp.span(seconds: 48 * 3600)

    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await followAnnouncements() }
            group.addTask { await workInSteps() }
            group.addTask { await followMove() }
            await maintain()
            group.cancelAll()
        }
    }

    /// Does what takes long, in small transactions. It does not delay the rest of the maintenance.
    private func workInSteps() async {
        while !Task.isCancelled {
            do {
                try await Revivals(hub: hub).run()
                try await VersionThinning(hub: hub).run()
            } catch let error as VolumeError where error.code == .offline {
                hub.outage.begin(error, hub.log)
            } catch {
                hub.log.error("work in small steps failed and will be tried again: \(error)")
            }
            try? await Task.sleep(for: .seconds(1))
        }
    }

    /// Devices wait from the moment at which the hub has left until it has ended and was started at
    /// its new place. So it looks often while it is being moved.
    private func followMove() async {
        while !Task.isCancelled {
            let isUnderWay = hub.move.isUnderWay
            try? await Task.sleep(for: isUnderWay ? .milliseconds(100) : .seconds(1))
            guard isUnderWay else { continue }
            do { try await hub.move.check(hub.ledger, hub.log) } catch {
                guard !Task.isCancelled else { return }
                hub.log.error("the move of the hub cannot be followed: \(error)")
            }
        }
    }

    private func maintain() async {
        var (second, changes) = (0, Int64(-1))
        let ticks = AsyncStream<Void> { try? await Task.sleep(for: .seconds(1)) }
        for await _ in ticks.cancelOnGracefulShutdown() {
            second += 1
            await hub.recordHeads()
            if second % PeriodicMaintenance.beatSeconds == 0 { hub.feeds.beat() }
            hub.leases.apply(.woken)
            do {
                let now = try await hub.ledger.externalChangeCount()
                if now != changes {
                    try await hub.move.check(hub.ledger, hub.log)
                    changes = now
                    try await handleExternalChanges()
                }
                try await hub.blobs.maintain()
                hub.outage.end(hub.log)
                if second % PeriodicMaintenance.collectionSeconds == 0 {
                    let report = try await hub.collect(grace: PeriodicMaintenance.grace)
                    hub.log.info("collected: \(report)")
                }
            } catch let error as VolumeError where error.code == .offline {
                hub.outage.begin(error, hub.log)
            } catch {
                hub.log.error("periodic maintenance failed and will be tried again: \(error)")
            }
        }
    }
}

extension PeriodicMaintenance {
    /// Passes on to the feeds what other hubs of the ledger announce.
    private func followAnnouncements() async {
        for await announcement in hub.ledger.announcements {
            switch announcement {
            case .head(let volume, let head):
                hub.headsChanged.store(true, ordering: .relaxed)
                hub.feeds.announce(head, of: volume)
            case .leases(let message): hub.leases.take(message)
            case .processes(let message, let other): hub.listeners.take(message, from: other)
            case .gap:
                hub.listeners.announceAll()
                let volumes = hub.feeds.volumes
                let known = try? await hub.ledger.read { transaction in
                    try volumes.compactMap { try transaction.volume($0) }
                }
                for volume in known ?? [] { hub.feeds.announce(volume.head, of: volume.id) }
            }
        }
    }

    /// Handles changes that another process has written to the ledger.
    private func handleExternalChanges() async throws {
        for line in hub.feeds.all() {
            let time = hub.clock()
            let (caller, volume, standing) = try await hub.ledger.read {
                (
                    try $0.devices.caller(line.token, at: time), try $0.volume(line.volume),
                    try $0.membership.standing(of: line.caller.account, in: line.volume)
                )
            }
            guard caller != nil, let volume else {
                let failure = Failure(.unauthenticated, "The device was signed out.")
                hub.feeds.end(failure) { $0 === line }
                continue
            }
            if standing != line.standing {
                hub.feeds.end(Failure.membersChanged) { $0 === line }
            } else if volume.epoch != line.epoch {
                let failure = Failure.volumeEpoch(volume.epoch)
                hub.feeds.end(failure) { $0 === line }
            }
        }
        try await hub.leases.endUnauthorized()
        hub.headsChanged.store(true, ordering: .relaxed)
        for request in try await hub.ledger.read({ try MaintenanceRequestTable($0).open() }) {
            let result = await answer(request)
            try await hub.ledger.write {
                try MaintenanceRequestTable($0).finish(request.id, with: result)
            }
        }
    }

    private func answer(_ request: MaintenanceRequest) async -> String {
        let blobs = hub.blobs
        do {
            switch request.kind {
            case .collect: return "\(try await hub.collect(grace: request.argument))"
            case .endPack:
                try await hub.gate.alone { try await blobs.endPack() }
                return "A new pack has begun."
            }
        } catch {
            return "The request \(request.kind.rawValue) failed: \(error)"
        }
    }
}
