import Foundation
import HTTPTypes
import HubProtocol
import Hummingbird
import Logging
import Model
import NIOCore

/// The context of a request: the client's address.
struct HubContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The client's IP address without the port.
    let address: String

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        address = source.channel.remoteAddress?.ipAddress ?? ""
    }

    /// Whether the connection comes from a program on this machine, which may be a proxy.
    var isLoopback: Bool { Loopback.contains(address) }
}

extension HTTPField.Name {
    fileprivate static let forwardedFor = HTTPField.Name("X-Forwarded-For")!
    fileprivate static let forwardedProto = HTTPField.Name("X-Forwarded-Proto")!
}

/// Routes requests, and answers each error with a `Failure`.
struct Responder: HTTPResponder {
    let hub: Hub
    let pages: [any PageServer]
    /// Whether this process decrypts the connections.
    let isEncrypted: Bool

    func respond(to request: Request, context: HubContext) async throws -> Response {
        let start = ContinuousClock.now
        let call = self.call(request, context)
        let path = request.head.path ?? "/"
        var route = "other"
        var response: Response
        if let pages = pages.first(where: { $0.owns(path) }) {
            route = pages.route
            response = await pages.answer(request, from: client(of: call, context))
        } else {
            do {
                let found = try Route(path: path)
                route = found.name
                response = try await call.answer(found)
            } catch {
                response = self.response(to: Failure(answering: error, hub, path: path))
            }
        }
        if request.method == .head {
            // The header says how long the body of a GET is, and a new body would change it.
            let length = response.headers[.contentLength]
            response.body = ResponseBody()
            response.headers[.contentLength] = length
        }
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        hub.metrics.serve(route, status: response.status.code, seconds: seconds)
        return response
    }

    /// A proxy on this machine names its client in the last element of `X-Forwarded-For`. The
    /// header is ignored if it comes from any other address.
    private func call(_ request: Request, _ context: HubContext) -> Call {
        let forwarded = request.headers[values: .forwardedFor].last?.split(separator: ",").last
        let name = forwarded?.trimmingCharacters(in: .whitespaces) ?? ""
        let (isLoopback, isForwarded) = (context.isLoopback, forwarded != nil)
        return Call(
            hub: hub, request: request,
            address: isLoopback && isForwarded ? String(name.prefix(64)) : context.address,
            isLocal: isLoopback && !isForwarded, held: BodyBudget(hub.bodies))
    }

    /// A proxy on this machine also says whether its client's connection is encrypted.
    private func client(of call: Call, _ context: HubContext) -> PageClient {
        let proto = context.isLoopback ? call.request.headers[.forwardedProto] : nil
        return PageClient(
            address: call.address, isEncrypted: isEncrypted || proto?.lowercased() == "https")
    }

    private func response(to failure: Failure) -> Response {
        var response = Call.json(failure, status: HTTPResponse.Status(code: failure.status))
        if failure.code == .unauthenticated { response.headers[.wwwAuthenticate] = "Bearer" }
        if failure.code == .tooMany { response.headers[.retryAfter] = "60" }
        if failure.code == .busy { response.headers[.retryAfter] = "2" }
        if let allowed = failure.allowed { response.headers[.allow] = allowed }
        return response
    }
}

extension Failure {
    /// What a client is told of an error. The log has what only the operator may know.
    package init(answering error: any Error, _ hub: Hub, path: String) {
        switch error {
        case let failure as Failure: self = failure
        case let fault as FrameFault:
            self.init(.malformed, "The body does not match the description: \(fault)")
        case let error as VolumeError where error.code == .full:
            hub.log.error("\(error)")
            self.init(.full, "The hub's disk is full. Nothing is lost: try again later.")
        case let error as VolumeError where error.code == .offline:
            hub.outage.begin(error, hub.log)
            hub.metrics.unavailable.add()
            self.init(
                .busy,
                "The hub cannot reach its database or its blobs. Nothing is lost: try again later.")
        case let error as VolumeError where error.code == .busy:
            self.init(.busy, "The hub is busy: try again.")
        default:
            hub.log.error("\(error)", metadata: ["path": "\(path)"])
            self.init(.failed, "The hub failed; its log says why.")
        }
    }

    /// The value of the header `Allow` of a 405 answer.
    fileprivate var allowed: String? {
        guard code == .method, let colon = message.lastIndex(of: ":") else { return nil }
        return String(message[message.index(colon, offsetBy: 2)...].dropLast())
    }
}

/// The endpoints of the hub.
enum Route: Hashable {
    case health, metrics, description
    case enrol, signOut, devices, selfEpoch, selfSplit, selfToken, volumes
    case device(Identifier)
    case volume(Identifier, VolumeCall)

    /// - Throws: `.notFound`.
    init(path: String) throws {
        let path = path.prefix { $0 != "?" && $0 != "#" }
        switch String(path) {
        case Routes.health: self = .health
        case Routes.metrics: self = .metrics
        case Routes.description: self = .description
        case Routes.enrol: self = .enrol
        case Routes.signOut: self = .signOut
        case Routes.devices: self = .devices
        case Routes.selfEpoch: self = .selfEpoch
        case Routes.selfSplit: self = .selfSplit
        case Routes.selfToken: self = .selfToken
        case Routes.volumes: self = .volumes
        default:
            let parts = path.split(separator: "/", omittingEmptySubsequences: false).map(
                String.init)
            if parts.count == 4, parts[1] == "v1", parts[2] == "devices",
                let device = Self.identifier(parts[3])
            {
                self = .device(device)
            } else if parts.count == 5, parts[1] == "v1", parts[2] == "volumes",
                let volume = Self.identifier(parts[3]), let call = VolumeCall(rawValue: parts[4])
            {
                self = .volume(volume, call)
            } else {
                throw Failure(
                    .notFound, "This path does not exist: see \(Routes.description).")
            }
        }
    }

    private static func identifier(_ text: String) -> Identifier? {
        text.utf8.count == 32 ? Identifier(text) : nil
    }

    /// The route's name in the metrics.
    var name: String {
        switch self {
        case .health: Routes.health
        case .metrics: Routes.metrics
        case .description: Routes.description
        case .enrol: Routes.enrol
        case .signOut: Routes.signOut
        case .devices: Routes.devices
        case .selfEpoch: Routes.selfEpoch
        case .selfSplit: Routes.selfSplit
        case .selfToken: Routes.selfToken
        case .volumes: Routes.volumes
        case .device: "\(Routes.devices)/{device}"
        case .volume(_, let call): "\(Routes.volumes)/{volume}/\(call.rawValue)"
        }
    }

    var methods: [HTTPRequest.Method] {
        switch self {
        case .health, .metrics, .description: [.get, .head]
        case .enrol, .signOut, .selfEpoch, .selfSplit, .selfToken: [.post]
        case .devices: [.get, .head]
        case .volumes: [.get, .head, .post]
        case .device: [.delete]
        case .volume(_, .changes), .volume(_, .wanted): [.get, .head]
        case .volume(_, .feed): [.get]
        case .volume(_, .members), .volume(_, .leases), .volume(_, .links): [.get, .head, .post]
        case .volume: [.post]
        }
    }
}
