import Glibc
import Hub
import HubProtocol
import Model
import Reconcile

/// The time at which a page shows an item, as the field `at` of an address names it.
struct PageTime: Sendable {
    /// The value that means the present.
    static let present = "now"

    /// Nanoseconds since 1970.
    let nanoseconds: Int64
    /// The position that the volume's journal had.
    let position: UInt64
    let isPresent: Bool

    /// - Parameter text: What the address says.
    /// - Throws: `.malformed`.
    init(_ text: String, in place: Place, _ times: JournalTimes) throws {
        let now = place.now
        let time = text == PageTime.present ? now : try PageTime.nanoseconds(text)
        nanoseconds = min(time, now)
        isPresent = time >= now
        position = try isPresent ? place.head : times.last(upTo: time)?.position ?? 0
    }

    /// Reads a time in UTC such as `2026-11-21T08:15:30`. Seconds, parts of a second and `Z` may be
    /// missing.
    ///
    /// - Throws: `.malformed`.
    static func nanoseconds(_ text: String) throws(Failure) -> Int64 {
        let date = /([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(:.*)?/
        let second = /:([0-9]{2})(\.([0-9]{1,9}))?/
        let utc = text.hasSuffix("Z") ? text.dropLast() : text[...]
        guard text.utf8.count <= 40, let match = utc.wholeMatch(of: date),
            let rest = (match.6 ?? ":00").wholeMatch(of: second)
        else { throw malformed }
        func number(_ digits: Substring?) -> Int32 { digits.flatMap { Int32($0) } ?? 0 }
        var parts = tm()
        parts.tm_year = number(match.1) - 1900
        (parts.tm_mon, parts.tm_mday) = (number(match.2) - 1, number(match.3))
        (parts.tm_hour, parts.tm_min) = (number(match.4), number(match.5))
        parts.tm_sec = number(rest.1)
        let fraction = rest.3.map { $0 + String(repeating: "0", count: 9 - $0.count) }
        let time = Timestamp(seconds: timegm(&parts), nanoseconds: Int(number(fraction)))
        // A day or an hour that does not exist has become another one.
        let wanted = "\(match.1)-\(match.2)-\(match.3) \(match.4).\(match.5).\(rest.1)"
        guard time.fileName == wanted else { throw malformed }
        return time.nanoseconds
    }

    private static let malformed = Failure(
        .malformed,
        "There is no such time. Write it in UTC as in 2026-11-21T08:15:30, between the years 1678 "
            + "and 2261.")

    /// The value of `at` for a moment.
    static func text(_ nanoseconds: Int64) -> String {
        let rest = String(Timestamp(nanoseconds: nanoseconds).nanosecondsOfSecond)
        let fraction = String(repeating: "0", count: 9 - rest.utf8.count) + rest
        return "\(ShownTime(nanoseconds).machine.dropLast()).\(fraction)"
    }

    /// The value of a field that has whole seconds. It is rounded up, so that what changed at this
    /// time is shown at the time of the field, too.
    var field: String {
        let end = Timestamp(nanoseconds: nanoseconds) + 999_999_999
        return String(ShownTime(end.nanoseconds).machine.dropLast())
    }

    /// What is added to an address, so that it shows the same time.
    var query: String {
        "?at=" + (isPresent ? PageTime.present : PageTime.text(nanoseconds))
    }
}

/// An item as it was at the time that the address names.
struct PastPlace: Sendable {
    let time: PageTime
    /// Its name then.
    let name: String
    /// The folders above it then.
    let path: [Place.Step]
    /// Whether the hub knows where the item was. It was not there otherwise, or had another name
    /// or place before the hub recorded that.
    let isKnown: Bool
    /// The version of a document that was current.
    let version: Revision?
    /// Until when the hub did not record places, if the time is before that.
    let unplaced: Int64?

    /// Returns nil if the address names no time.
    init?(_ place: Place) async throws {
        let texts = try place.session.call.query.all("at")
        guard let text = texts.first else { return nil }
        guard texts.count == 1 else {
            throw Failure(.malformed, "The address names more than one time.")
        }
        self = try await place.session.hub.ledger.read { try PastPlace(place, text, $0) }
    }

    private init(_ place: Place, _ text: String, _ transaction: any LedgerTransaction) throws {
        let (volume, item) = (place.volume, place.item)
        let past = PastTable(transaction, volume: volume.id)
        let times = JournalTimes(transaction, volume: volume.id)
        let time = try PageTime(text, in: place, times)
        self.time = time
        let first = try past.firstKnown()
        unplaced =
            time.position < first ? try times.first(from: first)?.time ?? place.now : nil
        version = try item.kind.isDocument ? past.current(of: item.id, at: time.position) : nil
        let found = try past.place(of: item, at: time.position)
        isKnown = found != nil
        name = place.isRoot ? place.name : Shown.name(found?.name ?? item.name)
        // A folder whose place is not known is taken to have been where it is now.
        var (steps, seen) = ([Place.Step](), Set([item.id]))
        var next = found?.parent ?? item.placement.parent
        while next != .root, steps.count < Place.depth, seen.insert(next).inserted,
            let folder = try Place.item(next, in: volume.id, transaction)
        {
            let found = try past.place(of: folder, at: time.position)
            steps.append(
                Place.Step(
                    address: PagePath.address(volume.id, folder.id) + time.query,
                    name: Shown.name(found?.name ?? folder.name)))
            next = found?.parent ?? folder.placement.parent
        }
        let root = Place.Step(
            address: PagePath.address(volume.id) + time.query, name: Shown.name(volume.name))
        path = place.isRoot ? [] : [root] + steps.reversed()
    }
}
