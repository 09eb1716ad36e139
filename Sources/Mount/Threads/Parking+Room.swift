import CLinux
import Glibc
import SystemCalls
import Volume

// Changes on a full disk.
extension Parking {
    /// Runs a change, which answers the request as its last step, or throws with nothing changed.
    /// If the disk is full, it is run again on another thread, which waits until old contents have
    /// given way as for a write. Other requests are served meanwhile.
    func changing(
        _ request: Request, _ body: @escaping @Sendable (Request) throws(Errno) -> Void
    ) {
        request.answer { () throws(Errno) in
            do throws(Errno) { try body(request) } catch {
                guard error == .noSpace else { throw error }
                waitForRoom(request, body)
            }
        }
    }

    private func waitForRoom(
        _ request: Request, _ body: @escaping @Sendable (Request) throws(Errno) -> Void
    ) {
        let (caller, volume) = (request.caller, request.driver.volume)
        runDetached(on: .room) {
            cl_thread_serve(caller.unique, caller.group)
            request.answer { () throws(Errno) in
                try volume.room.withRoom { () throws(Errno) in try body(request) }
            }
        }
    }

    /// The same for a change of names, whose strings are copied only if it has to wait.
    func changingNames(
        _ request: Request, _ name: UnsafePointer<CChar>, _ other: UnsafePointer<CChar>? = nil,
        _ body:
            @escaping @Sendable (Request, UnsafePointer<CChar>, UnsafePointer<CChar>?)
            throws(Errno) -> Void
    ) {
        request.answer { () throws(Errno) in
            do throws(Errno) { try body(request, name, other) } catch {
                guard error == .noSpace else { throw error }
                let (name, other) = (terminated(name), other.map(terminated) ?? [0])
                waitForRoom(request) { request throws(Errno) in
                    try name.asCString { (name) throws(Errno) in
                        try other.asCString { (other) throws(Errno) in
                            try body(request, name, other)
                        }
                    }
                }
            }
        }
    }
}
