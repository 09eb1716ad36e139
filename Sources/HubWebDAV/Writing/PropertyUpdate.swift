import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// Answers a PROPPATCH: all changes are made, or none.
struct PropertyUpdate {
    private let place: Place

    init(_ place: Place) { self.place = place }

    private struct Change {
        let name: ElementName
        /// Nil if the property is removed.
        let value: Element?
    }

    private static let most = 200

    func answer() async throws -> Response {
        guard let body = try await place.session.element(),
            body.name == .dav("propertyupdate")
        else { throw Failure(.malformed, "The body must be a DAV:propertyupdate.") }
        let wanted = PropertyUpdate.changes(in: body)
        guard !wanted.isEmpty, wanted.count <= PropertyUpdate.most else {
            throw Failure(.malformed, "A body changes 1 to \(PropertyUpdate.most) properties.")
        }
        let item = try place.existingItem()
        let (volume, _) = try place.writable()
        let changes = try await VolumeChanges(volume, place.session)
        try Conditions(place.session.request).check(exists: true, tag: item.tag)
        let locks = try await Locks(volume, place.session)
        try await locks.checkHeader(place)
        try locks.checkChange(of: place)
        let refused = wanted.filter { PropertyUpdate.status(of: $0) != 200 }
        if refused.isEmpty {
            try await changes.commit(
                wanted.map { change in
                    VolumeChanges.Step(
                        item.id,
                        .attribute(
                            DeadProperties.key(change.name),
                            change.value?.serialized(atMost: DeadProperties.valueBytes)
                                .map { Array($0.utf8) }))
                })
        }
        return answer(wanted, isDone: refused.isEmpty)
    }

    private static func changes(in body: Element) -> [Change] {
        var changes: [Change] = []
        for action in body.children {
            let isSet = action.name == .dav("set")
            guard isSet || action.name == .dav("remove") else { continue }
            for list in action.children where list.name == .dav("prop") {
                // The language of an element is that of the elements around it, unless it says so.
                let language = [list, action, body].lazy.flatMap(\.attributes).first {
                    $0.name == Element.language
                }
                for var property in list.children {
                    if let language,
                        !property.attributes.contains(where: { $0.name == Element.language })
                    {
                        property.attributes.append(language)
                    }
                    changes.append(Change(name: property.name, value: isSet ? property : nil))
                }
            }
        }
        return changes
    }

    private static func status(of change: Change) -> Int {
        if change.name.space == "DAV:" { return 403 }
        guard let value = change.value else { return 200 }
        return value.serialized(atMost: DeadProperties.valueBytes) != nil ? 200 : 507
    }

    private func answer(_ changes: [Change], isDone: Bool) -> Response {
        var properties: [Int: [String]] = [:]
        for change in changes {
            let status = PropertyUpdate.status(of: change)
            let name = change.name.element
            properties[isDone || status != 200 ? status : 424, default: []].append(name)
        }
        let isCollection = place.item?.isCollection ?? false
        let href = Markup.escaped(place.address.path(isCollection: isCollection))
        var text = "<D:response><D:href>\(href)</D:href>"
        for (status, names) in properties.sorted(by: { $0.key < $1.key }) {
            let error = "<D:error><D:cannot-modify-protected-property/></D:error>"
            text += Properties.status(status, names, status == 403 ? error : "")
        }
        return Reply.multiStatus(text + "</D:response>\n")
    }
}
